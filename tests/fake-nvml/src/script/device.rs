//! `[[device]]` and `[driver]`: a GPU and how its driver behaves.

use std::ops::Range;
use std::path::{Path, PathBuf};

use phasemeter_meter::units::{Celsius, Megahertz, Millijoules, Nanos, Utilization};
use serde::Deserialize;

use super::phase::PhaseText;
use super::scalar::{Bits, BusText, Mebibytes, Millis, Percent, Watts};
use crate::device::{Architecture, BusId, Device, Driver, Identity, Ring};
use crate::mig::Instance;
use crate::replay::{self, ReplayError};
use crate::track::Track;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DriverText {
    window_ms: u64,
    sample_period_ms: Millis,
    sample_depth: u32,
    power_sample_period_ms: Millis,
    power_sample_depth: u32,
    empty_when_idle: bool,
    unordered: bool,
    power_window_ms: u64,
    energy_refresh_ms: u64,
    energy_start_mj: u64,
    gpm_refresh_ms: u64,
    pcie_counter_bits: Bits,
}

impl Default for DriverText {
    fn default() -> Self {
        Self {
            window_ms: 167,
            sample_period_ms: Millis::of(167),
            sample_depth: 100,
            power_sample_period_ms: Millis::of(100),
            power_sample_depth: 120,
            empty_when_idle: false,
            unordered: false,
            power_window_ms: 1_000,
            energy_refresh_ms: 100,
            energy_start_mj: 0,
            gpm_refresh_ms: 100,
            pcie_counter_bits: Bits(u64::BITS),
        }
    }
}

impl DriverText {
    pub(super) fn to_driver(&self) -> Driver {
        let ring = |period: Millis, depth| Ring { period: period.nanos(), depth };
        Driver {
            window: Nanos::from_millis(self.window_ms),
            samples: ring(self.sample_period_ms, self.sample_depth),
            power_samples: ring(self.power_sample_period_ms, self.power_sample_depth),
            empty_when_idle: self.empty_when_idle,
            unordered: self.unordered,
            power_window: Nanos::from_millis(self.power_window_ms),
            energy_refresh: Nanos::from_millis(self.energy_refresh_ms),
            energy_start: Millijoules(self.energy_start_mj),
            gpm_refresh: Nanos::from_millis(self.gpm_refresh_ms),
            pcie_counter_bits: self.pcie_counter_bits.0,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DeviceText {
    listed_from_ms: u64,
    listed_for_ms: Option<Millis>,
    name: String,
    uuid: Option<String>,
    serial: Option<String>,
    vbios_version: String,
    bus_id: Option<BusText>,
    architecture: Architecture,
    memory_total_mib: Mebibytes,
    memory_reserved_mib: Mebibytes,
    power_limit_w: Watts,
    slowdown_c: i16,
    shutdown_c: i16,
    sm_clock_max_mhz: u32,
    memory_clock_max_mhz: u32,
    nvlinks: u32,
    nvlink_peer: Option<usize>,
    mig: bool,
    mig_from_ms: u64,
    mig_for_ms: Option<Millis>,
    instance: Vec<InstanceText>,
    gpm: Option<bool>,
    driver: Option<DriverText>,
    replay: Option<ReplayText>,
    phase: Vec<PhaseText>,
    repeat: bool,
}

impl Default for DeviceText {
    fn default() -> Self {
        Self {
            listed_from_ms: 0,
            listed_for_ms: None,
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            uuid: None,
            serial: None,
            vbios_version: "96.00.74.00.01".to_owned(),
            bus_id: None,
            architecture: Architecture::Hopper,
            memory_total_mib: Mebibytes::of(81_559),
            memory_reserved_mib: Mebibytes::of(551),
            power_limit_w: Watts::of(700),
            slowdown_c: 89,
            shutdown_c: 92,
            sm_clock_max_mhz: 1_980,
            memory_clock_max_mhz: 2_619,
            nvlinks: 0,
            nvlink_peer: None,
            mig: false,
            mig_from_ms: 0,
            mig_for_ms: None,
            instance: Vec::new(),
            gpm: None,
            driver: None,
            replay: None,
            phase: Vec::new(),
            repeat: false,
        }
    }
}

impl DeviceText {
    pub(super) fn validate(
        self,
        index: usize,
        driver: &DriverText,
        script: &Path,
    ) -> Result<Device, ReplayError> {
        let mut phases = Vec::new();
        if let Some(ReplayText { file, gpu }) = &self.replay {
            let log = script.parent().unwrap_or(Path::new("")).join(file);
            let idle = PhaseText::default().into_phase(self.power_limit_w);
            phases = replay::phases(&log, gpu.as_deref(), &idle)?;
        }
        let limit = self.power_limit_w;
        phases.extend(self.phase.into_iter().map(|phase| phase.into_phase(limit)));
        let mut phases = phases.into_iter();
        let first = phases.next().unwrap_or_else(|| PhaseText::default().into_phase(limit));

        let mig = period(self.mig_from_ms, self.mig_for_ms);
        let mig = if self.mig { mig } else { Nanos::ZERO..Nanos::ZERO };
        let slot = u8::try_from(index + 1).unwrap_or(u8::MAX);
        let identity = Identity {
            name: self.name,
            uuid: self.uuid.unwrap_or_else(|| format!("GPU-00000000-0000-0000-0000-{index:012}")),
            serial: self.serial.unwrap_or_else(|| format!("{:013}", index + 1)),
            vbios: self.vbios_version,
            bus: self.bus_id.map_or(BusId { domain: 0, bus: slot, device: 0 }, |text| text.0),
            architecture: self.architecture,
            memory_total: self.memory_total_mib.0,
            memory_reserved: self.memory_reserved_mib.0,
            power_limit: limit.0,
            slowdown: Celsius(self.slowdown_c),
            shutdown: Celsius(self.shutdown_c),
            sm_clock_max: Megahertz(self.sm_clock_max_mhz),
            memory_clock_max: Megahertz(self.memory_clock_max_mhz),
            nvlinks: self.nvlinks,
            nvlink_peer: self.nvlink_peer,
            mig,
            gpm: self.gpm.unwrap_or(self.architecture >= Architecture::Hopper),
        };
        let instances = (0..).zip(self.instance).map(|(place, it)| it.into_instance(index, place));
        Ok(Device {
            listed: period(self.listed_from_ms, self.listed_for_ms),
            identity,
            driver: self.driver.as_ref().unwrap_or(driver).to_driver(),
            instances: instances.collect(),
            track: Track::new(first, phases.collect(), self.repeat),
        })
    }
}

/// From this instant on, for this long; if `None`, for good.
fn period(from_ms: u64, for_ms: Option<Millis>) -> Range<Nanos> {
    let from = Nanos::from_millis(from_ms);
    from..for_ms.map_or(Nanos(u64::MAX), |length| from + length.nanos())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct InstanceText {
    uuid: Option<String>,
    profile: String,
    gpu_instance: u32,
    placement: PlacementText,
    at_ms: u64,
    for_ms: Option<Millis>,
    memory_total_mib: Mebibytes,
    memory_used_mib: Mebibytes,
    sm: Percent,
    tensor: Percent,
    dram: Percent,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlacementText {
    start: u32,
    size: u32,
}

impl Default for InstanceText {
    fn default() -> Self {
        Self {
            uuid: None,
            profile: "1g.10gb".to_owned(),
            gpu_instance: 7,
            placement: PlacementText { start: 0, size: 1 },
            at_ms: 0,
            for_ms: None,
            memory_total_mib: Mebibytes::of(9_856),
            memory_used_mib: Mebibytes::of(0),
            sm: Percent(Utilization::ZERO),
            tensor: Percent(Utilization::ZERO),
            dram: Percent(Utilization::ZERO),
        }
    }
}

impl InstanceText {
    fn into_instance(self, device: usize, place: usize) -> Instance {
        let existence = period(self.at_ms, self.for_ms);
        let default = || format!("MIG-00000000-0000-0000-{device:04}-{place:012}");
        Instance {
            uuid: self.uuid.unwrap_or_else(default),
            profile: self.profile,
            gpu_instance: self.gpu_instance,
            placement: (self.placement.start, self.placement.size),
            from: existence.start,
            until: existence.end,
            memory_total: self.memory_total_mib.0,
            memory_used: self.memory_used_mib.0,
            activity: [self.sm.0, self.tensor.0, self.dram.0],
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayText {
    file: PathBuf,
    gpu: Option<String>,
}
