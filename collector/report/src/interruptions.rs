//! Interruptions in the report: notices of the cloud, and the work that was lost.

use std::collections::BTreeMap;

use phasemeter_engine::work::{ReceivedNotice, UnsavedWork};
use serde::Serialize;

use super::input::Input;
use super::value::{Seconds, Usd, Utc};

/// Interruptions of a run that watched for notices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interruptions {
    /// The first notices.
    pub notices: Vec<InterruptionNotice>,
    /// Work that was not saved at the end; `None` if the command was not interrupted, or reported neither
    /// work nor checkpoints.
    pub lost_work: Option<LostWork>,
}

/// A notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterruptionNotice {
    /// When it was received.
    pub at: Utc,
    /// The cloud.
    pub provider: &'static str,
    /// What it announces.
    pub action: &'static str,
    /// When that will happen at the earliest, by the clock of the cloud; `None` if unknown.
    pub due: Option<Utc>,
    /// The signal that was sent to the command.
    pub signal: Option<String>,
}

/// Work that was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostWork {
    /// The last checkpoint, else the start of the run.
    pub since: Utc,
    /// Whether there was a checkpoint.
    pub checkpoint: bool,
    /// Time since then.
    pub seconds: Seconds,
    /// The work since then, by unit.
    pub work: BTreeMap<&'static str, u64>,
    /// What the GPUs cost in that time at their last prices; `None` unless every GPU has a price.
    pub cost_usd: Option<Usd>,
}

impl Interruptions {
    /// The interruptions of a run; `None` if it did not watch for notices.
    pub(super) fn build(input: &Input<'_>) -> Option<Self> {
        let log = input.provenance.interruptions.as_ref()?;
        let notice = |notice: &ReceivedNotice| InterruptionNotice {
            at: Utc(input.wall.wall(notice.at)),
            provider: notice.provider,
            action: notice.action,
            due: notice.due.map(Utc),
            signal: notice.signal.clone(),
        };
        Some(Self {
            notices: log.notices.iter().map(notice).collect(),
            lost_work: log.lost.as_ref().map(|lost| LostWork::build(input, lost)),
        })
    }
}

impl LostWork {
    fn build(input: &Input<'_>, lost: &UnsavedWork) -> Self {
        let time = lost.until.since(lost.since);
        let prices = input.gpus.iter().map(|gpu| gpu.price.as_ref().ok());
        let cost: Option<_> = prices.map(|price| Some(price?.rate.cost(time))).sum();
        Self {
            since: Utc(input.wall.wall(lost.since)),
            checkpoint: lost.has_checkpoint,
            seconds: Seconds(time),
            work: lost.work.clone(),
            cost_usd: cost.filter(|_| !input.gpus.is_empty()).map(Usd),
        }
    }
}
