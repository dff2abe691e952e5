//! GPUs of a run: added at its start, or found by a reading.

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::{Pipeline, in_order};

impl Pipeline<'_> {
    /// Adds the next GPU of a live run, which is billed from `start` on, whenever its first reading
    /// arrives.
    pub fn add(&mut self, identity: &GpuIdentity, start: Timestamp) {
        #[cfg(feature = "full")]
        self.record(|_| super::Change::Gpu(identity.clone(), start));
        self.add_gpus(std::slice::from_ref(identity), start, start);
        let Some(gpu) = self.gpus.last_mut() else { return };
        gpu.begin_at(start, self.exporter.as_mut());
        self.wall.steps().for_each(|(at, offset)| gpu.meter.step_wall_clock(at, offset));
        self.announce_gap(identity, start);
        self.apply_waiting_holders();
    }

    /// Adds the next GPU of a gateway, found by the metrics of another program, whose span begins at its
    /// first reading, at `at`. Its utilization comes from `basis`.
    pub fn add_reported(
        &mut self,
        identity: &GpuIdentity,
        at: Timestamp,
        basis: Basis,
        stale_after: Nanos,
    ) {
        let stale_after = StaleAfter::Fixed(stale_after);
        let meter = MeterConfig { stale_after, basis, polled_basis: basis, ..self.meter };
        let rank = self.next_rank(identity.model.as_deref());
        let gpu = self.begin(meter, identity, rank, at, at);
        self.gpus.push(gpu);
        self.announce_gap(identity, at);
        self.apply_waiting_holders();
    }

    /// Adds the GPUs that were found by a reading at this instant.
    pub(super) fn add_found(&mut self, at: Timestamp, identities: &[GpuIdentity]) {
        if let Some(new @ [_, ..]) = identities.get(self.gpus.len()..) {
            // An older reading may still arrive.
            self.add_gpus(new, at.saturating_sub(self.meter.allowed_lateness), at);
            self.apply_waiting_holders();
        }
    }

    /// Adds GPUs that were found at this instant, whose spans begin at `first` at the earliest.
    #[cold]
    fn add_gpus(&mut self, new: &[GpuIdentity], first: Timestamp, at: Timestamp) {
        let mut ranks = vec![0; new.len()];
        for (index, identity) in in_order(new.iter().enumerate().collect(), |(_, new)| *new) {
            ranks[index] = self.next_rank(identity.model.as_deref());
        }
        for (identity, rank) in new.iter().zip(ranks) {
            let meter = match self.polled_bases.get(self.gpus.len()).copied().flatten() {
                Some(basis) => MeterConfig { basis, polled_basis: basis, ..self.meter },
                None => self.meter,
            };
            let gpu = self.begin(meter, identity, rank, first, at);
            self.gpus.push(gpu);
        }
    }
}
