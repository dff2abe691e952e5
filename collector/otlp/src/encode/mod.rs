//! Encoding: turns what meters report into OTLP requests.
//!
//! Must not depend on where requests go.

mod accounts;
mod attribution;
mod batch;
mod claim;
mod command;
mod context;
mod delta;
mod device_metrics;
mod events;
mod exemplars;
mod experiments;
mod exporter;
mod gpu;
mod gpu_attributes;
mod hardware;
mod health;
mod hosts;
mod instruments;
mod interruption;
mod limits;
mod metric_selection;
mod metric_set;
mod policies;
mod served_cost;
mod settings;
mod span_cost;
mod spans;
mod utilization;
mod values;
mod work;

pub use attribution::DividedCost;
pub use claim::{Claim, ClaimKind, Outgoing};
pub use command::CommandExit;
pub use events::{ClockStep, EventKind, GpuEvent};
pub use experiments::PricedExperiment;
pub use exporter::{Exporter, GpuObserver};
pub use gpu::GpuExport;
pub use gpu_attributes::GpuDescription;
pub use interruption::{InterruptionEvent, UnsavedWorkCost};
pub use limits::{AttributeLimits, Limits};
pub use metric_selection::{MetricSelection, MetricSelectionError, metrics};
pub use metric_set::MetricSet;
pub use policies::{PolicyErrorEvent, RecommendationEvent};
pub use served_cost::{GroupCost, ServedCost, TimeCost};
pub use settings::{Aggregation, ExemplarFilter, ExportSettings, TemporalityPreference};
pub use span_cost::{PricedTime, SpanCostEvent, has_span_costs};
pub use values::SCHEMA;
