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
mod file;
mod quantity;
mod rule;
mod set;
mod value;

pub(crate) use self::buffer::SAME_INSTANT;
pub use self::buffer::{Exemption, ExemptionReason, HeldReading, ReadingBuffer};
pub use self::coverage::Coverage;
pub use self::file::{MappingError, MappingFile};
pub use self::quantity::{Quantity, Unit, UnitError};
pub use self::rule::{GpuLabels, GpuValue, MigInstance, Point};
pub use self::set::{Mappings, UnitMismatch};
pub use self::value::Value;
