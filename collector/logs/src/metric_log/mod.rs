//! Source of an audit: readings that other programs recorded, as values of metrics.
//!
//! ```text
//! stream → lines → prometheus, dmon, otlp_json or series ─Sample→ Mappings ─GpuValue→ ReadingBuffer → Reading
//! ```
//!
//! - pages of dcgm-exporter, each after a line with its time, or with a timestamp in each sample, as
//!   Prometheus has them;
//! - the output of `dcgmi dmon`;
//! - OTLP as JSON, a request per line, as a Collector's file exporter writes it, or over several lines;
//! - answers of Prometheus to queries, and exports of VictoriaMetrics, in JSON.
//!
//! The format is recognized by content. Invalid lines are recorded with line and reason. Memory does not grow with the
//! length of a log, except for JSON of Prometheus and VictoriaMetrics, which is not in time order.

mod decoder;
mod dmon;
mod documents;
mod error;
mod format;
mod gpu_instants;
mod log;
mod logs;
mod otlp_json;
mod prometheus;
mod sample;
mod series;

pub use dmon::DmonTimes;
pub use error::MetricLogError;
pub use logs::{MetricInputs, MetricLogOptions, MetricLogs, Recognized, recognize};
