//! The load of GPUs that can stand in for one another, in a window.

use phasemeter_meter::units::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fixture_value::{FixtureValue, list};

/// The most groups of a window.
pub const MAX_LOADS: usize = 64;

/// The most buckets of a distribution.
pub const MAX_BUCKETS: usize = 10_000;

/// The lengths of the means, in seconds, in this order.
pub const MEAN_SECONDS: [u32; 3] = [1, 10, 60];

/// The load of several GPUs together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// IDs of the GPUs.
    pub gpus: Vec<String>,
    /// Its distributions, the shortest mean first.
    pub distributions: Vec<LoadDistribution>,
}

/// How long the load of a group was how high, in time in which all of its GPUs were observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadDistribution {
    /// One of [`MEAN_SECONDS`].
    pub mean_seconds: u32,
    /// Ascending, without empty ones.
    #[serde(with = "list")]
    pub buckets: Vec<LoadBucket>,
}

/// Time with one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBucket {
    /// The sum of the utilization of all GPUs, in percent of one of them, rounded up.
    pub percent: u32,
    /// Time.
    pub time: Nanos,
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
