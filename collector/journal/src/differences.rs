//! Times and counters of changes as differences from those before: small numbers, which take few bytes.

use std::collections::BTreeMap;
use std::slice::Iter;

use phasemeter_engine::pipeline::Change;
use phasemeter_meter::device_metric::DeviceValue;
use phasemeter_meter::reading::{Basis, Interval};
use phasemeter_meter::units::{Millijoules, Timestamp};

/// What a number is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Series {
    /// Times of readings of this GPU.
    Time(usize),
    /// Its energy counter.
    Energy(usize),
    /// The end of its last interval on this basis.
    End(usize, Basis),
    /// The length of that.
    Length(usize, Basis),
}

/// The numbers of changes.
struct Numbers<'a> {
    /// What times begin at.
    at: Timestamp,
    /// The numbers before.
    last: BTreeMap<Series, u64>,
    differences: Differences<'a>,
}

/// Where differences go to, or come from.
enum Differences<'a> {
    Taken(Vec<i64>),
    PutBack(Iter<'a, i64>),
}

/// Takes the numbers out of changes that were made until `at`.
pub(crate) fn take(changes: &mut [Change], at: Timestamp) -> Vec<i64> {
    let mut numbers = Numbers::new(at, Differences::Taken(Vec::new()));
    for change in changes {
        let _all = numbers.replace(change);
    }
    match numbers.differences {
        Differences::Taken(taken) => taken,
        Differences::PutBack(_) => Vec::new(),
    }
}

/// Puts them back; `None` if they are not those of these changes.
pub(crate) fn put_back(changes: &mut [Change], at: Timestamp, differences: &[i64]) -> Option<()> {
    let mut numbers = Numbers::new(at, Differences::PutBack(differences.iter()));
    for change in changes {
        numbers.replace(change)?;
    }
    match numbers.differences {
        Differences::PutBack(left) if left.as_slice().is_empty() => Some(()),
        _ => None,
    }
}

impl<'a> Numbers<'a> {
    const fn new(at: Timestamp, differences: Differences<'a>) -> Self {
        Self { at, last: BTreeMap::new(), differences }
    }

    /// Replaces the numbers of a change that is made often; `None` if one cannot be.
    fn replace(&mut self, change: &mut Change) -> Option<()> {
        match change {
            Change::Reading(gpu, reading) => {
                self.time(Series::Time(*gpu), &mut reading.at)?;
                if let Some(Millijoules(energy)) = &mut reading.energy {
                    self.number(Series::Energy(*gpu), energy)?;
                }
            }
            Change::Interval(gpu, interval) | Change::IntervalOfParts(gpu, interval) => {
                let Interval { basis, ref mut from, ref mut to, .. } = *interval;
                // One begins where the one before has ended.
                let mut length = to.as_nanos().wrapping_sub(from.as_nanos());
                let start = self.time(Series::End(*gpu, basis), from)?;
                let end =
                    start.wrapping_add(self.number(Series::Length(*gpu, basis), &mut length)?);
                self.last.insert(Series::End(*gpu, basis), end);
                *to = Timestamp::from_nanos(from.as_nanos().wrapping_add(length))?;
            }
            Change::Metric(gpu, metric) => match &mut metric.value {
                // Of the same interval as the utilization that is measured together with it.
                DeviceValue::Mean { from, .. } => {
                    let mut length = metric.at.as_nanos().wrapping_sub(from.as_nanos());
                    self.time(Series::End(*gpu, Basis::GpmSm), &mut metric.at)?;
                    self.number(Series::Length(*gpu, Basis::GpmSm), &mut length)?;
                    *from = Timestamp::from_nanos(metric.at.as_nanos().wrapping_sub(length))?;
                }
                DeviceValue::Total(_) | DeviceValue::Now(_) => {
                    self.time(Series::Time(*gpu), &mut metric.at)?;
                }
            },
            _ => {}
        }
        Some(())
    }

    fn time(&mut self, series: Series, at: &mut Timestamp) -> Option<u64> {
        let mut nanos = at.as_nanos();
        let number = self.number(series, &mut nanos)?;
        *at = Timestamp::from_nanos(nanos)?;
        Some(number)
    }

    /// Replaces a number by 0, or 0 by it. Returns the number; `None` if it is not there.
    fn number(&mut self, series: Series, number: &mut u64) -> Option<u64> {
        let is_time = matches!(series, Series::Time(_) | Series::End(..));
        let first = if is_time { self.at.as_nanos() } else { 0 };
        let last = self.last.entry(series).or_insert(first);
        match &mut self.differences {
            Differences::Taken(taken) => {
                taken.push(number.wrapping_sub(*last).cast_signed());
                *last = std::mem::take(number);
            }
            Differences::PutBack(left) => {
                *last = last.wrapping_add_signed(*left.next()?);
                *number = *last;
            }
        }
        Some(*last)
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::device_metric::{Component, DeviceMetric};
    use phasemeter_meter::quantity::Quantity;
    use phasemeter_meter::reading::Reading;
    use phasemeter_meter::units::Utilization;

    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn reading(nanos: u64, energy: Option<u64>) -> Reading {
        Reading { energy: energy.map(Millijoules), ..Reading::at(at(nanos)) }
    }

    /// Guarantee: what is put back is what was taken out, whatever the order of times and counters; numbers that are
    /// missing or too many are found.
    #[test]
    fn numbers_return_as_they_were() {
        let utilization = Utilization::from_percent(7).unwrap();
        let interval = Interval { basis: Basis::NvmlSamples, from: at(9), to: at(12), utilization };
        let metric = |value| DeviceMetric {
            at: at(12),
            component: Component::Gpu,
            quantity: Quantity::NvlinkReceived,
            value,
        };
        let mean = |from| DeviceValue::Mean { from, share: utilization };
        let changes = [
            Change::Reading(0, reading(1_785_110_400_000_000_000, Some(u64::MAX))),
            Change::Reading(1, reading(7, None)),
            Change::Reading(0, reading(Timestamp::LAST.as_nanos(), Some(0))),
            Change::Interval(1, interval),
            Change::IntervalOfParts(1, Interval { from: at(12), to: at(12), ..interval }),
            Change::Interval(1, Interval { from: at(40), to: at(3), ..interval }),
            Change::Metric(1, metric(mean(at(9)))),
            Change::Metric(1, metric(mean(Timestamp::LAST))),
            Change::Metric(0, metric(DeviceValue::Total(u64::MAX))),
            Change::Prices,
            Change::Reading(0, reading(0, None)),
            Change::Reading(0, reading(5, Some(3))),
        ];
        let (mut taken, until) = (changes.clone(), at(1_785_110_400_500_000_000));
        let differences = take(&mut taken, until);
        assert_ne!(taken, changes);
        let mut again = taken.clone();
        put_back(&mut again, until, &differences).unwrap();
        assert_eq!(again, changes);
        assert!(put_back(&mut taken.clone(), until, &differences[1..]).is_none());
        assert!(put_back(&mut taken, until, &[&differences[..], &[1]].concat()).is_none());
    }
}
