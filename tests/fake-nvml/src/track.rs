//! What a GPU really does as a function of time: phases and the exact integral of every rate.
//!
//! All arithmetic is on integers, so that the energy between two instants does not depend on the
//! order of summation.

use phasemeter_meter::units::{Bytes, Celsius, Megahertz, Milliwatts, Nanos, Utilization};

/// A quantity measured as a rate, with a value and an integral.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Time with a running kernel, ppm.
    Busy,
    /// Active multiprocessors, ppm.
    Sm,
    /// Resident warps of the maximum, ppm.
    Occupancy,
    /// Active tensor cores, ppm.
    Tensor,
    /// Memory bandwidth in use, ppm.
    Dram,
    /// Active pipes for FP64, ppm.
    Fp64,
    /// Active pipes for FP32, ppm.
    Fp32,
    /// Active pipes for FP16, ppm.
    Fp16,
    /// Bytes per second sent over PCIe.
    PcieTx,
    /// Bytes per second received over PCIe.
    PcieRx,
    /// Bytes per second sent over NVLink.
    NvlinkTx,
    /// Bytes per second received over NVLink.
    NvlinkRx,
    /// Power, milliwatts.
    Power,
}

impl Rate {
    /// Every rate, in the order of [`Rates`].
    const ALL: [Self; 13] = [
        Self::Busy,
        Self::Sm,
        Self::Occupancy,
        Self::Tensor,
        Self::Dram,
        Self::Fp64,
        Self::Fp32,
        Self::Fp16,
        Self::PcieTx,
        Self::PcieRx,
        Self::NvlinkTx,
        Self::NvlinkRx,
        Self::Power,
    ];
}

const RATES: usize = Rate::ALL.len();

/// One value for every [`Rate`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates([u64; RATES]);

impl Rates {
    /// Returns these rates with one of them set.
    #[must_use]
    pub const fn with(mut self, rate: Rate, value: u64) -> Self {
        self.0[rate as usize] = value;
        self
    }

    /// The value of one rate.
    #[must_use]
    pub const fn get(&self, rate: Rate) -> u64 {
        self.0[rate as usize]
    }
}

/// Why a process is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessKind {
    /// It holds a compute context.
    #[default]
    Compute,
    /// It holds a graphics context.
    Graphics,
    /// It computes through the multi-process service.
    Mps,
}

/// A process on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process ID on the host.
    pub pid: u32,
    /// Name of the executable.
    pub name: String,
    /// Memory it holds; `None` if the driver does not report it.
    pub memory: Option<Bytes>,
    /// Why it is listed.
    pub kind: ProcessKind,
    /// Its share of the GPU's busy time.
    pub share: Utilization,
    /// The ID of the GPU instance that it is on, in MIG mode.
    pub gpu_instance: Option<u32>,
}

/// The error counters of an NVLink link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkErrors {
    /// Number of the link.
    pub link: u32,
    /// Packets transmitted again.
    #[serde(default)]
    pub replay: u64,
    /// Recoveries from an error.
    #[serde(default)]
    pub recovery: u64,
    /// Packets received with an invalid checksum.
    #[serde(default)]
    pub crc: u64,
}

/// A PCIe link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    /// Generation of the protocol.
    pub generation: u32,
    /// Number of lanes.
    pub lanes: u32,
}

impl PcieLink {
    /// What GPU and slot are capable of.
    pub const MAX: Self = Self { generation: 5, lanes: 16 };
}

/// State that is constant during a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Memory in use, excluding the driver's reservation.
    pub memory_used: Bytes,
    /// Die temperature.
    pub temperature: Celsius,
    /// SM clock.
    pub sm_clock: Megahertz,
    /// Memory clock.
    pub memory_clock: Megahertz,
    /// Bits of `nvmlClocksEventReason…`.
    pub throttle: u64,
    /// Memory temperature; `None` without a sensor.
    pub memory_temperature: Option<Celsius>,
    /// Fan speeds in percent of the maximum.
    pub fans: Vec<u32>,
    /// Power limit.
    pub power_limit: Milliwatts,
    /// ECC error counters: corrected and uncorrected.
    pub ecc: [u64; 2],
    /// Whether memory rows wait to be remapped, and whether any could not be.
    pub row_remap: [bool; 2],
    /// The PCIe link.
    pub pcie_link: PcieLink,
    /// PCIe replay counter.
    pub pcie_replays: u64,
    /// Error counters of NVLink links, of those that have any.
    pub link_errors: Vec<LinkErrors>,
    /// Utilization of the video encoder and decoder.
    pub video: [Utilization; 2],
    /// Performance state, 0 (fastest) to 15.
    pub performance_state: u8,
    /// Processes on the GPU.
    pub processes: Vec<Process>,
}

/// A period of constant behavior: the GPU alternates between `on` and `off`, or is always on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Name for tests.
    pub name: String,
    /// Duration.
    pub length: Nanos,
    /// The rates of the first [`Phase::on_for`] of each period.
    pub on: Rates,
    /// The rates of the rest of each period.
    pub off: Rates,
    /// Duration of a period.
    pub period: Nanos,
    /// Duration of the on part, at most the period.
    pub on_for: Nanos,
    /// Everything that is not a rate.
    pub state: State,
}

impl Phase {
    fn rates_at(&self, offset: Nanos) -> &Rates {
        let into = offset.0.checked_rem(self.period.0).unwrap_or(0);
        if into < self.on_for.0 { &self.on } else { &self.off }
    }

    /// The integral of a rate over the first `offset` of this phase, in the rate's unit × ns.
    fn integral(&self, rate: Rate, offset: Nanos) -> u128 {
        let periods = offset.0.checked_div(self.period.0).unwrap_or(0);
        let into = offset.0.checked_rem(self.period.0).unwrap_or(0);
        let on =
            u128::from(periods) * u128::from(self.on_for.0) + u128::from(into.min(self.on_for.0));
        let off = u128::from(offset.0).saturating_sub(on);
        on * u128::from(self.on.get(rate)) + off * u128::from(self.off.get(rate))
    }
}

/// The phases of one GPU from the start of the script. After the last one they repeat, or the last
/// one continues indefinitely.
#[derive(Clone, Debug)]
pub struct Track {
    entries: Vec<Entry>,
    last: Entry,
    length: Nanos,
    repeats: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    start: Nanos,
    /// The integral of every rate from the start of the track to the start of this phase.
    before: [u128; RATES],
    phase: Phase,
}

impl Entry {
    /// The integral from the start of the track to `t`, which is not before this phase.
    fn integral(&self, rate: Rate, t: Nanos) -> u128 {
        self.before[rate as usize] + self.phase.integral(rate, t - self.start)
    }

    fn end(&self) -> Nanos {
        self.start + self.phase.length
    }
}

impl Track {
    /// Creates a track of `first`, then `rest`.
    #[must_use]
    pub fn new(first: Phase, rest: Vec<Phase>, repeats: bool) -> Self {
        let mut last = Entry { start: Nanos::ZERO, before: [0; RATES], phase: first };
        let mut entries = Vec::with_capacity(rest.len());
        for phase in rest {
            let start = last.end();
            let before = Rate::ALL.map(|rate| last.integral(rate, start));
            entries.push(std::mem::replace(&mut last, Entry { start, before, phase }));
        }
        let length = last.end();
        Self { entries, last, length, repeats }
    }

    /// End of the last phase.
    #[must_use]
    pub const fn length(&self) -> Nanos {
        self.length
    }

    /// Whether the phases repeat.
    #[must_use]
    pub const fn repeats(&self) -> bool {
        self.repeats
    }

    /// State at `t`.
    #[must_use]
    pub fn state(&self, t: Nanos) -> &State {
        &self.entry(self.fold(t).1).phase.state
    }

    /// A rate at `t`.
    #[must_use]
    pub fn rate(&self, rate: Rate, t: Nanos) -> u64 {
        let t = self.fold(t).1;
        let entry = self.entry(t);
        entry.phase.rates_at(t - entry.start).get(rate)
    }

    /// The exact integral of a rate over [a, b), in the rate's unit × ns; 0 if b ≤ a.
    #[must_use]
    pub fn between(&self, rate: Rate, a: Nanos, b: Nanos) -> u128 {
        self.integral(rate, b).saturating_sub(self.integral(rate, a))
    }

    /// The mean of a rate over [a, b), to the nearest unit; its value at `b` if b ≤ a.
    #[must_use]
    pub fn mean(&self, rate: Rate, a: Nanos, b: Nanos) -> u64 {
        let width = u128::from((b - a).0);
        if width == 0 {
            return self.rate(rate, b);
        }
        let mean = (self.between(rate, a, b) + width / 2) / width;
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The phases in [a, b), each with the interval it covers.
    pub fn phases_between(
        &self,
        a: Nanos,
        b: Nanos,
    ) -> impl Iterator<Item = (&Phase, Nanos, Nanos)> {
        let mut from = a;
        std::iter::from_fn(move || {
            if from >= b {
                return None;
            }
            let (cycle, into) = self.fold(from);
            let entry = self.entry(into);
            let endless = !self.repeats && into >= self.last.start;
            let until = if endless { b } else { b.min(cycle + entry.end()) };
            let interval = (&entry.phase, from, until);
            from = until;
            Some(interval)
        })
    }

    /// The integral from 0 to `t`.
    fn integral(&self, rate: Rate, t: Nanos) -> u128 {
        let (base, folded) = self.fold(t);
        let cycles = base.0.checked_div(self.length.0).unwrap_or(0);
        let cycle = self.last.integral(rate, self.length);
        u128::from(cycles) * cycle + self.entry(folded).integral(rate, folded)
    }

    /// The start of the cycle that contains `t`, and the offset of `t` in it.
    fn fold(&self, t: Nanos) -> (Nanos, Nanos) {
        let into = if self.repeats { t.0.checked_rem(self.length.0).unwrap_or(0) } else { t.0 };
        (t - Nanos(into), Nanos(into))
    }

    fn entry(&self, t: Nanos) -> &Entry {
        if t >= self.last.start {
            return &self.last;
        }
        let after = self.entries.partition_point(|entry| entry.start <= t);
        after.checked_sub(1).and_then(|at| self.entries.get(at)).unwrap_or(&self.last)
    }
}
