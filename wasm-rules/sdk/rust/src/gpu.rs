//! Summarizes a GPU of a window: its bill, its waste as shares of the bill, and a confidence.
//!
//! An unpriced GPU has no bill, so its shares are of its time, which are the same at any constant
//! rate.

use crate::column::peak;
use crate::format::{count, duration};
use crate::{Account, Accounts, Gpu, PatternKind, Pauses, Window, log};

/// Observed time from which confidence is not reduced: one hour.
const FULL_CONFIDENCE_SECONDS: f64 = 3_600.0;

impl Accounts {
    /// Sums the three idle accounts.
    #[must_use]
    pub fn idle(&self) -> Account {
        sum([self.idle_held, self.idle_free, self.idle_unknown])
    }

    /// Sums the accounts in which the GPU worked: observed and not idle.
    #[must_use]
    pub fn busy(&self) -> Account {
        sum([self.underutilized, self.productive, self.compute_bound])
    }

    /// Sums all observed accounts.
    #[must_use]
    pub fn observed(&self) -> Account {
        sum([self.idle(), self.busy()])
    }

    /// Returns the time of [`observed`](Self::observed): sums of all fields take several times as long.
    fn observed_seconds(&self) -> f64 {
        let idle = self.idle_held.seconds + self.idle_free.seconds + self.idle_unknown.seconds;
        idle + (self.underutilized.seconds + self.productive.seconds + self.compute_bound.seconds)
    }
}

fn sum<const N: usize>(accounts: [Account; N]) -> Account {
    let zero = Account { seconds: 0.0, effective_seconds: 0.0, cost: 0, utilized_cost: 0 };
    accounts.iter().fold(zero, |sum, account| Account {
        seconds: sum.seconds + account.seconds,
        effective_seconds: sum.effective_seconds + account.effective_seconds,
        cost: sum.cost.saturating_add(account.cost),
        utilized_cost: sum.utilized_cost.saturating_add(account.utilized_cost),
    })
}

impl Account {
    /// Returns the mean utilization, 0–1; 0 if the account is empty.
    #[must_use]
    pub fn level(&self) -> f64 {
        ratio(self.effective_seconds, self.seconds)
    }
}

impl Pauses {
    /// Returns their mean length in seconds; 0 if there are none.
    #[must_use]
    pub fn mean_seconds(&self) -> f64 {
        ratio(self.quiet.seconds, f64::from(self.count))
    }

    /// Returns the share of their time in which a process or memory held the GPU.
    #[must_use]
    pub fn held_share(&self) -> f64 {
        ratio(self.quiet.held_seconds, self.quiet.seconds)
    }
}

impl Gpu {
    /// Returns the name of the GPU in texts: its ID, or `GPU 3` if that is only an index.
    #[must_use]
    pub fn name(&self) -> String {
        let is_index = !self.id.is_empty() && self.id.bytes().all(|byte| byte.is_ascii_digit());
        [if is_index { "GPU " } else { "" }, &*self.id].concat()
    }

    /// Returns an attribute of the GPU.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Returns its node: the same for GPUs of one machine. Empty if unknown.
    #[must_use]
    pub fn node(&self) -> &str {
        self.attribute("host.name").or_else(|| self.attribute("log.file.name")).unwrap_or_default()
    }

    /// Returns a metric of the GPU.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// Returns the names of what holds it at the end of the window, each once. Containers of a pod have
    /// one name.
    #[must_use]
    pub fn holder_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for holder in self.holders.iter().filter(|holder| holder.is_current) {
            if !names.contains(&holder.name.as_str()) {
                names.push(&holder.name);
            }
        }
        names
    }

    /// Returns whether several hold it, so that it is shared already.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.holder_names().len() > 1
    }

    /// Returns the share of the observed time without work.
    #[must_use]
    pub fn quiet_share(&self) -> f64 {
        ratio(self.activity.quiet.seconds, self.accounts.observed_seconds())
    }

    /// Returns whether both do the same kind of work on the same model, for the same service.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        self.workload == other.workload
            && same_model(&self.model, &other.model)
            && self.attribute("service.name") == other.attribute("service.name")
    }

    /// Returns the total cost in nano-USD.
    #[must_use]
    pub fn bill(&self) -> u64 {
        self.accounts.observed().cost.saturating_add(self.accounts.unobserved.cost)
    }

    /// Returns the GPU's weight in means: its bill, or its time if it is unpriced.
    #[must_use]
    pub fn weight(&self) -> f64 {
        if self.price.is_some() {
            self.bill() as f64
        } else {
            self.accounts.observed_seconds() + self.accounts.unobserved.seconds
        }
    }

    /// Returns an account's share of the observed time.
    pub fn share(&self, account: impl Fn(&Accounts) -> Account) -> f64 {
        ratio(account(&self.accounts).seconds, self.accounts.observed_seconds())
    }

    /// Returns the share of the bill lost to starvation.
    #[must_use]
    pub fn lost_starvation(&self) -> f64 {
        self.lost(
            self.waste.starvation,
            |gpu| {
                if gpu.is_bouncing() { gpu.lost_seconds().1 } else { 0.0 }
            },
        )
    }

    /// Returns the share of the bill lost to other idle time.
    #[must_use]
    pub fn lost_idle(&self) -> f64 {
        self.lost(self.waste.idle, |gpu| if gpu.is_bouncing() { 0.0 } else { gpu.lost_seconds().0 })
    }

    /// Returns the share of the bill lost while the GPU worked below full load.
    #[must_use]
    pub fn lost_underload(&self) -> f64 {
        self.lost(self.waste.underload, |gpu| {
            let (idle, all) = gpu.lost_seconds();
            if gpu.is_bouncing() { 0.0 } else { all - idle }
        })
    }

    /// Returns the compute-bound share of the observed time, in which the GPU is full.
    #[must_use]
    pub fn full_share(&self) -> f64 {
        self.share(|accounts| accounts.compute_bound)
    }

    /// Returns whether the load is steady.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Steady)
    }

    /// Returns whether the GPU bounces between idle and busy, that is, waits for input.
    #[must_use]
    pub fn is_bouncing(&self) -> bool {
        self.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Bouncing)
    }

    /// Returns the peak memory use of the run in bytes; `None` if it was not recorded. Points of the column are
    /// means, so they may be lower.
    #[must_use]
    pub fn memory_peak(&self) -> Option<f64> {
        let max = self.sensors.memory_in_use.map_or(0.0, |memory| memory.max);
        peak(&self.memory).map(|peak| peak.max(max))
    }

    /// Returns the peak memory use as a share of total memory; `None` if either is unknown.
    #[must_use]
    pub fn memory_share(&self) -> Option<f64> {
        let total = self.memory_total_bytes.filter(|total| *total > 0)?;
        Some(self.memory_peak()? / total as f64)
    }

    /// Returns the confidence that the observed behavior is typical, 0–1: the observed share of the
    /// time, scaled down if less than an hour was observed.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        let observed = self.accounts.observed_seconds();
        let covered = ratio(observed, observed + self.accounts.unobserved.seconds);
        covered * (observed / FULL_CONFIDENCE_SECONDS).clamp(0.0, 1.0)
    }

    fn lost(&self, waste: u64, seconds: impl Fn(&Self) -> f64) -> f64 {
        let lost = if self.price.is_some() { waste as f64 } else { seconds(self) };
        ratio(lost, self.weight()).clamp(0.0, 1.0)
    }

    /// Returns the seconds lost while idle, and in total.
    fn lost_seconds(&self) -> (f64, f64) {
        let (idle, all) = (self.accounts.idle(), self.accounts.observed());
        (idle.seconds - idle.effective_seconds, all.seconds - all.effective_seconds)
    }
}

impl Window {
    /// Returns an attribute of the experiment.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// Returns the time zone of hours in a text: `UTC`, which they are in without an offset, `UTC+2` or `UTC−3:30`.
    #[must_use]
    pub fn time_zone(&self) -> String {
        let minutes = self.utc_offset_seconds.unwrap_or(0) / 60;
        let (hours, rest) = (minutes.unsigned_abs() / 60, minutes.unsigned_abs() % 60);
        let sign = if minutes < 0 { "−" } else { "+" };
        match (hours, rest) {
            (0, 0) => "UTC".to_owned(),
            (hours, 0) => ["UTC", sign, &hours.to_string()].concat(),
            (hours, rest) => {
                let rest = (100 + rest).to_string();
                ["UTC", sign, &hours.to_string(), ":", &rest[1..]].concat()
            }
        }
    }

    /// Returns the GPUs with enough data: a pattern, and at least `min_seconds` observed. Logs how
    /// many were skipped.
    #[must_use]
    pub fn observed_gpus(&self, min_seconds: f64) -> Vec<&Gpu> {
        let observed = self
            .gpus
            .iter()
            .filter(|gpu| gpu.pattern.is_some() && gpu.accounts.observed_seconds() >= min_seconds);
        let observed: Vec<_> = observed.collect();
        let recorded = |gpu: &&Gpu| {
            gpu.accounts.observed_seconds() + gpu.accounts.unobserved.seconds >= min_seconds
        };
        let (long, short): (Vec<_>, Vec<_>) = self.gpus.iter().partition(recorded);
        let unknown = |gpu: &&&Gpu| gpu.accounts.observed_seconds() < min_seconds;
        let unknown = long.iter().filter(unknown).count();
        let unclear = long.len() - unknown - observed.len();
        let lacks = [
            (short.len(), ["recorded for less than ", &*duration(min_seconds)].concat()),
            (unknown, "without a utilization for most of the time".to_owned()),
            (unclear, "without a clear utilization pattern".to_owned()),
        ];
        for (skipped, why) in lacks.iter().filter(|(skipped, _)| *skipped > 0) {
            log::info(&[&*count(*skipped, "GPU"), " skipped: ", why].concat());
        }
        observed
    }
}

/// Returns whether two names denote the same model: case is ignored, and so is the prefix `NVIDIA `,
/// which old drivers omit.
#[must_use]
pub fn same_model(a: &str, b: &str) -> bool {
    a == b || without_vendor(a).eq_ignore_ascii_case(without_vendor(b))
}

fn without_vendor(model: &str) -> &str {
    const VENDOR: &str = "NVIDIA ";
    match model.trim().split_at_checked(VENDOR.len()) {
        Some((vendor, rest)) if vendor.eq_ignore_ascii_case(VENDOR) => rest,
        _ => model.trim(),
    }
}

/// Returns 0 if `whole` is 0.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bouncing, steady, window};

    #[test]
    fn time_zone_is_utc_or_its_difference() {
        let zone = |minutes: Option<i32>| {
            let offset = minutes.map(|minutes| minutes * 60);
            Window { utc_offset_seconds: offset, ..window(Vec::new()) }.time_zone()
        };
        let zones = [None, Some(0), Some(120), Some(-210), Some(345), Some(-30)].map(zone);
        assert_eq!(zones, ["UTC", "UTC", "UTC+2", "UTC−3:30", "UTC+5:45", "UTC−0:30"]);
    }

    #[test]
    fn shares_do_not_depend_on_price() {
        for priced in [bouncing(3_600, 40, 0.6), steady(3_600, 0.5), steady(3_600, 0.05)] {
            let unpriced = crate::testing::unpriced(priced.clone());
            let shares = |gpu: &Gpu| [gpu.lost_starvation(), gpu.lost_idle(), gpu.lost_underload()];
            for (with, without) in shares(&priced).into_iter().zip(shares(&unpriced)) {
                assert!((with - without).abs() < 1e-9, "{with} {without}");
            }
        }
    }

    #[test]
    fn confidence_grows_with_observed_time() {
        assert_eq!(steady(3_600, 0.5).confidence(), 1.0);
        assert_eq!(steady(1_800, 0.5).confidence(), 0.5);
        assert_eq!(steady(0, 0.5).confidence(), 0.0);
    }

    #[test]
    fn name_of_a_gpu_says_gpu_where_the_id_does_not() {
        let name = |id: &str| Gpu { id: id.to_owned(), ..steady(60, 0.5) }.name();
        assert_eq!(name("0"), "GPU 0");
        assert_eq!(name("GPU-8f1c"), "GPU-8f1c");
        assert_eq!(name("00000000:1B:00.0"), "00000000:1B:00.0");
        assert_eq!(name(""), "");
    }

    #[test]
    fn same_model_ignores_case_and_vendor() {
        assert!(same_model("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"));
        for other in ["", "A100", "NVIDIA A100-SXM4-40GB", "NVIDIÄ A100-SXM4-80GB"] {
            assert!(!same_model("NVIDIA A100-SXM4-80GB", other), "{other}");
        }
    }
}
