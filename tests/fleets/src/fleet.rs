//! A fleet: GPUs with their traces, what they cost, and how their work responds to change.
//!
//! ```text
//! number ─→ Fleet (offer, job, luck) ─→ traces
//! ```

use crate::assumptions as assume;
use crate::batch::Batch;
use crate::draft::{Draft, Generated};
use crate::notebooks::Notebooks;
use crate::offer::{self, Offer};
use crate::prng::Prng;
use crate::service::Service;
use crate::trace::Trace;
use crate::training::Training;

/// One fleet: the GPUs of one experiment.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub(crate) number: u64,
    pub(crate) offer: &'static Offer,
    pub(crate) plan: Plan,
    pub(crate) is_declared: bool,
    pub(crate) is_interruptible: bool,
    /// Seconds between readings.
    pub(crate) interval: f64,
    /// One per GPU, instance by instance.
    pub(crate) traces: Vec<Trace>,
    pub(crate) job: Job,
    pub(crate) luck: Luck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    OnDemand,
    Reserved,
    Owned,
}

/// What the GPUs do.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    Training(Training),
    Service(Service),
    Notebooks(Notebooks),
    Batch(Batch),
}

/// Circumstances that no log shows.
#[derive(Clone, Debug)]
pub(crate) struct Luck {
    /// Seconds to start an instance.
    pub(crate) boot: f64,
    /// Share of free time that other work fills.
    pub(crate) filled: f64,
    /// Whether owners let idle sessions be ended.
    pub(crate) session_ended: bool,
    pub(crate) agrees_to_share: bool,
    pub(crate) arithmetic: f64,
    pub(crate) host_time: f64,
    /// Cost of an hour on spot capacity, relative to the listed spot price, and the share of the run
    /// without it.
    pub(crate) spot: (f64, f64),
    /// Cost of moving elsewhere, as a share of the bill; `None` if the work must stay.
    pub(crate) moving: Option<f64>,
    /// Whether the work needs no more than the smallest host.
    pub(crate) smaller_host: bool,
}

impl Fleet {
    /// Generates the fleet of a number; `None` if the price book lacks its instance type.
    #[must_use]
    pub fn generate(number: u64) -> Option<Self> {
        let mut prng = Prng::of(number, 0);
        let kind = prng.weighted(&assume::KINDS);
        // Services and notebooks are mostly on instances of their own.
        let several = prng.chance(if matches!(kind, 1 | 2) { 0.25 } else { 0.6 });
        let offer = offer::choose(several, prng.unit())?;
        let draft = Draft { offer, prng: Prng::of(number, 1), noise: Prng::of(number, 2) };
        let Generated { interval, traces, job } = match kind {
            0 => Training::generate(draft).map(Job::Training),
            1 => Service::generate(draft).map(Job::Service),
            2 => Notebooks::generate(draft).map(Job::Notebooks),
            _ => Batch::generate(draft).map(Job::Batch),
        };
        let plans = [Plan::OnDemand, Plan::Reserved, Plan::Owned];
        let plan = plans.get(prng.weighted(&assume::PLANS)).copied().unwrap_or(Plan::OnDemand);
        Some(Self {
            number,
            offer,
            plan,
            is_declared: prng.chance(assume::DECLARED),
            is_interruptible: kind == 3 && prng.chance(assume::INTERRUPTIBLE),
            interval,
            traces,
            job,
            luck: Luck::draw(&mut Prng::of(number, 3)),
        })
    }

    /// The value of the attribute `phasemeter.workload`.
    pub(crate) fn workload(&self) -> &'static str {
        match self.job {
            Job::Training(_) => "training",
            Job::Service(_) => "serving",
            Job::Notebooks(_) => "interactive",
            Job::Batch(_) => "batch",
        }
    }

    /// Seconds that the log covers.
    pub(crate) fn seconds(&self) -> f64 {
        self.traces.first().map_or(0.0, |trace| trace.0.len() as f64 * self.interval)
    }

    /// Dollars per GPU-hour that are paid.
    pub(crate) fn price(&self) -> f64 {
        match self.plan {
            Plan::OnDemand => self.offer.price,
            // The discount of one year's commitment in the project's documents.
            Plan::Reserved => 0.6 * self.offer.price,
            Plan::Owned => 0.4 * self.offer.price,
        }
    }

    /// Dollars of one GPU.
    pub(crate) fn bill(&self) -> f64 {
        self.price() * self.seconds() / 3_600.0
    }

    /// Number of instances.
    pub(crate) fn instances(&self) -> usize {
        self.traces.len().div_ceil(self.offer.gpus)
    }

    /// The instance of a GPU.
    pub(crate) fn instance_of(&self, gpu: usize) -> usize {
        gpu / self.offer.gpus
    }

    /// The GPUs of an instance.
    pub(crate) fn gpus_of(&self, instance: usize) -> std::ops::Range<usize> {
        let first = instance * self.offer.gpus;
        first..(first + self.offer.gpus).min(self.traces.len())
    }

    /// Whether giving an instance back reduces the bill.
    pub(crate) fn is_returnable(&self) -> bool {
        self.plan == Plan::OnDemand
    }
}

impl Luck {
    fn draw(prng: &mut Prng) -> Self {
        let backlog = prng.chance(assume::BACKLOG);
        let filled = if backlog { assume::FILLED } else { assume::FILLED_WITHOUT_BACKLOG };
        let rework = prng.log_within(assume::INTERRUPTIONS) * prng.within(assume::REPEATED_HOURS);
        Self {
            boot: prng.within(assume::BOOT),
            filled: prng.within(filled),
            session_ended: prng.chance(assume::SESSION_ENDED),
            agrees_to_share: prng.chance(assume::AGREE_TO_SHARE),
            arithmetic: prng.within(assume::ARITHMETIC),
            host_time: prng.within(assume::HOST_TIME),
            spot: (
                prng.within(assume::SPOT_PRICE) * (1.0 + rework),
                prng.within(assume::WITHOUT_SPOT),
            ),
            moving: prng.chance(assume::CAN_MOVE).then(|| prng.within(assume::COST_OF_MOVING)),
            smaller_host: prng.chance(assume::SMALLER_HOST),
        }
    }
}
