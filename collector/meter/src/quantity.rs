//! The quantities that are measured of a GPU: name, unit and possible values of each, in one table.
//!
//! Every reader of outside data (driver, rows of `nvidia-smi`, metrics of other programs) checks its numbers
//! here, so that a number has the same meaning wherever it comes from. A value out of range is unreadable,
//! alone: it is missing, and costs no other value.

use crate::units::{Bytes, PPM};

/// What is measured. Those from [`Quantity::GraphicsActivity`] on are kept with each reading, in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Share of the time in which the GPU worked, as drivers poll it.
    Utilization,
    /// Memory in use.
    MemoryUsed,
    /// Memory that is not in use.
    MemoryFree,
    /// Size of the memory.
    MemoryTotal,
    /// Power draw.
    Power,
    /// The power limit in force. A limit of zero means that there is none.
    PowerLimit,
    /// Energy counter.
    Energy,
    /// Temperature of the die.
    Temperature,
    /// Temperature of the memory.
    MemoryTemperature,
    /// SM clock.
    SmClock,
    /// Memory clock.
    MemoryClock,
    /// Rate over the PCIe link to the GPU.
    PcieReceived,
    /// Rate over the PCIe link from the GPU.
    PcieTransmitted,
    /// Rate over NVLink links to the GPU: over all, or over the one that a device metric names.
    NvlinkReceived,
    /// Rate over NVLink links from the GPU: over all, or over the one that a device metric names.
    NvlinkTransmitted,
    /// Number of compute processes.
    Processes,
    /// Corrected memory errors since the driver was loaded.
    CorrectedErrors,
    /// Packets that a link transmitted again.
    LinkReplays,
    /// Errors of the PCIe link that its hardware has corrected, replays among them.
    PcieCorrectable,
    /// Recoveries of a link from an error.
    LinkRecoveries,
    /// Packets with an invalid checksum that a link received.
    LinkCrcErrors,
    /// Whether faulty memory rows are remapped at the next reset of the GPU.
    RowsPending,
    /// Whether a faulty memory row could not be remapped.
    RowsFailed,
    /// An XID error; zero means none.
    Xid,
    /// Active reasons for reduced clocks, as a bit mask.
    EventReasons,
    /// Activity of the graphics or compute engine, from hardware counters.
    GraphicsActivity,
    /// Use of the bandwidth of all NVLink links, from hardware counters.
    NvlinkActivity,
    /// Use of the bandwidth of the PCIe link, of both directions together, from hardware counters.
    PcieActivity,
    /// Share of the time in which memory was read or written.
    MemoryUtilization,
    /// Speed of a fan, relative to its nominal maximum, which it can exceed.
    FanSpeed,
    /// Share of the time with clocks reduced because the power limit was reached.
    PowerCap,
    /// Share of the time with clocks reduced to those of other GPUs.
    SyncBoost,
    /// Share of the time with clocks that the driver reduced because of heat.
    SoftwareThermal,
    /// Share of the time with clocks that the hardware reduced because of heat.
    HardwareThermal,
    /// Share of the time with clocks reduced by a signal from the power supply.
    PowerBrake,
    /// Multiprocessors with at least one warp, from hardware counters.
    SmActivity,
    /// Activity of the tensor cores, from hardware counters.
    TensorActivity,
    /// Use of the memory's bandwidth, from hardware counters.
    DramActivity,
    /// Current generation of the PCIe link.
    PcieGeneration,
    /// Current lanes of the PCIe link.
    PcieWidth,
    /// Maximum lanes of the PCIe link.
    PcieMaxWidth,
    /// Use of the video encoder.
    Encoder,
    /// Use of the video decoder.
    Decoder,
    /// Uncorrected memory errors since the driver was loaded. The last quantity: the table has as many rows.
    MemoryErrors,
}

/// The unit in which numbers of a quantity are checked and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Parts per million of the whole.
    Ppm,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Milliwatts.
    Milliwatts,
    /// Millijoules.
    Millijoules,
    /// Degrees Celsius.
    Celsius,
    /// Megahertz.
    Megahertz,
    /// A number that identifies or counts something, or a bit mask.
    Number,
}

/// One row of the table.
struct Row {
    quantity: Quantity,
    name: &'static str,
    unit: Unit,
    least: i64,
    most: i64,
    /// Numbers above `most` up to this one count as `most`.
    tolerated: i64,
    is_mapped: bool,
    /// The names of its columns in logs.
    columns: &'static [&'static str],
    /// Whether `phasemeter record` writes the first of them.
    is_recorded: bool,
    window: Option<InWindow>,
    alert: Option<AlertNames>,
}

/// A value of windows, the input of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InWindow {
    /// The mean of readings has this name: of shares 0–1, and of the time in which the GPU or its engine worked.
    Mean(&'static str),
    /// The maximum of readings has this name.
    Max(&'static str),
}

/// The names by which rules for alerts are about a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertNames {
    /// In files, reports and telemetry.
    pub name: &'static str,
    /// Its series, as Prometheus names it.
    pub series: &'static str,
}

/// The whole, in parts per million.
const WHOLE: i64 = PPM as i64;

/// Two counters that are read one after the other may exceed the whole by the error of their clocks: 1%.
const COUNTERS: i64 = WHOLE + WHOLE / 100;

/// A fan may exceed its nominal maximum, but not twice.
const FAN: i64 = 2 * WHOLE;

/// Larger sizes are misreadings.
const MEMORY: i64 = Bytes::MAX.cast_signed();

/// Largest power of a GPU in milliwatts, 10 kW: about three times that of the largest announced package.
const POWER: i64 = 10_000_000;

/// Integers up to here are exact in a double. As an energy counter it is 28 years at the largest power.
const EXACT: i64 = 1 << 53;

/// No silicon is colder or hotter, in degrees Celsius. A byte of ones (255) is a misreading.
const HEAT: (i64, i64) = (-60, 150);

/// Highest clock in megahertz: about twice the data rate of the fastest memory.
const CLOCK: i64 = 30_000;

/// Highest rate over links in bytes per second: 100 TB/s, below the numbers with which DCGM marks missing
/// values.
const RATE: i64 = 100_000_000_000_000;

/// Highest number of errors that is plausible; drivers mark missing numbers by larger ones.
const ERRORS: (i64, i64) = (0, 999_999_999);

/// The table, in the order of [`Quantity`].
#[rustfmt::skip]
const TABLE: [Row; Quantity::COUNT] = [
    row(Quantity::Utilization,       "utilization",        Unit::Ppm,            (0, WHOLE), WHOLE).mapped()
        .column(&["utilization.gpu"])
        .alert("utilization", "hw_gpu_utilization_ratio{hw_gpu_task=\"general\"}"),
    row(Quantity::MemoryUsed,        "memory_used",        Unit::Bytes,          (0, MEMORY), MEMORY).mapped()
        .column(&["memory.used"])
        .alert("memory", "hw_gpu_memory_utilization_ratio{hw_parent=\"\"}"),
    row(Quantity::MemoryFree,        "memory_free",        Unit::Bytes,          (0, MEMORY), MEMORY).mapped(),
    row(Quantity::MemoryTotal,       "memory_total",       Unit::Bytes,          (1, MEMORY), MEMORY).mapped()
        .column(&["memory.total"]),
    row(Quantity::Power,             "power",              Unit::Milliwatts,     (0, POWER), POWER).mapped()
        .alert("power", "hw_power_watts{hw_type=\"gpu\"}"),
    row(Quantity::PowerLimit,        "power_limit",        Unit::Milliwatts,     (1, POWER), POWER),
    row(Quantity::Energy,            "energy",             Unit::Millijoules,    (0, EXACT), EXACT).mapped()
        .column(&["total_energy_consumption"]),
    row(Quantity::Temperature,       "temperature",        Unit::Celsius,        HEAT, HEAT.1).mapped()
        .column(&["temperature.gpu"])
        .alert("temperature", "hw_temperature_celsius{hw_sensor_location=\"gpu\"}"),
    row(Quantity::MemoryTemperature, "memory_temperature", Unit::Celsius,        HEAT, HEAT.1),
    row(Quantity::SmClock,           "sm_clock",           Unit::Megahertz,      (0, CLOCK), CLOCK).mapped()
        .column(&["clocks.sm", "clocks.current.sm"]),
    row(Quantity::MemoryClock,       "memory_clock",       Unit::Megahertz,      (0, CLOCK), CLOCK).mapped()
        .column(&["clocks.mem", "clocks.current.memory", "clocks.current.mem"]),
    row(Quantity::PcieReceived,      "pcie_received",      Unit::BytesPerSecond, (0, RATE), RATE).mapped(),
    row(Quantity::PcieTransmitted,   "pcie_transmitted",   Unit::BytesPerSecond, (0, RATE), RATE).mapped(),
    row(Quantity::NvlinkReceived,    "nvlink_received",    Unit::BytesPerSecond, (0, RATE), RATE).mapped(),
    row(Quantity::NvlinkTransmitted, "nvlink_transmitted", Unit::BytesPerSecond, (0, RATE), RATE).mapped(),
    row(Quantity::Processes,         "processes",          Unit::Number,         (0, 1_000_000), 1_000_000)
        .column(&["compute_processes"]),
    row(Quantity::CorrectedErrors,   "corrected_errors",   Unit::Number,         ERRORS, ERRORS.1),
    row(Quantity::LinkReplays,       "link_replays",       Unit::Number,         ERRORS, ERRORS.1),
    row(Quantity::PcieCorrectable,   "pcie_correctable",   Unit::Number,         ERRORS, ERRORS.1),
    row(Quantity::LinkRecoveries,    "link_recoveries",    Unit::Number,         ERRORS, ERRORS.1),
    row(Quantity::LinkCrcErrors,     "link_crc_errors",    Unit::Number,         ERRORS, ERRORS.1),
    row(Quantity::RowsPending,       "rows_pending",       Unit::Number,         (0, 1), 1),
    row(Quantity::RowsFailed,        "rows_failed",        Unit::Number,         (0, 1), 1),
    row(Quantity::Xid,               "xid",                Unit::Number,         (0, 65_535), 65_535).mapped()
        .column(&["xid"]),
    row(Quantity::EventReasons,      "event_reasons",      Unit::Number,         (0, EXACT), EXACT).mapped()
        .column(&["clocks_event_reasons.active", "clocks_throttle_reasons.active"]),
    row(Quantity::GraphicsActivity,  "graphics_activity",  Unit::Ppm,            (0, WHOLE), COUNTERS),
    row(Quantity::NvlinkActivity,    "nvlink_activity",    Unit::Ppm,            (0, WHOLE), COUNTERS)
        .column(&["nvlink.activity"])
        .mean("nvlink.activity"),
    row(Quantity::PcieActivity,      "pcie_activity",      Unit::Ppm,            (0, WHOLE), COUNTERS)
        .column(&["pcie.activity"])
        .mean("pcie.activity"),
    row(Quantity::MemoryUtilization, "memory_utilization", Unit::Ppm,            (0, WHOLE), WHOLE).mapped()
        .recorded(&["utilization.memory"])
        .mean("memory.utilization"),
    row(Quantity::FanSpeed,          "fan_speed",          Unit::Ppm,            (0, FAN), FAN).mapped()
        .recorded(&["fan.speed"])
        .max("fan.speed"),
    row(Quantity::PowerCap,          "sw_power_cap",       Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap"]),
    row(Quantity::SyncBoost,         "sync_boost",         Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.sync_boost", "clocks_throttle_reasons.sync_boost"]),
    row(Quantity::SoftwareThermal,   "sw_thermal",         Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown"]),
    row(Quantity::HardwareThermal,   "hw_thermal",         Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown"]),
    row(Quantity::PowerBrake,        "hw_power_brake",     Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.hw_power_brake_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown"]),
    row(Quantity::SmActivity,        "sm_activity",        Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["sm.activity"])
        .alert("sm_activity", "phasemeter_gpu_sm_activity_ratio{hw_parent=\"\"}"),
    row(Quantity::TensorActivity,    "tensor_activity",    Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["tensor.activity"])
        .alert("tensor_activity", "phasemeter_gpu_tensor_activity_ratio{hw_parent=\"\"}"),
    row(Quantity::DramActivity,      "dram_activity",      Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["dram.activity"])
        .alert("dram_activity", "phasemeter_gpu_dram_activity_ratio{hw_parent=\"\"}"),
    row(Quantity::PcieGeneration,    "pcie_generation",    Unit::Number,         (1, 9), 9).mapped()
        .recorded(&["pcie.link.gen.current", "pcie.link.gen.gpucurrent"])
        .max("pcie.link.generation"),
    row(Quantity::PcieWidth,         "pcie_width",         Unit::Number,         (1, 32), 32).mapped()
        .recorded(&["pcie.link.width.current"])
        .max("pcie.link.width"),
    row(Quantity::PcieMaxWidth,      "pcie_max_width",     Unit::Number,         (1, 32), 32).mapped()
        .recorded(&["pcie.link.width.max"])
        .max("pcie.link.max_width"),
    row(Quantity::Encoder,           "encoder",            Unit::Ppm,            (0, WHOLE), WHOLE).mapped()
        .recorded(&["utilization.encoder"])
        .mean("encoder.utilization"),
    row(Quantity::Decoder,           "decoder",            Unit::Ppm,            (0, WHOLE), WHOLE).mapped()
        .recorded(&["utilization.decoder"])
        .mean("decoder.utilization"),
    row(Quantity::MemoryErrors,      "memory_errors",      Unit::Number,         ERRORS, ERRORS.1)
        .recorded(&["ecc.errors.uncorrected.volatile.total"])
        .max("memory.errors"),
];

/// A quantity without a row, or a row in another place, does not compile.
const _: () = {
    let mut place = 0;
    while place < TABLE.len() {
        assert!(TABLE[place].quantity as usize == place);
        place += 1;
    }
};

const fn row(
    quantity: Quantity,
    name: &'static str,
    unit: Unit,
    (least, most): (i64, i64),
    tolerated: i64,
) -> Row {
    Row {
        quantity,
        name,
        unit,
        least,
        most,
        tolerated,
        is_mapped: false,
        columns: &[],
        is_recorded: false,
        window: None,
        alert: None,
    }
}

impl Row {
    /// Mapping files can name it.
    const fn mapped(self) -> Self {
        Self { is_mapped: true, ..self }
    }

    /// Logs have it under these names.
    const fn column(self, columns: &'static [&'static str]) -> Self {
        Self { columns, ..self }
    }

    /// Logs have it under these names, and `phasemeter record` writes the first.
    const fn recorded(self, columns: &'static [&'static str]) -> Self {
        Self { columns, is_recorded: true, ..self }
    }

    /// Windows have its mean under this name.
    const fn mean(self, name: &'static str) -> Self {
        Self { window: Some(InWindow::Mean(name)), ..self }
    }

    /// Windows have its maximum under this name.
    const fn max(self, name: &'static str) -> Self {
        Self { window: Some(InWindow::Max(name)), ..self }
    }

    /// Rules for alerts can be about it: of a size or a power, about its share of the limit.
    const fn alert(self, name: &'static str, series: &'static str) -> Self {
        Self { alert: Some(AlertNames { name, series }), ..self }
    }
}

impl Quantity {
    /// The number of quantities.
    pub const COUNT: usize = Self::MemoryErrors as usize + 1;

    /// The number of quantities that are kept with each reading.
    pub const KEPT: usize = Self::COUNT - Self::GraphicsActivity as usize;

    /// The reasons for reduced clocks.
    pub const THROTTLING: [Self; 5] = [
        Self::PowerCap,
        Self::SyncBoost,
        Self::SoftwareThermal,
        Self::HardwareThermal,
        Self::PowerBrake,
    ];

    /// All quantities.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.quantity)
    }

    /// The quantity with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|quantity| quantity.name() == name)
    }

    /// The quantities that are kept with each reading.
    pub fn kept() -> impl Iterator<Item = Self> {
        Self::all().skip(Self::COUNT - Self::KEPT)
    }

    /// Its place among those that are kept with each reading; at least [`Self::KEPT`] if it is not.
    #[inline]
    pub(crate) const fn place(self) -> usize {
        (self as usize).wrapping_sub(Self::GraphicsActivity as usize)
    }

    /// Whether a metric can be mapped to it.
    #[must_use]
    pub const fn is_mapped(self) -> bool {
        self.row().is_mapped
    }

    /// The quantity with a column of this name, in any case.
    #[must_use]
    pub fn of_column(name: &[u8]) -> Option<Self> {
        let is_named = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
        Self::all().find(|quantity| quantity.row().columns.iter().any(|known| is_named(known)))
    }

    /// The kept quantities that `phasemeter record` writes, each with the name of its column, in order.
    pub fn recorded() -> impl Iterator<Item = (Self, &'static str)> {
        let columns = TABLE.iter().filter(|row| row.is_recorded);
        columns.filter_map(|row| Some((row.quantity, *row.columns.first()?)))
    }

    /// What windows have of it beside their fields.
    #[must_use]
    pub const fn in_window(self) -> Option<InWindow> {
        self.row().window
    }

    /// The names by which rules for alerts are about it; `None` if they cannot be.
    #[must_use]
    pub const fn alert(self) -> Option<AlertNames> {
        self.row().alert
    }

    /// The name in mapping files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The unit of the numbers that [`Self::admit`] checks.
    #[must_use]
    pub const fn unit(self) -> Unit {
        self.row().unit
    }

    /// Whether it is a share of a time or of a capacity.
    #[must_use]
    pub const fn is_share(self) -> bool {
        matches!(self.unit(), Unit::Ppm)
    }

    /// The least and the largest possible value.
    #[must_use]
    pub const fn range(self) -> (i64, i64) {
        (self.row().least, self.row().most)
    }

    /// The value of a number in the unit of the quantity; `None` if it is out of range. A number that exceeds
    /// the range by the tolerance of its instrument is the largest value.
    #[inline]
    #[must_use]
    pub fn admit<T: TryFrom<i64>>(self, number: impl TryInto<i64>) -> Option<T> {
        let number = number.try_into().ok()?;
        let row = self.row();
        let is_possible = row.least <= number && number <= row.tolerated;
        if is_possible { T::try_from(number.min(row.most)).ok() } else { None }
    }

    /// Like [`Self::admit`], of the nearest integer.
    #[must_use]
    pub fn admit_nearest<T: TryFrom<i64>>(self, number: f64) -> Option<T> {
        /// As [`EXACT`].
        const LIMIT: f64 = 9_007_199_254_740_992.0;
        let number = number.round();
        if !(-LIMIT..=LIMIT).contains(&number) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "an integer within the range of i64")]
        let number = number as i64;
        self.admit(number)
    }

    #[inline]
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn table_has_one_row_per_quantity() {
        for row in &TABLE {
            assert!(row.least < row.most && row.most <= row.tolerated, "{}", row.name);
            assert_eq!(Quantity::named(row.name), Some(row.quantity));
        }
        let names: BTreeSet<_> = Quantity::all().map(Quantity::name).collect();
        assert_eq!(names.len(), TABLE.len());
        assert_eq!(Quantity::named("voltage"), None);
    }

    /// The range of each quantity, and the numbers that real senders print by mistake.
    #[test]
    fn value_out_of_range_is_none() {
        for quantity in Quantity::all() {
            let (least, most) = quantity.range();
            let admit = |number: i64| quantity.admit::<i64>(number);
            assert_eq!((admit(least), admit(most)), (Some(least), Some(most)), "{quantity:?}");
            let tolerated = quantity.row().tolerated;
            assert_eq!(admit(tolerated), Some(most), "{quantity:?}");
            for wrong in [least - 1, tolerated + 1, i64::MIN, i64::MAX, 9_223_372_036_854_775_794] {
                assert_eq!(admit(wrong), None, "{quantity:?} {wrong}");
            }
            assert_eq!(quantity.admit::<u64>(u64::MAX), None, "{quantity:?}");
        }
        for (quantity, wrong) in [
            (Quantity::Utilization, 1_010_000_i64),
            (Quantity::SmActivity, 1_300_000),
            (Quantity::Power, -1_000),
            (Quantity::Power, 4_294_967_295),
            (Quantity::PowerLimit, 0),
            (Quantity::Temperature, 255),
            (Quantity::PcieWidth, 255),
            (Quantity::MemoryErrors, 4_294_967_295),
        ] {
            assert_eq!(quantity.admit::<i64>(wrong), None, "{quantity:?}");
        }
    }

    #[test]
    fn tolerance_of_counters_is_the_whole() {
        assert_eq!(Quantity::SmActivity.admit(1_004_000), Some(PPM));
        assert_eq!(Quantity::FanSpeed.admit(1_040_000), Some(1_040_000), "it can be faster");
        assert_eq!(Quantity::Encoder.admit::<u32>(1_000_001), None);
        assert_eq!(Quantity::SmActivity.admit_nearest(123_455.6), Some(123_456_u32));
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1.0, 1_300_000.0] {
            assert_eq!(Quantity::SmActivity.admit_nearest::<u32>(number), None, "{number}");
        }
    }
}
