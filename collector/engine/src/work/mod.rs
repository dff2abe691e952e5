//! Work: what the workload of a run reports, and what of it is lost.

#[cfg(feature = "live")]
mod intake;
mod interruptions;
#[cfg(feature = "live")]
mod kinds;
#[cfg(feature = "live")]
mod socket;

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;

#[cfg(feature = "live")]
pub use self::intake::{WorkIntake, by_hour};
pub use self::interruptions::{InterruptionLog, ReceivedNotice, UnsavedWork};
#[cfg(feature = "live")]
pub use self::kinds::WorkKinds;
#[cfg(feature = "live")]
pub use self::socket::{VARIABLE, WorkSocket};

/// Counts by UTC hour and unit.
pub type WorkByHour = BTreeMap<Timestamp, BTreeMap<String, u64>>;
