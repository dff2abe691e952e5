//! Reference implementation of a report, with everything in memory: the log is parsed with
//! `split(',')`, phases and spans come from the oracle, the rest from sums over milliseconds.

use std::collections::BTreeMap;

use crate::calendar;
use crate::fleet::Listed;
use crate::{ORACLE_ACCOUNTS, Oracle, OracleAccount, Row, stale_after};

/// One GPU of a log.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The identifying cell, or the position in the tick.
    pub name: String,
    /// In time order.
    rows: Vec<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: u64,
    ppm: Option<u64>,
    mebibytes: Option<u64>,
    total: Option<u64>,
    /// Power in milliwatts, and the column it is from.
    power: Option<(&'static str, u64)>,
    millijoules: Option<u64>,
}

/// The columns of power; the first with a value counts.
const POWER: [&str; 3] = ["power.draw", "power.draw.average", "power.draw.instant"];

/// The name of the energy counter in reports.
const COUNTER: &str = "total_energy_consumption";

/// The GPUs of a log in the order of their first rows. Without an identifying column, rows belong to
/// `gpus` GPUs in rotation.
pub fn read(text: &str, gpus: usize) -> Vec<Gpu> {
    let mut lines = text.lines();
    let names: Vec<&str> =
        lines.next().unwrap().split(',').map(|name| first_word(name.trim())).collect();
    let column = |wanted: &[&str]| {
        wanted.iter().find_map(|wanted| names.iter().position(|name| name == wanted))
    };
    let id = column(&["uuid", "pci.bus_id", "index"]);
    let [at, ppm, used, total] =
        ["timestamp", "utilization.gpu", "memory.used", "memory.total"].map(|name| column(&[name]));
    let power = POWER.map(|name| (name, column(&[name])));
    let counter = column(&["total_energy_consumption"]);

    let mut found: Vec<Gpu> = Vec::new();
    for (number, line) in lines.enumerate() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let number_in = |column: Option<usize>| first_word(cells[column?]).parse::<f64>().ok();
        let sample = Sample {
            at: calendar::parse(cells[at.unwrap()]).unwrap(),
            ppm: number_in(ppm)
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(|percent| (percent * 10_000.0).round() as u64),
            mebibytes: number_in(used).map(|used| used as u64),
            total: number_in(total).map(|total| total as u64),
            power: power.iter().find_map(|(name, column)| {
                number_in(*column).map(|watts| (*name, (watts * 1_000.0).round() as u64))
            }),
            millijoules: number_in(counter).map(|millijoules| millijoules as u64),
        };
        let name = id.map_or_else(|| (number % gpus).to_string(), |id| cells[id].to_owned());
        match found.iter_mut().find(|gpu| gpu.name == name) {
            Some(gpu) => gpu.rows.push(sample),
            None => found.push(Gpu { name, rows: vec![sample] }),
        }
    }
    // Stable: the last row of an instant stays last.
    found.iter_mut().for_each(|gpu| gpu.rows.sort_by_key(|row| row.at));
    found
}

fn first_word(cell: &str) -> &str {
    cell.split(' ').next().unwrap()
}

/// The expected report of one GPU. Times are milliseconds, money nano-dollars.
pub struct Expected {
    pub start: u64,
    pub end: u64,
    /// In the order of [`ORACLE_ACCOUNTS`].
    pub time: [u64; 7],
    pub cost: [i128; 7],
    /// Σ utilization × time, in ppm·ms.
    pub weight: u64,
    pub effective: i128,
    pub bill: i128,
    pub held_is_known: bool,
    /// Tenths of a percent.
    pub p50: Option<u64>,
    pub p95: Option<u64>,
    pub memory_p95: Option<u64>,
    pub memory_peak: Option<u64>,
    pub update_period: Option<u64>,
    /// Milliseconds and joules by basis.
    pub energy: BTreeMap<&'static str, (u64, f64)>,
    pub spans: Vec<(&'static str, u64, u64)>,
    /// Readings with utilization.
    pub readings: u64,
}

impl Gpu {
    /// When it was last read, and how long that represents the present.
    pub fn listed<'a>(&self, host: &'a str) -> Listed<'a> {
        let rows: Vec<Row> = self.rows.iter().map(Sample::as_row).collect();
        Listed { host, last: rows[rows.len() - 1].at, stale_after: stale_after(&rows) }
    }

    /// Computes it for a rate in nano-dollars per hour, if its time ends at `end`.
    pub fn expected(&self, rate: i128, end: u64) -> Expected {
        let rows: Vec<Row> = self.rows.iter().map(Sample::as_row).collect();
        let hold = stale_after(&rows);
        let oracle = Oracle::until(&rows, end);
        let start = rows[0].at;
        let next = self.rows.iter().skip(1).map(|row| row.at).chain([end]);
        let covered: Vec<(&Sample, u64)> = self
            .rows
            .iter()
            .zip(next)
            .map(|(row, next)| (row, (next - row.at).min(hold)))
            .filter(|(_, time)| *time > 0)
            .collect();
        let mut busy = BTreeMap::new();
        for (booked, ppm) in &oracle.millis {
            if *booked != OracleAccount::Unobserved {
                *busy.entry((ppm + 500) / 1_000).or_default() += 1;
            }
        }
        let mut used = BTreeMap::new();
        for (row, time) in covered.iter().filter(|(row, _)| row.ppm.is_some()) {
            if let Some(mebibytes) = row.mebibytes {
                *used.entry(mebibytes).or_default() += time;
            }
        }
        let effective = ORACLE_ACCOUNTS.map(|book| {
            let exact = rate * i128::from(oracle.weight_in(book)) / 3_600_000_000_000;
            exact.min(cost_of(&oracle, book, rate))
        });
        Expected {
            start,
            end,
            time: ORACLE_ACCOUNTS.map(|book| oracle.millis_in(book)),
            cost: ORACLE_ACCOUNTS.map(|book| cost_of(&oracle, book, rate)),
            weight: ORACLE_ACCOUNTS.iter().map(|book| oracle.weight_in(*book)).sum(),
            effective: effective.iter().sum(),
            bill: rate * i128::from(end - start) / 3_600_000,
            held_is_known: rows.iter().any(|row| row.held.is_some()),
            p50: percentile(&busy, 50),
            p95: percentile(&busy, 95),
            memory_p95: percentile(&used, 95),
            memory_peak: self.rows.iter().filter_map(|row| row.mebibytes).max(),
            update_period: update_period(&rows, hold),
            energy: self.energy(&covered),
            spans: oracle.spans(5_000),
            readings: rows.iter().filter(|row| row.ppm.is_some()).count() as u64,
        }
    }
}

impl Gpu {
    /// The counter's difference between two of its values, unless it fell; elsewhere power × time. A
    /// counter that returns to where it fell from, before it rises otherwise, was misread in between.
    fn energy(&self, covered: &[(&Sample, u64)]) -> BTreeMap<&'static str, (u64, f64)> {
        let values: Vec<(u64, u64)> =
            self.rows.iter().filter_map(|row| Some((row.at, row.millijoules?))).collect();
        let mut counted: Vec<[(u64, u64); 2]> = Vec::new();
        let mut fell_from = None;
        for pair in values.windows(2).map(|pair| [pair[0], pair[1]]) {
            let [(_, before), (_, after)] = pair;
            match fell_from {
                Some((at, high)) if high <= after => {
                    counted.retain(|earlier| earlier[1].0 <= at);
                    counted.push([(at, high), pair[1]]);
                    fell_from = None;
                }
                _ if before <= after => {
                    counted.push(pair);
                    fell_from = fell_from.filter(|_| before == after);
                }
                _ => fell_from = fell_from.or(Some(pair[0])),
            }
        }
        let is_counted = |at| counted.iter().any(|pair| pair[0].0 <= at && at < pair[1].0);
        let mut energy: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
        let mut add = |basis, time, joules| {
            let sum = energy.entry(basis).or_default();
            *sum = (sum.0 + time, sum.1 + joules);
        };
        for pair in &counted {
            add(COUNTER, pair[1].0 - pair[0].0, (pair[1].1 - pair[0].1) as f64 / 1e3);
        }
        for (row, time) in covered.iter().filter(|(row, _)| !is_counted(row.at)) {
            if let Some((column, milliwatts)) = row.power {
                add(column, *time, (milliwatts * time) as f64 / 1e6);
            }
        }
        energy.retain(|_, (time, _)| *time > 0);
        energy
    }
}

impl Sample {
    fn as_row(&self) -> Row {
        let held = self.mebibytes.zip(self.total).map(|(used, total)| used * 100 > total);
        Row { at: self.at, ppm: self.ppm, held }
    }
}

/// With C(t) the cost since the start, a time range of one account costs ⌊C(to)⌋ − ⌊C(from)⌋.
fn cost_of(oracle: &Oracle, account: OracleAccount, rate: i128) -> i128 {
    let cost = |millis: usize| rate * millis as i128 / 3_600_000;
    let mut sum = 0;
    let mut from = 0;
    for run in oracle.millis.chunk_by(|a, b| a.0 == b.0) {
        let to = from + run.len();
        if run[0].0 == account {
            sum += cost(to) - cost(from);
        }
        from = to;
    }
    sum
}

/// The smallest value with at least `percent` of the weight at or below it.
fn percentile(weights: &BTreeMap<u64, u64>, percent: u64) -> Option<u64> {
    let total: u64 = weights.values().sum();
    weights.keys().copied().find(|value| {
        let below: u64 = weights.range(..=value).map(|(_, weight)| weight).sum();
        below * 100 >= total * percent
    })
}

/// The median time between changes, the upper one of two; `None` below ten changes. The first value
/// after a gap is not a change.
fn update_period(rows: &[Row], hold: u64) -> Option<u64> {
    let (mut changes, mut periods) = (0, Vec::new());
    let (mut changed, mut before): (Option<u64>, Option<Row>) = (None, None);
    for row in rows {
        let known = before.filter(|before| row.at - before.at <= hold).and_then(|row| row.ppm);
        match (known, row.ppm) {
            (Some(old), Some(new)) if old != new => {
                changes += 1;
                periods.extend(changed.replace(row.at).map(|changed| row.at - changed));
            }
            (Some(_), Some(_)) => {}
            _ => changed = None,
        }
        before = Some(*row);
    }
    periods.sort_unstable();
    periods.get(periods.len() / 2).copied().filter(|_| changes >= 10)
}
