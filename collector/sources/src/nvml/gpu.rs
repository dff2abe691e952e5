//! One GPU of one generation of the driver: every question that is asked of it.
//!
//! It asks and translates; when to ask is the sampler's business. A GPU holds handles of the
//! driver: it goes when the GPU is lost or the driver is, and is found again by its uuid.

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock as ClockDomain, Sampling, TemperatureSensor};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::UtilizationInfo;
use nvml_wrapper::{Device, EventSet, Nvml};
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Nanos, Utilization,
};

use super::counters;
use super::gpm::Gpm;
use super::metric::Metric;
use super::observation::{Event, Observed};
use super::query_error::{QueryError, UnsupportedReason};
use super::ring::{Sample, SampleRing};
use super::value::whole;
use crate::clock::Clock;
use phasemeter_meter::device_metric::{DeviceMetric, DeviceValue, Engine};

/// The driver is asked for the next XID at most so often in a row: it may not keep us.
const MAX_XIDS_PER_POLL: usize = 16;

/// What the driver calls an XID that it does not know.
const UNKNOWN_XID: u64 = 999;

/// A GPU that answers.
#[derive(Debug)]
pub struct Gpu<'d> {
    nvml: &'d Nvml,
    device: Device<'d>,
    events: Option<EventSet<'d>>,
    ring: SampleRing,
    gpm: Gpm<'d>,
}

impl<'d> Gpu<'d> {
    /// Looks a GPU up. A driver sample covers at most `stale_after`.
    ///
    /// # Errors
    /// Where it is not there, or is but does not result.
    pub fn find(nvml: &'d Nvml, uuid: &str, stale_after: Nanos) -> Result<Self, QueryError> {
        let device = nvml.device_by_uuid(uuid)?;
        // A GPU that is lost may still have a handle.
        if let Err(QueryError::Lost(loss)) = device.utilization_rates().map_err(QueryError::from) {
            return Err(QueryError::Lost(loss));
        }
        Ok(Self {
            nvml,
            device,
            events: None,
            ring: SampleRing::new(stale_after),
            gpm: Gpm::default(),
        })
    }

    /// How often a metric is worth asking here; zero: at every tick.
    #[must_use]
    pub const fn period(&self, metric: Metric) -> Nanos {
        match metric {
            Metric::Samples => self.ring.drain_interval(),
            other => other.period(),
        }
    }

    /// Asks one metric. What belongs in a reading goes into `values`, the rest is told.
    ///
    /// # Errors
    /// Where there is no result; then `values` has none either.
    pub fn query(
        &mut self,
        metric: Metric,
        clock: &Clock,
        values: &mut Reading,
        mut emit: impl FnMut(Observed),
    ) -> Result<(), QueryError> {
        clear_metric(metric, values);
        let device = &self.device;
        match metric {
            Metric::Memory => values.memory_used = Bytes::new(device.memory_info()?.used),
            Metric::Power => values.power = Milliwatts::new(device.power_usage()?),
            Metric::Energy => {
                values.energy = Some(Millijoules(device.total_energy_consumption()?));
            }
            Metric::Temperature => {
                let degrees = device.temperature(TemperatureSensor::Gpu)?;
                values.temperature = i16::try_from(degrees).ok().map(Celsius);
            }
            Metric::Clocks => {
                values.sm_clock = Some(Megahertz(device.clock_info(ClockDomain::SM)?));
                values.memory_clock = Some(Megahertz(device.clock_info(ClockDomain::Memory)?));
            }
            Metric::Utilization => {
                let result = device.utilization_rates().map_err(QueryError::from);
                values.utilization = match &result {
                    Ok(rates) => {
                        Utilization::from_percent(rates.gpu).ok_or(MissingReason::Unreadable)
                    }
                    Err(QueryError::Unsupported(_)) => Err(MissingReason::NotSupported),
                    Err(QueryError::Lost(_)) => Err(MissingReason::Lost),
                    Err(QueryError::Failed) => Err(MissingReason::Unreadable),
                };
                return result.map(drop);
            }
            Metric::Processes => {
                values.compute_processes = Some(device.running_compute_processes_count()?);
            }
            Metric::Events => self.drain_events(|event| emit(Observed::Event(event)))?,
            Metric::Samples => {
                let mut samples = self.samples()?;
                let emit = |interval| emit(Observed::Interval(interval));
                self.ring.drain(&mut samples, clock.now(), emit);
            }
            Metric::Gpm => {
                let activity = self.gpm.query(self.nvml, device, clock.now())?;
                activity.into_iter().for_each(|activity| emit(Observed::Activity(activity)));
            }
            Metric::Counters => {
                let at = clock.now();
                counters::query(device, |counter, total| {
                    let value = DeviceValue::Count { counter, total: total };
                    emit(Observed::DeviceMetric(DeviceMetric { at, value }));
                })?;
            }
            Metric::Video => {
                let engines = [
                    (Engine::Encoder, device.encoder_utilization()?),
                    (Engine::Decoder, device.decoder_utilization()?),
                ];
                let at = clock.now();
                for (engine, UtilizationInfo { utilization, sampling_period }) in engines {
                    // Of a driver that does not say how long it looked.
                    let micros = u64::from(sampling_period.max(1));
                    let from = at.saturating_sub(Nanos(micros * 1_000));
                    if let Some(mean) = Utilization::from_percent(utilization) {
                        let value = DeviceValue::Activity { engine, from, mean };
                        emit(Observed::DeviceMetric(DeviceMetric { at, value }));
                    }
                }
            }
        }
        Ok(())
    }

    /// Our clock was set: nothing is compared with what was stamped before.
    pub fn reset_clock(&mut self) {
        self.ring.reset_clock();
        self.gpm.reset_clock();
    }

    /// The whole ring. That there is nothing in it is an result.
    fn samples(&self) -> Result<Vec<Sample>, QueryError> {
        let samples = match self.device.samples(Sampling::GpuUtilization, None) {
            Err(NvmlError::NotFound) => Vec::new(),
            result => result?,
        };
        let plain = samples.iter().filter_map(|sample| {
            Some(Sample { stamp: sample.timestamp, value: whole(&sample.value)? })
        });
        Ok(plain.collect())
    }

    /// Tells the XIDs that came since the last time, without waiting for any.
    fn drain_events(&mut self, mut emit: impl FnMut(Event)) -> Result<(), QueryError> {
        let events = match &mut self.events {
            Some(events) => events,
            none => none.insert(register(self.nvml, &self.device)?),
        };
        for _ in 0..MAX_XIDS_PER_POLL {
            match events.wait(0) {
                Ok(event) => match event.event_data {
                    Some(XidError::Value(code)) => emit(Event::Xid(code)),
                    Some(XidError::Unknown) => emit(Event::Xid(UNKNOWN_XID)),
                    None => {}
                },
                Err(NvmlError::Timeout) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Takes a metric's values out of a reading: they are not known, or no longer.
pub fn clear_metric(metric: Metric, values: &mut Reading) {
    match metric {
        Metric::Memory => values.memory_used = None,
        Metric::Power => values.power = None,
        Metric::Energy => values.energy = None,
        Metric::Temperature => values.temperature = None,
        Metric::Clocks => (values.sm_clock, values.memory_clock) = (None, None),
        Metric::Utilization => values.utilization = Err(MissingReason::NotCollected),
        Metric::Processes => values.compute_processes = None,
        Metric::Events | Metric::Samples | Metric::Gpm | Metric::Counters | Metric::Video => {}
    }
}

/// A set of its own for each GPU: where registering fails, the driver takes the set with it. A set
/// that cannot be freed must not be made: the wrapper would panic on it.
fn register<'d>(nvml: &'d Nvml, device: &Device<'d>) -> Result<EventSet<'d>, QueryError> {
    if nvml.lib().nvmlEventSetFree.is_err() {
        return Err(QueryError::Unsupported(UnsupportedReason::Driver));
    }
    let set = nvml.create_event_set()?;
    device
        .register_events(EventTypes::CRITICAL_XID_ERROR, set)
        .map_err(|failed| failed.error.into())
}
