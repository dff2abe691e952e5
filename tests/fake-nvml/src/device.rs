//! What a driver reports for one GPU at an instant: the ground truth of its [`Track`], averaged over
//! windows, held, rounded and refreshed as drivers do.
//!
//! Every value is a pure function of the script and the time since its start.

use std::ops::Range;

use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, NANOS_PER_SECOND, Nanos, Utilization,
};

use crate::mig::Instance;
use crate::track::{Process, Rate, State, Track};

/// A GPU's fixed properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Model name as the driver spells it.
    pub name: String,
    /// `GPU-…`.
    pub uuid: String,
    /// Serial number of the board.
    pub serial: String,
    /// VBIOS version.
    pub vbios: String,
    /// PCI address.
    pub bus: BusId,
    /// Architecture generation.
    pub architecture: Architecture,
    /// Total memory.
    pub memory_total: Bytes,
    /// Memory reserved by the driver.
    pub memory_reserved: Bytes,
    /// Power limit.
    pub power_limit: Milliwatts,
    /// Temperature at which the hardware slows down.
    pub slowdown: Celsius,
    /// Temperature at which it shuts down.
    pub shutdown: Celsius,
    /// Maximum SM clock.
    pub sm_clock_max: Megahertz,
    /// Maximum memory clock.
    pub memory_clock_max: Megahertz,
    /// Number of NVLink links.
    pub nvlinks: u32,
    /// The device at the other end of its links; a switch if absent.
    pub nvlink_peer: Option<usize>,
    /// When MIG mode is on; utilization is then available through GPM only.
    pub mig: Range<Nanos>,
    /// Whether it supports GPM.
    pub gpm: bool,
}

/// A PCI address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusId {
    /// Domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device on the bus.
    pub device: u8,
}

impl BusId {
    /// Parses `00000000:17:00.0`; as in NVML, the domain may be shorter or absent.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').next()?.rsplit(':');
        let device = u8::from_str_radix(parts.next()?, 16).ok()?;
        let bus = u8::from_str_radix(parts.next()?, 16).ok()?;
        let domain = parts.next().map_or(Ok(0), |part| u32::from_str_radix(part, 16)).ok()?;
        parts.next().is_none().then_some(Self { domain, bus, device })
    }
}

/// As `nvidia-smi` writes it: `00000000:17:00.0`.
impl std::fmt::Display for BusId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }
}

/// A GPU architecture generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// V100.
    Volta,
    /// T4.
    Turing,
    /// A100.
    Ampere,
    /// L40S.
    Ada,
    /// H100, the first with GPM.
    Hopper,
    /// B200.
    Blackwell,
}

impl Architecture {
    /// `NVML_DEVICE_ARCH_…`.
    #[must_use]
    pub const fn nvml(self) -> u32 {
        match self {
            Self::Volta => 5,
            Self::Turing => 6,
            Self::Ampere => 7,
            Self::Ada => 8,
            Self::Hopper => 9,
            Self::Blackwell => 10,
        }
    }

    /// CUDA compute capability, major and minor.
    #[must_use]
    pub const fn compute_capability(self) -> (i32, i32) {
        match self {
            Self::Volta => (7, 0),
            Self::Turing => (7, 5),
            Self::Ampere => (8, 0),
            Self::Ada => (8, 9),
            Self::Hopper => (9, 0),
            Self::Blackwell => (10, 0),
        }
    }
}

/// How a driver derives reported values from the ground truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Utilization is the mean of the last complete window; before the first one ends, the value at
    /// the start. Zero: the instantaneous value.
    pub window: Nanos,
    /// Ring buffer of utilization samples.
    pub samples: Ring,
    /// Ring buffer of power samples.
    pub power_samples: Ring,
    /// Whether the utilization ring records no samples while the GPU is idle.
    pub empty_when_idle: bool,
    /// Whether rings are returned newest first, with an unused slot.
    pub unordered: bool,
    /// Power is the mean over this window before the call.
    pub power_window: Nanos,
    /// Refresh interval of the energy counter.
    pub energy_refresh: Nanos,
    /// Energy counter at the start of the script.
    pub energy_start: Millijoules,
    /// Refresh interval of the counters behind GPM.
    pub gpm_refresh: Nanos,
    /// Width of the PCIe byte counters in bits, 1 to 64.
    pub pcie_counter_bits: u32,
}

/// A ring buffer with one sample per period, each the mean of its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Time between samples.
    pub period: Nanos,
    /// Number of samples kept.
    pub depth: u32,
}

/// One sample of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// End of the averaged period since the start of the script; `None` for an unused slot.
    pub at: Option<Nanos>,
    /// Percent or milliwatts.
    pub value: u32,
}

/// A process's share of a GPU's busy time over an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessShare {
    /// Process ID on the host.
    pub pid: u32,
    /// Percent of the interval in which it ran a kernel.
    pub busy: u32,
    /// End of the interval since the start of the script.
    pub at: Nanos,
}

/// One GPU of a script.
#[derive(Clone, Debug)]
pub struct Device {
    /// When the driver lists it.
    pub listed: Range<Nanos>,
    /// Its fixed properties.
    pub identity: Identity,
    /// How its driver behaves.
    pub driver: Driver,
    /// Its MIG instances, by index.
    pub instances: Vec<Instance>,
    /// What it really does: the ground truth.
    pub track: Track,
}

impl Device {
    /// Percent of the last complete window in which a kernel ran (`Rate::Busy`) or memory was
    /// transferred (`Rate::Dram`).
    #[must_use]
    pub fn utilization(&self, rate: Rate, t: Nanos) -> u32 {
        let end = floor(t, self.driver.window);
        percent(self.track.mean(rate, end - self.driver.window, end))
    }

    /// Milliwatts averaged over the power window that ends at `t`.
    #[must_use]
    pub fn power(&self, t: Nanos) -> u32 {
        saturated(self.track.mean(Rate::Power, t - self.driver.power_window, t))
    }

    /// Milliwatts at `t`.
    #[must_use]
    pub fn power_now(&self, t: Nanos) -> u32 {
        saturated(self.track.rate(Rate::Power, t))
    }

    /// The energy counter at `t`.
    #[must_use]
    pub fn energy(&self, t: Nanos) -> Millijoules {
        let refreshed = floor(t, self.driver.energy_refresh);
        let used = per_second(self.track.between(Rate::Power, Nanos::ZERO, refreshed));
        Millijoules(self.driver.energy_start.0.saturating_add(used))
    }

    /// PCIe byte counter at `t` for the direction of `rate`.
    #[must_use]
    pub fn pcie_bytes(&self, rate: Rate, t: Nanos) -> u64 {
        let bytes = per_second(self.track.between(rate, Nanos::ZERO, t));
        bytes
            & u64::MAX
                .checked_shr(64_u32.saturating_sub(self.driver.pcie_counter_bits))
                .unwrap_or(0)
    }

    /// Byte counter of an NVLink link at `t` for the direction of `rate`. Links share the traffic
    /// evenly.
    #[must_use]
    pub fn link_bytes(&self, rate: Rate, t: Nanos) -> u64 {
        let bytes = per_second(self.track.between(rate, Nanos::ZERO, t));
        bytes.checked_div(u64::from(self.identity.nvlinks)).unwrap_or(0)
    }

    /// State at `t`.
    #[must_use]
    pub fn state(&self, t: Nanos) -> &State {
        self.track.state(t)
    }

    /// Free memory at `t`.
    #[must_use]
    pub fn memory_free(&self, t: Nanos) -> u64 {
        let held = self.identity.memory_reserved.get() + self.state(t).memory_used.get();
        self.identity.memory_total.get().saturating_sub(held)
    }

    /// Total time until `t` with any of the throttle reasons in `bits` active.
    #[must_use]
    pub fn throttled(&self, bits: u64, t: Nanos) -> Nanos {
        let throttled = self.track.phases_between(Nanos::ZERO, t);
        throttled
            .filter(|(phase, ..)| phase.state.throttle & bits != 0)
            .map(|(_, a, b)| b - a)
            .sum()
    }

    /// The ring buffer for a rate's samples: `Rate::Power` has its own.
    #[must_use]
    pub fn ring(&self, rate: Rate) -> Ring {
        if rate == Rate::Power { self.driver.power_samples } else { self.driver.samples }
    }

    /// The samples of a ring at `t`, oldest first unless the driver is `unordered`.
    #[must_use]
    pub fn samples(&self, rate: Rate, t: Nanos) -> Vec<Sample> {
        let (power, ring) = (rate == Rate::Power, self.ring(rate));
        let newest = t.0.checked_div(ring.period.0).unwrap_or(0);
        let oldest = newest.saturating_sub(u64::from(ring.depth));
        let sample = |k: u64| {
            let (from, end) = (Nanos(k * ring.period.0), Nanos((k + 1) * ring.period.0));
            let mean = self.track.mean(rate, from, end);
            let empty = self.driver.empty_when_idle
                && !power
                && self.track.between(Rate::Busy, from, end) == 0;
            let value = if power { saturated(mean) } else { percent(mean) };
            (!empty).then_some(Sample { at: Some(end), value })
        };
        let mut samples: Vec<Sample> = (oldest..newest).filter_map(sample).collect();
        if self.driver.unordered && !samples.is_empty() {
            samples.reverse();
            samples.push(Sample { at: None, value: u32::MAX });
        }
        samples
    }

    /// Each process's share between `since` and the last sample before `t`, at most as far back as
    /// the ring reaches.
    #[must_use]
    pub fn process_shares(&self, since: Nanos, t: Nanos) -> Vec<ProcessShare> {
        let Ring { period, depth } = self.driver.samples;
        let end = floor(t, period);
        let from = since.max(end - period.saturating_mul(u64::from(depth)));
        let mut work: Vec<(u32, u128)> = Vec::new();
        for (phase, a, b) in self.track.phases_between(from, end) {
            for process in &phase.state.processes {
                let ppm = u128::from(process.share.ppm());
                let busy = self.track.between(Rate::Busy, a, b) * ppm;
                match work.iter_mut().find(|(pid, _)| *pid == process.pid) {
                    Some((_, sum)) => *sum += busy,
                    None => work.push((process.pid, busy)),
                }
            }
        }
        let width = u128::from((end - from).0) * u128::from(Utilization::FULL.ppm());
        let share = |(pid, busy): (u32, u128)| {
            let mean = u64::try_from(busy.checked_div(width)?).ok()?;
            Some(ProcessShare { pid, busy: percent(mean), at: end })
        };
        work.into_iter().filter_map(share).collect()
    }

    /// Processes listed at `t`.
    #[must_use]
    pub fn processes(&self, t: Nanos) -> &[Process] {
        &self.state(t).processes
    }

    /// The refresh instant whose counters a GPM sample taken at `t` contains.
    #[must_use]
    pub fn gpm_instant(&self, t: Nanos) -> Nanos {
        floor(t, self.driver.gpm_refresh)
    }

    /// The true mean of a GPM metric between two such instants in the unit of `nvml.h`: percent or
    /// MiB/s. `None` if the metric is not supported.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "GPM values are doubles")]
    pub fn gpm(&self, metric: u32, a: Nanos, b: Nanos) -> Option<f64> {
        const PPM_IN_PERCENT: f64 = 10_000.0;
        const BYTES_IN_MIB: f64 = (1 << 20) as f64;
        let (rate, unit) = match metric {
            1 => (Rate::Busy, PPM_IN_PERCENT),
            2 => (Rate::Sm, PPM_IN_PERCENT),
            3 => (Rate::Occupancy, PPM_IN_PERCENT),
            5 => (Rate::Tensor, PPM_IN_PERCENT),
            10 => (Rate::Dram, PPM_IN_PERCENT),
            11 => (Rate::Fp64, PPM_IN_PERCENT),
            12 => (Rate::Fp32, PPM_IN_PERCENT),
            13 => (Rate::Fp16, PPM_IN_PERCENT),
            20 => (Rate::PcieTx, BYTES_IN_MIB),
            21 => (Rate::PcieRx, BYTES_IN_MIB),
            60 => (Rate::NvlinkRx, BYTES_IN_MIB),
            61 => (Rate::NvlinkTx, BYTES_IN_MIB),
            _ => return None,
        };
        Some(self.track.between(rate, a, b) as f64 / (b - a).0 as f64 / unit)
    }
}

/// The last multiple of `step` not after `t`; `t` itself if the step is zero.
fn floor(t: Nanos, step: Nanos) -> Nanos {
    t - Nanos(t.0.checked_rem(step.0).unwrap_or(0))
}

/// Rounds to whole percent.
fn percent(ppm: u64) -> u32 {
    saturated((ppm + 5_000) / 10_000)
}

fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Converts B/s × ns to bytes and mW × ns to millijoules.
fn per_second(integral: u128) -> u64 {
    u64::try_from(integral / u128::from(NANOS_PER_SECOND)).unwrap_or(u64::MAX)
}
