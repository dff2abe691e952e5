//! What a GPU of a window says in sums: its bill, its waste as shares of it, how sure one can be.
//!
//! Shares are of the bill. A GPU without a price has none; its shares are of its time, which at
//! any one rate is the same. This room must not know what anyone advises.

use crate::column::peak;
use crate::words::{count, duration};
use crate::{Account, Accounts, Gpu, PatternKind, Window, log};

/// In how long a time what was seen can be taken for the rule: an hour.
const SURE_AFTER_SECONDS: f64 = 3_600.0;

impl Accounts {
    /// The three idle accounts, as one.
    #[must_use]
    pub fn idle(&self) -> Account {
        sum([self.idle_held, self.idle_free, self.idle_unknown])
    }

    /// Where the GPU worked: everything that was observed, and not idle.
    #[must_use]
    pub fn busy(&self) -> Account {
        sum([self.underutilized, self.productive, self.compute_bound])
    }

    /// Everything that was observed.
    #[must_use]
    pub fn observed(&self) -> Account {
        sum([self.idle(), self.busy()])
    }
}

fn sum<const N: usize>(accounts: [Account; N]) -> Account {
    let zero = Account { seconds: 0.0, effective_seconds: 0.0, cost: 0, effective_cost: 0 };
    accounts.iter().fold(zero, |sum, account| Account {
        seconds: sum.seconds + account.seconds,
        effective_seconds: sum.effective_seconds + account.effective_seconds,
        cost: sum.cost.saturating_add(account.cost),
        effective_cost: sum.effective_cost.saturating_add(account.effective_cost),
    })
}

impl Account {
    /// Mean utilization in it, 0–1; 0 where no time was spent.
    #[must_use]
    pub fn level(&self) -> f64 {
        ratio(self.effective_seconds, self.seconds)
    }
}

impl Gpu {
    /// What it cost, all of it: nano-USD.
    #[must_use]
    pub fn bill(&self) -> u64 {
        self.accounts.observed().cost.saturating_add(self.accounts.unobserved.cost)
    }

    /// How much it counts among others: its bill, or its time where nobody has a price.
    #[must_use]
    pub fn weight(&self) -> f64 {
        if self.price.is_some() {
            self.bill() as f64
        } else {
            self.accounts.observed().seconds + self.accounts.unobserved.seconds
        }
    }

    /// The share of its observed time that it spent in an account.
    pub fn share(&self, account: impl Fn(&Accounts) -> Account) -> f64 {
        ratio(account(&self.accounts).seconds, self.accounts.observed().seconds)
    }

    /// The share of the bill that was lost in stretches that wait for input.
    #[must_use]
    pub fn lost_starving(&self) -> f64 {
        self.lost(
            self.waste.starvation,
            |gpu| if gpu.bounces() { gpu.lost_seconds().1 } else { 0.0 },
        )
    }

    /// The share of the bill that was lost in idle time elsewhere.
    #[must_use]
    pub fn lost_idle(&self) -> f64 {
        self.lost(self.waste.idle, |gpu| if gpu.bounces() { 0.0 } else { gpu.lost_seconds().0 })
    }

    /// The share of the bill that was lost while it worked and was not filled.
    #[must_use]
    pub fn lost_unfilled(&self) -> f64 {
        self.lost(self.waste.occupancy, |gpu| {
            let (idle, all) = gpu.lost_seconds();
            if gpu.bounces() { 0.0 } else { all - idle }
        })
    }

    /// Whether it waits for its input.
    #[must_use]
    pub fn bounces(&self) -> bool {
        self.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Bouncing)
    }

    /// The most memory that was in use, in bytes; `None` where there was no such column.
    #[must_use]
    pub fn memory_peak(&self) -> Option<f64> {
        peak(&self.memory)
    }

    /// The same, as a share of all its memory.
    #[must_use]
    pub fn memory_share(&self) -> Option<f64> {
        let total = self.memory_total_bytes.filter(|total| *total > 0)?;
        Some(self.memory_peak()? / total as f64)
    }

    /// How far what was seen can be trusted to be the rule, 0–1: the part of its time that was
    /// observed, and of an hour as much as there was.
    #[must_use]
    pub fn certainty(&self) -> f64 {
        let observed = self.accounts.observed().seconds;
        let covered = ratio(observed, observed + self.accounts.unobserved.seconds);
        covered * (observed / SURE_AFTER_SECONDS).clamp(0.0, 1.0)
    }

    fn lost(&self, waste: u64, seconds: impl Fn(&Self) -> f64) -> f64 {
        let lost = if self.price.is_some() { waste as f64 } else { seconds(self) };
        ratio(lost, self.weight()).clamp(0.0, 1.0)
    }

    /// Seconds lost while idle, and seconds lost in all.
    fn lost_seconds(&self) -> (f64, f64) {
        let (idle, all) = (self.accounts.idle(), self.accounts.observed());
        (idle.seconds - idle.effective_seconds, all.seconds - all.effective_seconds)
    }
}

impl Window {
    /// The GPUs of which enough was seen to say anything: observed for at least so long, and
    /// moving in a way that can be told. How many there are of the others is logged.
    #[must_use]
    pub fn seen(&self, least_seconds: f64) -> Vec<&Gpu> {
        let seen = self.gpus.iter().filter(|gpu| {
            gpu.pattern.is_some() && gpu.accounts.observed().seconds >= least_seconds
        });
        let seen: Vec<_> = seen.collect();
        let others = self.gpus.len() - seen.len();
        if others > 0 {
            let words = [
                count(others, "GPU"),
                " not judged: observed for less than ".to_owned(),
                duration(least_seconds),
                ", or too little to tell how the load moves".to_owned(),
            ];
            log::info(&words.concat());
        }
        seen
    }
}

/// Puts what is alike together: each item with the first group whose first member it is like.
pub fn groups<T>(
    items: impl IntoIterator<Item = T>,
    alike: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| alike(&group[0], &item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Whether two spellings name one model: they differ at most in case, and in the `NVIDIA ` that old
/// drivers leave out.
#[must_use]
pub fn same_model(one: &str, other: &str) -> bool {
    bare(one).eq_ignore_ascii_case(bare(other))
}

fn bare(model: &str) -> &str {
    const VENDOR: &str = "NVIDIA ";
    match model.trim().split_at_checked(VENDOR.len()) {
        Some((vendor, rest)) if vendor.eq_ignore_ascii_case(VENDOR) => rest,
        _ => model.trim(),
    }
}

/// 0 where there is nothing to divide by.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bouncing, steady};

    #[test]
    fn shares_are_the_same_with_and_without_a_price() {
        for priced in [bouncing(3_600, 40, 0.6), steady(3_600, 0.5), steady(3_600, 0.05)] {
            let unpriced = crate::testing::unpriced(priced.clone());
            let shares = |gpu: &Gpu| [gpu.lost_starving(), gpu.lost_idle(), gpu.lost_unfilled()];
            for (with, without) in shares(&priced).into_iter().zip(shares(&unpriced)) {
                assert!((with - without).abs() < 1e-9, "{with} {without}");
            }
        }
    }

    #[test]
    fn half_an_hour_is_half_as_sure_as_an_hour() {
        assert_eq!(steady(3_600, 0.5).certainty(), 1.0);
        assert_eq!(steady(1_800, 0.5).certainty(), 0.5);
        assert_eq!(steady(0, 0.5).certainty(), 0.0);
    }

    #[test]
    fn a_model_is_itself_in_any_spelling_and_no_other() {
        assert!(same_model("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"));
        for other in ["", "A100", "NVIDIA A100-SXM4-40GB", "NVIDIÄ A100-SXM4-80GB"] {
            assert!(!same_model("NVIDIA A100-SXM4-80GB", other), "{other}");
        }
    }

    #[test]
    fn what_is_alike_stands_together() {
        let found = groups([1, 2, 11, 3, 12], |a, b| i32::abs(a - b) < 5);
        assert_eq!(found, [vec![1, 2, 3], vec![11, 12]]);
    }
}
