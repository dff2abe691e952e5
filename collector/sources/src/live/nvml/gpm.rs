//! GPU performance monitoring (GPM): hardware counters, compared between two samples
//! (`nvmlGpmMetricsGet`).

use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

use crate::live::{Activity, QueryError, UnsupportedReason};

/// Minimum time between two samples: NVML requires more than 100 ms by its own clock.
const MIN_WINDOW: Nanos = Nanos::from_millis(150);

/// That of each activity.
const METRICS: [GpmMetricId; Quantity::ACTIVITIES.len()] = [
    GpmMetricId::SmUtil,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
    GpmMetricId::Fp64Util,
    GpmMetricId::Fp32Util,
    GpmMetricId::Fp16Util,
];

/// The device that a sample covers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sampled {
    /// A GPU.
    Gpu,
    /// The GPU instance with this ID, which MIG instances may share.
    GpuInstance(u32),
}

/// The latest sample of the counters of a GPU or GPU instance. Each window starts at the end of the
/// one before.
#[derive(Debug, Default)]
pub(super) struct Gpm<'d> {
    last: Option<(GpmSample<'d>, Timestamp)>,
}

impl<'d> Gpm<'d> {
    /// Samples the counters of this GPU or part of it; `None` if there is no earlier sample to compare with.
    ///
    /// # Errors
    /// Returns an error if a call fails, or GPM is not supported.
    pub(super) fn query(
        &mut self,
        nvml: &'d Nvml,
        device: &Device<'d>,
        sampled: Sampled,
        now: Timestamp,
    ) -> Result<Option<Activity>, QueryError> {
        let last = match self.last.take() {
            Some((sample, at)) if now.since(at) < MIN_WINDOW => {
                self.last = Some((sample, at));
                return Ok(None);
            }
            None => {
                check_support(nvml, device)?;
                None
            }
            last => last,
        };
        let sample = match sampled {
            Sampled::Gpu => device.gpm_sample()?,
            Sampled::GpuInstance(id) => device.gpm_mig_sample(id)?,
        };
        let activity = match &last {
            Some((before, from)) => compare(nvml, before, &sample, *from, now)?,
            None => None,
        };
        self.last = Some((sample, now));
        Ok(activity)
    }
}

/// A sample must not be allocated if it cannot be freed: the wrapper would panic.
fn check_support(nvml: &Nvml, device: &Device<'_>) -> Result<(), QueryError> {
    if nvml.lib().nvmlGpmSampleFree.is_err() {
        return Err(QueryError::Unsupported(UnsupportedReason::Driver));
    }
    if device.gpm_support()? {
        Ok(())
    } else {
        Err(QueryError::Unsupported(UnsupportedReason::Device))
    }
}

fn compare<'d>(
    nvml: &'d Nvml,
    before: &GpmSample<'d>,
    after: &GpmSample<'d>,
    from: Timestamp,
    to: Timestamp,
) -> Result<Option<Activity>, QueryError> {
    let mut shares = [None; METRICS.len()];
    let results = gpm_metrics_get(nvml, before, after, &METRICS)?;
    for ((share, quantity), result) in shares.iter_mut().zip(Quantity::ACTIVITIES).zip(results) {
        *share = result.ok().and_then(|result| from_percent(quantity, result.value));
    }
    let any_value = shares.iter().any(Option::is_some);
    Ok(any_value.then_some(Activity { from, to, shares }))
}

fn from_percent(quantity: Quantity, percent: f64) -> Option<Utilization> {
    quantity.admit_nearest(percent * 10_000.0).and_then(Utilization::from_ppm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_percentage_is_dropped() {
        let sm = Quantity::SmActivity;
        assert_eq!(from_percent(sm, 12.345_6), Utilization::from_ppm(123_456));
        assert_eq!(from_percent(sm, 100.4), Some(Utilization::FULL));
        for nonsense in [f64::NAN, -0.1, 250.0, f64::INFINITY] {
            assert_eq!(from_percent(sm, nonsense), None);
        }
    }
}
