//! The values of one GPU at one instant, as far as they have arrived.

use phasemeter_meter::device_totals::LinkRates;
use phasemeter_meter::holder::Holder;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};

use super::agreed::{Agreed, Origin};
use super::described::Details;
use super::holder::{LabeledHolder, Part, ShareKey};
use super::holder_metrics::HolderMetrics;
use super::identity::MigInstance;
use super::mig::MigInstances;
use super::names::Names;
use super::shared::Shared;
use super::smallest::Smallest;
use super::value::Value;

/// The values of one instant.
#[derive(Clone, Debug)]
pub(super) struct Instant {
    at: Timestamp,
    pub(super) arrived: Nanos,
    pub(super) utilization: Vec<(Basis, Shared<Utilization>)>,
    pub(super) memory_used: Shared<Bytes>,
    /// Why utilization is missing, by its source; of none in particular for MIG instances.
    missing: Vec<(Option<Basis>, MissingReason)>,
    /// The shares with a utilization that cannot be read.
    pub(super) missing_shares: Smallest<ShareKey, ()>,
    /// The holders of the GPU or of a share of it, by the labels of its values.
    pub(super) holders: Smallest<ShareKey, Part>,
    /// What is known of them besides.
    pub(super) details: Details,
    /// Its MIG instances.
    pub(super) mig: MigInstances,
    /// Metrics of holders.
    pub(super) holder_metrics: HolderMetrics,
    /// The instance of its host.
    pub(super) instance: Option<String>,
    /// The other values, which are those of the GPU whatever holder they are labeled with.
    values: Vec<(Quantity, Agreed<Value>)>,
}

impl Instant {
    pub(super) fn new(at: Timestamp, arrived: Nanos) -> Self {
        Self {
            at,
            arrived,
            utilization: Vec::new(),
            memory_used: Shared::default(),
            missing: Vec::new(),
            missing_shares: Smallest::default(),
            holders: Smallest::default(),
            details: Details::default(),
            mig: MigInstances::default(),
            holder_metrics: HolderMetrics::default(),
            instance: None,
            values: Vec::new(),
        }
    }

    pub(super) fn moved_to(self, at: Timestamp) -> Self {
        Self { at, ..self }
    }

    /// When this utilization was measured, of this holder's share if there is one; `None` if it has none.
    pub(super) fn measured_at(&self, basis: Basis, holder: Option<&ShareKey>) -> Option<Timestamp> {
        self.of(basis)?.measured_at(holder.filter(|_| is_divisible(basis)))
    }

    /// Whether it has this utilization, of anything.
    pub(super) fn has_any(&self, basis: Basis) -> bool {
        self.of(basis).is_some() || self.mig.has_any(basis)
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

    /// Why the utilization of this source is unknown, if it has more shares than are kept.
    pub(super) fn over(&self, basis: Option<Basis>) -> Option<MissingReason> {
        let is_over = self.of(basis?).is_some_and(Shared::is_over);
        is_over.then_some(MissingReason::Unreadable)
    }

    /// States why utilization of a share or of the GPU is missing. The first reason of each source counts.
    pub(super) fn set_missing(
        &mut self,
        basis: Option<Basis>,
        reason: MissingReason,
        holder: Option<&ShareKey>,
    ) {
        if !self.missing.iter().any(|(known, _)| *known == basis) {
            self.missing.push((basis, reason));
        }
        if let Some(holder) = holder {
            self.missing_shares.insert(holder);
        }
    }

    /// Adds a holder of the GPU.
    pub(super) fn add_holder(&mut self, LabeledHolder { key, part }: &LabeledHolder) {
        // Not all points of a holder need state its part.
        self.holders.upsert(key, || *part, |known| *known = (*known).max(*part));
    }

    /// The holders that labels name.
    pub(super) fn named(&self) -> impl Iterator<Item = &Holder> + Clone {
        self.named_by_gpu().chain(self.holder_metrics.named())
    }

    /// Those that labels of values of the GPU or of its instances name.
    pub(super) fn named_by_gpu(&self) -> impl Iterator<Item = &Holder> + Clone {
        self.holders.keys().map(|key| &key.holder).chain(self.mig.named())
    }

    /// Completes the names of holders.
    pub(super) fn complete(&mut self, names: &Names) {
        self.holders.rename(|key| key.complete(names), |known, part| *known = (*known).max(part));
        // It is one of the containers, which have their parts.
        self.holders.take(|key| names.is_of_any(&key.holder));
        self.missing_shares.rename(|key| key.complete(names), |(), ()| ());
        self.details.rename(|holder| names.complete(holder).cloned(), |_, _| {});
        self.utilization.iter_mut().for_each(|(_, shared)| shared.complete(names));
        self.memory_used.complete(names);
        self.mig.complete(names);
        self.holder_metrics.complete(names);
    }

    /// Removes holders: what they have is the GPU's.
    pub(super) fn remove_holders(&mut self, is_removed: impl Fn(&Holder) -> bool) {
        let is_key = |key: &ShareKey| is_removed(&key.holder);
        self.holders.take(is_key);
        self.missing_shares.take(is_key);
        self.utilization.iter_mut().for_each(|(_, shared)| shared.give_back(&is_removed));
        self.memory_used.give_back(&is_removed);
        self.mig.remove_holders(&is_removed);
    }

    /// Whether all that it has is of holders, so that it is not a reading of the GPU.
    pub(super) fn is_of_holders(&self) -> bool {
        !self.holder_metrics.is_empty()
            && self.utilization.is_empty()
            && self.missing.is_empty()
            && self.values.is_empty()
            && self.memory_used.is_empty()
    }

    /// Adds a value of the GPU, or of the share of a holder. Values that are not measured by process are those of
    /// the GPU, whatever holder they are labeled with. Returns how many points are refused, since they differ.
    pub(super) fn add(
        &mut self,
        (quantity, value): (Quantity, Value),
        origin: Origin,
        holder: Option<&ShareKey>,
    ) -> u32 {
        match value {
            Value::Utilization(basis, utilization) => {
                let share = holder.filter(|_| is_divisible(basis));
                let known = self.utilization.iter().position(|(known, _)| *known == basis);
                let place = known.unwrap_or_else(|| {
                    self.utilization.push((basis, Shared::default()));
                    self.utilization.len() - 1
                });
                let Some((_, shared)) = self.utilization.get_mut(place) else { return 0 };
                let refused = shared.add(share, origin, utilization);
                if refused > 0 {
                    self.set_missing(Some(basis), MissingReason::Unreadable, share);
                }
                refused
            }
            Value::MemoryUsed(used) => self.memory_used.add(holder, origin, used),
            value => match self.values.iter_mut().find(|(known, _)| *known == quantity) {
                Some((_, agreed)) => agreed.add(origin, value),
                None => {
                    self.values.push((quantity, Agreed::new(origin, value)));
                    0
                }
            },
        }
    }

    /// Adds a value of a MIG instance, or of the share of a holder, and its holder. Returns how many points are
    /// refused, since they differ.
    pub(super) fn add_of_instance(
        &mut self,
        (instance, holder): (&MigInstance, Option<&Holder>),
        share: Option<&ShareKey>,
        (quantity, basis, value): (Quantity, Option<Basis>, Result<Value, MissingReason>),
        origin: Origin,
    ) -> u32 {
        // Unless all of its instances are known, nothing is known of a GPU in MIG mode.
        self.set_missing(None, MissingReason::NotSupported, None);
        self.mig.note(instance, holder);
        match value {
            Ok(value) if is_of_board(quantity) => {
                self.add((quantity, value), origin, None);
                0
            }
            Ok(value) => self.mig.add(&instance.id, share, value, origin),
            Err(_) => {
                basis.into_iter().for_each(|basis| self.mig.set_unreadable(&instance.id, basis));
                0
            }
        }
    }

    /// Values that are not divided, without those whose points differ.
    pub(super) fn values(&self) -> impl Iterator<Item = Value> {
        self.values.iter().filter_map(|(_, agreed)| agreed.get())
    }

    /// The reading, without utilization and memory in use.
    pub(super) fn reading(&self) -> Reading {
        let mut reading = Reading::at(self.at);
        for value in self.values() {
            match value {
                Value::Power(power, basis) => {
                    (reading.power, reading.power_basis) = (Some(power), basis);
                }
                Value::Energy(energy, counter) => {
                    (reading.energy, reading.energy_counter) = (Some(energy), counter);
                }
                Value::Temperature(temperature) => reading.temperature = Some(temperature),
                Value::SmClock(clock) => reading.sm_clock = Some(clock),
                Value::MemoryClock(clock) => reading.memory_clock = Some(clock),
                Value::Kept(quantity, value) => reading.device.set(quantity, Some(value)),
                Value::EventReasons(active) => reading.device.set_event_reasons(active),
                Value::EnergyIncrease(..)
                | Value::Utilization(..)
                | Value::MemoryUsed(_)
                | Value::MemoryFree(_)
                | Value::MemoryTotal(_)
                | Value::Xid(_)
                | Value::Holder(_)
                | Value::Rate(..) => {}
            }
        }
        for (basis, quantity) in [
            (Basis::DcgmSm, Quantity::SmActivity),
            (Basis::DcgmGrEngine, Quantity::GraphicsActivity),
        ] {
            if let Some(activity) = self.of(basis).and_then(Shared::undivided) {
                reading.device.set(quantity, Some(activity.ppm()));
            }
        }
        reading
    }

    /// The rates of the links of the GPU.
    pub(super) fn rates(&self) -> LinkRates {
        let mut rates = LinkRates::NONE;
        for value in self.values() {
            if let Value::Rate(link, rate) = value {
                rates.set(link, rate);
            }
        }
        rates
    }
}

/// Whether each MIG instance has a copy of what is measured of its GPU.
pub(super) const fn is_of_board(quantity: Quantity) -> bool {
    matches!(
        quantity,
        Quantity::Power
            | Quantity::Energy
            | Quantity::Temperature
            | Quantity::SmClock
            | Quantity::MemoryClock
    )
}

/// Whether a utilization is measured by process, so that holders can have shares of it. Hardware counters are not.
pub(super) const fn is_divisible(basis: Basis) -> bool {
    matches!(basis, Basis::DcgmGpu | Basis::NvmlGpu | Basis::NvmlSamples | Basis::HwGpu)
}
