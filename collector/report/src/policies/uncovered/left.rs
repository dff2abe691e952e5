//! What recommendations leave of the waste of a GPU.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::PatternKind;
use phasemeter_meter::phase::Account;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::NANOS_PER_HOUR;
use phasemeter_meter::waste::WasteCategory;
use phasemeter_rules::lever::Lever;

use super::MeteredGpu;
use crate::input::GpuInput;
use crate::policies::{Range, Recommendation};

/// Full utilization, in ppm.
const FULL_PPM: u128 = 1_000_000;

/// Share of its own bill from which a GPU is named: 1 in 100.
const NAMED_FROM: i128 = 100;

/// How many times the high saving of a trial reaches the waste that it is about.
const TRIAL_COVERS: i128 = 3;

/// Expected saving, relative to the high one, up to which a saving is a trial: hours that are
/// stopped are known.
const TRIAL_EXPECTS: f64 = 0.9;

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
        let own = recommendations.iter().filter(|it| it.gpus.contains(&gpu.identity.name));
        let covered = own.map(|it| covered(it, category, gpu, summary)).max().unwrap_or(0);
        let all = waste(category, gpu, summary);
        Self { gpu, summary, bill: bill(gpu, summary), waste: (all - covered).max(0), all }
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

fn bill(gpu: &GpuInput<'_>, summary: &Summary) -> i128 {
    let all = summary.accounts.all();
    if gpu.price.is_ok() { all.cost.0 } else { i128::from(all.time.0) }
}

fn waste(category: WasteCategory, gpu: &GpuInput<'_>, summary: &Summary) -> i128 {
    if gpu.price.is_ok() { summary.waste[category].0 } else { lost_time(category, summary) }
}

/// The part of the waste of this category that a recommendation is about. Of a saving that is certain, that is the
/// time it returns, and the rest is other time; one that needs a trial is about all of it, if it may save a third. A
/// diagnosis is about all of it; more work for GPUs that are kept, without a number, about none. A risk comes first,
/// but what is wasted until then is still to be reported.
fn covered(
    it: &Recommendation,
    category: WasteCategory,
    gpu: &GpuInput<'_>,
    summary: &Summary,
) -> i128 {
    let of = |category| waste(category, gpu, summary);
    // The load of a GPU that is idle now and then, and works below capacity otherwise, moves as a whole.
    let before = if it.target == category.name() {
        0
    } else if category == WasteCategory::Idle
        && it.target == WasteCategory::Underload.name()
        && it.lever.parse().is_ok_and(Lever::ends_idle_time)
    {
        of(WasteCategory::Underload)
    } else {
        return 0;
    };
    let own = of(category);
    let Range { low, expected, high } = it.saving_fraction;
    let is_trial = low <= 0.0 && expected <= TRIAL_EXPECTS * high;
    let bill = NanoUsd(bill(gpu, summary));
    let most = Fraction::new(high).map_or(0, |high| high.part_of(bill).0);
    match it.kind {
        "risk" => 0,
        "capacity" if most == 0 => 0,
        _ if most == 0 => own,
        _ if is_trial && TRIAL_COVERS * most >= before + own => own,
        _ => (most - before).max(0),
    }
}

/// Observed time without its effective part, in nanoseconds: of a bouncing GPU all starvation, as the policies
/// count it.
fn lost_time(category: WasteCategory, summary: &Summary) -> i128 {
    let is_bouncing = summary.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Bouncing);
    let of = |account: &Account| match account {
        _ if is_bouncing => WasteCategory::Starvation,
        Account::IdleHeld | Account::IdleFree | Account::IdleUnknown => WasteCategory::Idle,
        _ => WasteCategory::Underload,
    };
    let accounts = Account::OBSERVED.iter().filter(|account| of(account) == category);
    let lost = accounts.map(|account| {
        let balance = summary.accounts[*account];
        let effective = balance.weighted / FULL_PPM;
        i128::from(balance.time.0) - i128::try_from(effective).unwrap_or(i128::MAX)
    });
    lost.sum()
}
