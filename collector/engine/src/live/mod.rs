//! What a live run notices beside readings: events of GPUs, steps of the clock, a trace that becomes long, and
//! other runs on the machine.

mod clock_notes;
pub mod event;
mod event_log;
mod hardware_export;
mod long_trace;
mod mig_parts;

pub use self::clock_notes::ClockNotes;
pub use self::event_log::EventLog;
pub use self::hardware_export::HardwareExport;
pub use self::long_trace::LongTrace;
pub use self::mig_parts::{InstanceUse, MigCoverage, MigParts};
