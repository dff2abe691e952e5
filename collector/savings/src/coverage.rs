//! The part of the waste of a GPU that a recommendation is about.

use super::fraction::Fraction;
use super::recommendation::{Saving, Target};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::PatternKind;
use phasemeter_meter::phase::Account;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::NANOS_PER_HOUR;
use phasemeter_meter::waste::WasteCategory;

/// Full utilization, in ppm.
const FULL_PPM: u128 = 1_000_000;

/// How many times the high saving of a trial reaches the waste that it is about.
const TRIAL_COVERS: i128 = 3;

/// Expected saving, relative to the high one, up to which a saving is a trial: hours that are
/// stopped are known.
const TRIAL_EXPECTS: f64 = 0.9;

/// What a recommendation would change. A risk covers no waste: it comes first, but what is wasted until then is still
/// to be reported.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Its target.
    pub target: Target,
    /// The saving, as a fraction of the bill of its GPUs.
    pub saving: Saving,
    /// Whether it reduces the bill. If not, it frees capacity.
    pub is_saving: bool,
    /// Whether it returns GPUs, or gives them to other work: their idle time ends with it.
    pub ends_idle_time: bool,
}

/// The bill and the waste of a GPU: in nano-dollars, or in nanoseconds if it has no price.
#[derive(Clone, Copy, Debug)]
pub struct Wasted<'a> {
    summary: &'a Summary,
    is_priced: bool,
}

impl<'a> Wasted<'a> {
    /// Of the GPU with this summary.
    #[must_use]
    pub const fn of(summary: &'a Summary, is_priced: bool) -> Self {
        Self { summary, is_priced }
    }

    /// What all of its time costs.
    #[must_use]
    pub fn bill(self) -> i128 {
        let all = self.summary.accounts.all();
        if self.is_priced { all.cost.0 } else { i128::from(all.time.0) }
    }

    /// Its waste in a category.
    #[must_use]
    pub fn in_category(self, category: WasteCategory) -> i128 {
        if self.is_priced { self.summary.waste[category].0 } else { self.lost_time(category) }
    }

    /// Waste as time, in hours at the mean rate of the GPU.
    #[must_use]
    pub fn hours(self, waste: i128) -> f64 {
        let time = self.summary.accounts.all().time.0 as f64 / NANOS_PER_HOUR as f64;
        waste as f64 / self.bill().max(1) as f64 * time
    }

    /// The waste that a change is about, in all categories.
    #[must_use]
    pub fn at_stake(self, change: &Change) -> i128 {
        WasteCategory::ALL.into_iter().map(|category| self.covered(category, change)).sum()
    }

    /// The part of the waste in a category that a change is about. Of a saving that is certain, that is the time it
    /// returns, and the rest is other time; one that needs a trial is about all of it, if it may save a third. A
    /// diagnosis is about all of it; more work for GPUs that are kept, without a number, about none.
    #[must_use]
    pub fn covered(self, category: WasteCategory, change: &Change) -> i128 {
        // The load of a GPU that is idle now and then, and works below capacity otherwise, moves as a whole.
        let before = match change.target {
            Target::Waste(target) if target == category => 0,
            Target::Waste(WasteCategory::Underload)
                if category == WasteCategory::Idle && change.ends_idle_time =>
            {
                self.in_category(WasteCategory::Underload)
            }
            _ => return 0,
        };
        let own = self.in_category(category);
        let most = change.saving.high.part_of(NanoUsd(self.bill())).0;
        let saving = change.saving.map(Fraction::as_f64);
        let is_trial = saving.low <= 0.0 && saving.expected <= TRIAL_EXPECTS * saving.high;
        match most {
            0 if change.is_saving => own,
            0 => 0,
            _ if is_trial && TRIAL_COVERS * most >= before + own => own,
            _ => (most - before).max(0),
        }
    }

    /// Observed time without its effective part, in nanoseconds: of a bouncing GPU all starvation, as the policies
    /// count it.
    fn lost_time(self, category: WasteCategory) -> i128 {
        let is_bouncing =
            self.summary.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Bouncing);
        let of = |account: &Account| match account {
            _ if is_bouncing => WasteCategory::Starvation,
            Account::IdleHeld | Account::IdleFree | Account::IdleUnknown => WasteCategory::Idle,
            _ => WasteCategory::Underload,
        };
        let accounts = Account::OBSERVED.iter().filter(|account| of(account) == category);
        let lost = accounts.map(|account| {
            let balance = self.summary.accounts[*account];
            let effective = balance.weighted / FULL_PPM;
            i128::from(balance.time.0) - i128::try_from(effective).unwrap_or(i128::MAX)
        });
        lost.sum()
    }
}
