//! Work: what the workload of a run reports, and what of it is lost.

#[cfg(feature = "full")]
mod attempts;
#[cfg(feature = "full")]
mod intake;
#[cfg(feature = "full")]
mod job;
#[cfg(feature = "full")]
mod kinds;
mod notices;
#[cfg(feature = "full")]
mod socket;

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;

#[cfg(feature = "full")]
pub use self::attempts::Attempts;
#[cfg(feature = "full")]
pub use self::intake::{WorkIntake, by_hour};
#[cfg(feature = "full")]
pub use self::job::Restart;
#[cfg(feature = "full")]
pub use self::kinds::WorkKinds;
pub use self::notices::{InterruptionLog, ReceivedNotice, UnsavedWork};
#[cfg(feature = "full")]
pub use self::socket::{VARIABLE, WorkSocket};

/// Counts by UTC hour and unit.
pub type WorkByHour = BTreeMap<Timestamp, BTreeMap<String, u64>>;
