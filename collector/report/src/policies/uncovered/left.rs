//! What recommendations leave of the waste of a GPU.

use phasemeter_meter::summary::Summary;
use phasemeter_meter::waste::WasteCategory;
use phasemeter_savings::coverage::Wasted;

use crate::input::GpuInput;
use crate::policies::{MeteredGpu, Recommendation};

/// Share of its own bill from which a GPU is named: 1 in 100.
const NAMED_FROM: i128 = 100;

/// The waste of a GPU in one category, beyond what recommendations cover: in nano-dollars, or in nanoseconds without
/// a price.
pub(super) struct Left<'a> {
    pub(super) gpu: &'a GpuInput<'a>,
    pub(super) summary: &'a Summary,
    wasted: Wasted<'a>,
    pub(super) bill: i128,
    /// What recommendations leave of `all`.
    pub(super) waste: i128,
    /// What recommendations are about that need no trial.
    pub(super) advised: i128,
    all: i128,
}

impl<'a> Left<'a> {
    pub(super) fn of(
        category: WasteCategory,
        (gpu, summary): MeteredGpu<'a>,
        recommendations: &[Recommendation],
    ) -> Self {
        let wasted = Wasted::of(summary, gpu.price.is_ok());
        let all = wasted.in_category(category);
        let own = recommendations.iter().filter(|it| it.gpus.contains(&gpu.identity.name));
        let (mut advised, mut covered) = (0, 0);
        for it in own {
            let Some(change) = it.change() else { continue };
            let part = wasted.covered(category, &change).min(all);
            covered = covered.max(part);
            if it.open_trial().is_none() {
                advised = advised.max(part);
            }
        }
        let waste = (all - covered).max(0);
        Self { gpu, summary, wasted, bill: wasted.bill(), waste, advised, all }
    }

    /// What only trials are about.
    pub(super) const fn on_trial(&self) -> i128 {
        self.all - self.waste - self.advised
    }

    pub(super) fn id(&self) -> &str {
        &self.gpu.identity.name
    }

    /// Whether it has a part of the waste that matters.
    pub(super) const fn is_named(&self) -> bool {
        self.waste * NAMED_FROM > self.bill
    }

    /// Whether recommendations cover a part of it.
    pub(super) const fn is_rest(&self) -> bool {
        self.waste < self.all
    }

    /// The waste as time at the mean rate of the GPU.
    pub(super) fn hours(&self) -> f64 {
        self.wasted.hours(self.waste)
    }
}
