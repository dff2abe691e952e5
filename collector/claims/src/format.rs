//! Claims as JSON: those of the file, and those that are stored with a request.
//!
//! Times are kept by the clock that counts since boot, by which the length of a gap is right even if the wall
//! clock was set; and in wall time, for after a reboot.

use std::collections::BTreeMap;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_sources::clock::Clock;
use serde::{Deserialize, Serialize};

/// The value of `schema`.
const SCHEMA: &str = "phasemeter.claims/0.2";

/// What claims are written from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Until when each GPU, by its key, is claimed.
    pub until: BTreeMap<String, Timestamp>,
    /// When the first run began, until it has found a GPU.
    pub began: Option<Timestamp>,
    /// Wall time.
    pub wall: WallOffset,
}

/// The contents.
#[derive(Debug, Deserialize, Serialize)]
pub struct Content {
    schema: String,
    /// The instance ID of all runs, if they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// The boot in which times since boot are valid.
    boot_id: Option<String>,
    /// When the first run began, until it has found a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<StoredInstant>,
    claimed_until: BTreeMap<String, StoredInstant>,
}

/// An instant.
#[derive(Debug, Deserialize, Serialize)]
struct StoredInstant {
    wall: String,
    since_boot_nanos: Option<u64>,
}

/// How instants of the run are kept.
#[derive(Clone, Debug)]
pub struct InstantFormat {
    /// The clock since boot; `None` if readings have times of other machines.
    pub clock: Option<Clock>,
    /// The boot of the machine, if known.
    pub boot_id: Option<String>,
}

impl InstantFormat {
    fn mark(&self, at: Timestamp, wall: WallOffset) -> StoredInstant {
        // What was before the boot has only a wall time.
        let since_boot = self.clock.map(|clock| clock.boot_at(at).0);
        let since_boot_nanos = since_boot.filter(|nanos| *nanos > 0);
        StoredInstant { wall: Instant(wall.wall(at)).to_string(), since_boot_nanos }
    }

    /// The instant of the run, and the wall time that the mark has; `None` if it is malformed. By the
    /// clock since boot, if the boot is the same.
    fn instant(
        &self,
        mark: &StoredInstant,
        boot_id: Option<&str>,
        offset: WallOffset,
    ) -> Option<(Timestamp, Timestamp)> {
        let Instant(wall) = mark.wall.parse().ok()?;
        let is_same_boot = boot_id.is_some() && boot_id == self.boot_id.as_deref();
        let boot = mark.since_boot_nanos.filter(|_| is_same_boot);
        let by_boot = self.clock.zip(boot).map(|(clock, boot)| clock.at_boot(Nanos(boot)));
        Some((by_boot.unwrap_or_else(|| offset.instant(wall)), wall))
    }
}

impl Content {
    /// The contents for this state, of runs with this instance ID.
    #[must_use]
    pub fn new(instance: Option<String>, state: &State, format: &InstantFormat) -> Self {
        let mark = |at: Timestamp| format.mark(at, state.wall);
        Self {
            schema: SCHEMA.to_owned(),
            instance,
            boot_id: format.boot_id.clone(),
            began: state.began.map(mark),
            claimed_until: state.until.iter().map(|(gpu, at)| (gpu.clone(), mark(*at))).collect(),
        }
    }

    /// `None` if any part is malformed.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let content: Self = serde_json::from_slice(text).ok()?;
        content.restore(&InstantFormat { clock: None, boot_id: None }, WallOffset::default())?;
        (content.schema == SCHEMA).then_some(content)
    }

    /// The text.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The instance ID of all runs, if they have one.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// What is claimed, in the time of a run with this wall time; `None` if any part is malformed.
    #[must_use]
    pub fn restore(&self, format: &InstantFormat, wall: WallOffset) -> Option<Restored> {
        let mut newest = None;
        let mut instant = |mark: &StoredInstant| {
            let (at, wall) = format.instant(mark, self.boot_id.as_deref(), wall)?;
            newest = newest.max(Some((at, wall)));
            Some(at)
        };
        let began = match &self.began {
            Some(began) => Some(instant(began)?),
            None => None,
        };
        let until = self.claimed_until.iter();
        let until = until.map(|(gpu, mark)| Some((gpu.clone(), instant(mark)?)));
        let until = until.collect::<Option<_>>()?;
        Some(Restored { until, began, newest })
    }
}

/// What earlier runs have claimed, in the time of this run.
#[derive(Debug, Default)]
pub struct Restored {
    /// Until when each GPU, by its key, is claimed.
    pub until: BTreeMap<String, Timestamp>,
    /// When the first run began, until it has found a GPU.
    pub began: Option<Timestamp>,
    /// The newest instant, and the wall time that it had.
    pub newest: Option<(Timestamp, Timestamp)>,
}

impl Restored {
    /// Adds what was stored with a request.
    pub fn add(&mut self, stored: Self) {
        for (gpu, at) in stored.until {
            let until = self.until.entry(gpu).or_insert(at);
            *until = at.max(*until);
            self.began = None;
        }
        self.newest = self.newest.max(stored.newest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis(second * 1_000).unwrap()
    }

    /// What is claimed until this instant of a run with this wall time, kept, and in the time of another run.
    fn kept(
        (until, wall): (Timestamp, WallOffset),
        written: &InstantFormat,
        read: (&InstantFormat, WallOffset),
    ) -> Timestamp {
        let until = BTreeMap::from([("gpu".to_owned(), until)]);
        let content = Content::new(None, &State { until, began: None, wall }, written);
        let content = Content::parse(&content.to_json()).unwrap();
        content.restore(read.0, read.1).unwrap().until["gpu"]
    }

    /// Guarantee: what was claimed before a boot stays so, however often it is written in that boot.
    #[test]
    fn claims_from_before_the_boot_are_kept_in_wall_time() {
        let format = |boot, wall| InstantFormat {
            clock: Some(Clock::continuing(Nanos::from_secs(boot), at(wall))),
            boot_id: Some("a".to_owned()),
        };
        let unset = WallOffset::default();
        let (written, read) = (format(50, 1_000), format(60, 1_110));
        assert_eq!(kept((at(800), unset), &written, (&read, unset)), at(800));
        // Since then the wall clock was set.
        assert_eq!(kept((at(970), unset), &written, (&read, unset)), at(1_070));
    }

    /// Guarantee: a run that goes on after a reboot has its claims in its own time, if the wall clock was set during it.
    #[test]
    fn claims_after_a_reboot_are_in_the_time_of_the_run() {
        let format = InstantFormat { clock: None, boot_id: None };
        let wall = WallOffset::between(at(800), at(900));
        assert_eq!(kept((at(850), wall), &format, (&format, wall)), at(850));
    }
}
