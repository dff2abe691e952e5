//! Holds values of GPUs until those of the same instant and of other meters have arrived, then
//! releases readings in time order.
//!
//! Values of one instant may arrive in several requests. What is held longer than the export interval
//! of other meters is known to be billed by them or not. Must not depend on clocks: the time of arrival
//! is an argument.

use std::collections::{BTreeMap, HashMap};

use phasemeter_meter::device_state::DeviceColumn;
use phasemeter_meter::reading::{Basis, GpuIdentity, MIG_PROFILES, MissingReason, Reading};
use phasemeter_meter::staleness;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

use super::coverage::Coverage;
use super::quantity::Quantity;
use super::rule::{GpuLabels, GpuValue, MigInstance};
use super::value::Value;

/// Maximum number of GPUs. Labels come from anywhere, and each GPU takes memory for good.
const MAX_GPUS: usize = 4_096;

/// Maximum number of instants that are held per GPU: 90 s at ten per second.
const MAX_INSTANTS: usize = 1_024;

/// Maximum number of MIG instances per GPU: GPUs have at most seven at a time.
const MAX_INSTANCES: usize = 16;

/// Senders measure the values of one instant one after another, up to this far apart.
pub(crate) const SAME_INSTANT: Nanos = Nanos::from_millis(500);

/// The attribute with the host of a GPU.
const HOST: &str = "host.name";

/// Preference of utilization sources, if none is configured.
const ORDER: [Basis; 6] = [
    Basis::DcgmGpu,
    Basis::DcgmGrEngine,
    Basis::DcgmSm,
    Basis::NvmlSamples,
    Basis::NvmlGpu,
    Basis::HwGpu,
];

/// Holds values and releases readings.
#[derive(Debug, Default)]
pub struct ReadingBuffer {
    hold: Nanos,
    preferred: Option<Basis>,
    stale_after: Option<Nanos>,
    indices: HashMap<String, usize>,
    identities: Vec<GpuIdentity>,
    gpus: Vec<HeldGpu>,
    coverage: HashMap<String, Coverage>,
    dropped: u64,
}

/// A reading that is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldReading {
    /// The index of its GPU in [`ReadingBuffer::identities`].
    pub gpu: usize,
    /// The reading.
    pub reading: Reading,
    /// The source of its utilization, the same for all readings of a GPU as long as it has it.
    pub basis: Basis,
    /// How long a reading of this GPU represents the present.
    pub stale_after: Nanos,
    /// The time since the GPU's previous reading that must not be billed.
    pub exempt: Vec<Exemption>,
    /// The XID error that has occurred since the previous reading.
    pub xid: Option<u64>,
}

/// Time that must not be billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemption {
    /// Its start.
    pub from: Timestamp,
    /// Its end, exclusive.
    pub to: Timestamp,
    /// The reason.
    pub reason: ExemptionReason,
}

/// Why time is not billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExemptionReason {
    /// There was no reading: another meter may have had the GPU.
    NoReading,
    /// Another meter has billed it.
    BilledElsewhere,
}

#[derive(Debug, Default)]
struct HeldGpu {
    instants: BTreeMap<Timestamp, Instant>,
    /// When its last value arrived.
    arrived: Nanos,
    /// The last instant that another meter has billed.
    elsewhere: Option<Timestamp>,
    basis: Option<Basis>,
    stale_after: Option<Nanos>,
    last: Option<Timestamp>,
    /// The last XID error that was reported, which may be older than the first reading.
    last_xid: Option<u64>,
    /// The profiles of its MIG instances, by their IDs.
    profiles: BTreeMap<String, String>,
}

/// The values of one instant.
#[derive(Clone, Debug)]
struct Instant {
    arrived: Nanos,
    utilization: Vec<(Basis, Utilization)>,
    missing: Option<MissingReason>,
    xid: Option<u64>,
    reading: Reading,
}

impl ReadingBuffer {
    /// Holds each instant for this long. `preferred`: the utilization source for billing; if `None` or
    /// lacking, the first that a GPU has. `stale_after`: of every GPU; if `None`, three times the
    /// interval of its first readings.
    #[must_use]
    pub fn new(hold: Nanos, preferred: Option<Basis>, stale_after: Option<Nanos>) -> Self {
        Self { hold, preferred, stale_after, ..Self::default() }
    }

    /// The GPUs so far, in order of first appearance.
    #[must_use]
    pub fn identities(&self) -> &[GpuIdentity] {
        &self.identities
    }

    /// Number of values that were dropped: they came too late, or there are too many GPUs or instants.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Another meter has billed this time of the GPU with this UUID.
    pub fn cover(&mut self, uuid: &str, from: Timestamp, to: Timestamp) {
        if !self.coverage.contains_key(uuid) && self.coverage.len() >= MAX_GPUS {
            return;
        }
        self.coverage.entry(uuid.to_owned()).or_default().add(from, to);
    }

    /// Adds a value that arrived at this time, by a clock that never runs backwards.
    pub fn insert(&mut self, value: GpuValue, arrived: Nanos) {
        let GpuValue { gpu: labels, at, quantity, value } = value;
        let instance = labels.instance.clone();
        let is_instance = instance.is_some();
        let Some(index) = self.index(labels) else {
            self.dropped += 1;
            return;
        };
        if let Some(instance) = instance {
            self.note_instance(index, instance);
        }
        if let (Ok(Value::MemoryTotal(total)), Some(identity), false) =
            (value, self.identities.get_mut(index), is_instance)
        {
            identity.memory_total = Some(total);
        }
        let Some(gpu) = self.gpus.get_mut(index) else { return };
        gpu.arrived = gpu.arrived.max(arrived);
        if gpu.last.is_some_and(|last| at <= last) {
            self.dropped += 1;
            return;
        }
        let instant = gpu.instant(at, arrived, quantity);
        match value {
            // A MIG instance is not its GPU: of a GPU in MIG mode nothing is known.
            _ if is_instance => instant.missing = Some(MissingReason::NotSupported),
            Ok(value) => instant.set(value),
            Err(reason) if quantity == Quantity::Utilization => {
                instant.missing.get_or_insert(reason);
            }
            Err(_) => {}
        }
        if gpu.instants.len() > MAX_INSTANTS {
            gpu.instants.pop_first();
            self.dropped += 1;
        }
    }

    /// Releases the readings that have been held long enough, those of one GPU in time order.
    pub fn release(&mut self, now: Nanos) -> Vec<HeldReading> {
        self.release_if(|instant, hold| instant.arrived.0.saturating_add(hold.0) <= now.0)
    }

    /// Releases all readings, at the end.
    pub fn release_all(&mut self) -> Vec<HeldReading> {
        self.release_if(|_, _| true)
    }

    /// The GPUs that have no further time until another reading arrives, each with the instant up to
    /// which that is known: those without a reading for long, up to `at`, which is now, and those that
    /// another meter bills.
    pub fn final_until(
        &self,
        now: Nanos,
        at: Timestamp,
    ) -> impl Iterator<Item = (usize, Timestamp)> {
        let final_until = move |gpu: &HeldGpu| {
            let stale_after = gpu.stale_after.unwrap_or_default();
            let is_silent = gpu.instants.is_empty() && gpu.arrived + self.hold + stale_after < now;
            if is_silent { Some(at) } else { gpu.elsewhere }
        };
        self.gpus
            .iter()
            .enumerate()
            .filter_map(move |(index, gpu)| Some((index, final_until(gpu)?)))
    }

    fn release_if(&mut self, is_due: impl Fn(&Instant, Nanos) -> bool) -> Vec<HeldReading> {
        let mut released = Vec::new();
        let nothing = Coverage::default();
        for (index, gpu) in self.gpus.iter_mut().enumerate() {
            let uuid = self.identities.get(index).and_then(|it| it.uuid.as_deref());
            let coverage = uuid.and_then(|uuid| self.coverage.get(uuid)).unwrap_or(&nothing);
            while let Some(first) = gpu.instants.first_entry()
                && is_due(first.get(), self.hold)
            {
                if gpu.stale_after.is_none() {
                    let times = gpu.instants.keys().copied();
                    let estimated = match gpu.instants.len() {
                        1 => self.hold.saturating_mul(3),
                        _ => staleness::estimate(times),
                    };
                    gpu.stale_after = Some(self.stale_after.unwrap_or(estimated));
                }
                released.extend(gpu.take_first(index, self.preferred, coverage));
            }
        }
        released.sort_by_key(|held| held.reading.at);
        released
    }

    /// Adds the profile of a MIG instance to the attributes of its GPU.
    fn note_instance(&mut self, index: usize, instance: MigInstance) {
        let (Some(gpu), Some(identity), Some(profile)) =
            (self.gpus.get_mut(index), self.identities.get_mut(index), instance.profile)
        else {
            return;
        };
        if gpu.profiles.len() < MAX_INSTANCES && !gpu.profiles.contains_key(&instance.id) {
            gpu.profiles.insert(instance.id, profile);
            let all: Vec<_> = gpu.profiles.values().map(String::as_str).collect();
            identity.attributes.insert(MIG_PROFILES.to_owned(), all.join(" "));
        }
    }

    /// The index of a GPU, which is added if it is new; `None` if there are too many.
    fn index(&mut self, labels: GpuLabels) -> Option<usize> {
        if let Some(index) = self.indices.get(&labels.uuid) {
            let identity = self.identities.get_mut(*index)?;
            if identity.model.is_none() {
                identity.model = labels.model;
            }
            return Some(*index);
        }
        let index = self.gpus.len();
        if index >= MAX_GPUS {
            return None;
        }
        self.indices.insert(labels.uuid.clone(), index);
        let host = labels.host.map(|host| (HOST.to_owned(), host));
        self.identities.push(GpuIdentity {
            name: labels.uuid.clone(),
            uuid: Some(labels.uuid),
            bus_id: labels.bus_id,
            // Indices of several hosts are not those of one fleet.
            index: None,
            model: labels.model,
            attributes: host.into_iter().collect(),
            ..GpuIdentity::default()
        });
        self.gpus.push(HeldGpu::default());
        Some(index)
    }
}

impl HeldGpu {
    /// The instant of a value: that of a value close to it which it completes, else a new one. The time
    /// is that of the utilization.
    fn instant(&mut self, at: Timestamp, arrived: Nanos, quantity: Quantity) -> &mut Instant {
        let near = self.instants.range(at.saturating_sub(SAME_INSTANT)..=at + SAME_INSTANT);
        let distance = |other: Timestamp| at.since(other).max(other.since(at));
        let nearest = near.map(|(at, _)| *at).min_by_key(|other| distance(*other));
        let key = match nearest {
            Some(other) if other == at => at,
            Some(other) if quantity != Quantity::Utilization => other,
            Some(other) => {
                let lacks = |instant: &Instant| instant.utilization.is_empty();
                if self.instants.get(&other).is_some_and(lacks)
                    && let Some(near) = self.instants.remove(&other)
                {
                    let reading = Reading { at, ..near.reading };
                    self.instants.insert(at, Instant { reading, ..near });
                }
                at
            }
            None => at,
        };
        self.instants.entry(key).or_insert_with(|| Instant {
            arrived,
            utilization: Vec::new(),
            missing: None,
            xid: None,
            reading: Reading::at(key),
        })
    }

    /// Takes the first instant; `None` if it is that of another sender, or billed elsewhere.
    fn take_first(
        &mut self,
        gpu: usize,
        preferred: Option<Basis>,
        coverage: &Coverage,
    ) -> Option<HeldReading> {
        let (at, instant) = self.instants.pop_first()?;
        if coverage.contains(at) {
            self.elsewhere = Some(at);
            return None;
        }
        let order = || preferred.into_iter().chain(ORDER);
        let has = |basis: Basis, it: &Instant| it.utilization.iter().any(|(b, _)| *b == basis);
        let chosen = self.basis.filter(|basis| {
            has(*basis, &instant) || self.instants.values().any(|it| has(*basis, it))
        });
        let basis = chosen.or_else(|| order().find(|basis| has(*basis, &instant)));
        let utilization = match basis {
            Some(basis) => match instant.utilization.iter().find(|(b, _)| *b == basis) {
                Some((_, utilization)) => Ok(*utilization),
                // Another sender's instant, between those of the chosen one.
                None if instant.missing.is_none() => return None,
                None => Err(instant.missing.unwrap_or(MissingReason::NotSupported)),
            },
            None => Err(instant.missing.unwrap_or(MissingReason::NotCollected)),
        };
        self.basis = basis.or(self.basis);
        let stale_after = self.stale_after.unwrap_or(Nanos::SECOND);
        let exempt = self.last.map(|last| exempt(last, at, stale_after, coverage));
        self.last = Some(at);
        let xid = self.new_xid(instant.xid);
        Some(HeldReading {
            gpu,
            reading: Reading { utilization, ..instant.reading },
            basis: self.basis.or(preferred).unwrap_or(Basis::DcgmGpu),
            stale_after,
            exempt: exempt.unwrap_or_default(),
            xid,
        })
    }

    /// The reported XID error, if it has occurred since the last report.
    fn new_xid(&mut self, reported: Option<u64>) -> Option<u64> {
        let reported = reported?;
        let before = self.last_xid.replace(reported)?;
        (reported != before && reported > 0).then_some(reported)
    }
}

impl Instant {
    fn set(&mut self, value: Value) {
        let reading = &mut self.reading;
        match value {
            Value::Utilization(basis, utilization) => {
                if basis == Basis::DcgmSm {
                    reading.device.set_share(DeviceColumn::Sm, Some(utilization));
                }
                self.utilization.retain(|(known, _)| *known != basis);
                self.utilization.push((basis, utilization));
            }
            Value::MemoryUsed(used) => reading.memory_used = Some(used),
            Value::MemoryTotal(_) => {}
            Value::Power(power) => reading.power = Some(power),
            Value::Energy(energy) => reading.energy = Some(energy),
            Value::Temperature(temperature) => reading.temperature = Some(temperature),
            Value::SmClock(clock) => reading.sm_clock = Some(clock),
            Value::MemoryClock(clock) => reading.memory_clock = Some(clock),
            Value::Xid(code) => self.xid = Some(code),
            Value::Device(column, share) => reading.device.set_share(column, Some(share)),
        }
    }
}

/// What must not be billed between two readings: what is billed elsewhere, and what the first does not
/// cover.
fn exempt(
    last: Timestamp,
    at: Timestamp,
    stale_after: Nanos,
    coverage: &Coverage,
) -> Vec<Exemption> {
    let elsewhere = coverage.within(last, at).map(|(from, to)| Exemption {
        from,
        to,
        reason: ExemptionReason::BilledElsewhere,
    });
    let stale = (last + stale_after).min(at);
    let gaps = coverage.outside(stale, at).map(|(from, to)| Exemption {
        from,
        to,
        reason: ExemptionReason::NoReading,
    });
    let mut all: Vec<_> = elsewhere.chain(gaps).collect();
    all.sort_by_key(|exemption| exemption.from);
    all
}
