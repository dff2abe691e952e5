//! The quantities that are measured of a GPU: name, unit and possible values of each, in one table.
//!
//! Every reader of outside data (driver, rows of `nvidia-smi`, metrics of other programs) checks its numbers
//! here, so that a number has the same meaning wherever it comes from. A value out of range is unreadable,
//! alone: it is missing, and costs no other value.

mod row;

pub use self::row::{AlertNames, InWindow, Unit};
use self::row::{CLOCK, COUNTERS, ERRORS, EXACT, FAN, HEAT, MEMORY, POWER, RATE, Row, WHOLE, row};

/// What is measured. Those from [`Quantity::GraphicsActivity`] on are kept with each reading, in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    /// Errors of the PCIe link that its hardware could not correct, after which it went on.
    PcieNonFatal,
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
    /// Activity of the pipe for FP64, from hardware counters, which does not count tensor cores on all models.
    Fp64Activity,
    /// Activity of the pipe for FP32 and integers, from hardware counters.
    Fp32Activity,
    /// Activity of the pipe for FP16, from hardware counters, without tensor cores.
    Fp16Activity,
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

/// The table, in the order of [`Quantity`].
#[rustfmt::skip]
const TABLE: [(Quantity, Row); Quantity::COUNT] = [
    (Quantity::Utilization,       row("utilization",        Unit::Ppm,            (0, WHOLE), WHOLE).mapped()
        .column(&["utilization.gpu"])
        .alert("utilization", "hw_gpu_utilization_ratio{hw_gpu_task=\"general\"}")),
    (Quantity::MemoryUsed,        row("memory_used",        Unit::Bytes,          (0, MEMORY), MEMORY).mapped()
        .column(&["memory.used"])
        .alert("memory", "hw_gpu_memory_utilization_ratio{hw_parent=\"\"}")),
    (Quantity::MemoryFree,        row("memory_free",        Unit::Bytes,          (0, MEMORY), MEMORY).mapped()),
    (Quantity::MemoryTotal,       row("memory_total",       Unit::Bytes,          (1, MEMORY), MEMORY).mapped()
        .column(&["memory.total"])),
    (Quantity::Power,             row("power",              Unit::Milliwatts,     (0, POWER), POWER).mapped()
        .alert("power", "hw_power_watts{hw_type=\"gpu\"}")),
    (Quantity::PowerLimit,        row("power_limit",        Unit::Milliwatts,     (1, POWER), POWER)),
    (Quantity::Energy,            row("energy",             Unit::Millijoules,    (0, EXACT), EXACT).mapped()
        .column(&["total_energy_consumption"])),
    (Quantity::Temperature,       row("temperature",        Unit::Celsius,        HEAT, HEAT.1).mapped()
        .column(&["temperature.gpu"])
        .alert("temperature", "hw_temperature_celsius{hw_sensor_location=\"gpu\"}")),
    (Quantity::MemoryTemperature, row("memory_temperature", Unit::Celsius,        HEAT, HEAT.1)),
    (Quantity::SmClock,           row("sm_clock",           Unit::Megahertz,      (0, CLOCK), CLOCK).mapped()
        .column(&["clocks.sm", "clocks.current.sm"])),
    (Quantity::MemoryClock,       row("memory_clock",       Unit::Megahertz,      (0, CLOCK), CLOCK).mapped()
        .column(&["clocks.mem", "clocks.current.memory", "clocks.current.mem"])),
    (Quantity::PcieReceived,      row("pcie_received",      Unit::BytesPerSecond, (0, RATE), RATE).mapped()),
    (Quantity::PcieTransmitted,   row("pcie_transmitted",   Unit::BytesPerSecond, (0, RATE), RATE).mapped()),
    (Quantity::NvlinkReceived,    row("nvlink_received",    Unit::BytesPerSecond, (0, RATE), RATE).mapped()),
    (Quantity::NvlinkTransmitted, row("nvlink_transmitted", Unit::BytesPerSecond, (0, RATE), RATE).mapped()),
    (Quantity::Processes,         row("processes",          Unit::Number,         (0, 1_000_000), 1_000_000)
        .column(&["compute_processes"])),
    (Quantity::CorrectedErrors,   row("corrected_errors",   Unit::Number,         ERRORS, ERRORS.1)),
    (Quantity::LinkReplays,       row("link_replays",       Unit::Number,         ERRORS, ERRORS.1)),
    (Quantity::PcieCorrectable,   row("pcie_correctable",   Unit::Number,         ERRORS, ERRORS.1)),
    (Quantity::PcieNonFatal,      row("pcie_non_fatal",     Unit::Number,         ERRORS, ERRORS.1)),
    (Quantity::LinkRecoveries,    row("link_recoveries",    Unit::Number,         ERRORS, ERRORS.1)),
    (Quantity::LinkCrcErrors,     row("link_crc_errors",    Unit::Number,         ERRORS, ERRORS.1)),
    (Quantity::RowsPending,       row("rows_pending",       Unit::Number,         (0, 1), 1)),
    (Quantity::RowsFailed,        row("rows_failed",        Unit::Number,         (0, 1), 1)),
    (Quantity::Xid,               row("xid",                Unit::Number,         (0, 65_535), 65_535).mapped()
        .column(&["xid"])),
    (Quantity::EventReasons,      row("event_reasons",      Unit::Number,         (0, EXACT), EXACT).mapped()
        .column(&["clocks_event_reasons.active", "clocks_throttle_reasons.active"])),
    (Quantity::GraphicsActivity,  row("graphics_activity",  Unit::Ppm,            (0, WHOLE), COUNTERS)),
    (Quantity::NvlinkActivity,    row("nvlink_activity",    Unit::Ppm,            (0, WHOLE), COUNTERS)
        .column(&["nvlink.activity"])
        .mean("nvlink.activity")),
    (Quantity::PcieActivity,      row("pcie_activity",      Unit::Ppm,            (0, WHOLE), COUNTERS)
        .column(&["pcie.activity"])
        .mean("pcie.activity")),
    (Quantity::MemoryUtilization, row("memory_utilization", Unit::Ppm,            (0, WHOLE), WHOLE).mapped()
        .recorded(&["utilization.memory"])
        .mean("memory.utilization")),
    (Quantity::FanSpeed,          row("fan_speed",          Unit::Ppm,            (0, FAN), FAN).mapped()
        .recorded(&["fan.speed"])
        .max("fan.speed")),
    (Quantity::PowerCap,          row("sw_power_cap",       Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap"])),
    (Quantity::SyncBoost,         row("sync_boost",         Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.sync_boost", "clocks_throttle_reasons.sync_boost"])),
    (Quantity::SoftwareThermal,   row("sw_thermal",         Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown"])),
    (Quantity::HardwareThermal,   row("hw_thermal",         Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown"])),
    (Quantity::PowerBrake,        row("hw_power_brake",     Unit::Ppm,            (0, WHOLE), WHOLE)
        .recorded(&["clocks_event_reasons.hw_power_brake_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown"])),
    (Quantity::SmActivity,        row("sm_activity",        Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["sm.activity"])
        .alert("sm_activity", "phasemeter_gpu_sm_activity_ratio{hw_parent=\"\"}")),
    (Quantity::TensorActivity,    row("tensor_activity",    Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["tensor.activity"])
        .alert("tensor_activity", "phasemeter_gpu_tensor_activity_ratio{hw_parent=\"\"}")),
    (Quantity::DramActivity,      row("dram_activity",      Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["dram.activity"])
        .alert("dram_activity", "phasemeter_gpu_dram_activity_ratio{hw_parent=\"\"}")),
    (Quantity::Fp64Activity,      row("fp64_activity",      Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["fp64.activity"])
        .mean("fp64.activity")),
    (Quantity::Fp32Activity,      row("fp32_activity",      Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["fp32.activity"])
        .mean("fp32.activity")),
    (Quantity::Fp16Activity,      row("fp16_activity",      Unit::Ppm,            (0, WHOLE), COUNTERS).mapped()
        .recorded(&["fp16.activity"])
        .mean("fp16.activity")),
    (Quantity::PcieGeneration,    row("pcie_generation",    Unit::Number,         (1, 9), 9).mapped()
        .recorded(&["pcie.link.gen.current", "pcie.link.gen.gpucurrent"])
        .max("pcie.link.generation")),
    (Quantity::PcieWidth,         row("pcie_width",         Unit::Number,         (1, 32), 32).mapped()
        .recorded(&["pcie.link.width.current"])
        .max("pcie.link.width")),
    (Quantity::PcieMaxWidth,      row("pcie_max_width",     Unit::Number,         (1, 32), 32).mapped()
        .recorded(&["pcie.link.width.max"])
        .max("pcie.link.max_width")),
    (Quantity::Encoder,           row("encoder",            Unit::Ppm,            (0, WHOLE), WHOLE).mapped()
        .recorded(&["utilization.encoder"])
        .mean("encoder.utilization")),
    (Quantity::Decoder,           row("decoder",            Unit::Ppm,            (0, WHOLE), WHOLE).mapped()
        .recorded(&["utilization.decoder"])
        .mean("decoder.utilization")),
    (Quantity::MemoryErrors,      row("memory_errors",      Unit::Number,         ERRORS, ERRORS.1)
        .recorded(&["ecc.errors.uncorrected.volatile.total"])
        .max("memory.errors")),
];

/// A quantity without a row, a row in another place, or one with a name for alerts but no value, does not compile.
const _: () = {
    let mut place = 0;
    while place < TABLE.len() {
        assert!(TABLE[place].0 as usize == place);
        assert!(TABLE[place].1.alert.is_none() || has_alert_value(TABLE[place].0, &TABLE[place].1));
        place += 1;
    }
};

/// Whether rules for alerts get a value: of a share that is kept, or as `gpu/alerts.rs` computes it.
const fn has_alert_value(quantity: Quantity, row: &Row) -> bool {
    use Quantity::{GraphicsActivity, MemoryUsed, Power, Temperature, Utilization};
    let is_kept = quantity as usize >= GraphicsActivity as usize;
    is_kept && matches!(row.unit, Unit::Ppm)
        || matches!(quantity, Utilization | MemoryUsed | Power | Temperature)
}

impl Quantity {
    /// The number of quantities.
    pub const COUNT: usize = Self::MemoryErrors as usize + 1;

    /// The number of quantities that are kept with each reading.
    pub const KEPT: usize = Self::COUNT - Self::GraphicsActivity as usize;

    /// Activities that GPM measures together.
    pub const ACTIVITIES: [Self; 6] = [
        Self::SmActivity,
        Self::TensorActivity,
        Self::DramActivity,
        Self::Fp64Activity,
        Self::Fp32Activity,
        Self::Fp16Activity,
    ];

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
        TABLE.iter().map(|(quantity, _)| *quantity)
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

    /// The names of its columns in logs, of those that have one value per quantity.
    #[must_use]
    pub const fn columns(self) -> &'static [&'static str] {
        self.row().columns
    }

    /// The quantity with a column of this name, in any case.
    #[must_use]
    pub fn of_column(name: &[u8]) -> Option<Self> {
        let is_named = |known: &&str| known.as_bytes().eq_ignore_ascii_case(name);
        Self::all().find(|quantity| quantity.columns().iter().any(is_named))
    }

    /// The kept quantities that `phasemeter record` writes, each with the name of its column, in order.
    pub fn recorded() -> impl Iterator<Item = (Self, &'static str)> {
        let columns = TABLE.iter().filter(|(_, row)| row.is_recorded);
        columns.filter_map(|(quantity, row)| Some((*quantity, *row.columns.first()?)))
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
        &TABLE[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::units::PPM;

    #[test]
    fn table_has_one_row_per_quantity() {
        for (quantity, row) in &TABLE {
            assert!(row.least < row.most && row.most <= row.tolerated, "{}", row.name);
            assert_eq!(Quantity::named(row.name), Some(*quantity));
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
