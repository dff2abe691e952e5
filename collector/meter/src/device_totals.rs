//! Traffic over the links of a GPU, and its XID errors: over the whole run and by hour of the last day.

use std::collections::{BTreeMap, VecDeque};

use crate::device_metric::{Component, DeviceMetric, DeviceValue};
use crate::quantity::Quantity;
use crate::rise::Rise;
use crate::units::{NANOS_PER_SECOND, Nanos, Timestamp};

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
    /// The measured time, in which several links and directions count once.
    time: Nanos,
    until: Option<Timestamp>,
}

/// The directions of the links whose rates sources measure.
const LINKS: [Quantity; 4] = [
    Quantity::PcieReceived,
    Quantity::PcieTransmitted,
    Quantity::NvlinkReceived,
    Quantity::NvlinkTransmitted,
];

/// Rates of the links of a GPU at an instant, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkRates([Option<u64>; LINKS.len()]);

impl LinkRates {
    /// No rate was measured.
    pub const NONE: Self = Self([None; LINKS.len()]);

    /// Sets a rate, if the quantity is that of a link.
    pub fn set(&mut self, of: Quantity, bytes_per_second: u64) {
        let place = LINKS.iter().position(|link| *link == of);
        if let Some(rate) = place.and_then(|place| self.0.get_mut(place)) {
            *rate = Some(bytes_per_second);
        }
    }
}

impl Traffic {
    /// The mean in bytes per second; `None` if it was not measured.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation")]
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.time > Nanos::ZERO).then(|| self.bytes as f64 / self.time.as_secs_f64())
    }

    /// The bytes since the first measurement, and the time of the last one.
    #[must_use]
    pub const fn measured(&self) -> Option<(Timestamp, u64)> {
        match self.until {
            Some(until) => Some((until, self.bytes)),
            None => None,
        }
    }

    fn add(&mut self, bytes: u64, from: Timestamp, to: Timestamp) {
        self.bytes = self.bytes.saturating_add(bytes);
        let from = self.until.map_or(from, |until| until.max(from));
        self.time += to.since(from);
        self.until = Some(self.until.map_or(to, |until| until.max(to)));
    }

    fn merge(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.time += other.time;
        self.until = self.until.max(other.until);
    }
}

impl Totals {
    fn count(&mut self, xid: u64, count: u32) {
        if self.xids.len() < MAX_CODES || self.xids.contains_key(&xid) {
            let sum = self.xids.entry(xid).or_default();
            *sum = sum.saturating_add(count);
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
    last: BTreeMap<(Component, Quantity), (Timestamp, u64)>,
    /// The time of the last rate of each link.
    last_rate: BTreeMap<Quantity, Timestamp>,
}

/// How long before it a rate describes at most: senders are scraped once a minute and more often.
const MAX_RATE_TIME: Nanos = Nanos::from_secs(120);

impl DeviceTotals {
    /// Records a device metric, if it is a traffic counter.
    pub fn record(&mut self, metric: &DeviceMetric) {
        let DeviceMetric { at, component, quantity, value } = *metric;
        let DeviceValue::Total(total) = value else { return };
        if !LINKS.contains(&quantity) {
            return;
        }
        let Some((from, before)) = self.last.insert((component, quantity), (at, total)) else {
            return;
        };
        // A mean over the whole interval: after a reset it is left out.
        if let Some(bytes) = Rise::between(before, total).complete() {
            self.add_traffic(quantity, bytes, from, at);
        }
    }

    /// Records rates, each of which is that of the time since the previous one.
    pub fn record_rates(&mut self, at: Timestamp, rates: &LinkRates) {
        for (link, rate) in LINKS.into_iter().zip(rates.0) {
            let Some(rate) = rate else { continue };
            let last = self.last_rate.insert(link, at);
            let Some(from) = last.filter(|from| *from < at && at.since(*from) <= MAX_RATE_TIME)
            else {
                continue;
            };
            let bytes =
                u128::from(rate) * u128::from(at.since(from).0) / u128::from(NANOS_PER_SECOND);
            self.add_traffic(link, u64::try_from(bytes).unwrap_or(u64::MAX), from, at);
        }
    }

    fn add_traffic(&mut self, link: Quantity, bytes: u64, from: Timestamp, at: Timestamp) {
        let is_pcie = matches!(link, Quantity::PcieReceived | Quantity::PcieTransmitted);
        self.each(at, |totals| {
            let traffic = if is_pcie { &mut totals.pcie } else { &mut totals.nvlink };
            traffic.add(bytes, from, at);
        });
    }

    /// The totals of the whole run.
    #[must_use]
    pub const fn all(&self) -> &Totals {
        &self.all
    }

    /// Counts errors that the driver reported.
    pub fn count_xids(&mut self, at: Timestamp, code: u64, count: u64) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.each(at, |totals| totals.count(code, count));
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
        let (quantity, value) = (Quantity::NvlinkReceived, DeviceValue::Total(total));
        DeviceMetric { at: at(seconds), component, quantity, value }
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
    fn rates_count_for_the_time_before_them_without_gaps() {
        let mut totals = DeviceTotals::default();
        let mut record = |seconds, received, transmitted| {
            let mut rates = LinkRates::NONE;
            rates.set(Quantity::PcieReceived, received);
            rates.set(Quantity::PcieTransmitted, transmitted);
            totals.record_rates(at(seconds), &rates);
            totals.since(None).pcie.bytes_per_second()
        };
        assert_eq!(record(0, 9_000, 9_000), None, "of unknown time");
        assert_eq!(record(30, 300, 100), Some(400.0));
        assert_eq!(record(60, 100, 100), Some(300.0));
        // After a pause of an hour, and a value that arrives twice.
        assert_eq!(record(3_700, 1_000_000, 1_000_000), Some(300.0));
        assert_eq!(record(3_700, 1_000_000, 1_000_000), Some(300.0));
        assert_eq!(record(3_760, 150, 150), Some(300.0));
        let recent = totals.since(Some(at(3_650)));
        assert_eq!(recent.pcie.bytes_per_second(), Some(300.0));
        assert_eq!(recent.nvlink.bytes_per_second(), None);
    }

    #[test]
    fn recent_totals_leave_out_earlier_hours_and_stay_bounded() {
        let mut totals = DeviceTotals::default();
        for hour in 0..40 {
            totals.count_xids(at(hour * 3_600), 79, 1);
        }
        assert_eq!(totals.since(None).xids, BTreeMap::from([(79, 40)]));
        assert_eq!(totals.since(Some(at(38 * 3_600 + 60))).xids, BTreeMap::from([(79, 2)]));
        assert_eq!(totals.hours.len(), HOURS);
        (0..1_000).for_each(|code| totals.count_xids(at(0), code, 1));
        assert_eq!(totals.since(None).xids.len(), MAX_CODES);
    }
}
