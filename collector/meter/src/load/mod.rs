//! The load of several GPUs together, second by second: what fewer of them would have had to carry.
//!
//! Each GPU has a [`LoadFeed`], which takes its time slices. A [`GroupLoad`] adds the feeds up at whole UTC seconds and
//! keeps the time at each level of the sum: as it was, and as means of 10 and 60 seconds, in memory that does not grow with
//! time. A second counts if each GPU of the group was observed in all of it, was not there yet, or had ended; while a run
//! goes on, time long after the last reading of a GPU is unknown.

mod distribution;
mod feed;
mod group;

pub use distribution::LoadLevel;
pub use feed::LoadFeed;
pub use group::{GroupLoad, MEAN_SECONDS};
