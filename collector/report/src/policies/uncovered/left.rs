//! What recommendations leave of the waste of a GPU.

use phasemeter_meter::summary::Summary;
use phasemeter_meter::waste::WasteCategory;
use phasemeter_savings::coverage::{Change, Wasted};

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
    all: i128,
}

impl<'a> Left<'a> {
    pub(super) fn of(
        category: WasteCategory,
        (gpu, summary): MeteredGpu<'a>,
        recommendations: &[Recommendation],
    ) -> Self {
        let wasted = Wasted::of(summary, gpu.price.is_ok());
        let own = recommendations.iter().filter(|it| it.gpus.contains(&gpu.identity.name));
        let changes: Vec<Change> = own.filter_map(Recommendation::change).collect();
        let covered = changes.iter().map(|it| wasted.covered(category, it)).max().unwrap_or(0);
        let all = wasted.in_category(category);
        Self { gpu, summary, wasted, bill: wasted.bill(), waste: (all - covered).max(0), all }
    }

    /// What recommendations are about.
    pub(super) const fn covered(&self) -> i128 {
        self.all - self.waste
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
