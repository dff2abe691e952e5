//! Accumulates the points of one counter stream: cumulative or delta, with resets, late and duplicate
//! points.

use phasemeter_meter::rise::Rise;
use phasemeter_meter::units::Timestamp;

/// Ranges of time whose deltas are remembered. A delta before all of them is too late.
const MAX_RANGES: usize = 64;

/// Resets whose last values are remembered, for points that arrive late.
const MAX_SEGMENTS: usize = 4;

/// A point of a cumulative counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CumulativePoint {
    /// Since when it counts; `None` if unknown, as from Prometheus. At its own time it is the first point
    /// of a stream whose start is unknown, and those that follow have it, too.
    pub start: Option<Timestamp>,
    /// Its time.
    pub at: Timestamp,
    /// The count since its start.
    pub value: f64,
}

/// A point of a delta counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeltaPoint {
    /// Start of its time.
    pub start: Timestamp,
    /// End of its time.
    pub at: Timestamp,
    /// The count in that time.
    pub value: f64,
}

/// A stream of cumulative points.
///
/// What it counted before the run is not work of the run: a stream that began earlier, or that does not
/// name its start, begins at its first value.
#[derive(Clone, Debug)]
pub struct Cumulative {
    run: Timestamp,
    /// From reset to reset, the last one last.
    segments: Vec<Segment>,
    counted: u64,
    /// How often the count fell although its start stayed the same.
    falls: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: Option<Timestamp>,
    at: Timestamp,
    /// Whole units up to the last value.
    value: u64,
}

impl Cumulative {
    /// A stream in a run that began at this instant.
    #[must_use]
    pub const fn new(run: Timestamp) -> Self {
        Self { run, segments: Vec::new(), counted: 0, falls: 0 }
    }

    /// Adds a point, and returns by how much the count increases. A later, lower point is a reset, whether
    /// the stream names its start or not. An invalid, late or duplicate point increases nothing that is
    /// counted already.
    pub fn add(&mut self, point: CumulativePoint) -> u64 {
        let Some(value) = whole(point.value) else { return 0 };
        let CumulativePoint { start, at, .. } = point;
        // Older than all segments that are remembered.
        let is_forgotten = self.segments.len() >= MAX_SEGMENTS
            && self.segments.iter().all(|segment| segment.start > start);
        let known = match start {
            Some(_) => self.segments.iter_mut().find(|segment| segment.start == start),
            None => self.segments.last_mut(),
        };
        let increase = match known {
            // A later value of the segment includes this one.
            Some(segment) if at <= segment.at => 0,
            Some(segment) => {
                let rise = Rise::between(segment.value, value);
                *segment = Segment { start, at, value };
                // A counter that names its start should name a new one.
                self.falls += u64::from(rise.is_reset() && start.is_some());
                rise.counted()
            }
            None if is_forgotten => 0,
            None if start == Some(at) => {
                // The stream was interrupted, or its counter fell.
                let before = self.segments.iter().map(|segment| (segment.at, segment.value)).max();
                let increase = match before {
                    Some((last, before)) if last < at => Rise::between(before, value).counted(),
                    _ => 0,
                };
                self.begin(Segment { start, at, value }, increase)
            }
            None => {
                let is_own = start.is_some_and(|start| start >= self.run);
                self.begin(Segment { start, at, value }, if is_own { value } else { 0 })
            }
        };
        self.counted = self.counted.saturating_add(increase);
        increase
    }

    fn begin(&mut self, segment: Segment, increase: u64) -> u64 {
        self.segments.push(segment);
        self.segments.sort_by_key(|segment| segment.start);
        if self.segments.len() > MAX_SEGMENTS {
            self.segments.remove(0);
        }
        increase
    }

    /// The count so far.
    #[must_use]
    pub const fn counted(&self) -> u64 {
        self.counted
    }

    /// How often the count fell although its start stayed the same: each time it was reset.
    #[must_use]
    pub const fn falls(&self) -> u64 {
        self.falls
    }
}

/// A stream of delta points.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Time that is counted, in order, without overlaps and gaps of zero.
    ranges: Vec<(Timestamp, Timestamp)>,
    /// Deltas before this are too late.
    dropped_until: Timestamp,
    /// Exact sum, of which whole units are counted.
    sum: f64,
    counted: u64,
}

impl Delta {
    /// Adds a point, and returns by how much the count increases. A point of time that is counted, or
    /// too late, increases nothing.
    pub fn add(&mut self, point: DeltaPoint) -> u64 {
        let DeltaPoint { start, at, value } = point;
        if !(value.is_finite() && value >= 0.0) || start >= at || start < self.dropped_until {
            return 0;
        }
        let place = self.ranges.partition_point(|(_, end)| *end <= start);
        if self.ranges.get(place).is_some_and(|(from, _)| *from < at) {
            return 0;
        }
        self.ranges.insert(place, (start, at));
        self.join(place);
        if self.ranges.len() > MAX_RANGES {
            self.dropped_until = self.ranges.remove(0).1;
        }
        self.sum += value;
        let whole = whole(self.sum).unwrap_or(self.counted);
        let increase = whole.saturating_sub(self.counted);
        self.counted = whole;
        increase
    }

    /// Joins a range with its neighbors, if they touch.
    fn join(&mut self, place: usize) {
        if let Some(&(next, end)) = self.ranges.get(place + 1)
            && self.ranges[place].1 == next
        {
            self.ranges[place].1 = end;
            self.ranges.remove(place + 1);
        }
        if place > 0 && self.ranges[place - 1].1 == self.ranges[place].0 {
            self.ranges[place - 1].1 = self.ranges[place].1;
            self.ranges.remove(place);
        }
    }

    /// The count so far.
    #[must_use]
    pub const fn counted(&self) -> u64 {
        self.counted
    }
}

/// Whole units of a value; `None` if it is not a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "finite, not negative and below 2^63"
)]
fn whole(value: f64) -> Option<u64> {
    let is_count = value.is_finite() && (0.0..9.0e18).contains(&value);
    is_count.then_some(value as u64)
}
