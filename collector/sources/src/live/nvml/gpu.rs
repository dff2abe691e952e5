//! All queries of one GPU.

use nvml_wrapper::enum_wrappers::device::{Clock as ClockDomain, Sampling, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue};
use phasemeter_meter::energy_source::{EnergyCounter, PowerBasis};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Nanos, Utilization,
};

use phasemeter_nvml_calls::samples;

use super::gpm::{Gpm, Sampled};
use super::identity::power_limit;
use super::mig::{Emitted, MigInstances};
use super::processes::Processes;
use super::ring::{Sample, SampleRing};
use super::value::{from_percent, whole};
use super::xids::Xids;
use super::{fans, fields, nvlink, video};
use crate::clock::Clock;
use crate::live::{Device as LiveDevice, Event, LossReason, Metric, Observed, QueryError};

/// A responding GPU.
#[derive(Debug)]
pub(super) struct Gpu<'d> {
    nvml: &'d Nvml,
    device: Device<'d>,
    xids: Xids<'d>,
    ring: SampleRing,
    gpm: Gpm<'d>,
    mig: MigInstances<'d>,
    processes: Processes,
}

impl<'d> Gpu<'d> {
    /// Finds a GPU by UUID. A driver sample covers at most `stale_after`.
    ///
    /// # Errors
    /// Returns an error if the GPU is missing or lost.
    pub(super) fn find(nvml: &'d Nvml, uuid: &str, stale_after: Nanos) -> Result<Self, QueryError> {
        let device = nvml.device_by_uuid(uuid)?;
        let gpu = Self {
            nvml,
            device,
            xids: Xids::default(),
            ring: SampleRing::new(stale_after),
            gpm: Gpm::default(),
            mig: MigInstances::default(),
            processes: Processes::default(),
        };
        // A lost GPU may still have a handle.
        gpu.loss().map_or(Ok(gpu), |loss| Err(QueryError::Lost(loss)))
    }

    /// All samples in the ring buffer, which may be empty (`nvmlDeviceGetSamples`).
    fn samples(&self) -> Result<Vec<Sample>, QueryError> {
        let samples = match samples(&self.device, Sampling::GpuUtilization, 0) {
            Err(NvmlError::NotFound) => Vec::new(),
            result => result?,
        };
        let plain = samples.iter().filter_map(|sample| {
            Some(Sample { stamp: sample.timestamp, value: whole(&sample.value)? })
        });
        Ok(plain.collect())
    }
}

impl LiveDevice for Gpu<'_> {
    /// It is lost if none of its basic queries is answered and at least one fails. A query that is not supported does
    /// neither, and a single one may fail for reasons of its own.
    fn loss(&self) -> Option<LossReason> {
        let results = [
            self.device.utilization_rates().map(drop),
            self.device.memory_info().map(drop),
            self.device.power_usage().map(drop),
            self.device.temperature(TemperatureSensor::Gpu).map(drop),
            self.device.total_energy_consumption().map(drop),
        ];
        let mut loss = None;
        for result in results {
            match result.map_err(QueryError::from) {
                Ok(()) => return None,
                Err(QueryError::Lost(known)) => loss = Some(known),
                Err(QueryError::Failed) => loss = loss.or(Some(LossReason::Unanswered)),
                Err(QueryError::Unsupported(_)) => {}
            }
        }
        loss
    }

    fn period(&self, metric: Metric) -> Nanos {
        match metric {
            Metric::Samples => self.ring.drain_interval(),
            other => other.period(),
        }
    }

    fn is_incomplete(&self, metric: Metric) -> bool {
        metric == Metric::Events && self.xids.are_waiting()
    }

    fn query(
        &mut self,
        metric: Metric,
        clock: &Clock,
        values: &mut Reading,
        emit: &mut dyn FnMut(Observed),
    ) -> Result<(), QueryError> {
        metric.clear(values);
        let (device, at) = (&self.device, clock.now());
        let mut measured = |component, quantity, value| {
            emit(Observed::DeviceMetric(DeviceMetric { at, component, quantity, value }));
        };
        match metric {
            Metric::Memory => {
                let used = Quantity::MemoryUsed.admit(device.memory_info()?.used);
                values.memory_used = used.and_then(Bytes::new);
            }
            Metric::Power => {
                let power = Quantity::Power.admit(device.power_usage()?);
                values.power = power.and_then(Milliwatts::new);
                values.power_basis = PowerBasis::NvmlUsage;
            }
            Metric::Energy => {
                let energy = Quantity::Energy.admit(device.total_energy_consumption()?);
                values.energy = energy.map(Millijoules);
                values.energy_counter = EnergyCounter::Nvml;
            }
            Metric::Temperature => {
                let degrees = device.temperature(TemperatureSensor::Gpu)?;
                values.temperature = Quantity::Temperature.admit(degrees).map(Celsius);
            }
            Metric::Clocks => {
                let sm = device.clock_info(ClockDomain::SM)?;
                values.sm_clock = Quantity::SmClock.admit(sm).map(Megahertz);
                let memory = device.clock_info(ClockDomain::Memory)?;
                values.memory_clock = Quantity::MemoryClock.admit(memory).map(Megahertz);
            }
            Metric::PcieLink => {
                let link = [
                    device.current_pcie_link_gen()?,
                    device.current_pcie_link_width()?,
                    device.max_pcie_link_width()?,
                ];
                for (quantity, number) in Metric::PCIE_LINK.into_iter().zip(link) {
                    values.device.set(quantity, quantity.admit(number));
                }
            }
            Metric::Utilization => {
                let result = device.utilization_rates().map_err(QueryError::from);
                let memory = result.as_ref().ok().map(|rates| rates.memory);
                let memory = memory.and_then(|it| from_percent(Quantity::MemoryUtilization, it));
                values.device.set(Quantity::MemoryUtilization, memory.map(Utilization::ppm));
                values.utilization = match &result {
                    Ok(rates) => from_percent(Quantity::Utilization, rates.gpu)
                        .ok_or(MissingReason::Unreadable),
                    Err(QueryError::Unsupported(_)) => Err(MissingReason::NotSupported),
                    Err(QueryError::Lost(_)) => Err(MissingReason::Lost),
                    Err(QueryError::Failed) => Err(MissingReason::Unreadable),
                };
                return result.map(drop);
            }
            Metric::Processes => {
                let emit = |process| emit(Observed::Process(process));
                values.compute_processes = Some(self.processes.query(device, at, emit)?);
            }
            Metric::Events => {
                let emit = |code, count| emit(Observed::Event(Event::Xid { code, count }));
                self.xids.query(self.nvml, device, clock, emit)?;
            }
            Metric::ProcessUse => {
                let emit = |used| emit(Observed::ProcessUse(used));
                self.processes.query_use(device, at, emit)?;
            }
            Metric::Samples => {
                let mut samples = self.samples()?;
                let emit = |interval| emit(Observed::Interval(interval));
                let (at, clocks) = clock.read();
                self.ring.drain(&mut samples, at, &clocks, emit);
            }
            Metric::Gpm => {
                let activity = self.gpm.query(self.nvml, device, Sampled::Gpu, at)?;
                activity.into_iter().for_each(|activity| emit(Observed::Activity(activity)));
            }
            Metric::Counters => fields::query(device, measured)?,
            Metric::Video => video::query(device, at, measured)?,
            Metric::PowerLimit => {
                if let Some(limit) = power_limit(device)? {
                    let value = DeviceValue::Now(limit.get().into());
                    measured(Component::Gpu, Quantity::PowerLimit, value);
                }
            }
            Metric::Fans => fans::query(device, measured)?,
            Metric::NvLinks => nvlink::query(device, measured)?,
            Metric::Mig => {
                self.mig.query(self.nvml, device, at, |emitted| match emitted {
                    Emitted::Instance(instance) => emit(Observed::MigInstance(instance)),
                    Emitted::Process(process) => emit(Observed::Process(process)),
                    Emitted::Value(component, quantity, value) => {
                        emit(Observed::DeviceMetric(DeviceMetric {
                            at,
                            component,
                            quantity,
                            value,
                        }));
                    }
                })?;
                if let Ok(mode) = device.mig_mode() {
                    emit(Observed::MigMode(mode.current != 0));
                }
            }
        }
        Ok(())
    }
}
