//! Decodes rows as `nvidia-smi` writes them, eight bytes at once: the hot path of an audit.
//!
//! A number has no decimals or two, and its unit or none, and may be `[N/A]`. What is between two
//! values is that of an earlier row. Rows with anything else are left to `row`, which decodes all rows,
//! and these to the same values.

use std::ops::Range;

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Timestamp, Utilization,
};

use super::columns::{Column, Columns, GpuIdentification};
use super::digits::{self, Ahead};
use super::entry::Entry;
use super::limits::Limits;
use super::row::{activity, bytes, set_device, set_event_reasons, set_power};
use super::timestamp::{MILLISECOND, TimestampParser};
use crate::Counts;

/// How the rows under one header are usually written.
pub(super) struct UsualRow {
    cells: Vec<Cell>,
    has_model: bool,
}

/// How one cell is usually written.
struct Cell {
    column: Column,
    /// Whether it identifies the GPU.
    is_key: bool,
    /// The text after its number, up to the next cell.
    after_number: Separator,
    /// The text after any other value.
    after_text: Separator,
}

/// The text between two values.
struct Separator {
    word: u64,
    /// Of the bytes that belong to it.
    mask: u64,
    length: usize,
}

/// Where parts of a decoded row are.
pub(super) struct RowExtent {
    /// The length of its line, with the line ending.
    pub(super) line: usize,
    /// The model; empty without such a column.
    pub(super) name: Range<usize>,
}

impl UsualRow {
    /// The usual row under a header.
    pub(super) fn new(columns: &Columns) -> Self {
        let key = match columns.gpu_identification() {
            GpuIdentification::Uuid => Some(Column::Uuid),
            GpuIdentification::BusId => Some(Column::BusId),
            GpuIdentification::Index => Some(Column::Index),
            GpuIdentification::RowOrder => None,
        };
        let cell = |column| Cell {
            column,
            is_key: Some(column) == key,
            after_number: Separator::new(b", ".iter()),
            after_text: Separator::new(b", ".iter()),
        };
        let has_model = columns.iter().any(|column| column == Column::Name);
        Self { cells: columns.iter().map(cell).collect(), has_model }
    }

    /// Whether rows have the model of their GPU.
    pub(super) const fn has_model(&self) -> bool {
        self.has_model
    }

    /// Learns the text between values from a valid row, without its line ending.
    pub(super) fn learn(&mut self, row: &[u8]) {
        let mut texts = row.split(|byte| *byte == b',').peekable();
        for cell in &mut self.cells {
            let Some(text) = texts.next() else { return };
            let text = text.trim_ascii_start();
            let digits = text.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'.')).count();
            let (number, unit) = text.split_at(digits);
            let is_unit = unit.strip_prefix(b" ") == Some(cell.column.unit().as_bytes());
            let end = texts
                .peek()
                .map_or(&b""[..], |next| if next.starts_with(b" ") { b", " } else { b"," });
            cell.after_text = Separator::new(end.iter());
            if !number.is_empty() && (is_unit || unit.is_empty()) {
                cell.after_number = Separator::new(unit.iter().chain(end));
            }
        }
    }

    /// Decodes the row at the beginning of `row` into the values of `entry`, if it is usual and `key`
    /// identifies its GPU. Otherwise they are undefined.
    #[inline]
    pub(super) fn read(
        &self,
        row: &Ahead,
        key: &[u8],
        timestamps: &mut TimestampParser,
        entry: &mut Entry,
    ) -> Option<RowExtent> {
        let Entry { reading, limits, counts, .. } = entry;
        (*reading, *limits) = (Reading::at(Timestamp::EPOCH), Limits::NONE);
        *counts = Counts::NONE;
        let (mut set_limit, mut name) = (None, 0..0);
        let mut at = 0;
        for cell in &self.cells {
            let number;
            match cell.column {
                Column::Timestamp => {
                    let text = row.get(at..at + MILLISECOND)?;
                    at = cell.after_text.end(row, at + MILLISECOND)?;
                    reading.at = timestamps.read_local(text)?;
                }
                Column::Uuid | Column::BusId | Column::Index if cell.is_key => {
                    if row.get(at..at + key.len())? != key {
                        return None;
                    }
                    at = cell.after_text.end(row, at + key.len())?;
                }
                Column::Unknown
                | Column::HardwareSlowdown
                | Column::Uuid
                | Column::BusId
                | Column::Index
                | Column::MigMode
                | Column::MigProfiles
                | Column::NvLinkPeers => {
                    at = cell.after_text.end(row, digits::text_end(row, at)?)?;
                }
                Column::Name => {
                    name = at..digits::text_end(row, at)?;
                    at = cell.after_text.end(row, name.end)?;
                }
                Column::Value(Quantity::Utilization) => {
                    (number, at) = cell.hundredths(row, at)?;
                    reading.utilization = match number {
                        Some(percent) => Ok(utilization(percent)?),
                        None => Err(MissingReason::NotSupported),
                    }
                }
                Column::Value(Quantity::MemoryUsed) => {
                    (number, at) = cell.integer(row, at)?;
                    reading.memory_used = number.and_then(|it| bytes(Quantity::MemoryUsed, it));
                }
                Column::Value(Quantity::MemoryTotal) => {
                    (number, at) = cell.integer(row, at)?;
                    limits.memory_total = number.and_then(|it| bytes(Quantity::MemoryTotal, it));
                }
                Column::Power(basis) => {
                    (number, at) = cell.hundredths(row, at)?;
                    set_power(
                        reading,
                        number.and_then(|it| milliwatts(Quantity::Power, it)),
                        basis,
                    );
                }
                Column::EnforcedPowerLimit => {
                    (number, at) = cell.hundredths(row, at)?;
                    limits.power = number.and_then(|it| milliwatts(Quantity::PowerLimit, it));
                }
                Column::PowerLimit => {
                    (number, at) = cell.hundredths(row, at)?;
                    set_limit = number.and_then(|it| milliwatts(Quantity::PowerLimit, it));
                }
                Column::Value(Quantity::Energy) => {
                    (number, at) = cell.integer(row, at)?;
                    let energy = number.and_then(|it| Quantity::Energy.admit(it));
                    reading.energy = energy.map(Millijoules);
                }
                Column::Value(Quantity::Temperature) => {
                    (number, at) = cell.integer(row, at)?;
                    let heat = number.and_then(|it| Quantity::Temperature.admit(it));
                    reading.temperature = heat.map(Celsius);
                }
                Column::Value(Quantity::SmClock) => {
                    (number, at) = cell.integer(row, at)?;
                    let clock = number.and_then(|it| Quantity::SmClock.admit(it));
                    reading.sm_clock = clock.map(Megahertz);
                }
                Column::Value(Quantity::MemoryClock) => {
                    (number, at) = cell.integer(row, at)?;
                    let clock = number.and_then(|it| Quantity::MemoryClock.admit(it));
                    reading.memory_clock = clock.map(Megahertz);
                }
                Column::Value(Quantity::Processes) => {
                    (number, at) = cell.integer(row, at)?;
                    reading.compute_processes = number.and_then(|it| Quantity::Processes.admit(it));
                }
                Column::Value(Quantity::EventReasons) => {
                    let end = digits::text_end(row, at)?;
                    set_event_reasons(&mut reading.device, row.get(at..end)?);
                    at = cell.after_text.end(row, end)?;
                }
                Column::PcieTraffic => {
                    (number, at) = cell.integer(row, at)?;
                    counts.pcie = number.and_then(|sum| sum.checked_mul(Bytes::MEBIBYTE));
                }
                Column::NvLinkTraffic => {
                    (number, at) = cell.integer(row, at)?;
                    counts.nvlink = number.and_then(|sum| sum.checked_mul(Bytes::MEBIBYTE));
                }
                Column::Value(Quantity::Xid) => {
                    (number, at) = cell.integer(row, at)?;
                    counts.xid = number.and_then(|it| Quantity::Xid.admit(it));
                }
                Column::Value(quantity) => {
                    (number, at) = cell.device(row, at)?;
                    set_device(&mut reading.device, quantity, number);
                }
                // Rows with a host have two cells that identify their GPU.
                Column::Ratio(_) | Column::Host => return None,
            }
        }
        limits.power = limits.power.or(set_limit);
        let line = match row.get(at..)? {
            [b'\n', ..] => at + 1,
            [b'\r', b'\n', ..] => at + 2,
            _ => return None,
        };
        Some(RowExtent { line, name })
    }
}

impl Cell {
    /// The integer at an offset, `None` if it is `[N/A]`; and the offset of the next cell.
    #[inline(always)]
    fn integer(&self, row: &Ahead, at: usize) -> Option<(Option<u64>, usize)> {
        match digits::integer(row, at) {
            Some((number, end)) => Some((Some(number), self.after_number.end(row, end)?)),
            None => self.not_available(row, at),
        }
    }

    /// The value of a device column at an offset, in ppm, and the offset of the next cell.
    #[inline]
    fn device(&self, row: &Ahead, at: usize) -> Option<(Option<u64>, usize)> {
        if let Some((percent, at)) = self.hundredths(row, at) {
            return Some((percent.map(|percent| percent * 100), at));
        }
        let end = digits::text_end(row, at)?;
        Some((Some(activity(row.get(at..end)?)?), self.after_text.end(row, end)?))
    }

    /// Like [`Self::integer`], in hundredths.
    #[inline(always)]
    fn hundredths(&self, row: &Ahead, at: usize) -> Option<(Option<u64>, usize)> {
        match digits::hundredths(row, at) {
            Some((number, end)) => Some((Some(number), self.after_number.end(row, end)?)),
            None => self.not_available(row, at),
        }
    }

    #[cold]
    fn not_available(&self, row: &Ahead, at: usize) -> Option<(Option<u64>, usize)> {
        row.get(at..)?.strip_prefix(b"[N/A]")?;
        Some((None, self.after_text.end(row, at + b"[N/A]".len())?))
    }
}

impl Separator {
    /// Up to eight bytes: the longest are a unit, a comma, and a space before each.
    fn new<'a>(bytes: impl Iterator<Item = &'a u8>) -> Self {
        let (mut word, mut mask) = ([0; 8], [0; 8]);
        let each = bytes.zip(&mut word).zip(&mut mask);
        let length = each.map(|((byte, word), mask)| (*word, *mask) = (*byte, 0xFF)).count();
        Self { word: u64::from_le_bytes(word), mask: u64::from_le_bytes(mask), length }
    }

    /// The offset after it, if it is at this one.
    #[inline(always)]
    fn end(&self, row: &Ahead, at: usize) -> Option<usize> {
        (digits::word(row, at)? & self.mask == self.word).then_some(at + self.length)
    }
}

/// From hundredths of a percent; `None` if it is out of range.
#[inline]
fn utilization(percent: u64) -> Option<Utilization> {
    Quantity::Utilization.admit(percent * 100).and_then(Utilization::from_ppm)
}

/// From hundredths of a watt.
#[inline]
fn milliwatts(quantity: Quantity, power: u64) -> Option<Milliwatts> {
    quantity.admit(power * 10).and_then(Milliwatts::new)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::row::Row;
    use super::*;

    const HEADER: [&str; 24] = [
        "timestamp",
        "name",
        "index",
        "pci.bus_id",
        "utilization.gpu [%]",
        "fan.speed [%]",
        "memory.used [MiB]",
        "memory.total [MiB]",
        "power.draw.instant [W]",
        "power.draw [W]",
        "power.limit [W]",
        "enforced.power.limit [W]",
        "temperature.gpu",
        "clocks.sm [MHz]",
        "clocks.mem [MHz]",
        "total_energy_consumption [mJ]",
        "compute_processes",
        "utilization.memory [%]",
        "pcie.link.width.current",
        "clocks_event_reasons.sw_power_cap",
        "clocks_event_reasons.active",
        "tensor.activity [%]",
        "pcie.traffic [MiB]",
        "xid",
    ];

    /// A number as `nvidia-smi` may write it, or almost, and whether it is followed by its unit.
    fn cell() -> impl Strategy<Value = (String, bool)> {
        let number = prop_oneof![
            30 => "[0-9]{1,3}",
            20 => "[0-9]{1,3}\\.[0-9]{2}",
            10 => "[0-9]{4,16}",
            5 => Just("[N/A]".to_owned()),
            5 => Just("Active".to_owned()),
            5 => Just("Not Active".to_owned()),
            5 => "0x[0-9a-f]{1,16}",
            1 => "[0-9]{1,5}\\.[0-9]{1,5}",
            1 => "[ 0-9A-Z./%\\[\\]-]{0,9}",
        ];
        (number, any::<bool>())
    }

    /// A line in a buffer.
    fn ahead(line: &str) -> Ahead {
        std::array::from_fn(|at| line.as_bytes().get(at).copied().unwrap_or_default())
    }

    proptest! {
        /// Rows that are read here are read to the same values as by `Row`, whatever was learned.
        #[test]
        fn values_are_those_of_any_row(
            timestamp in "2026/07/27 00:00:[0-5][0-2](\\.[0-9]{3})?Z?",
            mut cells in proptest::collection::vec(cell(), HEADER.len()),
            learned in proptest::option::of(proptest::collection::vec(cell(), HEADER.len())),
            missing in prop_oneof![9 => Just(0_usize), 1 => 1..3_usize],
            order in Just((0..HEADER.len()).collect::<Vec<_>>()).prop_shuffle(),
            separator in prop_oneof![4 => Just(", "), 1 => Just(",")],
            after in "\r?\n[, \n0-9]{0,80}",
        ) {
            let columns: Vec<_> = order.iter().map(|column| HEADER[*column]).collect();
            let write = |cells: Vec<(String, bool)>| {
                let cells = columns.iter().zip(cells).map(|(column, (mut cell, has_unit))| {
                    let unit = column.split_once(" [").map(|(_, unit)| unit.trim_end_matches(']'));
                    // Only percentages and powers have decimals.
                    if !matches!(unit, Some("%" | "W")) && cell.len() < 7 {
                        cell = cell.replace('.', "");
                    }
                    match unit {
                        _ if *column == "timestamp" => timestamp.clone(),
                        Some(unit) if has_unit && cell != "[N/A]" => format!("{cell} {unit}"),
                        _ => cell,
                    }
                });
                cells.collect::<Vec<_>>().join(separator)
            };
            cells.truncate(cells.len() - missing);
            let row = write(cells);
            let learned = learned.map_or_else(|| row.clone(), write);
            let columns = Columns::read(columns.join(", ").as_bytes()).unwrap();
            let mut usual = UsualRow::new(&columns);
            usual.learn(learned.as_bytes());
            let (mut ours, mut theirs) = (TimestampParser::new(None), TimestampParser::new(None));
            ours.read(b"2026/07/27 00:00:00.5").unwrap();
            let expected = Row::read(row.as_bytes(), &columns, &mut theirs);
            let key = expected.as_ref().map_or(&b"7"[..], |row| row.ids.id());
            let (line, mut entry) = (format!("{row}{after}"), Entry::EMPTY);
            if let Some(found) = usual.read(&ahead(&line), key, &mut ours, &mut entry) {
                let expected = expected.unwrap();
                prop_assert_eq!(Some(found.line - 1), line.find('\n'));
                prop_assert_eq!(line.as_bytes()[found.name].trim_ascii(), expected.name);
                prop_assert_eq!(entry.reading, expected.reading);
                prop_assert_eq!(entry.limits, expected.limits);
                prop_assert_eq!(entry.counts, expected.counts);
            }
        }
    }

    /// The rows that `nvidia-smi` writes are read here: with units and without, and without values.
    #[test]
    fn usual_rows_are_read() {
        let columns = Columns::read(HEADER.join(", ").as_bytes()).unwrap();
        for cells in [
            "0, 00000000:17:00.0, 87 %, 30 %, 12345 MiB, 81559 MiB, 312.99 W, 312.40 W, 700.00 W, 700.00 W, 54, 1410 MHz, 2619 MHz, 998877665544, 2, 30 %, 16, Not Active, 0x0000000000000001, 12 %, 2600000 MiB, [N/A]",
            "7, 00000000:FF:00.0, 100, [N/A], 0, 81559, 70.00, 71.25, 700.00, 650.00, 54, 1410, 2619, 99887766, 0, 30, 16, Active, 0x0000000000000004, 12.50, 2600000, 79",
            "7, 00000000:FF:00.0, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]",
        ] {
            let row = format!("2026/07/27 00:22:27.123, NVIDIA H100, {cells}");
            let (mut entry, mut timestamps) = (Entry::EMPTY, TimestampParser::new(None));
            let key = cells.split(", ").nth(1).unwrap().as_bytes();
            timestamps.read(b"2026/07/27 00:22:26.123").unwrap();
            let mut usual = UsualRow::new(&columns);
            usual.learn(row.as_bytes());
            for ending in ["\n", "\r\n"] {
                let line = ahead(&format!("{row}{ending}"));
                let found = usual.read(&line, key, &mut timestamps, &mut entry);
                let found = found.map(|row| row.line);
                assert_eq!(found, Some(row.len() + ending.len()), "{cells}");
            }
        }
    }
}
