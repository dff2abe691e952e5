//! One fleet, audited and replayed: what each recommendation promised, and what it truly saves.

use crate::action::Action;
use crate::fleet::Fleet;
use crate::log::uuid;
use crate::replay::together;
use crate::report::{Fractions, Recommendation, Report, ReportedGpu};

/// A recommendation of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) code: String,
    pub(crate) promised: Fractions,
    /// The expected saving in dollars.
    pub(crate) expected_usd: f64,
    pub(crate) confidence: f64,
    /// The saved share of the bill of its GPUs.
    pub(crate) truth: f64,
    /// Width of the promise, relative to the waste of its category.
    pub(crate) width: f64,
    /// Whether it is a saving in dollars that a replay promises.
    pub(crate) is_replayed: bool,
    /// Whether it reduces waste; the others change prices or arithmetic.
    pub(crate) is_use: bool,
}

/// All recommendations of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    pub(crate) workload: &'static str,
    pub(crate) cases: Vec<Case>,
    /// Codes without an action that can be simulated, and their expected savings in dollars.
    pub(crate) ignored: Vec<(String, f64)>,
    /// Dollars that could be saved by better use, and those that the recommendations save.
    pub(crate) recoverable: f64,
    pub(crate) addressed: f64,
}

impl Replayed {
    pub(crate) fn of(fleet: &Fleet, report: &Report) -> Self {
        let recoverable = fleet.recoverable();
        let mut addressed = vec![[0.0_f64; 3]; recoverable.len()];
        let (mut cases, mut ignored) = (Vec::new(), Vec::new());
        for it in &report.recommendations {
            // A risk, or a profile, promises no saving.
            if it.kind == "risk" || it.saving_fraction.high <= 0.0 {
                continue;
            }
            let Some(action) = Action::of(it) else {
                let cost = it.cost(&report.gpus);
                ignored.push((it.code.clone(), it.saving_fraction.expected * cost));
                continue;
            };
            let gpus: Vec<_> = (0..fleet.traces.len()).filter(|gpu| it.is_for(*gpu)).collect();
            let saved = fleet.saved(action, &gpus);
            if let Some(waste) = action.waste() {
                for (gpu, saved) in gpus.iter().zip(&saved) {
                    let best =
                        addressed.get_mut(*gpu).and_then(|best| best.get_mut(waste as usize));
                    if let Some(best) = best {
                        *best = best.max(*saved);
                    }
                }
            }
            let truth = saved.iter().sum::<f64>() / saved.len().max(1) as f64;
            cases.push(Case::new(it, truth, &report.gpus));
        }
        let bill = fleet.bill();
        let pairs = recoverable.iter().zip(addressed);
        let addressed: f64 = pairs.map(|(most, best)| together(best).min(*most)).sum();
        Self {
            workload: fleet.workload(),
            cases,
            ignored,
            recoverable: bill * recoverable.iter().sum::<f64>(),
            addressed: bill * addressed,
        }
    }
}

impl Recommendation {
    fn is_for(&self, gpu: usize) -> bool {
        self.gpus.contains(&uuid(gpu))
    }

    /// The GPUs that it is for.
    fn own<'a>(&'a self, gpus: &'a [ReportedGpu]) -> impl Iterator<Item = &'a ReportedGpu> {
        gpus.iter().filter(|gpu| self.gpus.contains(&gpu.id))
    }

    /// Their bill in dollars.
    fn cost(&self, gpus: &[ReportedGpu]) -> f64 {
        self.own(gpus).map(ReportedGpu::cost).sum()
    }
}

impl Case {
    fn new(it: &Recommendation, truth: f64, gpus: &[ReportedGpu]) -> Self {
        let cost = it.cost(gpus);
        let waste: f64 = it.own(gpus).map(|gpu| gpu.waste(&it.target)).sum();
        let width = it.saving_fraction.high - it.saving_fraction.low;
        Self {
            code: it.code.clone(),
            promised: it.saving_fraction,
            expected_usd: it.saving_fraction.expected * cost,
            confidence: it.confidence,
            truth,
            is_replayed: it.kind == "saving" && it.proof.as_deref() == Some("replay"),
            width: width * cost / waste.max(0.001 * cost),
            is_use: !matches!(it.target.as_str(), "rate" | "throughput"),
        }
    }
}
