//! `[[device.phase]]`: a period of constant GPU behavior.

use phasemeter_meter::units::{Bytes, Celsius, Megahertz, Nanos, Utilization};
use serde::Deserialize;

use super::scalar::{Mebibytes, Millis, Percent, Watts};
use crate::track::{LinkErrors, PcieLink, Phase, Process, ProcessKind, Rate, Rates, State};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PhaseText {
    name: String,
    for_ms: Millis,
    utilization: Option<Percent>,
    burst: Option<BurstText>,
    sm: Option<Percent>,
    occupancy: Percent,
    tensor: Percent,
    dram: Percent,
    fp64: Percent,
    fp32: Percent,
    fp16: Percent,
    pcie_tx_mib_s: u32,
    pcie_rx_mib_s: u32,
    nvlink_tx_mib_s: u32,
    nvlink_rx_mib_s: u32,
    power_w: Watts,
    power_limit_w: Option<Watts>,
    memory_used_mib: Mebibytes,
    temperature_c: i16,
    memory_temperature_c: Option<i16>,
    fans_percent: Vec<u32>,
    sm_clock_mhz: u32,
    memory_clock_mhz: u32,
    throttle: Vec<Throttle>,
    ecc_corrected: u64,
    ecc_uncorrected: u64,
    row_remap_pending: bool,
    row_remap_failed: bool,
    pcie_generation: u32,
    pcie_lanes: u32,
    pcie_replays: u64,
    nvlink_errors: Vec<LinkErrors>,
    encoder: Percent,
    decoder: Percent,
    performance_state: u8,
    processes: Vec<ProcessText>,
}

impl Default for PhaseText {
    fn default() -> Self {
        Self {
            name: String::new(),
            for_ms: Millis::of(1_000),
            utilization: None,
            burst: None,
            sm: None,
            occupancy: Percent(Utilization::ZERO),
            tensor: Percent(Utilization::ZERO),
            dram: Percent(Utilization::ZERO),
            fp64: Percent(Utilization::ZERO),
            fp32: Percent(Utilization::ZERO),
            fp16: Percent(Utilization::ZERO),
            pcie_tx_mib_s: 0,
            pcie_rx_mib_s: 0,
            nvlink_tx_mib_s: 0,
            nvlink_rx_mib_s: 0,
            power_w: Watts::of(70),
            power_limit_w: None,
            memory_used_mib: Mebibytes::of(0),
            temperature_c: 30,
            memory_temperature_c: None,
            fans_percent: Vec::new(),
            sm_clock_mhz: 345,
            memory_clock_mhz: 2_619,
            throttle: Vec::new(),
            ecc_corrected: 0,
            ecc_uncorrected: 0,
            row_remap_pending: false,
            row_remap_failed: false,
            pcie_generation: PcieLink::MAX.generation,
            pcie_lanes: PcieLink::MAX.lanes,
            pcie_replays: 0,
            nvlink_errors: Vec::new(),
            encoder: Percent(Utilization::ZERO),
            decoder: Percent(Utilization::ZERO),
            performance_state: 0,
            processes: Vec::new(),
        }
    }
}

impl PhaseText {
    /// The phase of a GPU with this power limit.
    pub(super) fn into_phase(self, power_limit: Watts) -> Phase {
        let bytes = |mib: u32| u64::from(mib) * Bytes::MEBIBYTE;
        let ppm = |percent: Percent| u64::from(percent.0.ppm());
        let power = |watts: Watts| u64::from(watts.0.get());
        // A burst is a running kernel: fully utilized while on unless specified otherwise.
        let default = if self.burst.is_some() { Utilization::FULL } else { Utilization::ZERO };
        let busy = self.utilization.unwrap_or(Percent(default));
        let on = Rates::default()
            .with(Rate::Busy, ppm(busy))
            .with(Rate::Sm, ppm(self.sm.unwrap_or(busy)))
            .with(Rate::Occupancy, ppm(self.occupancy))
            .with(Rate::Tensor, ppm(self.tensor))
            .with(Rate::Dram, ppm(self.dram))
            .with(Rate::Fp64, ppm(self.fp64))
            .with(Rate::Fp32, ppm(self.fp32))
            .with(Rate::Fp16, ppm(self.fp16))
            .with(Rate::PcieTx, bytes(self.pcie_tx_mib_s))
            .with(Rate::PcieRx, bytes(self.pcie_rx_mib_s))
            .with(Rate::NvlinkTx, bytes(self.nvlink_tx_mib_s))
            .with(Rate::NvlinkRx, bytes(self.nvlink_rx_mib_s))
            .with(Rate::Power, power(self.power_w));
        let length = self.for_ms.nanos();
        let (off, period, on_for) = match self.burst {
            Some(BurstText { period_ms, on_ms, off_power_w }) => {
                let watts = off_power_w.unwrap_or(self.power_w);
                let period = period_ms.nanos();
                let on_for = Nanos::from_millis(on_ms).min(period);
                (Rates::default().with(Rate::Power, power(watts)), period, on_for)
            }
            // The last phase may continue past its length.
            None => (on, Nanos(u64::MAX), Nanos(u64::MAX)),
        };
        let state = State {
            memory_used: self.memory_used_mib.0,
            temperature: Celsius(self.temperature_c),
            memory_temperature: self.memory_temperature_c.map(Celsius),
            fans: self.fans_percent,
            power_limit: self.power_limit_w.unwrap_or(power_limit).0,
            sm_clock: Megahertz(self.sm_clock_mhz),
            memory_clock: Megahertz(self.memory_clock_mhz),
            throttle: self.throttle.into_iter().fold(0, |bits, reason| bits | reason.bit()),
            ecc: [self.ecc_corrected, self.ecc_uncorrected],
            row_remap: [self.row_remap_pending, self.row_remap_failed],
            pcie_link: PcieLink { generation: self.pcie_generation, lanes: self.pcie_lanes },
            pcie_replays: self.pcie_replays,
            link_errors: self.nvlink_errors,
            video: [self.encoder.0, self.decoder.0],
            performance_state: self.performance_state,
            processes: self.processes.into_iter().map(ProcessText::into_process).collect(),
        };
        Phase { name: self.name, length, on, off, period, on_for, state }
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct BurstText {
    period_ms: Millis,
    on_ms: u64,
    off_power_w: Option<Watts>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessText {
    pid: u32,
    #[serde(default)]
    name: String,
    memory_mib: Option<Mebibytes>,
    #[serde(default)]
    kind: ProcessKind,
    #[serde(default = "Percent::full")]
    share: Percent,
    gpu_instance: Option<u32>,
}

impl ProcessText {
    fn into_process(self) -> Process {
        Process {
            pid: self.pid,
            name: self.name,
            memory: self.memory_mib.map(|mib| mib.0),
            kind: self.kind,
            share: self.share.0,
            gpu_instance: self.gpu_instance,
        }
    }
}

/// Reason for throttled clocks.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Throttle {
    GpuIdle,
    ApplicationsClocks,
    SwPowerCap,
    HwSlowdown,
    SyncBoost,
    SwThermal,
    HwThermal,
    HwPowerBrake,
}

impl Throttle {
    /// `nvmlClocksEventReason…`.
    const fn bit(self) -> u64 {
        1 << self as u64
    }
}
