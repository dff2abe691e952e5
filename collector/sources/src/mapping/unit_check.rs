//! Whether the numbers of a sender contradict the declared unit of a metric: percent or ratio.
//!
//! A number that only the other unit can have is unreadable, alone. Ten of them in a row show that the sender
//! uses the other unit, until ten agree again. What a GPU's own numbers show counts before what those of other
//! GPUs of its sender do, so that one GPU decides about no other: only a 1, which is 1% or 100%, of a GPU
//! without evidence of its own depends on its sender.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use phasemeter_meter::instrument::Instrument;
use phasemeter_meter::quantity::Quantity;

use super::meaning::expected;
use super::unit::MetricUnit;

/// Numbers in a row that prove a unit.
const PROOF: u8 = 10;

/// Hardware counters can exceed a ratio of 1 by the error of their clocks.
const MAX_RATIO: f64 = 1.01;

/// Maximum number of senders and GPUs with evidence, in each of two halves. Labels come from anywhere.
const MAX_EVIDENCE: usize = 16_384;

/// The evidence about the units of all senders. Bounded: what is not used while there is much else is
/// forgotten.
#[derive(Clone, Debug, Default)]
pub struct UnitChecks {
    recent: HashMap<u64, Evidence>,
    /// Used before `recent` was last emptied.
    older: HashMap<u64, Evidence>,
    hasher: RandomState,
    /// Metrics that were reported as unreadable.
    reported: BTreeSet<String>,
}

/// Something that the points of a sender show about their units and their instrument, to be logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitNotice {
    /// A sender uses the other unit.
    #[error(
        "{subject}: declared as {}, but 10 values in a row are of the other unit; its values are unreadable \
         until 10 agree: declare unit = \"{}\" in a mapping",
        .declared.name(), .other.name()
    )]
    Contradicted {
        /// The metric and its sender.
        subject: String,
        /// The declared unit.
        declared: MetricUnit,
        /// The unit of the values.
        other: MetricUnit,
    },
    /// A sender uses the declared unit again.
    #[error("{subject}: 10 values in a row are {} again, as declared; its values count", .declared.name())]
    Lifted {
        /// The metric and its sender.
        subject: String,
        /// The declared unit.
        declared: MetricUnit,
    },
    /// The unit depends on the version of the sender.
    #[error(
        "{metric}: is percent or ratio, by the version of its sender; its values are unreadable: declare its unit \
         in a mapping"
    )]
    Ambiguous {
        /// The metric.
        metric: String,
    },
    /// The metric is declared as something that the quantity cannot be read from.
    #[error(
        "{subject}: is {instrument}, from which {} cannot be read; its values are refused: send {}",
        .quantity.name(), expected(*.quantity)
    )]
    Instrument {
        /// The metric and its sender.
        subject: String,
        /// The quantity it is mapped to.
        quantity: Quantity,
        /// Its declared instrument.
        instrument: Instrument,
    },
}

/// The evidence in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Evidence {
    agreeing: u8,
    contradicting: u8,
    is_contradicted: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// Whether the number is of the declared unit, as far as that is known.
    pub(super) is_readable: bool,
    /// Whether the unit of the sender is contradicted, if that has changed.
    pub(super) change: Option<bool>,
}

impl UnitChecks {
    /// Checks a number of a GPU against the declared unit: percent or ratio. `sender` identifies sender and
    /// metric, `gpu` the GPU of these.
    pub(super) fn check<'a>(
        &mut self,
        declared: MetricUnit,
        number: f64,
        sender: impl FnOnce() -> Vec<&'a str>,
        gpu: &str,
    ) -> Checked {
        let agrees = unit_of(number).map(|unit| unit == declared);
        let contradicts = agrees == Some(false);
        let plain = Checked { is_readable: true, change: None };
        // The usual case.
        if !contradicts && self.recent.is_empty() && self.older.is_empty() {
            return plain;
        }
        let sender = sender();
        let of_gpu = self.hasher.hash_one((&sender, Some(gpu)));
        let of_sender = self.hasher.hash_one((&sender, None::<&str>));
        let Some(sender) = self.evidence(of_sender, contradicts) else { return plain };
        let change = sender.add(agrees);
        let is_sender_contradicted = sender.is_contradicted;
        let Some(own) = self.evidence(of_gpu, true) else { return plain };
        own.add(agrees);
        let depends_on_sender = agrees.is_none() && number >= 1.0 && own.agreeing == 0;
        let is_contradicted = own.is_contradicted || (depends_on_sender && is_sender_contradicted);
        Checked { is_readable: !contradicts && !is_contradicted, change }
    }

    /// Whether an unreadable metric is to be reported: the first time.
    pub(super) fn is_first(&mut self, metric: &str) -> bool {
        !self.reported.contains(metric) && self.reported.insert(metric.to_owned())
    }

    /// The evidence of a key, which becomes recent; `None` if there is none and none is wanted.
    fn evidence(&mut self, key: u64, is_wanted: bool) -> Option<&mut Evidence> {
        if !self.recent.contains_key(&key) {
            let known = self.older.remove(&key).or(is_wanted.then(Evidence::default))?;
            if self.recent.len() >= MAX_EVIDENCE {
                self.older = std::mem::take(&mut self.recent);
            }
            self.recent.insert(key, known);
        }
        self.recent.get_mut(&key)
    }
}

impl Evidence {
    /// Adds a number. Returns whether the unit is contradicted now, if that has changed.
    fn add(&mut self, agrees: Option<bool>) -> Option<bool> {
        if agrees? {
            (self.agreeing, self.contradicting) = (self.agreeing.saturating_add(1), 0);
        } else {
            (self.agreeing, self.contradicting) = (0, self.contradicting.saturating_add(1));
        }
        let shown = if self.is_contradicted { self.agreeing } else { self.contradicting };
        if shown < PROOF {
            return None;
        }
        self.is_contradicted = !self.is_contradicted;
        Some(self.is_contradicted)
    }
}

/// The only unit that a number can have: drivers report whole percents. 0 and 1 can be of either, and numbers
/// above 100 or below 0 of none.
fn unit_of(number: f64) -> Option<MetricUnit> {
    if number > 0.0 && number < 1.0 {
        Some(MetricUnit::Ratio)
    } else if number > MAX_RATIO && number <= 100.0 {
        Some(MetricUnit::Percent)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(checks: &mut UnitChecks, sender: &str, gpu: &str, number: f64) -> Checked {
        checks.check(MetricUnit::Percent, number, || vec![sender], gpu)
    }

    /// A GPU sends ratios.
    fn repeat(checks: &mut UnitChecks, sender: &str, gpu: &str, count: usize) {
        for _ in 0..count {
            assert!(!check(checks, sender, gpu, 0.5).is_readable);
        }
    }

    #[test]
    fn unit_is_contradicted_by_ten_in_a_row_and_lifted_by_ten() {
        let mut checks = UnitChecks::default();
        let mut put = |number| {
            let Checked { is_readable, change } = check(&mut checks, "a", "0", number);
            (is_readable, change)
        };
        for _ in 0..3 {
            // Numbers in between that prove nothing change nothing; one that agrees begins again.
            (0..9).for_each(|_| assert_eq!(put(0.87), (false, None)));
            for number in [0.0, 1.0, 2_619.0, -1.0, f64::INFINITY] {
                assert_eq!(put(number), (true, None), "the range decides: {number}");
            }
            assert_eq!(put(55.0), (true, None));
        }
        (0..9).for_each(|_| assert_eq!(put(0.87), (false, None)));
        assert_eq!(put(0.5), (false, Some(true)));
        assert_eq!(put(0.5), (false, None), "reported once");
        for number in [0.0, 1.0, 55.0] {
            assert!(!put(number).0, "of a sender of ratios: {number}");
        }
        assert_eq!(put(0.5), (false, None));
        (0..9).for_each(|_| assert_eq!(put(55.0), (false, None)));
        assert_eq!(put(55.0), (true, Some(false)));
        assert_eq!((put(1.0), put(55.0)), ((true, None), (true, None)));
    }

    #[test]
    fn no_gpu_decides_about_another() {
        let mut checks = UnitChecks::default();
        repeat(&mut checks, "a", "corrupt", 20);
        for number in [0.0, 37.0, 100.0, 1.0] {
            assert!(check(&mut checks, "a", "busy", number).is_readable, "{number}");
            assert!(check(&mut checks, "b", "corrupt", number).is_readable, "{number}");
        }
        let mut checks = UnitChecks::default();
        repeat(&mut checks, "a", "0", 10);
        assert!(check(&mut checks, "a", "full", 0.0).is_readable);
        assert!(!check(&mut checks, "a", "full", 1.0).is_readable, "1% or 100%");
    }

    #[test]
    fn ratio_is_contradicted_by_percents() {
        let mut checks = UnitChecks::default();
        let mut put = |number| checks.check(MetricUnit::Ratio, number, || vec!["a"], "0");
        for number in [0.0, 0.5, 1.0, 1.004] {
            assert!(put(number).is_readable, "{number}");
        }
        let changes: Vec<_> = (0..12).filter_map(|_| put(55.0).change).collect();
        assert_eq!(changes, [true]);
        assert!(!put(0.5).is_readable);
    }

    #[test]
    fn memory_is_bounded_and_recent_evidence_is_kept() {
        let mut checks = UnitChecks::default();
        repeat(&mut checks, "a", "0", 9);
        for n in 0..3 * MAX_EVIDENCE {
            check(&mut checks, &n.to_string(), "0", 0.5);
            if n.is_multiple_of(1_000) {
                check(&mut checks, "a", "0", 0.0);
            }
        }
        assert!(checks.recent.len() + checks.older.len() <= 2 * MAX_EVIDENCE);
        assert_eq!(check(&mut checks, "a", "0", 0.5).change, Some(true));
        assert!(checks.is_first("m") && !checks.is_first("m"));
    }
}
