//! Parses headers: the columns of the rows that follow.
//!
//! Parsed once per header, so that rows are decoded by a plain list of columns.

use phasemeter_meter::energy_source::PowerBasis;
use phasemeter_meter::quantity::{Quantity, Unit};

use super::error::{HeaderError, printable};

/// The content of a column. A log may have several columns of power; each row's power is from the
/// first readable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Unknown,
    Timestamp,
    Uuid,
    BusId,
    Index,
    /// The host of the GPU, in which bus ID and index are unique.
    Host,
    Name,
    /// Power draw, from this source.
    Power(PowerBasis),
    EnforcedPowerLimit,
    PowerLimit,
    /// Whether MIG is enabled.
    MigMode,
    /// Profiles of MIG instances.
    MigProfiles,
    /// UUIDs of GPUs that NVLink connects.
    NvLinkPeers,
    /// A value of the GPU.
    Value(Quantity),
    /// A share as DCGM writes it: 0–1.
    Ratio(Quantity),
    /// Clocks that the hardware reduced because of heat or the power supply.
    HardwareSlowdown,
    /// Traffic so far.
    PcieTraffic,
    NvLinkTraffic,
}

/// How the GPUs of a log are identified, most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuIdentification {
    /// By the column `uuid`.
    Uuid,
    /// By the column `pci.bus_id`.
    BusId,
    /// By the column `index`.
    Index,
    /// Only by the order of rows.
    RowOrder,
}

/// Accepted column names, beside those of quantities.
const COLUMN_NAMES: [(&str, Column); 29] = [
    ("timestamp", Column::Timestamp),
    ("uuid", Column::Uuid),
    ("gpu_uuid", Column::Uuid),
    ("pci.bus_id", Column::BusId),
    ("gpu_bus_id", Column::BusId),
    ("index", Column::Index),
    ("hostname", Column::Host),
    ("host", Column::Host),
    ("node", Column::Host),
    ("name", Column::Name),
    ("gpu_name", Column::Name),
    ("power.draw", Column::Power(PowerBasis::Draw)),
    ("power.draw.average", Column::Power(PowerBasis::Average)),
    ("power.draw.instant", Column::Power(PowerBasis::Instant)),
    ("enforced.power.limit", Column::EnforcedPowerLimit),
    ("power.limit", Column::PowerLimit),
    ("mig.mode.current", Column::MigMode),
    // Columns that only `phasemeter record` writes.
    ("mig.profiles", Column::MigProfiles),
    ("nvlink.peers", Column::NvLinkPeers),
    ("pcie.traffic", Column::PcieTraffic),
    ("nvlink.traffic", Column::NvLinkTraffic),
    ("clocks_event_reasons.hw_slowdown", Column::HardwareSlowdown),
    ("clocks_throttle_reasons.hw_slowdown", Column::HardwareSlowdown),
    // As DCGM names them.
    ("DCGM_FI_PROF_SM_ACTIVE", Column::Ratio(Quantity::SmActivity)),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Column::Ratio(Quantity::TensorActivity)),
    ("DCGM_FI_PROF_DRAM_ACTIVE", Column::Ratio(Quantity::DramActivity)),
    ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", Column::Ratio(Quantity::Fp64Activity)),
    ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", Column::Ratio(Quantity::Fp32Activity)),
    ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", Column::Ratio(Quantity::Fp16Activity)),
];

/// The columns under one header, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    columns: Vec<Column>,
}

impl Columns {
    /// Parses a header.
    ///
    /// # Errors
    /// Returns an error if the header lacks a required column.
    pub(super) fn read(header: &[u8]) -> Result<Self, HeaderError> {
        // A log appended to another may start with its own byte order mark.
        let header = header.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(header);
        let mut columns = Vec::new();
        for cell in header.split(|byte| *byte == b',') {
            let column = column(cell.trim_ascii());
            // A repeated column is read once.
            columns.push(if columns.contains(&column) { Column::Unknown } else { column });
        }
        let all = Self { columns }.with_hardware_slowdown();
        if all.columns.iter().all(|column| *column == Column::Unknown) {
            let is_csv = all.columns.len() > 1;
            let not_csv = || HeaderError::NotCsv { found: printable(header) };
            return Err(if is_csv { HeaderError::UnknownColumns } else { not_csv() });
        }
        if !all.has(Column::Timestamp) {
            return Err(HeaderError::NoTimestamp { found: printable(header) });
        }
        if !all.columns.iter().any(Column::is_metered) {
            return Err(HeaderError::NoMeteredColumn { found: printable(header) });
        }
        Ok(all)
    }

    /// Reads the sum of heat and power brake as heat, the more frequent one, if neither is recorded: older
    /// drivers have the sum only.
    fn with_hardware_slowdown(mut self) -> Self {
        let heat = Column::Value(Quantity::HardwareThermal);
        let parts =
            [heat, Column::Value(Quantity::PowerBrake), Column::Value(Quantity::EventReasons)];
        let is_known = parts.iter().any(|part| self.columns.contains(part));
        let sum = self.columns.iter_mut().filter(|column| **column == Column::HardwareSlowdown);
        sum.for_each(|column| *column = if is_known { Column::Unknown } else { heat });
        self
    }

    /// All columns, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Column> {
        self.columns.iter().copied()
    }

    /// The number of cells per row.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// How GPUs are identified under this header.
    pub(super) fn gpu_identification(&self) -> GpuIdentification {
        if self.has(Column::Uuid) {
            GpuIdentification::Uuid
        } else if self.has(Column::BusId) {
            GpuIdentification::BusId
        } else if self.has(Column::Index) {
            GpuIdentification::Index
        } else {
            GpuIdentification::RowOrder
        }
    }

    fn has(&self, column: Column) -> bool {
        self.columns.contains(&column)
    }
}

impl Column {
    /// The unit of its numbers, which may follow each number, be in the header, or be missing.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Value(quantity) => match quantity.unit() {
                Unit::Ppm => "%",
                Unit::Bytes => "MiB",
                Unit::Milliwatts => "W",
                Unit::Millijoules => "mJ",
                Unit::Celsius => "C",
                Unit::Megahertz => "MHz",
                Unit::BytesPerSecond | Unit::Number => "",
            },
            Self::PcieTraffic | Self::NvLinkTraffic => "MiB",
            Self::Power(_) | Self::EnforcedPowerLimit | Self::PowerLimit => "W",
            _ => "",
        }
    }

    /// Whether a log with only this column beside the timestamp can be metered.
    const fn is_metered(&self) -> bool {
        matches!(self, Self::Value(Quantity::Utilization | Quantity::MemoryUsed) | Self::Power(_))
    }
}

/// The column with a name such as `power.draw [W]`. A different unit makes it unknown.
fn column(cell: &[u8]) -> Column {
    let (name, unit) = match cell.strip_suffix(b"]") {
        Some(cell) => {
            let mut parts = cell.splitn(2, |byte| *byte == b'[');
            (parts.next().unwrap_or_default().trim_ascii(), parts.next().unwrap_or_default())
        }
        None => (cell, &b""[..]),
    };
    let known = COLUMN_NAMES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
    let quantity = || Quantity::of_column(name).map(Column::Value);
    known
        .map(|(_, column)| *column)
        .or_else(quantity)
        .filter(|column| unit.is_empty() || unit == column.unit().as_bytes())
        .unwrap_or(Column::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(header: &str) -> Vec<Column> {
        Columns::read(header.as_bytes()).unwrap().columns
    }

    #[test]
    fn header_accepts_any_order_and_known_units() {
        assert_eq!(
            columns("pstate, utilization.gpu [%],memory.used,timestamp"),
            [
                Column::Unknown,
                Column::Value(Quantity::Utilization),
                Column::Value(Quantity::MemoryUsed),
                Column::Timestamp
            ]
        );
        assert_eq!(columns("timestamp, memory.used [GiB], power.draw [W]")[1], Column::Unknown);
        let by_hand = columns("Timestamp, Hostname, UUID, Utilization.GPU [%]");
        assert_eq!(
            by_hand,
            [Column::Timestamp, Column::Host, Column::Uuid, Column::Value(Quantity::Utilization)]
        );
    }

    #[test]
    fn repeated_columns_are_read_once() {
        assert_eq!(
            columns("timestamp, clocks.sm, clocks.current.sm, memory.used, timestamp"),
            [
                Column::Timestamp,
                Column::Value(Quantity::SmClock),
                Column::Unknown,
                Column::Value(Quantity::MemoryUsed),
                Column::Unknown
            ]
        );
    }

    #[test]
    fn header_without_required_columns_is_rejected() {
        let read = |header: &str| Columns::read(header.as_bytes()).unwrap_err();
        assert_eq!(read("2026/07/27 00:22:27.123, 3"), HeaderError::UnknownColumns);
        assert!(matches!(read("index, memory.used"), HeaderError::NoTimestamp { .. }));
        assert!(matches!(read("timestamp, index"), HeaderError::NoMeteredColumn { .. }));
    }

    #[test]
    fn hardware_slowdown_is_heat_if_its_parts_are_not_recorded() {
        let heat = Column::Value(Quantity::HardwareThermal);
        for prefix in ["clocks_event_reasons", "clocks_throttle_reasons"] {
            let last = |others: &str| {
                let header = format!("timestamp, memory.used{others}, {prefix}.hw_slowdown");
                *columns(&header).last().unwrap()
            };
            assert_eq!(last(""), heat);
            assert_eq!(last(&format!(", {prefix}.sw_thermal_slowdown")), heat);
            for part in ["hw_thermal_slowdown", "hw_power_brake_slowdown", "active"] {
                assert_eq!(last(&format!(", {prefix}.{part}")), Column::Unknown, "{part}");
            }
        }
    }

    #[test]
    fn most_reliable_id_identifies_gpus() {
        let by = |ids: &str| {
            let header = format!("timestamp, memory.used{ids}");
            Columns::read(header.as_bytes()).unwrap().gpu_identification()
        };
        assert_eq!(by(", index, pci.bus_id, uuid"), GpuIdentification::Uuid);
        assert_eq!(by(", index, gpu_bus_id"), GpuIdentification::BusId);
        assert_eq!(by(", index"), GpuIdentification::Index);
        assert_eq!(by(""), GpuIdentification::RowOrder);
    }
}
