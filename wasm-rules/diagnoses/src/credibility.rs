//! Utilization that power contradicts: a GPU that reports no work and draws what only work draws.
//!
//! Drivers miss work below a vGPU, in MIG instances and after errors of their counters. Time without work of such a
//! GPU does not show that it is free.

use crate::bounds::WORKING_POWER;
use crate::{NO_WORK, share, time};
use phasemeter_policy::{Accounts, Gpu};

use crate::Model;
use crate::contradiction::{has_false_idle, impossible_power};

/// Power of a GPU that works, in watts, at least: above the 30–60 W of small boards that are held.
const WORKING_WATTS: f64 = 100.0;

/// Points that are looked at, at most. What most of them show does not depend on single ones.
const SAMPLE: usize = 64;

/// Power without work that idle GPUs do not draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnexplainedPower {
    /// Mean power while it reports no work.
    pub watts: f64,
    /// The power that it is limited to, or its model is built for, whichever is more.
    pub limit: f64,
}

/// The power of a GPU in the time in which it reports no work, if only work explains it.
pub fn unexplained_power(gpu: &Gpu) -> Option<UnexplainedPower> {
    // Power that no GPU draws shows nothing.
    if impossible_power(gpu).is_some()
        || gpu.power.is_empty()
        || gpu.accounts.idle().seconds < time::LASTING
    {
        return None;
    }
    let own = gpu.power_limit_watts;
    let watts = working_power(gpu, own.unwrap_or_default())?;
    // A limit that was lowered does not lower the power of an idle GPU. Names are compared last: that takes long.
    let built_for = Model::of(&gpu.model).and_then(|model| model.watts);
    let limit = own.into_iter().chain(built_for).reduce(f64::max)?;
    working_power(gpu, limit).map(|_| UnexplainedPower { watts, limit })
}

/// The mean power in idle points, if it is that of work for most of them, with this limit.
fn working_power(gpu: &Gpu, limit: f64) -> Option<f64> {
    let working = f64::max(WORKING_POWER * limit, WORKING_WATTS);
    let (mut points, mut high, mut total) = (0.0, 0.0, 0.0);
    let count = gpu.power.len().min(gpu.utilization.len());
    for point in (0..count).step_by(count.div_ceil(SAMPLE).max(1)) {
        let (utilization, power) = (gpu.utilization[point], gpu.power[point]);
        if utilization < share::HARDLY_ANY && !power.is_nan() {
            points += 1.0;
            total += power;
            high += f64::from(u8::from(power >= working));
        }
    }
    let watts = total / points;
    (high > share::MOST * points && watts >= working).then_some(watts)
}

/// Whether idle time of a GPU may be free time, as far as its power and other sources of utilization show.
pub fn is_credible(gpu: &Gpu) -> bool {
    unexplained_power(gpu).is_none() && !has_false_idle(gpu) && !works_on_video(gpu)
}

/// Whether a GPU does nothing but work of its video engines, which utilization does not cover.
fn works_on_video(gpu: &Gpu) -> bool {
    let engines = ["decoder.utilization", "encoder.utilization"];
    let is_used = |engine: &&str| gpu.metric(engine).is_some_and(|share| share >= NO_WORK);
    gpu.share(Accounts::idle) >= share::NEARLY_ALL && engines.iter().any(is_used)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, with_power};

    use super::*;

    fn idle(model: &str, limit: f64, watts: f64) -> Gpu {
        let gpu = with_power(steady(3_600, 0.0), watts);
        Gpu { model: model.to_owned(), power_limit_watts: Some(limit), ..gpu }
    }

    #[test]
    fn power_of_work_contradicts_zero_utilization() {
        let found = unexplained_power(&idle("NVIDIA H100 NVL", 400.0, 220.0));
        assert_eq!(found, Some(UnexplainedPower { watts: 220.0, limit: 400.0 }));
        assert!(!is_credible(&idle("", 300.0, 160.0)), "an unknown model");
    }

    #[test]
    fn idle_gpus_that_are_held_are_credible() {
        let held = [
            ("NVIDIA L4", 72.0, 33.0),
            ("Tesla T4", 70.0, 32.0),
            ("NVIDIA A10", 150.0, 60.0),
            ("NVIDIA A100-SXM4-80GB", 400.0, 95.0),
            ("NVIDIA H100 80GB HBM3", 700.0, 130.0),
            ("NVIDIA H100 80GB HBM3", 200.0, 130.0),
            ("NVIDIA L4", 40.0, 33.0),
        ];
        for (model, limit, watts) in held {
            assert!(is_credible(&idle(model, limit, watts)), "{model} at {limit} W");
        }
    }

    #[test]
    fn power_of_work_and_moments_are_no_contradiction() {
        let limit = |gpu: Gpu| Gpu { power_limit_watts: Some(700.0), ..gpu };
        assert!(is_credible(&limit(with_power(steady(3_600, 0.9), 600.0))));
        assert!(is_credible(&limit(with_power(steady(300, 0.0), 600.0))), "minutes");
        let mut moments = limit(with_power(steady(3_600, 0.0), 120.0));
        moments.power[..100].fill(690.0);
        assert!(is_credible(&moments));
        assert!(is_credible(&limit(steady(3_600, 0.0))), "not recorded");
    }

    #[test]
    fn work_of_video_engines_is_not_idle_time() {
        let decodes = |level: f64, share: f64| {
            let metrics = vec![("decoder.utilization".to_owned(), share)];
            is_credible(&Gpu { metrics, ..steady(3_600, level) })
        };
        assert!(!decodes(0.01, 0.6));
        assert!(decodes(0.01, 0.0));
        assert!(decodes(0.5, 0.6), "its own load shows when it works");
    }
}
