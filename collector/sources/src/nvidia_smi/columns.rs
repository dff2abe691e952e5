//! What a header says: which column stands where.
//!
//! Read once a header, so that rows are read by a plain list of columns. It must not know what a
//! cell looks like.

use super::error::{HeaderError, printable};

/// What a column holds, as far as it is of use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Unknown,
    Timestamp,
    Uuid,
    BusId,
    Index,
    Name,
    Utilization,
    MemoryUsed,
    MemoryTotal,
    Power(PowerColumn),
    EnforcedPowerLimit,
    PowerLimit,
    Energy,
    Temperature,
    SmClock,
    MemoryClock,
    Processes,
}

/// Which of the power columns of `nvidia-smi` power was taken from. They differ in the time that
/// they average over, so a log has one; the first of this order that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PowerColumn {
    /// `power.draw`: the last measured value, or, on GPUs since Ampere, the mean of a second.
    Draw,
    /// `power.draw.average`
    Average,
    /// `power.draw.instant`
    Instant,
}

impl PowerColumn {
    /// The column's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draw => "power.draw",
            Self::Average => "power.draw.average",
            Self::Instant => "power.draw.instant",
        }
    }
}

/// What tells the GPUs of a log apart, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuIdentification {
    /// The column `uuid`.
    Uuid,
    /// The column `pci.bus_id`.
    BusId,
    /// The column `index`.
    Index,
    /// Nothing but the order of the rows.
    RowOrder,
}

/// The names that columns go by.
const COLUMN_NAMES: [(&str, Column); 24] = [
    ("timestamp", Column::Timestamp),
    ("uuid", Column::Uuid),
    ("gpu_uuid", Column::Uuid),
    ("pci.bus_id", Column::BusId),
    ("gpu_bus_id", Column::BusId),
    ("index", Column::Index),
    ("name", Column::Name),
    ("gpu_name", Column::Name),
    ("utilization.gpu", Column::Utilization),
    ("memory.used", Column::MemoryUsed),
    ("memory.total", Column::MemoryTotal),
    ("power.draw", Column::Power(PowerColumn::Draw)),
    ("power.draw.average", Column::Power(PowerColumn::Average)),
    ("power.draw.instant", Column::Power(PowerColumn::Instant)),
    ("enforced.power.limit", Column::EnforcedPowerLimit),
    ("power.limit", Column::PowerLimit),
    // nvidia-smi has no such columns; Phasemeter's own recordings do.
    ("total_energy_consumption", Column::Energy),
    ("compute_processes", Column::Processes),
    ("temperature.gpu", Column::Temperature),
    ("clocks.sm", Column::SmClock),
    ("clocks.current.sm", Column::SmClock),
    ("clocks.mem", Column::MemoryClock),
    ("clocks.current.memory", Column::MemoryClock),
    ("clocks.current.mem", Column::MemoryClock),
];

/// The columns of the rows under one header, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    columns: Vec<Column>,
}

impl Columns {
    /// Reads a header. Power is taken from the column `power`, where a header before chose it.
    pub(super) fn read(header: &[u8], power: Option<PowerColumn>) -> Result<Self, HeaderError> {
        // A byte order mark in the middle of a log is where two were appended.
        let header = header.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(header);
        let mut columns = Vec::new();
        for cell in header.split(|byte| *byte == b',') {
            let column = column(cell.trim_ascii());
            // A column that stands twice is read once.
            columns.push(if columns.contains(&column) { Column::Unknown } else { column });
        }
        let power = power.or_else(|| columns.iter().filter_map(|column| column.power()).min());
        for column in &mut columns {
            if column.power() != power && column.power().is_some() {
                *column = Column::Unknown;
            }
        }
        let all = Self { columns };
        if all.columns.iter().all(|column| *column == Column::Unknown) {
            return Err(HeaderError::UnknownColumns);
        }
        if !all.has(Column::Timestamp) {
            return Err(HeaderError::NoTimestamp { found: printable(header) });
        }
        let has_metered = all.has(Column::Utilization) || all.has(Column::MemoryUsed);
        if !has_metered && all.power().is_none() {
            return Err(HeaderError::NoMeteredColumn { found: printable(header) });
        }
        Ok(all)
    }

    /// All columns, from the left.
    pub(super) fn iter(&self) -> impl Iterator<Item = Column> {
        self.columns.iter().copied()
    }

    /// How many cells a row has.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    /// Where power is taken from.
    pub(super) fn power(&self) -> Option<PowerColumn> {
        self.columns.iter().find_map(|column| column.power())
    }

    /// What tells GPUs apart under this header.
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
    /// The unit of its numbers: after each, or in the header, or not there at all.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Utilization => "%",
            Self::MemoryUsed | Self::MemoryTotal => "MiB",
            Self::Power(_) | Self::EnforcedPowerLimit | Self::PowerLimit => "W",
            Self::Energy => "mJ",
            Self::Temperature => "C",
            Self::SmClock | Self::MemoryClock => "MHz",
            _ => "",
        }
    }

    const fn power(self) -> Option<PowerColumn> {
        match self {
            Self::Power(power) => Some(power),
            _ => None,
        }
    }
}

/// The column of a name like `power.draw [W]`. A unit other than the one we read in makes it
/// another column, which we do not know.
fn column(cell: &[u8]) -> Column {
    let (name, unit) = match cell.strip_suffix(b"]") {
        Some(cell) => {
            let mut parts = cell.splitn(2, |byte| *byte == b'[');
            (parts.next().unwrap_or_default().trim_ascii(), parts.next().unwrap_or_default())
        }
        None => (cell, &b""[..]),
    };
    let known = COLUMN_NAMES.iter().find(|(known, _)| known.as_bytes() == name);
    known
        .map(|(_, column)| *column)
        .filter(|column| unit.is_empty() || unit == column.unit().as_bytes())
        .unwrap_or(Column::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(header: &str) -> Vec<Column> {
        Columns::read(header.as_bytes(), None).unwrap().columns
    }

    #[test]
    fn units_and_order_do_not_matter() {
        assert_eq!(
            columns("fan.speed [%], utilization.gpu [%],memory.used,timestamp"),
            [Column::Unknown, Column::Utilization, Column::MemoryUsed, Column::Timestamp]
        );
        assert_eq!(columns("timestamp, memory.used [GiB], power.draw [W]")[1], Column::Unknown);
    }

    #[test]
    fn a_log_has_one_power_column() {
        let all = "timestamp, power.draw.instant [W], power.draw.average [W], power.draw [W]";
        let [.., average, draw] = columns(all)[..] else { panic!() };
        assert_eq!((average, draw), (Column::Unknown, Column::Power(PowerColumn::Draw)));
        let later = Columns::read(all.as_bytes(), Some(PowerColumn::Average)).unwrap();
        assert_eq!(later.power(), Some(PowerColumn::Average));
    }

    #[test]
    fn what_stands_twice_is_read_once() {
        assert_eq!(
            columns("timestamp, clocks.sm, clocks.current.sm, memory.used, timestamp"),
            [
                Column::Timestamp,
                Column::SmClock,
                Column::Unknown,
                Column::MemoryUsed,
                Column::Unknown
            ]
        );
    }

    #[test]
    fn a_header_without_what_is_needed_is_refused() {
        let read = |header: &str| Columns::read(header.as_bytes(), None).unwrap_err();
        assert_eq!(read("2026/07/27 00:22:27.123, 3"), HeaderError::UnknownColumns);
        assert!(matches!(read("index, memory.used"), HeaderError::NoTimestamp { .. }));
        assert!(matches!(read("timestamp, index"), HeaderError::NoMeteredColumn { .. }));
    }

    #[test]
    fn the_surest_id_tells_apart() {
        let by = |ids: &str| {
            let header = format!("timestamp, memory.used{ids}");
            Columns::read(header.as_bytes(), None).unwrap().gpu_identification()
        };
        assert_eq!(by(", index, pci.bus_id, uuid"), GpuIdentification::Uuid);
        assert_eq!(by(", index, gpu_bus_id"), GpuIdentification::BusId);
        assert_eq!(by(", index"), GpuIdentification::Index);
        assert_eq!(by(""), GpuIdentification::RowOrder);
    }
}
