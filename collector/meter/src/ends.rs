//! How processes ended: what memory and power showed directly before.
//!
//! From readings, in constant memory. A process that ends leaves the GPU idle, and its memory falls at once. Points of a
//! column are minutes long, and do not show the last seconds.

use crate::pauses::MemoryInUse;
use crate::phase::Thresholds;
use crate::reading::Reading;
use crate::units::{Bytes, Milliwatts, Nanos, Timestamp};

/// Time before an end that shows how it came, and for which a GPU stands at least.
pub const BEFORE: Nanos = Nanos::from_secs(60);

/// Readings of the power at full load by which it is known. An assumption.
const KNOWN_POWER: u64 = 10;

/// Ends of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Number of those directly before which memory rose until 90% of it or more was in use: what did not fit is not in use.
    pub full: u32,
    /// Memory in use after the last of these.
    pub kept: Bytes,
    /// Time from the first work of the process that ended last so to its end.
    pub life: Nanos,
    /// Number of those directly before which the GPU stood: at full utilization with half of its usual power or less, for a
    /// minute or more.
    pub stood: u32,
    /// The last of these times.
    pub standing: Nanos,
}

impl Ends {
    /// All but those of an earlier state. What is known of the last ones stays.
    pub(crate) const fn since(&self, earlier: &Self) -> Self {
        let (full, stood) = (self.full - earlier.full, self.stood - earlier.stood);
        Self { full, stood, ..*self }
    }
}

/// What the process that works now did so far.
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    /// Its first work, and its last.
    work: Option<(Timestamp, Timestamp)>,
    memory: MemoryInUse,
    /// The most memory since `from`, and in the minute before it.
    most: [Bytes; 2],
    from: Timestamp,
    /// Power at full load, in milliwatts, and the number of readings.
    power: (u64, u64),
    /// Since when, and until when, it stands.
    standing: Option<(Timestamp, Timestamp)>,
}

/// Meters ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndMeter {
    ends: Ends,
    process: Process,
}

impl EndMeter {
    pub(crate) const fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Takes a reading with this memory in use, of `total` if that is known.
    #[inline]
    pub(crate) fn record(
        &mut self,
        reading: &Reading,
        used: Bytes,
        total: Option<Bytes>,
        thresholds: Thresholds,
    ) {
        let Ok(utilization) = reading.utilization else { return };
        let [idle, _, full] = thresholds.bounds();
        let (at, process) = (reading.at, &mut self.process);
        if utilization >= idle {
            process.work = Some((process.work.map_or(at, |work| work.0), at));
            process.memory.record(used);
            let power = reading.power.filter(|_| utilization >= full);
            process.standing = power.and_then(|power| process.stands(at, power));
        } else if process.has_ended(used) {
            let ended = std::mem::take(process);
            self.end(&ended, at, used, total);
            return;
        }
        process.keep_most(at, used);
    }

    fn end(&mut self, process: &Process, at: Timestamp, kept: Bytes, total: Option<Bytes>) {
        let Some((first, last)) = process.work.filter(|(_, last)| at.since(*last) <= BEFORE) else {
            return;
        };
        if process.has_filled(total) {
            self.ends.full = self.ends.full.saturating_add(1);
            (self.ends.kept, self.ends.life) = (kept, last.since(first));
        }
        let standing = process.standing.map_or(Nanos::ZERO, |(from, to)| to.since(from));
        if standing >= BEFORE {
            self.ends.stood = self.ends.stood.saturating_add(1);
            self.ends.standing = standing;
        }
    }
}

impl Process {
    /// Since when, and until when, it stands, if it draws this at full load.
    fn stands(&mut self, at: Timestamp, power: Milliwatts) -> Option<(Timestamp, Timestamp)> {
        let (sum, readings) = self.power;
        let own = u64::from(power.get());
        if readings >= KNOWN_POWER && 2 * own * readings <= sum {
            return Some((self.standing.map_or(at, |(from, _)| from), at));
        }
        self.power = (sum.saturating_add(own), readings + 1);
        None
    }

    /// The most memory of the last minute or two.
    fn most(&self) -> u64 {
        self.most[0].max(self.most[1]).get()
    }

    /// Whether an idle GPU with this memory in use has lost a tenth of it or more at once.
    fn has_ended(&self, used: Bytes) -> bool {
        self.work.is_some() && used.get() <= self.most() / 10 * 9
    }

    /// Whether nearly all memory was in use in the end, and clearly less before: a pool that is full is so from the start.
    #[expect(clippy::cast_precision_loss, reason = "a comparison")]
    fn has_filled(&self, total: Option<Bytes>) -> bool {
        let most = self.most() as f64;
        let is_full = total.is_some_and(|total| most >= 0.9 * total.get() as f64);
        is_full && self.memory.mean().is_some_and(|mean| most >= 1.05 * mean)
    }

    fn keep_most(&mut self, at: Timestamp, used: Bytes) {
        let since = at.since(self.from);
        if since >= BEFORE {
            let before = if since < BEFORE + BEFORE { self.most[0] } else { Bytes::default() };
            (self.most, self.from) = ([Bytes::default(), before], at);
        }
        self.most[0] = self.most[0].max(used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Utilization;

    const GIB: u64 = 1 << 30;

    /// Seconds, utilization in percent, memory in GiB at the start and at the end, and watts.
    type Stage = (u64, u32, [u64; 2], u32);

    /// Ends of a GPU with 80 GiB that is read each 5 seconds.
    fn ends(stages: &[Stage]) -> Ends {
        let (mut meter, mut second) = (EndMeter::default(), 0);
        for (seconds, percent, [from, to], watts) in stages {
            for elapsed in (0..*seconds).step_by(5) {
                let at = Timestamp::from_millis(1_000 * (second + elapsed));
                let mut reading = Reading::at(at.expect("within a day"));
                let utilization = Utilization::from_percent(*percent);
                reading.utilization = Ok(utilization.expect("a percentage"));
                reading.power = Milliwatts::new(watts * 1_000);
                let used = Bytes::new(GIB * (from * (seconds - elapsed) + to * elapsed) / seconds);
                let used = used.expect("at most 80 GiB");
                meter.record(&reading, used, Bytes::new(80 * GIB), Thresholds::default());
            }
            second += seconds;
        }
        *meter.ends()
    }

    const IDLE: Stage = (600, 0, [0, 0], 60);

    #[test]
    fn memory_that_rises_until_a_process_ends_is_counted() {
        let run = [(7_200, 95, [40, 40], 600), (30, 70, [60, 80], 400), IDLE];
        let once = ends(&run);
        assert_eq!((once.full, once.kept, once.stood), (1, Bytes::default(), 0));
        assert_eq!(once.life, Nanos::from_secs(7_225));
        assert_eq!(ends(&[run, run].concat()).full, 2);
        let leak = ends(&[(36_000, 95, [20, 80], 600), (600, 0, [12, 12], 60)]);
        assert_eq!((leak.full, leak.kept), (1, Bytes::new(12 * GIB).expect("12 GiB")));
    }

    #[test]
    fn work_that_needs_all_memory_from_its_start_ended_by_itself() {
        assert_eq!(ends(&[(60, 0, [0, 78], 100), (7_200, 95, [78, 78], 600), IDLE]).full, 0);
        let peak_before = [(600, 95, [40, 80], 600), (600, 95, [40, 40], 600), IDLE];
        assert_eq!(ends(&peak_before).full, 0, "it was full, and went on");
        let pauses = [(3_600, 95, [40, 79], 600), (600, 0, [79, 79], 100)];
        assert_eq!(ends(&pauses).full, 0, "it goes on");
    }

    #[test]
    fn gpu_that_stands_before_its_process_ends_is_counted() {
        let work = (7_200, 95, [60, 60], 600);
        let stands = |seconds: u64| ends(&[work, (seconds, 100, [60, 60], 120), IDLE]);
        assert_eq!((stands(600).stood, stands(600).standing), (1, Nanos::from_secs(595)));
        assert_eq!(stands(30).stood, 0, "the end of an epoch");
        let goes_on = [work, (600, 100, [60, 60], 120), work, IDLE];
        assert_eq!(ends(&goes_on).stood, 0);
        assert_eq!(ends(&[(7_200, 100, [60, 60], 120), IDLE]).stood, 0, "its usual power");
    }
}
