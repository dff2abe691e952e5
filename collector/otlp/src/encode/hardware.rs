//! Points of a GPU as hardware: `hw.*`, and its clocks.

use std::collections::BTreeSet;

use phasemeter_meter::accounts::Balance;
use phasemeter_meter::device_metric::Component;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Bytes, Celsius, Nanos};

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::gpu_attributes::GpuDescription;
use super::instruments as metrics;
use super::stream::{self, Measured};
use super::values::{Start, double, text, weighted_seconds};

/// State between two exports.
#[derive(Clone, Debug)]
pub(super) struct Hardware {
    memory_total: Option<Bytes>,
    /// Temperature limits by `hw.limit_type`.
    temperature_limits: [(&'static str, Option<Celsius>); 2],
    /// Time observed until the last export.
    observed: Balance,
    /// Energy at the last export, in joules.
    energy: f64,
    /// Of which quantities another program sends the metrics.
    received: BTreeSet<Quantity>,
}

impl Hardware {
    /// State before the first export.
    pub(super) fn new(gpu: &GpuDescription) -> Self {
        let board = &gpu.identity.board;
        Self {
            memory_total: gpu.memory_total,
            temperature_limits: [
                ("high.degraded", board.slowdown),
                ("high.critical", board.shutdown),
            ],
            observed: Balance::default(),
            energy: 0.0,
            received: BTreeSet::new(),
        }
    }

    /// Leaves out the metrics of these quantities from now on. Sent twice, they would be summed twice.
    pub(super) fn leave_out(&mut self, received: &BTreeSet<Quantity>) {
        self.received.extend(received);
    }

    fn sends(&self, quantity: Quantity) -> bool {
        !self.received.contains(&quantity)
    }

    /// Adds the points of one export.
    pub(super) fn add_points(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        self.add_utilization(export, batch);
        self.add_energy(export, batch);
        if export.responds() {
            self.add_limits(export, batch);
        }
        if let Some(reading) = export.last_reading() {
            self.add_reading(reading, export, batch);
        }
    }

    /// Adds limits and capacities.
    fn add_limits(&self, export: &GpuSnapshot, batch: &mut Batch) {
        if let Some(total) = self.memory_total.filter(|_| self.sends(Quantity::MemoryTotal)) {
            let of = (Component::Gpu, Quantity::MemoryTotal);
            stream::add(of, Measured::Last(total.get().cast_signed()), export, batch);
        }
        for (kind, limit) in self.temperature_limits {
            if let Some(limit) = limit {
                let mut attributes = export.attributes.hardware("hw.sensor_location", "gpu");
                attributes.push(text("hw.limit_type", kind));
                let point = double(Start::NONE, attributes, f64::from(limit.0));
                batch.add_hardware(export.host, &metrics::HW_TEMPERATURE_LIMIT, point);
            }
        }
    }

    /// Adds the mean since the last export, if anything was observed.
    fn add_utilization(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        let observed = export.meter.accounts().observed();
        let before = std::mem::replace(&mut self.observed, observed);
        let time = observed.time - before.time;
        if time > Nanos::ZERO && self.sends(Quantity::Utilization) {
            let weighted = observed.weighted.saturating_sub(before.weighted);
            let mean = weighted_seconds(weighted) / time.as_secs_f64();
            let of = (Component::Gpu, Quantity::Utilization);
            stream::add(of, Measured::Mean(mean), export, batch);
        }
    }

    /// Adds the energy on all bases together.
    fn add_energy(&mut self, export: &GpuSnapshot, batch: &mut Batch) {
        let Some(joules) = export.meter.energy().joules() else { return };
        // A counter that is read again replaces the integral of power since, and can be lower; a sum
        // must not fall.
        self.energy = self.energy.max(joules);
        if !self.sends(Quantity::Energy) {
            return;
        }
        let of = (Component::Gpu, Quantity::Energy);
        stream::add(of, Measured::Sum(self.energy), export, batch);
    }

    fn add_reading(&self, reading: &Reading, export: &GpuSnapshot, batch: &mut Batch) {
        for (quantity, value) in [
            (Quantity::MemoryUsed, reading.memory_used.map(|used| used.get().cast_signed())),
            (Quantity::Power, reading.power.map(|power| power.get().into())),
            (Quantity::Temperature, reading.temperature.map(|celsius| celsius.0.into())),
            (Quantity::SmClock, reading.sm_clock.map(|clock| clock.0.into())),
            (Quantity::MemoryClock, reading.memory_clock.map(|clock| clock.0.into())),
        ] {
            let Some(value) = value else { continue };
            if self.sends(quantity) {
                let of = (Component::Gpu, quantity);
                stream::add(of, Measured::Last(value), export, batch);
            }
            if let Some(total) = self.memory_total.filter(|_| quantity == Quantity::MemoryUsed) {
                let total = total.get().cast_signed();
                stream::add_memory_utilization(Component::Gpu, value, total, export, batch);
            }
        }
    }
}
