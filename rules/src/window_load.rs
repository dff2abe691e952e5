//! The load of single GPUs, and of those that can stand in for one another, in a window.

use phasemeter_meter::units::Nanos;
pub use phasemeter_savings::load::{LoadLevel as LoadBucket, MEAN_SECONDS};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fixture_value::{FixtureValue, list};

/// The most groups of several GPUs of a window.
pub const MAX_LOADS: usize = 64;

/// The most buckets of a distribution.
pub const MAX_BUCKETS: usize = 6_000;

/// The most buckets of an hour of the week.
pub const MAX_HOUR_BUCKETS: usize = 64;

/// The load of one GPU, or of several together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// IDs of the GPUs.
    pub gpus: Vec<String>,
    /// Its distributions, the shortest mean first.
    pub distributions: Vec<LoadDistribution>,
    /// The same by hour of the week, in means of 10 seconds; empty for a single GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub week: Vec<LoadHour>,
}

/// The load in one hour of the week.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadHour {
    /// Hours since Monday at 00:00 local time.
    pub hour: u32,
    /// Ascending, without empty ones.
    #[serde(with = "list")]
    pub buckets: Vec<LoadBucket>,
}

/// Time at each level of the load of a group, in time in which all of its GPUs were observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadDistribution {
    /// One of [`MEAN_SECONDS`].
    pub mean_seconds: u32,
    /// Ascending, without empty ones.
    #[serde(with = "list")]
    pub buckets: Vec<LoadBucket>,
}

/// Percent and nanoseconds, as a pair.
impl FixtureValue for LoadBucket {
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.percent, self.time.0).serialize(serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (percent, time) = Deserialize::deserialize(deserializer)?;
        Ok(Self { percent, time: Nanos(time) })
    }
}
