//! One rule: which points of a metric are which value of which GPU.

use phasemeter_meter::label_filter::LabelFilter;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, MissingReason};
use phasemeter_meter::units::Timestamp;

use super::holder_metrics::HolderMetric;
use super::identity::{GpuLabels, Identity, SENDER};
use super::meaning::{Meaning, meaning};
use super::point::Point;
use super::unit::MetricUnit;
use super::unit_check::{Checked, UnitChecks, UnitNotice};
use super::value::Value;

/// A value of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuValue {
    /// The GPU.
    pub gpu: GpuLabels,
    /// When it was measured.
    pub at: Timestamp,
    /// Its quantity; `None` if the point has no value, and its labels describe the GPU.
    pub quantity: Option<Quantity>,
    /// The rank of its metric: of several metrics of one value, the one with the lowest counts.
    pub rank: i32,
    /// The source of a utilization, also of one that is missing; `None` if it is another value.
    pub basis: Option<Basis>,
    /// The value, or why it is missing.
    pub value: Result<Value, MissingReason>,
}

/// The beginning of the names of metrics that Phasemeter sends, too.
const OWN_NAMES: &str = "hw.";

/// Which points of a metric are which value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    /// `None` if points have no value, and their labels describe GPUs.
    pub(super) quantity: Option<Quantity>,
    /// Of several metrics of one value, the one with the lowest rank counts.
    pub(super) rank: i32,
    /// What it states of the holder that labels name; `None` if it is of the GPU.
    pub(super) of_holder: Option<HolderMetric>,
    /// Whether points may be of hardware that is not a GPU.
    pub(super) is_of_any_hardware: bool,
    pub(super) unit: MetricUnit,
    /// The source of a utilization; `None` for other values.
    pub(super) basis: Option<Basis>,
    /// Factor from the sender's numbers to the unit.
    pub(super) scale: f64,
    /// Which points it is about.
    pub(super) filter: LabelFilter,
    /// Numbers from here on mean that there is no value.
    pub(super) missing_from: Option<f64>,
    pub(super) identity: Identity,
}

impl Rule {
    /// Whether the rule is about this point.
    pub(super) fn applies(&self, point: &Point<'_>) -> bool {
        self.filter.passes(point.label)
    }

    /// The value of a point, and evidence about the unit of its sender; `None` if it names no GPU.
    pub(super) fn read(
        &self,
        point: &Point<'_>,
        units: &mut UnitChecks,
    ) -> Option<(GpuValue, Option<UnitNotice>)> {
        let gpu = GpuLabels {
            has_own_name: point.metric.starts_with(OWN_NAMES),
            is_of_any_hardware: self.is_of_any_hardware,
            ..self.identity.read(point, self.quantity)?
        };
        let Some(quantity) = self.quantity else {
            let value = Err(MissingReason::NotCollected);
            return Some((
                GpuValue { gpu, at: point.at, quantity: None, rank: self.rank, basis: None, value },
                None,
            ));
        };
        let Some(meaning) = meaning(quantity, point.instrument) else {
            let notice = UnitNotice::Instrument {
                subject: subject(point, &gpu),
                quantity,
                instrument: point.instrument,
            };
            let notice = units.is_first(point.metric).then_some(notice);
            return Some((
                self.value(point, gpu, quantity, Err(MissingReason::Unreadable)),
                notice,
            ));
        };
        let number = point.number * self.scale;
        let is_missing =
            number.is_nan() || self.missing_from.is_some_and(|from| point.number >= from);
        let (is_readable, notice) = match is_missing {
            true => (true, None),
            false => self.check_unit(point, number, &gpu, units),
        };
        let value = match (is_missing, is_readable) {
            (true, _) => Err(MissingReason::NotSupported),
            (false, true) => {
                let value = match self.of_holder {
                    Some(metric) => self.unit.of_holder(metric, number),
                    None => self.unit.value(quantity, self.basis, point.metric, number),
                };
                let value = value.map(|value| with_meaning(value, meaning, point.start));
                value.ok_or(MissingReason::Unreadable)
            }
            (false, false) => Err(MissingReason::Unreadable),
        };
        Some((self.value(point, gpu, quantity, value), notice))
    }

    fn value(
        &self,
        point: &Point<'_>,
        gpu: GpuLabels,
        quantity: Quantity,
        value: Result<Value, MissingReason>,
    ) -> GpuValue {
        let (at, rank, basis) = (point.at, self.rank, self.basis);
        GpuValue { gpu, at, quantity: Some(quantity), rank, basis, value }
    }

    /// Whether a number is of the declared unit. Points of MIG instances prove nothing about GPUs.
    fn check_unit(
        &self,
        point: &Point<'_>,
        number: f64,
        gpu: &GpuLabels,
        units: &mut UnitChecks,
    ) -> (bool, Option<UnitNotice>) {
        let metric = point.metric;
        let (declared, other) = match self.unit {
            MetricUnit::Percent => (MetricUnit::Percent, MetricUnit::Ratio),
            MetricUnit::Ratio => (MetricUnit::Ratio, MetricUnit::Percent),
            MetricUnit::Ambiguous => {
                let notice = UnitNotice::Ambiguous { metric: metric.to_owned() };
                return (false, units.is_first(metric).then_some(notice));
            }
            _ => return (true, None),
        };
        if gpu.instance.is_some() {
            return (true, None);
        }
        let sender = || sender(point, gpu);
        let Checked { is_readable, change } = units.check(declared, number, sender, &gpu.id.name());
        let subject = || subject(point, gpu);
        let notice = change.map(|is_contradicted| match is_contradicted {
            true => UnitNotice::Contradicted { subject: subject(), declared, other },
            false => UnitNotice::Lifted { subject: subject(), declared },
        });
        (is_readable, notice)
    }
}

/// Identifies a sender and a metric: host and labels of the scrape or of the resource.
fn sender<'a>(point: &'a Point<'_>, gpu: &'a GpuLabels) -> Vec<&'a str> {
    let labels = SENDER.iter().map(|label| (point.label)(label).unwrap_or_default());
    let host = gpu.host.as_deref().unwrap_or_default();
    [point.metric, host].into_iter().chain(labels).collect()
}

/// The metric and its sender, in messages.
fn subject(point: &Point<'_>, gpu: &GpuLabels) -> String {
    match gpu.sender() {
        Some(sender) => format!("{} of {sender}", point.metric),
        None => point.metric.to_owned(),
    }
}

/// A value, or the increase since `start` that its number means.
const fn with_meaning(value: Value, meaning: Meaning, start: Option<Timestamp>) -> Value {
    match (meaning, value) {
        (Meaning::Increase, Value::Energy(energy, counter)) => {
            Value::EnergyIncrease(energy, counter, start)
        }
        (Meaning::Increase | Meaning::Value, value) => value,
    }
}
