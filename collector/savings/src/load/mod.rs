//! The load of several GPUs together, second by second: what fewer of them would have had to carry.
//!
//! Each GPU has a [`LoadFeed`], which takes its time slices and keeps the time at each level of its own load. A
//! [`GroupLoad`] adds the feeds up at whole UTC seconds and keeps the time at each level of the sum: as it was, and as
//! means of 10 and 60 seconds; those of 10 seconds also by hour of the week. Memory does not grow with time: at most 64 KiB
//! a GPU and 256 KiB a group. A second counts if each GPU of the group was observed in all of it, was not there yet, or had
//! ended; while a run goes on, time long after the last reading of a GPU is unknown.

mod distribution;
mod feed;
mod group;
mod mean;
mod week;

pub use distribution::LoadLevel;
pub use feed::LoadFeed;
pub use group::GroupLoad;
pub use mean::MEAN_SECONDS;
pub use week::LoadHour;
