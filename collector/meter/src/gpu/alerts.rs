//! The values that rules for alerts are about, and when they are posted.

use std::sync::Arc;

use super::{GpuMeter, Observer};
use crate::alert::{AlertEvaluator, Metric, Rule, Values};
use crate::quantity::Quantity;
use crate::reading::Reading;
use crate::units::{Bytes, Milliwatts, PPM, Timestamp, Utilization};

impl GpuMeter {
    /// Evaluates these rules from the first reading on. Must be called before it.
    pub fn set_alert_rules(&mut self, rules: Arc<[Rule]>) {
        self.alerts = Some(Box::new(AlertEvaluator::new(rules)));
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
        if let Some(alerts) = &mut self.alerts {
            let values = reading.map_or_else(Values::default, |reading| {
                values(reading, self.memory_total, self.power_limit)
            });
            let values = values.with(Metric::Utilization, utilization.map(Utilization::ppm));
            alerts.post(from, to, values, &mut |change| observer.alert(change));
        }
    }
}

fn values(reading: &Reading, memory: Option<Bytes>, power: Option<Milliwatts>) -> Values {
    let memory = reading.memory_used.zip(memory);
    let memory = memory.and_then(|(used, total)| ppm(used.get(), total.get()));
    let power = reading.power.zip(power);
    let power = power.and_then(|(draw, limit)| ppm(draw.get().into(), limit.get().into()));
    let celsius = reading.temperature.map(|it| u32::try_from(it.0).unwrap_or_default());
    let share = |quantity| reading.device.share(quantity).map(Utilization::ppm);
    Values::default()
        .with(Metric::Memory, memory)
        .with(Metric::Power, power)
        .with(Metric::Temperature, celsius.map(|celsius| celsius.saturating_mul(PPM)))
        .with(Metric::SmActivity, share(Quantity::SmActivity))
        .with(Metric::DramActivity, share(Quantity::DramActivity))
}

/// A share in millionths, rounded down.
fn ppm(part: u64, whole: u64) -> Option<u32> {
    let scaled = u128::from(part) * u128::from(PPM);
    let ppm = scaled.checked_div(u128::from(whole))?;
    Some(u32::try_from(ppm).unwrap_or(u32::MAX))
}
