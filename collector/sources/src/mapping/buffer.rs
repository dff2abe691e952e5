//! Holds values of GPUs until those of the same instant and of other meters have arrived, then
//! releases readings in time order.
//!
//! Values of one instant may arrive in several requests. What is held longer than the export interval
//! of other meters is known to be billed by them or not.

mod release;

use phasemeter_meter::holder::HolderChange;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, GpuIdentity, INSTANCE};
use phasemeter_meter::units::{Nanos, Timestamp};

use super::agreed::Origin;
use super::arrival::ArrivedAt;
use super::coverage_table::CoverageTable;
use super::held_gpu::HeldGpu;
use super::holder::LabeledHolder;
use super::identity::GpuLabels;
use super::known_gpus::{GpusOverLimit, KnownGpus, MANY_OF_SENDER, Number};
use super::own_pods::OwnPods;
use super::rejected_point::{RejectedPoint, RejectedPoints};
use super::rule::GpuValue;
use super::value::Value;

/// Maximum number of instants that are held per GPU: 90 s at ten per second.
const MAX_INSTANTS: usize = 1_024;

/// Holds values and releases readings.
#[derive(Debug)]
pub struct ReadingBuffer {
    hold: Nanos,
    preferred: Option<Basis>,
    stale_after: Option<Nanos>,
    known: KnownGpus,
    gpus: Vec<HeldGpu>,
    coverage: CoverageTable,
    own_pods: OwnPods,
    refused: RejectedPoints,
    dropped: u64,
}

/// The outcome of adding a value.
#[derive(Debug, Default)]
pub struct Inserted {
    /// The index of its GPU; `None` if it has none.
    pub buffer_index: Option<usize>,
    /// That it contradicts another one of its instant; then neither counts.
    pub refusal: Option<RejectedPoint>,
    /// Whether it was dropped, since the readings of its time had been released.
    pub is_late: bool,
    /// The name of its GPU, if it is the first value of one over the limit.
    pub over_limit: Option<String>,
}

impl ReadingBuffer {
    /// Maximum number of GPUs, unless configured: those over it are not read.
    pub const MAX_GPUS: usize = 10_000;

    /// Senders with so many GPUs get none of the last places.
    pub const MANY_OF_SENDER: usize = MANY_OF_SENDER;

    /// Holds instants, and prefers a utilization source.
    ///
    /// - `hold`: how long an instant is held after it has arrived and its time has come, so that no sender whose clock
    ///   is ahead makes values of another one late.
    /// - `preferred`: the utilization source for billing; if `None` or lacking, the first that a GPU has.
    /// - `stale_after`: of every GPU; if `None`, three times the interval of its first readings.
    #[must_use]
    pub fn new(hold: Nanos, preferred: Option<Basis>, stale_after: Option<Nanos>) -> Self {
        Self {
            hold,
            preferred,
            stale_after,
            known: KnownGpus::up_to(Self::MAX_GPUS),
            gpus: Vec::new(),
            coverage: CoverageTable::default(),
            own_pods: OwnPods::default(),
            refused: RejectedPoints::default(),
            dropped: 0,
        }
    }

    /// With this maximum number of GPUs, of several senders: the first ones are read, others are not. The last quarter
    /// is for senders with fewer than [`Self::MANY_OF_SENDER`], so that no sender keeps those of others out.
    #[must_use]
    pub fn with_max_gpus(self, max: usize) -> Self {
        Self { known: KnownGpus::up_to(max).with_reserved_places(), ..self }
    }

    /// The GPUs so far, in order of first appearance.
    #[must_use]
    pub fn identities(&self) -> &[GpuIdentity] {
        self.known.identities()
    }

    /// Whether there are as many GPUs as the maximum.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.known.is_full()
    }

    /// The GPUs that are not read, since there are too many.
    #[must_use]
    pub const fn over_limit(&self) -> &GpusOverLimit {
        self.known.over_limit()
    }

    /// Number of values of GPUs that were dropped: they came too late, or there are too many instants.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// An earlier run has billed this time of the GPU with this name.
    pub fn resume(&mut self, name: &str, from: Timestamp, to: Timestamp) {
        self.coverage.resume(name, from, to);
    }

    /// Another meter has billed this time of the GPU with this name. For a GPU without readings, that is forgotten
    /// after a day, or if the sender covers more than 1,024 such GPUs.
    pub fn cover(
        &mut self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
        sender: &str,
        arrived: Nanos,
    ) {
        match self.known.number(name) {
            Some(gpu) => self.coverage.cover(gpu, from, to),
            None => self.coverage.cover_pending(name, (from, to), sender, arrived),
        }
    }

    /// The GPUs of which only the shares of pods are known, which were added up.
    pub fn added_up(&self) -> impl Iterator<Item = &GpuIdentity> {
        self.each_gpu().filter(|(_, gpu)| gpu.shares.are_added).map(|(identity, _)| identity)
    }

    /// The GPUs that more holders had at once than have accounts, with the number of the others.
    pub fn holders_without_account(&self) -> impl Iterator<Item = (&GpuIdentity, usize)> {
        let count = |(identity, gpu): (_, &HeldGpu)| (identity, gpu.holders_without_account());
        self.each_gpu().map(count).filter(|(_, count)| *count > 0)
    }

    /// The GPUs of which the use of a holder could not be read beside that of others, and how often.
    pub fn unreadable_shares(&self) -> impl Iterator<Item = (&GpuIdentity, usize)> {
        let count = |(identity, gpu): (_, &HeldGpu)| (identity, gpu.shares.unreadable);
        self.each_gpu().map(count).filter(|(_, count)| *count > 0)
    }

    fn each_gpu(&self) -> impl Iterator<Item = (&GpuIdentity, &HeldGpu)> {
        self.identities().iter().zip(&self.gpus)
    }

    /// The points that were refused so far, since others of their instant contradict them: their number and the
    /// first one of each sender.
    pub fn refused(&self) -> impl Iterator<Item = (u64, &RejectedPoint)> {
        self.refused.by_sender()
    }

    /// Whether values of this GPU are held: it is listed, however long after others.
    #[must_use]
    pub fn holds(&self, gpu: usize) -> bool {
        self.gpus.get(gpu).is_some_and(|gpu| !gpu.instants.is_empty())
    }

    /// From when on another meter has this GPU: the start of what it has billed after the GPU's last reading.
    #[must_use]
    pub fn handed_over(&self, gpu: usize) -> Option<Timestamp> {
        let coverage = self.coverage.of(gpu)?;
        let last = self.gpus.get(gpu)?.last?;
        coverage.within(last, Timestamp::LAST).map(|(from, _)| from).next()
    }

    /// What is known of the holders of a GPU that has had no reading for long, while the newest reading of any GPU is
    /// of `now`: that they hold it no longer.
    pub fn end_holding(&mut self, gpu: usize, now: Timestamp) -> Vec<HolderChange> {
        self.gpus.get_mut(gpu).map(|gpu| gpu.end_holding(now)).unwrap_or_default()
    }

    /// Adds a value that arrived at this time.
    pub fn insert(&mut self, value: GpuValue, arrival: impl Into<ArrivedAt>) -> Inserted {
        let ArrivedAt { at: arrived, ahead } = arrival.into();
        let GpuValue { gpu: mut labels, at, quantity, rank, basis, value } = value;
        self.see_own_pod(&mut labels);
        if labels.is_of_any_hardware && self.known.number(&labels.id.name()).is_none() {
            return Inserted::default();
        }
        let index = match self.known.note(&labels) {
            Number::Known(index) => index,
            Number::New(index) => {
                self.coverage.add_gpu(&labels.id.name());
                self.gpus.push(HeldGpu::default());
                index
            }
            Number::OverLimit { is_first } => {
                let over_limit = is_first.then(|| labels.id.name());
                return Inserted { over_limit, ..Inserted::default() };
            }
        };
        let inserted = Inserted { buffer_index: Some(index), ..Inserted::default() };
        let Some(quantity) = quantity else { return inserted };
        let (Some(gpu), Some(identity)) =
            (self.gpus.get_mut(index), self.known.identity_mut(index))
        else {
            return inserted;
        };
        gpu.labels.note(&labels);
        if labels.has_own_name && labels.instance.is_none() {
            gpu.own_names.insert(quantity);
        }
        let sender = labels.sender().map(str::to_owned);
        let GpuLabels { instance, allocated, pod, holder, details, .. } = labels;
        let (is_instance, is_of_pod) = (instance.is_some(), pod.is_some());
        let host_instance = details.iter().find(|(key, _)| key == INSTANCE);
        let host_instance = host_instance.map(|(_, instance)| instance.clone());
        if let Some(instance) = &instance {
            gpu.attributes.add_instance(identity, instance);
        }
        if quantity == Quantity::Utilization {
            gpu.attributes.add_details(identity, &details, pod.as_ref());
        }
        if let Some(pod) = pod {
            gpu.attributes.add_pod(identity, pod);
        }
        gpu.arrived = gpu.arrived.max(arrived);
        if gpu.last.is_some_and(|last| at <= last) {
            self.dropped += 1;
            return Inserted { is_late: true, ..inserted };
        }
        // Jobs, claims and those that have a MIG instance have a copy of the values of the GPU each.
        let has_share = is_of_pod && allocated.is_none();
        let share = holder.as_ref().filter(|_| has_share).map(|holder| &holder.key);
        // An instant has one time of its own, that of the GPU.
        let measured = basis.filter(|_| !is_instance).map(|basis| value.is_ok().then_some(basis));
        let come = Nanos(gpu.arrived.0.saturating_add(ahead.0));
        let key = gpu.instant(at, come, share, measured);
        let HeldGpu { instants, shares, labels, described, .. } = gpu;
        let Some(instant) = instants.get_mut(&key) else { return inserted };
        let is_of_holder = matches!(value, Ok(Value::Holder(_)));
        match (holder.as_ref().filter(|_| !is_instance && !is_of_holder), &allocated) {
            (Some(holder), Some(allocated)) => instant.mig.allocate(allocated, &holder.key.holder),
            (Some(holder), None) => instant.add_holder(holder),
            (None, _) => {}
        }
        if let Some(holder) = &holder {
            described.note(&mut instant.details, &holder.key.holder, &details);
        }
        instant.instance = host_instance.or(instant.instance.take());
        let (mut refused, origin) = (0, Origin { rank, at });
        match (value, instance) {
            (Ok(Value::Holder(of_holder)), _) => {
                if let Some(LabeledHolder { key, .. }) = &holder {
                    instant.holder_metrics.add(key, rank, of_holder);
                }
            }
            (value, Some(instance)) => {
                let part = (&instance, holder.as_ref().map(|it| &it.key.holder));
                refused = instant.add_of_instance(part, share, (quantity, basis, value), origin);
            }
            (Ok(value), None) => {
                refused = instant.add((quantity, value), origin, share);
                shares.compare(instant);
            }
            (Err(reason), None) if basis.is_some() => instant.set_missing(basis, reason, share),
            (Err(_), None) => {}
        }
        let differing = if refused > 0 { labels.differing() } else { Vec::new() };
        if gpu.instants.len() > MAX_INSTANTS {
            gpu.instants.pop_first();
            self.dropped += 1;
        }
        let refusal = self.known.identities().get(index).filter(|_| refused > 0).map(|identity| {
            let gpu = identity.name.clone();
            let refusal = RejectedPoint { sender, gpu, quantity, at, differing, is_first: false };
            self.refused.add(refused, refusal)
        });
        Inserted { refusal, ..inserted }
    }

    /// Removes the pod of the exporter from labels: it holds no GPU.
    fn see_own_pod(&mut self, labels: &mut GpuLabels) {
        if let Some(own) = &labels.own_pod
            && self.own_pods.add(own)
        {
            for (index, gpu) in self.gpus.iter_mut().enumerate() {
                if let Some(identity) = self.known.identity_mut(index) {
                    gpu.attributes.remove_pod(identity, own);
                }
            }
        }
        if labels.pod.as_ref().is_some_and(|pod| self.own_pods.contains(pod)) {
            (labels.pod, labels.holder) = (None, None);
        }
    }
}
