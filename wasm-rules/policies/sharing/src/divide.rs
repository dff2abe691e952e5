//! The smallest part of a GPU that fits its task: an instance of MIG that carries its load by replay, else a share on
//! trial, since nothing shows whether tasks slow one another.

use phasemeter_diagnoses::{
    ABOVE, BURSTS, Model, NEARLY_FULL, Replay, SMALL_MEMORY, SMALLEST, seldom,
};
use phasemeter_policy::format::percent;
use phasemeter_policy::{Evidence, Gpu, Vendor};

/// Utilization of a shared GPU, at most. An assumption.
pub(crate) const MAX_UTILIZATION: f64 = 0.8;

/// Parts of a GPU at most: that is how many MIG has.
const MAX_PARTS: usize = 7;

/// MIG instances of GPUs with seven slices: shares of compute and of memory (NVIDIA's MIG User
/// Guide).
const SEVENTHS: [(f64, f64); 4] = [
    (1.0 / 7.0, 1.0 / 8.0),
    (2.0 / 7.0, 2.0 / 8.0),
    (3.0 / 7.0, 4.0 / 8.0),
    (4.0 / 7.0, 4.0 / 8.0),
];

/// The same of GPUs with four slices (NVIDIA's MIG User Guide).
const QUARTERS: [(f64, f64); 2] = [(0.25, 0.25), (0.5, 0.5)];

/// How a task uses a part of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) enum Fit {
    /// In an instance of MIG: it is above [`MAX_UTILIZATION`] of it for this share of the time.
    Instance { above: f64 },
    /// At the same time as others: it has at most this load, but for a hundredth of the time.
    Beside { load: f64 },
    /// In turns with others: it has this mean load in hours with work.
    InTurns { load: f64 },
}

impl Fit {
    pub(crate) fn lever(self, vendor: Vendor) -> &'static str {
        match self {
            Self::Instance { .. } => "mig",
            Self::Beside { .. } if vendor == Vendor::Nvidia => "mps",
            Self::Beside { .. } | Self::InTurns { .. } => "time_slicing",
        }
    }

    pub(crate) fn evidence(self) -> Evidence {
        match self {
            Self::Instance { above } => Evidence::new("time_above_target", above, "1"),
            Self::Beside { load } | Self::InTurns { load } => Evidence::new("load", load, "1"),
        }
    }

    /// Why so many tasks fit.
    pub(crate) fn reason(self, parts: usize) -> String {
        let (load, why) = match self {
            Self::Instance { above } => {
                return format!(
                    "Its task fits one of {parts} instances, and is above {} of it for {} of the time, in means of 10 \
                     seconds.",
                    percent(MAX_UTILIZATION),
                    seldom(above),
                );
            }
            Self::Beside { load } => (load, "or less for 99% of the time, in means of 10 seconds"),
            Self::InTurns { load } => (load, "on average, without hours in which nothing runs"),
        };
        let load = percent(load);
        format!(
            "It is at {load} {why}, so {parts} such tasks fit, if they do not slow one another."
        )
    }
}

/// A part of a GPU that its task fits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    /// Number of such parts.
    pub(crate) parts: usize,
    /// The share of the GPU that it is.
    pub(crate) kept: f64,
    pub(crate) fit: Fit,
}

/// Finds the smallest part of the GPU that fits its task, with this share of the memory at its peak. Of the load, `part`
/// counts. An instance of MIG takes as many times as long as it is smaller, at most, so its replay is a promise.
pub(crate) fn divide(
    gpu: &Gpu,
    share: f64,
    replay: &Replay<'_>,
    part: f64,
    is_burst: bool,
) -> Option<Part> {
    let most = if is_burst { BURSTS } else { ABOVE };
    let slices = Model::of(&gpu.model).map_or(0, |model| model.mig_slices);
    let instances = match slices {
        7 => &SEVENTHS[..],
        4 => &QUARTERS,
        _ => &[],
    };
    let above = |compute: f64| replay.above(compute / part.max(SMALLEST), MAX_UTILIZATION);
    let fits = |instance: &&(f64, f64)| {
        // Instances have some percent less than their part.
        share <= NEARLY_FULL * NEARLY_FULL * instance.1 && above(instance.0) <= most
    };
    let instance = instances
        .iter()
        .find(fits)
        .map(|(compute, memory)| (compute.max(*memory), Fit::Instance { above: above(*compute) }));
    let beside = || {
        let load = if is_burst { in_use(gpu) } else { part * replay.exceeded(most) };
        let fit = if is_burst { Fit::InTurns { load } } else { Fit::Beside { load } };
        (f64::max(share / NEARLY_FULL, load / MAX_UTILIZATION), fit)
    };
    let of = |(kept, fit): (f64, Fit)| {
        let parts = if kept > 0.0 { (1.0 / kept) as usize } else { 0 };
        (parts >= 2).then_some(Part { parts: parts.min(MAX_PARTS), kept, fit })
    };
    instance.and_then(of).or_else(|| of(beside()).filter(|_| share <= SMALL_MEMORY))
}

/// The mean load of a GPU, without hours in which nothing runs.
fn in_use(gpu: &Gpu) -> f64 {
    let observed = gpu.accounts.observed();
    let used = observed.seconds - gpu.activity.hours_seconds;
    observed.level() * observed.seconds / used.max(1.0)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{load, steady, window};

    use super::*;

    /// How a task with these loads fits, on this model.
    fn found(model: &str, share: f64, loads: &[(u32, f64)], is_burst: bool) -> Option<Part> {
        let level = loads.iter().map(|(percent, seconds)| f64::from(*percent) * seconds / 100.0);
        let level = level.sum::<f64>() / loads.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let gpu = Gpu { model: model.to_owned(), ..steady(3_600, level) };
        let mut window = window(vec![gpu]);
        window.load = vec![load(&["GPU-0"], loads)];
        let gpu = &window.gpus[0];
        divide(gpu, share, &Replay::of(&[gpu], &window)?, 1.0, is_burst)
    }

    #[test]
    fn instances_of_mig_carry_what_the_replay_shows() {
        let h100 = |share, loads: &[(u32, f64)], is_burst| {
            found("NVIDIA H100 80GB HBM3", share, loads, is_burst)
        };
        let part = h100(0.1, &[(11, 3_600.0)], false).unwrap();
        assert_eq!((part.parts, part.fit), (7, Fit::Instance { above: 0.0 }));
        let seldom = h100(0.1, &[(11, 3_582.0), (60, 18.0)], false).unwrap();
        assert_eq!((seldom.parts, seldom.fit), (7, Fit::Instance { above: 0.005 }));
        // 4% of the time is too much for a steady load, and not for bursts.
        let loads = [(0, 3_456.0), (90, 144.0)];
        assert_eq!(h100(0.1, &loads, true).unwrap().fit, Fit::Instance { above: 0.04 });
        assert_eq!(h100(0.1, &loads, false), None, "no part carries 90%");
    }

    #[test]
    fn what_no_instance_carries_is_shared_on_trial() {
        // Busy for a tenth of the time, as no instance is fast enough for.
        let bursts = [(0, 3_240.0), (90, 360.0)];
        let part = found("NVIDIA H100 80GB HBM3", 0.35, &bursts, true).unwrap();
        assert_eq!(part.parts, 2, "memory decides");
        assert!(
            matches!(part.fit, Fit::InTurns { load } if (load - 0.09).abs() < 1e-9),
            "{part:?}"
        );
        assert_eq!(part.fit.lever(Vendor::Nvidia), "time_slicing");
        let part =
            found("NVIDIA H100 80GB HBM3", 0.15, &[(20, 2_700.0), (38, 900.0)], false).unwrap();
        assert_eq!((part.parts, part.fit), (2, Fit::Beside { load: 0.38 }));
        assert_eq!(
            [Vendor::Nvidia, Vendor::Amd].map(|it| part.fit.lever(it)),
            ["mps", "time_slicing"]
        );
        assert_eq!(found("NVIDIA H100 80GB HBM3", 0.6, &bursts, true), None, "memory for one only");
        assert_eq!(found("NVIDIA A10G", 0.35, &bursts, true).unwrap().parts, 2, "without MIG");
    }
}
