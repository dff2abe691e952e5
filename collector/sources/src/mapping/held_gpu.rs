//! The values of one GPU by instant, and the reading of an instant once it is released.
//!
//! Must not depend on other GPUs, or on when readings are released.

use std::collections::BTreeMap;

use phasemeter_meter::device_state::DeviceColumn;
use phasemeter_meter::device_totals::LinkRates;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};

use super::coverage::Coverage;
use super::point::PodLabels;
use super::value::Value;

/// Senders measure the values of one instant one after another, up to this far apart.
pub(crate) const SAME_INSTANT: Nanos = Nanos::from_millis(500);

/// Preference of utilization sources, if none is configured.
const ORDER: [Basis; 6] = [
    Basis::DcgmGpu,
    Basis::DcgmGrEngine,
    Basis::DcgmSm,
    Basis::NvmlSamples,
    Basis::NvmlGpu,
    Basis::HwGpu,
];

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
    /// The rates of its links.
    pub rates: LinkRates,
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

/// A GPU whose values are held.
#[derive(Debug, Default)]
pub(super) struct HeldGpu {
    pub(super) instants: BTreeMap<Timestamp, Instant>,
    /// When its last value arrived.
    pub(super) arrived: Nanos,
    /// The last instant that another meter has billed.
    pub(super) elsewhere: Option<Timestamp>,
    pub(super) basis: Option<Basis>,
    pub(super) stale_after: Option<Nanos>,
    pub(super) last: Option<Timestamp>,
    /// The last XID error that was reported, which may be older than the first reading.
    pub(super) last_xid: Option<u64>,
    /// The profiles of its MIG instances, by their IDs.
    pub(super) profiles: BTreeMap<String, String>,
    /// Its pod by attribute; `None` if it has had several.
    pub(super) pod: BTreeMap<&'static str, Option<String>>,
    /// Attributes of its host and of its pods; `None` if they differ.
    pub(super) details: BTreeMap<String, Option<String>>,
    /// The pod of the last utilization.
    pub(super) last_pod: Option<PodLabels>,
}

/// The values of one instant.
#[derive(Clone, Debug)]
pub(super) struct Instant {
    pub(super) arrived: Nanos,
    pub(super) utilization: Vec<(Basis, Utilization)>,
    pub(super) missing: Option<MissingReason>,
    pub(super) xid: Option<u64>,
    rates: LinkRates,
    /// Memory that is not in use.
    free: Option<Bytes>,
    pub(super) reading: Reading,
}

impl HeldGpu {
    /// The instant of a value: that of a value close to it which it completes, else a new one. The time
    /// is that of the utilization.
    pub(super) fn instant(
        &mut self,
        at: Timestamp,
        arrived: Nanos,
        quantity: Quantity,
    ) -> &mut Instant {
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
            rates: LinkRates::NONE,
            free: None,
            reading: Reading::at(key),
        })
    }

    /// Takes the first instant; `None` if it is that of another sender, or billed elsewhere.
    pub(super) fn take_first(
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
            rates: instant.rates,
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
    /// The memory of the GPU, if its parts are known. It lacks what the driver reserves.
    pub(super) fn memory(&self) -> Option<Bytes> {
        let (used, free) = self.reading.memory_used.zip(self.free)?;
        Bytes::new(used.get() + free.get())
    }

    pub(super) fn set(&mut self, value: Value) {
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
            Value::MemoryFree(free) => self.free = Some(free),
            Value::MemoryTotal(_) => {}
            Value::Power(power) => reading.power = Some(power),
            Value::Energy(energy) => reading.energy = Some(energy),
            Value::Temperature(temperature) => reading.temperature = Some(temperature),
            Value::SmClock(clock) => reading.sm_clock = Some(clock),
            Value::MemoryClock(clock) => reading.memory_clock = Some(clock),
            Value::Xid(code) => self.xid = Some(code),
            Value::Device(column, share) => reading.device.set_share(column, Some(share)),
            Value::Number(column, number) => reading.device.set_number(column, Some(number)),
            Value::Rate(link, rate) => self.rates.set(link, rate),
            Value::EventReasons(active) => reading.device.set_event_reasons(active),
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
