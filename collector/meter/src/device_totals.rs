//! Traffic over the links of a GPU, and its XID errors: over the whole run and by hour of the last day.
//!
//! Must not depend on readings.

use std::collections::{BTreeMap, VecDeque};

use crate::device_metric::{Component, Counter, DeviceMetric, DeviceValue};
use crate::units::{Nanos, Timestamp};

/// Hours that are kept: those of a day, and the one in progress.
const HOURS: usize = 25;

const HOUR: Nanos = Nanos::from_secs(3_600);

/// Maximum number of different XID codes that are counted. There are about two hundred.
const MAX_CODES: usize = 64;

/// Totals of a range of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Errors by XID code.
    pub xids: BTreeMap<u64, u32>,
    /// Over the PCIe link.
    pub pcie: Traffic,
    /// Over all NVLink links.
    pub nvlink: Traffic,
}

/// Bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    bytes: u64,
    range: Option<(Timestamp, Timestamp)>,
}

impl Traffic {
    /// The mean in bytes per second; `None` if it was not measured.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation")]
    pub fn bytes_per_second(&self) -> Option<f64> {
        let (from, to) = self.range.filter(|(from, to)| from < to)?;
        Some(self.bytes as f64 / to.since(from).as_secs_f64())
    }

    /// The bytes since the first measurement, and the time of the last one.
    #[must_use]
    pub const fn measured(&self) -> Option<(Timestamp, u64)> {
        match self.range {
            Some((_, until)) => Some((until, self.bytes)),
            None => None,
        }
    }

    fn add(&mut self, bytes: u64, from: Timestamp, to: Timestamp) {
        self.bytes = self.bytes.saturating_add(bytes);
        let range = self.range.unwrap_or((from, to));
        self.range = Some((range.0.min(from), range.1.max(to)));
    }

    fn merge(&mut self, other: &Self) {
        if let Some((from, to)) = other.range {
            self.add(other.bytes, from, to);
        }
    }
}

impl Totals {
    fn count(&mut self, xid: u64) {
        if self.xids.len() < MAX_CODES || self.xids.contains_key(&xid) {
            let count = self.xids.entry(xid).or_default();
            *count = count.saturating_add(1);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.pcie.merge(&other.pcie);
        self.nvlink.merge(&other.nvlink);
        for (code, count) in &other.xids {
            let sum = self.xids.entry(*code).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
}

/// Totals of a GPU.
#[derive(Clone, Debug, Default)]
pub struct DeviceTotals {
    all: Totals,
    /// By start of the hour, in time order.
    hours: VecDeque<(Timestamp, Totals)>,
    /// The last value of each traffic counter. Links do not come and go.
    last: BTreeMap<(Component, Counter), (Timestamp, u64)>,
}

impl DeviceTotals {
    /// Records a device metric, if it is a traffic counter.
    pub fn record(&mut self, metric: &DeviceMetric) {
        let DeviceMetric { at, component, value } = *metric;
        let DeviceValue::Count { counter, total } = value else { return };
        if !matches!(counter, Counter::Received | Counter::Transmitted) {
            return;
        }
        let Some((from, before)) = self.last.insert((component, counter), (at, total)) else {
            return;
        };
        // A counter that falls was reset, or wrapped: the interval is left out.
        let Some(bytes) = total.checked_sub(before) else { return };
        self.each(at, |totals| match component {
            Component::Pcie => totals.pcie.add(bytes, from, at),
            Component::NvLink(_) => totals.nvlink.add(bytes, from, at),
            Component::Gpu | Component::Fan(_) | Component::Mig(_) => {}
        });
    }

    /// Records the bytes over a link in both directions so far, if they are known.
    pub fn record_traffic(&mut self, at: Timestamp, component: Component, bytes: Option<u64>) {
        if let Some(total) = bytes {
            let value = DeviceValue::Count { counter: Counter::Received, total };
            self.record(&DeviceMetric { at, component, value });
        }
    }

    /// The totals of the whole run.
    #[must_use]
    pub const fn all(&self) -> &Totals {
        &self.all
    }

    /// Counts an error that the driver reported.
    pub fn count_xid(&mut self, at: Timestamp, code: u64) {
        self.each(at, |totals| totals.count(code));
    }

    /// The totals of the whole run, or of the hours since the one of `from`.
    #[must_use]
    pub fn since(&self, from: Option<Timestamp>) -> Totals {
        let Some(from) = from else { return self.all.clone() };
        let mut sum = Totals::default();
        let recent = self.hours.iter().filter(|(hour, _)| *hour >= from.floor(HOUR));
        recent.for_each(|(_, totals)| sum.merge(totals));
        sum
    }

    /// Changes the totals of the run and of the hour.
    fn each(&mut self, at: Timestamp, change: impl Fn(&mut Totals)) {
        change(&mut self.all);
        let hour = at.floor(HOUR);
        if self.hours.back().is_none_or(|(last, _)| *last < hour) {
            self.hours.push_back((hour, Totals::default()));
            if self.hours.len() > HOURS {
                self.hours.pop_front();
            }
        }
        if let Some((_, totals)) = self.hours.back_mut() {
            change(totals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(1_785_110_400 + seconds)
    }

    fn received(seconds: u64, component: Component, total: u64) -> DeviceMetric {
        let value = DeviceValue::Count { counter: Counter::Received, total };
        DeviceMetric { at: at(seconds), component, value }
    }

    #[test]
    fn traffic_is_the_rise_of_all_links_over_time() {
        let mut totals = DeviceTotals::default();
        for (seconds, total) in [(0, 7_000), (10, 8_000), (20, 9_000)] {
            totals.record(&received(seconds, Component::NvLink(0), total));
            totals.record(&received(seconds, Component::NvLink(1), 2 * total));
        }
        let all = totals.since(None);
        assert_eq!(all.nvlink.bytes_per_second(), Some(300.0));
        assert_eq!(all.pcie.bytes_per_second(), None);
        totals.record(&received(30, Component::NvLink(0), 5));
        assert_eq!(totals.since(None).nvlink.bytes_per_second(), Some(300.0), "a reset");
    }

    #[test]
    fn recent_totals_leave_out_earlier_hours_and_stay_bounded() {
        let mut totals = DeviceTotals::default();
        for hour in 0..40 {
            totals.count_xid(at(hour * 3_600), 79);
        }
        assert_eq!(totals.since(None).xids, BTreeMap::from([(79, 40)]));
        assert_eq!(totals.since(Some(at(38 * 3_600 + 60))).xids, BTreeMap::from([(79, 2)]));
        assert_eq!(totals.hours.len(), HOURS);
        (0..1_000).for_each(|code| totals.count_xid(at(0), code));
        assert_eq!(totals.since(None).xids.len(), MAX_CODES);
    }
}
