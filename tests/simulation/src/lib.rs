//! A machine whose power fails in the middle of things, from a seed: its disk, and the numbers that all follows from.
//!
//! `tests/outbox` simulates the outbox alone, `tests/path` all from the reorder buffer to delivery.

#![forbid(unsafe_code)]

mod disk;
mod machine;
mod rng;

pub use self::disk::{SimulatedDirectories, SimulatedDisk};
pub use self::machine::{DiskBug, Machine};
pub use self::rng::Rng;
