//! What recommendations leave of the waste of a GPU.

use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::NANOS_PER_HOUR;
use phasemeter_meter::waste::WasteCategory;
use phasemeter_savings::coverage::{Change, Wasted};

use super::MeteredGpu;
use crate::input::GpuInput;
use crate::policies::Recommendation;

/// Share of its own bill from which a GPU is named: 1 in 100.
const NAMED_FROM: i128 = 100;

/// The waste of a GPU in one category, beyond what recommendations cover: in nano-dollars, or in nanoseconds without
/// a price.
pub(super) struct Left<'a> {
    pub(super) gpu: &'a GpuInput<'a>,
    pub(super) summary: &'a Summary,
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
        Self { gpu, summary, bill: wasted.bill(), waste: (all - covered).max(0), all }
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
        let time = self.summary.accounts.all().time.0 as f64 / NANOS_PER_HOUR as f64;
        self.waste as f64 / self.bill.max(1) as f64 * time
    }
}
