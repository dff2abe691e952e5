//! Waste by category: each second's waste is in exactly one.
//!
//! Starvation is the waste in bouncing stretches, during which a GPU waits for input; idle is the
//! waste of idle seconds elsewhere; underload is the rest. Whether a second lies in a bouncing
//! stretch is known only once the next cycle ends, so its waste is kept in a tail until then.

use std::ops::Index;

use crate::accounts::{Accounts, Charge};
use crate::money::{NanoUsd, Rate};
use crate::pattern::CycleChange;
use crate::phase::{Account, Phase};
use crate::units::{Nanos, Timestamp};

/// The cause of waste.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WasteCategory {
    /// Waste in bouncing stretches: the GPU waited for input.
    Starvation,
    /// Waste of idle seconds elsewhere.
    Idle,
    /// All other waste: the GPU worked below capacity.
    Underload,
}

impl WasteCategory {
    /// All categories, in report order.
    pub const ALL: [Self; 3] = [Self::Starvation, Self::Idle, Self::Underload];

    /// The name in reports and telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starvation => "starvation",
            Self::Idle => "idle",
            Self::Underload => "underload",
        }
    }
}

/// Waste per category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WasteByCategory {
    /// Waste in bouncing stretches.
    pub starvation: NanoUsd,
    /// Waste of idle seconds elsewhere.
    pub idle: NanoUsd,
    /// All other waste.
    pub underload: NanoUsd,
}

impl WasteByCategory {
    /// The sum of all categories.
    #[must_use]
    pub fn sum(&self) -> NanoUsd {
        WasteCategory::ALL.into_iter().map(|category| self[category]).sum()
    }
}

impl Index<WasteCategory> for WasteByCategory {
    type Output = NanoUsd;

    fn index(&self, category: WasteCategory) -> &NanoUsd {
        match category {
            WasteCategory::Starvation => &self.starvation,
            WasteCategory::Idle => &self.idle,
            WasteCategory::Underload => &self.underload,
        }
    }
}

/// Splits charges into those inside and outside bouncing stretches.
#[derive(Clone, Debug, Default)]
pub struct WasteClassifier {
    /// Start and current end of the stretch in progress.
    stretch: Option<(Timestamp, Timestamp)>,
    /// Charges inside finished stretches.
    starved: Accounts,
    /// Charges inside the stretch in progress.
    inside: Accounts,
    /// Charges after its current end: inside if another cycle follows.
    tail: Accounts,
}

impl WasteClassifier {
    /// Posts a charge. A second belongs to the stretch in which it begins.
    pub fn post(&mut self, charge: &Charge) {
        let Some((from, to)) = self.stretch else { return };
        let second = charge.slice.from.floor_second();
        if charge.slice.account == Account::Unobserved || second < from {
        } else if second < to {
            self.inside.post(charge);
        } else {
            self.tail.post(charge);
        }
    }

    /// Applies a cycle change. `confirmed`: the stretch ending here is a bouncing stretch.
    pub fn apply(&mut self, change: CycleChange, confirmed: bool) {
        match change {
            CycleChange::StretchStarted(at) => {
                self.starved = self.starved(confirmed);
                self.inside = Accounts::default();
                self.tail = Accounts::default();
                self.stretch = Some((at, at));
            }
            CycleChange::StretchExtended(at) => {
                self.inside += &self.tail;
                self.tail = Accounts::default();
                if let Some((_, to)) = &mut self.stretch {
                    *to = at;
                }
            }
        }
    }

    /// Prices all charges so far at this rate.
    pub(crate) fn price(&mut self, rate: Rate) {
        for accounts in [&mut self.starved, &mut self.inside, &mut self.tail] {
            *accounts = accounts.at_rate(rate, Nanos::ZERO);
        }
    }

    /// Splits the waste of `total`, the charges posted since `earlier`, by category, as if the
    /// stretch in progress ended now. The categories sum to that waste. Every cycle change since
    /// must have been applied to `earlier`, too.
    #[must_use]
    pub fn by_category_since(
        &self,
        earlier: &Self,
        total: &Accounts,
        confirmed: bool,
    ) -> WasteByCategory {
        let starved = self.starved(confirmed).since(&earlier.starved(confirmed));
        let mut waste = WasteByCategory::default();
        for account in Account::OBSERVED {
            let all = total[account].waste();
            let inside = starved[account].waste().min(all);
            waste.starvation += inside;
            if account.phase() == Some(Phase::Idle) {
                waste.idle += all - inside;
            } else {
                waste.underload += all - inside;
            }
        }
        waste
    }

    fn starved(&self, confirmed: bool) -> Accounts {
        let mut starved = self.starved;
        if confirmed {
            starved += &self.inside;
        }
        starved
    }
}
