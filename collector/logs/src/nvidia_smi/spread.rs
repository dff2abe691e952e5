//! Spreads the rows of a fast log with whole seconds over each second.
//!
//! A log of several readings per second may have timestamps without fractions. Its rows of one GPU are as
//! many in each second, give or take one. They are not of several GPUs that share an ID: rows of those
//! would be alike from second to second.

use std::collections::BTreeMap;

use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, Timestamp};

use super::entry::Entry;

/// The resolution of timestamps.
const UNIT: Nanos = Nanos::SECOND;

/// Rows of one second that are spread together.
const MAX_ROWS: usize = 65_536;

/// Fewer whole seconds show nothing.
const MIN_SECONDS: usize = 3;

/// Collects the rows of each second.
#[derive(Debug)]
pub(super) struct Spread {
    /// Rows of a GPU in a second, usually.
    rows_per_second: usize,
    second: Timestamp,
    rows: Vec<Entry>,
    /// The last second in which each GPU had rows.
    last: BTreeMap<usize, Timestamp>,
}

impl Spread {
    /// If rows are those of a fast log: `None` if they are not. `is_count_given`: the number of GPUs is
    /// that of the user, so rows of one ID are those of one GPU.
    pub(super) fn detect(rows: &[Entry], is_count_given: bool) -> Option<Self> {
        if rows.iter().any(|row| row.reading.at.as_nanos() % NANOS_PER_SECOND != 0) {
            return None;
        }
        let mut gpus: BTreeMap<usize, Vec<Vec<&Entry>>> = BTreeMap::new();
        for row in rows {
            let seconds = gpus.entry(row.gpu).or_default();
            match seconds.last_mut() {
                Some(second)
                    if second.first().is_some_and(|it| it.reading.at == row.reading.at) =>
                {
                    second.push(row);
                }
                _ => seconds.push(vec![row]),
            }
        }
        let counts = gpus.values().map(|seconds| rows_per_second(seconds));
        let rows_per_second = counts.collect::<Option<Vec<usize>>>()?.into_iter().max()?;
        let is_several = |seconds: &Vec<Vec<&Entry>>| resemble_each_other(seconds);
        if !is_count_given && gpus.values().any(is_several) {
            return None;
        }
        let (second, last) = (Timestamp::EPOCH, BTreeMap::new());
        Some(Self { rows_per_second, second, rows: Vec::new(), last })
    }

    /// Rows of a GPU in a second, usually.
    pub(super) const fn rows_per_second(&self) -> usize {
        self.rows_per_second
    }

    /// Adds a row. Appends the rows of the second before to `out`, each with its own time.
    pub(super) fn push(&mut self, row: Entry, out: &mut Vec<Entry>) {
        let at = row.reading.at;
        if at != self.second || self.rows.len() >= MAX_ROWS {
            let is_next = at == self.second + UNIT;
            self.flush(is_next, out);
            self.second = at;
        }
        self.rows.push(row);
    }

    /// Appends the rows of the current second to `out`. `continues`: the next second has rows, too.
    pub(super) fn flush(&mut self, continues: bool, out: &mut Vec<Entry>) {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for row in &self.rows {
            *counts.entry(row.gpu).or_default() += 1;
        }
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        let from = out.len();
        for mut row in self.rows.drain(..) {
            let count = counts.get(&row.gpu).copied().unwrap_or(1);
            let place = places.entry(row.gpu).or_default();
            let follows = self.last.get(&row.gpu).is_some_and(|last| *last + UNIT == self.second);
            let usual = self.rows_per_second.max(count);
            // A partial second at an end of the log, or beside a gap, is filled from its other end.
            let (place_in_unit, places_in_unit) = match (follows, continues) {
                (true, true) => (*place, count),
                (false, true) => (usual - count + *place, usual),
                (_, false) => (*place, usual),
            };
            *place += 1;
            let offset = UNIT.0.saturating_mul(place_in_unit as u64) / places_in_unit.max(1) as u64;
            row.reading.at = row.reading.at + Nanos(offset);
            out.push(row);
        }
        counts.into_keys().for_each(|gpu| _ = self.last.insert(gpu, self.second));
        if let Some(spread) = out.get_mut(from..) {
            spread.sort_by_key(|row| row.reading.at);
        }
    }
}

/// The usual number of rows in a second of a GPU: that of most, give or take one, if all seconds have
/// rows. The first and the last one may be partial.
fn rows_per_second(seconds: &[Vec<&Entry>]) -> Option<usize> {
    let whole = seconds.get(1..seconds.len().checked_sub(1)?)?;
    let mut counts: Vec<usize> = whole.iter().map(Vec::len).collect();
    counts.sort_unstable();
    let usual = counts.get(counts.len() / 2).copied().filter(|usual| *usual > 1)?;
    let is_usual = |count: &&usize| (usual - 1..=usual + 1).contains(*count);
    let follows = |pair: &&[Vec<&Entry>]| match pair {
        [a, b] => {
            a.first().zip(b.first()).is_some_and(|(a, b)| b.reading.at.since(a.reading.at) == UNIT)
        }
        _ => false,
    };
    let is_most = |some: usize, all: usize| some * 5 >= all * 4;
    let is_fast = whole.len() >= MIN_SECONDS
        && is_most(counts.iter().filter(is_usual).count(), counts.len())
        && is_most(seconds.windows(2).filter(follows).count(), seconds.len() - 1);
    is_fast.then_some(usual)
}

/// Whether rows are alike from second to second, and not within one: they are of several GPUs.
fn resemble_each_other(seconds: &[Vec<&Entry>]) -> bool {
    let values: [fn(&Entry) -> Option<u64>; 3] = [
        |row| row.reading.utilization.ok().map(|utilization| u64::from(utilization.ppm())),
        |row| row.reading.memory_used.map(phasemeter_meter::units::Bytes::get),
        |row| row.reading.power.map(|power| u64::from(power.get())),
    ];
    let mut recurs = [0_usize; 2];
    let is_alike = values.iter().any(|value| {
        // Between rows of a second, and between those of the same place in two of them.
        let (mut within, mut across) = (0_u64, 0_u64);
        for pair in seconds.windows(2) {
            let [before, now] = pair else { continue };
            let of =
                |rows: &[&Entry]| rows.iter().map(|row| value(row)).collect::<Option<Vec<u64>>>();
            let Some((mut a, mut b)) = of(before).zip(of(now)) else { continue };
            let neighbors = b.iter().zip(b.iter().skip(1));
            within = neighbors.fold(within, |sum, (a, b)| sum.saturating_add(a.abs_diff(*b)));
            let places = a.iter().zip(b.iter()).skip(1);
            across = places.fold(across, |sum, (a, b)| sum.saturating_add(a.abs_diff(*b)));
            a.sort_unstable();
            b.sort_unstable();
            let differs = b.first() != b.last();
            recurs[0] += usize::from(differs && a == b);
            recurs[1] += usize::from(differs);
        }
        within > 0 && across.saturating_mul(2) < within
    });
    is_alike || (recurs[0] > 0 && recurs[0] * 2 > recurs[1])
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::reading::Reading;
    use phasemeter_meter::units::Utilization;

    use super::*;

    fn row(gpu: usize, second: u64, percent: u64) -> Entry {
        let utilization = Ok(Utilization::from_percent(u32::try_from(percent).unwrap()).unwrap());
        let at = Timestamp::from_millis(second * 1_000).unwrap();
        Entry { reading: Reading { utilization, ..Reading::at(at) }, gpu, ..Entry::EMPTY }
    }

    /// A log of a row every `every` ms of each GPU, with whole seconds.
    fn fast(gpus: usize, every: u64, rows: u64) -> Vec<Entry> {
        let ticks = (0..rows).map(|tick| 350 + tick * every);
        let rows = ticks.flat_map(|millis| (0..gpus).map(move |gpu| (gpu, millis)));
        rows.map(|(gpu, millis)| row(gpu, millis / 1_000, millis * 7 / 100 % 97)).collect()
    }

    fn spread(rows: &[Entry]) -> Vec<u64> {
        let mut spread = Spread::detect(rows, false).unwrap();
        let mut out = Vec::new();
        rows.iter().for_each(|row| spread.push(*row, &mut out));
        spread.flush(false, &mut out);
        out.iter().map(|row| row.reading.at.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn rows_are_spread_over_their_second() {
        let times = spread(&fast(1, 100, 96));
        // The first second has seven rows, the last one nine.
        let expected: Vec<u64> = (3..99).map(|tenth| tenth * 100).collect();
        assert_eq!(times, expected);
        let times = spread(&fast(3, 250, 40));
        assert_eq!(times[..9], [250, 250, 250, 500, 500, 500, 750, 750, 750]);
        assert!(times.is_sorted());
    }

    #[test]
    fn rows_of_several_gpus_are_not_a_fast_log() {
        let nodes = |level: fn(u64) -> u64| -> Vec<Entry> {
            (0..400).map(|tick| row(0, tick / 8, level(tick))).collect()
        };
        assert!(Spread::detect(&nodes(|tick| if tick % 8 == 7 { 0 } else { 95 }), false).is_none());
        assert!(Spread::detect(&nodes(|tick| tick % 8 * 10 + tick % 3), false).is_none());
        // In any order.
        assert!(Spread::detect(&nodes(|tick| (tick + tick / 8) % 8 * 10), false).is_none());
        assert!(Spread::detect(&nodes(|tick| tick % 8 * 10), true).is_some());
        // Every other second, or with fractions.
        let slow: Vec<Entry> = (0..400).map(|tick| row(0, tick / 8 * 2, tick % 97)).collect();
        assert!(Spread::detect(&slow, false).is_none());
        let mut rows = fast(1, 100, 96);
        rows[50].reading.at = rows[50].reading.at + Nanos::from_millis(1);
        assert!(Spread::detect(&rows, false).is_none());
        // One row per second.
        assert!(Spread::detect(&fast(2, 1_000, 96), false).is_none());
    }
}
