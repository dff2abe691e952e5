//! A part of a run of one GPU, for reports of periods, and the state at the start of the part in progress.

use super::rolling::Snapshot;
use crate::alert::AlertLog;
use crate::distribution::MemoryDistribution;
use crate::holders::Holders;
use crate::periods::PeriodList;
use crate::summary::{Summary, Unobserved};
use crate::units::{Nanos, Timestamp};

/// What one GPU did and cost over a part of its run. Parts tile the run, and sum to its accounts and to those of its
/// holders, to the nanosecond and the nano-dollar. Utilized cost is rounded in each.
#[derive(Clone, Debug)]
pub struct GpuPart {
    /// Its time and cost, pattern and distributions.
    pub summary: Summary,
    /// Its hours. They tile the part and sum to its accounts.
    pub periods: PeriodList,
    /// The accounts of those that held or used the GPU.
    pub holders: Holders,
    /// Time that is not billed, since the GPU was absent.
    pub absent: Nanos,
    /// Its alerts, if there are rules.
    pub alerts: Option<AlertLog>,
    /// What the whole GPU did meanwhile, if the accounts are those of some holders only. Their time is then less than
    /// its length.
    pub share_of: Option<Box<Summary>>,
}

/// The parts of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// Where the part in progress is to end.
    pub(super) end: Option<Timestamp>,
    /// The state at its start.
    pub(super) base: PartBase,
    /// The memory in use since then.
    pub(super) memory: MemoryDistribution,
    /// The part that has ended, until it is taken.
    pub(super) ended: Option<Box<GpuPart>>,
}

/// The state of a meter at the start of a part. The default is that before the first reading.
#[derive(Clone, Debug, Default)]
pub(super) struct PartBase {
    pub(super) totals: Snapshot,
    pub(super) unobserved: Unobserved,
    pub(super) absent: Nanos,
}
