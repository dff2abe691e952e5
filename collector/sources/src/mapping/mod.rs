//! Readings from the metrics of other programs, by mappings: which metric is which value of a reading,
//! in which unit, and which labels name its GPU.
//!
//! ```text
//! Point → Mappings → GpuValue → ReadingBuffer → Reading
//! ```
//!
//! Mappings are data: `otel-config/mappings/*.toml`, and files of the user.

mod agreed;
mod arrival;
mod attributes;
mod buffer;
mod coverage;
mod coverage_table;
mod described;
mod details;
mod file;
mod gpu_id;
mod held_gpu;
mod holder;
mod holder_metrics;
mod holding;
mod host_silence;
mod identity;
mod increases;
mod instant;
mod known_gpus;
mod meaning;
mod mig;
mod mig_allocations;
mod names;
mod own_pods;
mod pace;
mod point;
mod point_labels;
mod rejected_point;
mod rule;
mod set;
mod shared;
mod shares;
mod smallest;
mod unit;
mod unit_check;
mod value;

pub use self::arrival::ArrivedAt;
pub use self::buffer::{Inserted, ReadingBuffer};
pub use self::coverage::Coverage;
pub use self::file::{MappingError, MappingFile};
pub use self::gpu_id::GpuId;
pub use self::held_gpu::HeldReading;
pub use self::held_gpu::SAME_INSTANT;
pub use self::holder::{LabeledHolder, Part, ShareKey};
pub use self::holder_metrics::HolderValue;
pub use self::host_silence::HostSilence;
pub use self::identity::{GpuLabels, MigInstance, sender_name};
pub use self::known_gpus::GpusOverLimit;
pub use self::point::{PodLabels, Point};
pub use self::rejected_point::RejectedPoint;
pub use self::rule::GpuValue;
pub use self::set::{Mapped, Mappings};
pub use self::unit::MetricUnit;
pub use self::unit_check::{UnitChecks, UnitNotice};
pub use self::value::Value;
