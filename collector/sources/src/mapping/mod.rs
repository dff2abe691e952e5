//! Readings from the metrics of other programs, by mappings: which metric is which value of a reading,
//! in which unit, and which labels name its GPU.
//!
//! ```text
//! Point → Mappings → GpuValue → ReadingBuffer → Reading
//! ```
//!
//! Mappings are data: `otel-config/mappings/*.toml`, and files of the user. Must not depend on how
//! metrics arrive: as OTLP, or as a page of an exporter.

mod buffer;
mod coverage;
mod details;
mod file;
mod held_gpu;
mod point;
mod quantity;
mod rule;
mod set;
mod value;

pub use self::buffer::ReadingBuffer;
pub use self::coverage::Coverage;
pub use self::file::{MappingError, MappingFile};
pub(crate) use self::held_gpu::SAME_INSTANT;
pub use self::held_gpu::{Exemption, ExemptionReason, HeldReading};
pub use self::point::{PodLabels, Point};
pub use self::quantity::{Quantity, Unit, UnitError};
pub use self::rule::{GpuLabels, GpuValue, MigInstance};
pub use self::set::{Mappings, UnitMismatch};
pub use self::value::Value;
