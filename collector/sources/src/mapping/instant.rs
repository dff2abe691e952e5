//! The values of one GPU at one instant, as far as they have arrived.
//!
//! Must not depend on other instants.

use std::collections::BTreeSet;

use phasemeter_meter::device_state::DeviceColumn;
use phasemeter_meter::device_totals::LinkRates;
use phasemeter_meter::reading::{Basis, MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};

use super::holder::Holder;
use super::shared::{MAX_SHARES, Shared};
use super::value::Value;

/// The values of one instant.
#[derive(Clone, Debug)]
pub(super) struct Instant {
    pub(super) arrived: Nanos,
    pub(super) utilization: Vec<(Basis, Shared<Utilization>)>,
    pub(super) memory_used: Shared<Bytes>,
    /// Why utilization is missing, by its source; of none in particular for MIG instances.
    missing: Vec<(Option<Basis>, MissingReason)>,
    /// The shares with a utilization that cannot be read.
    pub(super) missing_shares: BTreeSet<Holder>,
    pub(super) xid: Option<u64>,
    pub(super) rates: LinkRates,
    /// Memory that is not in use.
    pub(super) free: Option<Bytes>,
    /// What has the GPU or a share of it.
    pub(super) holders: BTreeSet<Holder>,
    /// The other values.
    pub(super) reading: Reading,
}

impl Instant {
    pub(super) fn new(at: Timestamp, arrived: Nanos) -> Self {
        Self {
            arrived,
            utilization: Vec::new(),
            memory_used: Shared::default(),
            missing: Vec::new(),
            missing_shares: BTreeSet::new(),
            xid: None,
            rates: LinkRates::NONE,
            free: None,
            holders: BTreeSet::new(),
            reading: Reading::at(at),
        }
    }

    pub(super) fn moved_to(self, at: Timestamp) -> Self {
        Self { reading: Reading { at, ..self.reading }, ..self }
    }

    /// Whether it has this utilization, of this holder's share if there is one.
    pub(super) fn has(&self, basis: Basis, holder: Option<&Holder>) -> bool {
        self.of(basis).is_some_and(|shared| shared.has(holder.filter(|_| is_divisible(basis))))
    }

    /// Whether it has this utilization, of anything.
    pub(super) fn has_any(&self, basis: Basis) -> bool {
        self.of(basis).is_some()
    }

    pub(super) fn of(&self, basis: Basis) -> Option<&Shared<Utilization>> {
        self.utilization.iter().find(|(known, _)| *known == basis).map(|(_, shared)| shared)
    }

    /// Why the utilization of this source is missing; without a source, why any is. `None` if nothing was sent
    /// in its place: a missing value of one sender ends no reading of another.
    pub(super) fn missing(&self, basis: Option<Basis>) -> Option<MissingReason> {
        let is_about = |of: Option<Basis>| basis.is_none() || of.is_none() || of == basis;
        self.missing.iter().find(|(of, _)| is_about(*of)).map(|(_, reason)| *reason)
    }

    /// States why utilization of a share or of the GPU is missing. The first reason of each source counts.
    pub(super) fn set_missing(
        &mut self,
        basis: Option<Basis>,
        reason: MissingReason,
        holder: Option<&Holder>,
    ) {
        if !self.missing.iter().any(|(known, _)| *known == basis) {
            self.missing.push((basis, reason));
        }
        if let Some(holder) = holder
            && self.missing_shares.len() < MAX_SHARES
        {
            self.missing_shares.insert(holder.clone());
        }
    }

    /// Adds what has the GPU.
    pub(super) fn add_holder(&mut self, holder: &Holder) {
        if self.holders.len() < MAX_SHARES {
            self.holders.insert(holder.whole());
        }
    }

    /// Sets a value of the GPU, or of the share of a holder. Values that are not measured by process are those of
    /// the GPU, whatever holder they are labeled with.
    pub(super) fn set(&mut self, value: Value, holder: Option<&Holder>) {
        let reading = &mut self.reading;
        match value {
            Value::Utilization(basis, utilization) => {
                let column = match basis {
                    Basis::DcgmSm => Some(DeviceColumn::Sm),
                    Basis::DcgmGrEngine => Some(DeviceColumn::GrEngine),
                    _ => None,
                };
                if let Some(column) = column {
                    reading.device.set_share(column, Some(utilization));
                }
                let known = self.utilization.iter().position(|(known, _)| *known == basis);
                let place = known.unwrap_or_else(|| {
                    self.utilization.push((basis, Shared::default()));
                    self.utilization.len() - 1
                });
                if let Some((_, shared)) = self.utilization.get_mut(place) {
                    shared.set(holder.filter(|_| is_divisible(basis)), utilization);
                }
            }
            Value::MemoryUsed(used) => self.memory_used.set(holder, used),
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

/// Whether a utilization is measured by process, so that holders can have shares of it. Hardware counters are not.
pub(super) const fn is_divisible(basis: Basis) -> bool {
    matches!(basis, Basis::DcgmGpu | Basis::NvmlGpu | Basis::NvmlSamples | Basis::HwGpu)
}
