//! A report as input: the fields of the JSON report that a bill, a comparison, an overlay or a plan needs.
//!
//! Unknown fields are ignored; a missing or malformed one is an error that names its path.

mod accounts;
mod measured;

use std::collections::BTreeMap;

use phasemeter_meter::gpu_name::NamedGpu;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};
use serde::Deserialize;

pub use self::accounts::{AccountTotals, Accounts};
pub use self::measured::{Cost, EnergyOnBasis, GpuMemory, MeanUtilization, PriceTag};
pub use crate::amount::{Seconds, Usd};
use crate::amount::{instant, part};
pub use crate::holder::{Holder, Nobody};

/// The schema that is read.
pub const SCHEMA: &str = "phasemeter.report/0.1";

/// A report.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was metered.
    pub title: String,
    /// The experiment.
    pub experiment: Experiment,
    /// One entry per GPU.
    pub gpus: Vec<Gpu>,
    /// Cost of all GPUs.
    #[serde(default)]
    pub cost: Cost,
    /// Work done, by unit.
    pub work: BTreeMap<String, Work>,
    /// Work done by UTC hour; empty if unknown.
    pub work_by_hour: Vec<WorkHour>,
    /// Recommendations.
    pub recommendations: Vec<Recommendation>,
    /// Utilization in percent from which time is underutilized, productive and compute-bound.
    #[serde(default = "default_thresholds")]
    pub thresholds_percent: [f64; 3],
}

fn default_thresholds() -> [f64; 3] {
    Thresholds::default().bounds().map(Utilization::percent)
}

/// The experiment of a report.
#[derive(Clone, Debug, Deserialize)]
pub struct Experiment {
    /// Its ID.
    pub id: String,
    /// Resource attributes of the workload.
    pub attributes: BTreeMap<String, String>,
}

/// One GPU.
#[derive(Clone, Debug, Deserialize)]
pub struct Gpu {
    /// Its ID in the report.
    pub id: String,
    /// Its UUID.
    pub uuid: Option<String>,
    /// Its index on the host.
    pub index: Option<u32>,
    /// Its host, or the log that it is from if there are several.
    #[serde(default)]
    pub node: Option<String>,
    /// Its host; `None` if it is unknown.
    #[serde(default)]
    pub host: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its bill; `None` if it has no price.
    pub cost_usd: Option<Usd>,
    /// Its rate at the end.
    pub rate_usd_per_gpu_hour: Option<Usd>,
    /// Provenance of that rate.
    pub price: Option<Price>,
    /// Number of earlier rates.
    pub earlier_prices_total: u64,
    /// Time and cost by hour or longer.
    pub periods: Vec<Period>,
    /// What held it, with accounts if `nobody` is there.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// What is nobody's; `None` if it was not divided among holders.
    #[serde(default)]
    pub nobody: Option<Nobody>,
    /// Its memory; `None` if that is unknown.
    #[serde(default)]
    pub memory: Option<GpuMemory>,
    /// Its mean utilization; `None` if nothing was observed.
    #[serde(default)]
    pub utilization: Option<MeanUtilization>,
    /// Its energy; `None` if that was not measured.
    #[serde(default)]
    pub energy_joules: Option<f64>,
    /// The time of which the energy was measured, by how.
    #[serde(default)]
    pub energy_by_basis: Vec<EnergyOnBasis>,
    /// How its utilization changes; `None` if that is unknown.
    #[serde(default)]
    pub pattern: Option<Pattern>,
    /// Its utilization over time; `None` if nothing was observed.
    #[serde(default)]
    pub timeline: Option<Timeline>,
}

/// How utilization changes.
#[derive(Clone, Debug, Deserialize)]
pub struct Pattern {
    /// Its kind.
    pub kind: String,
    /// Length of a cycle, if it has any.
    pub period_seconds: Option<Seconds>,
}

/// Utilization over time, in steps of one width.
#[derive(Clone, Debug, Deserialize)]
pub struct Timeline {
    /// Start of the first step.
    #[serde(deserialize_with = "instant")]
    pub start: Timestamp,
    /// Width of a step.
    pub step_seconds: Seconds,
    /// Mean of what was observed in each step, in percent; `None` if nothing was.
    pub utilization_percent: Vec<Option<f64>>,
}

/// Provenance of a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Price {
    /// Purchase plan.
    pub plan: Option<String>,
    /// Cloud provider.
    pub provider: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Instance type.
    pub instance_type: Option<String>,
    /// Source of the price.
    pub source: String,
    /// The prices of which it is the lower median; `None` if it is exact.
    pub estimate: Option<Estimate>,
}

/// The range of an estimated price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Estimate {
    /// Lowest price.
    pub low_usd_per_gpu_hour: Usd,
    /// Highest price.
    pub high_usd_per_gpu_hour: Usd,
}

impl Gpu {
    /// From the start of its first period to the end of its last; `None` if it has none.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.periods.first()?.start, self.periods.last()?.end))
    }

    /// Its holders and their accounts; `None` if it was not divided among any.
    #[must_use]
    pub fn division(&self) -> Option<(&[Holder], Nobody)> {
        self.nobody.map(|nobody| (&self.holders[..], nobody))
    }

    /// Whether it may be what holders have of a GPU, as in the report of a sidecar: nothing is nobody's.
    pub(crate) fn is_of_holders(&self) -> bool {
        self.nobody.is_some_and(|nobody| nobody.seconds.0 == Nanos::ZERO)
    }

    /// Whether it is idle and busy in turn faster than the steps of its timeline can show.
    #[must_use]
    pub fn bounces_within_steps(&self) -> bool {
        let period = self.pattern.as_ref().filter(|it| it.kind == "bouncing");
        let period = period.and_then(|it| it.period_seconds);
        let step = self.timeline.as_ref().map(|it| it.step_seconds.0);
        period.zip(step).is_some_and(|(period, step)| step.saturating_mul(2) > period.0)
    }

    /// A cost of this GPU at the lowest and the highest price of its estimate; `None` if its price is exact, or
    /// was not the only one.
    #[must_use]
    pub fn range_of(&self, cost: NanoUsd) -> Option<[NanoUsd; 2]> {
        let estimate = self.price.as_ref()?.estimate.filter(|_| self.earlier_prices_total == 0)?;
        let Usd(rate) = self.rate_usd_per_gpu_hour?;
        let at = |Usd(other): Usd| cost.ratio(other.0, rate.0).unwrap_or(cost);
        Some([estimate.low_usd_per_gpu_hour, estimate.high_usd_per_gpu_hour].map(at))
    }
}

/// Time and cost of one period.
#[derive(Clone, Debug, Deserialize)]
pub struct Period {
    /// Start.
    #[serde(deserialize_with = "instant")]
    pub start: Timestamp,
    /// End.
    #[serde(deserialize_with = "instant")]
    pub end: Timestamp,
    /// Σ utilization × time.
    pub effective_seconds: Seconds,
    /// Σ utilization × cost; `None` without a price.
    pub utilized_usd: Option<Usd>,
    /// Time and cost by account.
    pub accounts: Accounts,
}

impl<'a> From<&'a Gpu> for NamedGpu<'a> {
    fn from(gpu: &'a Gpu) -> Self {
        Self { id: &gpu.id, index: gpu.index, node: gpu.node.as_deref(), pod: None }
    }
}

impl Period {
    /// The part of it from one instant to another: of each account the share of its time. The parts of a period
    /// sum to it.
    #[must_use]
    pub(crate) fn part(&self, from: Timestamp, to: Timestamp) -> Self {
        let length = self.length();
        let [begin, end] = [from, to].map(|at| at.since(self.start));
        let time = |Nanos(all): Nanos| {
            let time = part(i128::from(all), begin, end, length);
            Nanos(u64::try_from(time).unwrap_or(all))
        };
        let money = |Usd(all): Usd| Usd(NanoUsd(part(all.0, begin, end, length)));
        let accounts = self.accounts.0.map(|it| AccountTotals {
            seconds: Seconds(time(it.seconds.0)),
            cost_usd: it.cost_usd.map(money),
        });
        Self {
            start: from,
            end: to,
            effective_seconds: Seconds(time(self.effective_seconds.0)),
            utilized_usd: self.utilized_usd.map(money),
            accounts: Accounts(accounts),
        }
    }

    /// Its length.
    #[must_use]
    pub const fn length(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// Work done in one unit.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Work {
    /// Number of units.
    pub count: u64,
}

/// Work done in one UTC hour.
#[derive(Clone, Debug, Deserialize)]
pub struct WorkHour {
    /// Start of the hour.
    #[serde(deserialize_with = "instant")]
    pub start: Timestamp,
    /// Count, by unit.
    pub work: BTreeMap<String, u64>,
}

/// A recommendation.
#[derive(Clone, Debug, Deserialize)]
pub struct Recommendation {
    /// The policy that returned it.
    #[serde(default)]
    pub policy: String,
    /// The policy's code for it.
    pub code: String,
    /// Its title.
    pub title: String,
    /// What it promises to save, of the bill of its GPUs.
    pub saving_fraction: SavingFraction,
    /// IDs of its GPUs.
    pub gpus: Vec<String>,
    /// How it is decided; `None` if it needs no trial.
    #[serde(default)]
    pub trial: Option<Trial>,
}

/// How a recommendation is decided that is a hypothesis.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Trial {
    /// Whether the work moves to GPUs of another model.
    #[serde(default)]
    pub on_other_gpu: bool,
}

/// A saving, as a fraction of a bill.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SavingFraction {
    /// Low estimate.
    pub low: f64,
    /// Expected.
    pub expected: f64,
    /// High estimate.
    pub high: f64,
}
