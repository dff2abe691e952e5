//! The values that rules for alerts are about, and when they are posted.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{GpuMeter, Observer};
use crate::alert::{AlertEvaluator, Metric, Rule};
use crate::quantity::Quantity;
use crate::reading::Reading;
use crate::units::{Bytes, Milliwatts, PPM, Timestamp, Utilization};

impl GpuMeter {
    /// Evaluates these rules from now on, but for those that are `retired`, see [`AlertEvaluator::change_rules`].
    pub fn change_alert_rules(
        &mut self,
        rules: Arc<[Rule]>,
        retired: &BTreeSet<usize>,
        observer: &mut impl Observer,
    ) {
        let charged = self.charged_until();
        let alerts = self.alerts.get_or_insert_with(|| {
            let mut alerts = Box::new(AlertEvaluator::new(Arc::default()));
            charged.into_iter().for_each(|at| alerts.begin(at));
            alerts
        });
        alerts.change_rules(rules, retired, &mut |change| observer.alert(change));
    }

    /// Evaluates no rules from now on, and forgets the alerts so far.
    pub fn remove_alert_rules(&mut self) {
        self.alerts = None;
    }

    /// The alerts so far, if there are rules.
    #[must_use]
    pub fn alerts(&self) -> Option<&AlertEvaluator> {
        self.alerts.as_deref()
    }

    /// Posts a time range to the rules. `reading` covers it, unless there is none.
    #[inline]
    pub(super) fn post_to_alerts(
        &mut self,
        from: Timestamp,
        to: Timestamp,
        utilization: Option<Utilization>,
        reading: Option<&Reading>,
        observer: &mut impl Observer,
    ) {
        let (memory_total, power_limit) = (self.memory_total, self.power_limit);
        if let Some(alerts) = &mut self.alerts {
            let value = |metric: Metric| match metric.quantity() {
                Quantity::Utilization => utilization.map(Utilization::ppm),
                quantity => value(quantity, reading?, memory_total, power_limit),
            };
            alerts.post(from, to, value, &mut |change| observer.alert(change));
        }
    }
}

/// The value of a quantity in a reading, in the unit of its metric.
fn value(
    quantity: Quantity,
    reading: &Reading,
    memory: Option<Bytes>,
    power: Option<Milliwatts>,
) -> Option<u32> {
    match quantity {
        Quantity::MemoryUsed => ppm(reading.memory_used?.get(), memory?.get()),
        Quantity::Power => ppm(reading.power?.get().into(), power?.get().into()),
        Quantity::Temperature => {
            let celsius = u32::try_from(reading.temperature?.0).unwrap_or_default();
            Some(celsius.saturating_mul(PPM))
        }
        kept => reading.device.share(kept).map(Utilization::ppm),
    }
}

/// A share in millionths, rounded down.
fn ppm(part: u64, whole: u64) -> Option<u32> {
    let scaled = u128::from(part) * u128::from(PPM);
    let ppm = scaled.checked_div(u128::from(whole))?;
    Some(u32::try_from(ppm).unwrap_or(u32::MAX))
}
