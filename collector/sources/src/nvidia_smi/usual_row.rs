//! Decodes rows as `nvidia-smi` writes them, eight bytes at once: the hot path of an audit.
//!
//! Cells are separated by a comma and a space; a number has no decimals or two, and its unit or
//! none, and may be `[N/A]`. Rows with any other cell are left to `row`, which decodes all rows, and
//! these to the same values. A row is first split into texts and plain numbers in one loop without
//! calls, then its values are made from them. Must not depend on the order of GPUs.

use phasemeter_meter::reading::{MissingReason, PowerBasis, Reading};
use phasemeter_meter::units::{Bytes, Celsius, Megahertz, Millijoules, Milliwatts, Utilization};

use super::columns::{Column, Columns, GpuIdentification};
use super::entry::Entry;
use super::limits::Limits;
use super::padded_row::{BLOCK, PaddedRow};
use super::row::{MAX_CELSIUS, MAX_MEGAHERTZ};
use super::timestamp::TimestampParser;

/// How the rows under one header are usually written, and the latest one.
pub(super) struct UsualRow {
    cells: Vec<Cell>,
    /// The cell that identifies the GPU.
    key: Text,
    values: Values,
}

/// How one cell is usually written, and which value it is.
#[derive(Clone, Copy)]
enum Cell {
    Skipped,
    Text(Text),
    Integer(Number, Unit),
    /// An integer, or a number with two decimals.
    Hundredths(Number, Unit),
}

/// The texts of a row.
#[derive(Clone, Copy)]
enum Text {
    Timestamp,
    Uuid,
    BusId,
    Index,
    Name,
}

/// The numbers of a row.
#[derive(Clone, Copy)]
enum Number {
    Utilization,
    MemoryUsed,
    MemoryTotal,
    PowerDraw,
    PowerAverage,
    PowerInstant,
    EnforcedPowerLimit,
    PowerLimit,
    Energy,
    Temperature,
    SmClock,
    MemoryClock,
    Processes,
}

/// The cells of a row by what they are.
struct Values {
    /// Start and end; both 0 without such a column.
    texts: [(usize, usize); Text::Name as usize + 1],
    numbers: [u64; Number::Processes as usize + 1],
}

/// Instead of a number: there is no such column, or the cell is `[N/A]`.
const NO_COLUMN: u64 = u64::MAX;
const NOT_AVAILABLE: u64 = u64::MAX - 1;

/// A unit after a space, as the highest bytes of a word.
#[derive(Clone, Copy)]
struct Unit {
    word: u64,
    mask: u64,
    length: usize,
}

impl Cell {
    /// The usual cell of a column.
    fn of(column: Column) -> Self {
        let unit = Unit::new(column.unit());
        match column {
            Column::Unknown => Self::Skipped,
            Column::Timestamp => Self::Text(Text::Timestamp),
            Column::Uuid => Self::Text(Text::Uuid),
            Column::BusId => Self::Text(Text::BusId),
            Column::Index => Self::Text(Text::Index),
            Column::Name => Self::Text(Text::Name),
            Column::Utilization => Self::Hundredths(Number::Utilization, unit),
            Column::MemoryUsed => Self::Integer(Number::MemoryUsed, unit),
            Column::MemoryTotal => Self::Integer(Number::MemoryTotal, unit),
            Column::Power(basis) => Self::Hundredths(Number::power(basis), unit),
            Column::EnforcedPowerLimit => Self::Hundredths(Number::EnforcedPowerLimit, unit),
            Column::PowerLimit => Self::Hundredths(Number::PowerLimit, unit),
            Column::Energy => Self::Integer(Number::Energy, unit),
            Column::Temperature => Self::Integer(Number::Temperature, unit),
            Column::SmClock => Self::Integer(Number::SmClock, unit),
            Column::MemoryClock => Self::Integer(Number::MemoryClock, unit),
            Column::Processes => Self::Integer(Number::Processes, unit),
        }
    }
}

impl Number {
    const fn power(basis: PowerBasis) -> Self {
        match basis {
            PowerBasis::Draw | PowerBasis::NvmlUsage => Self::PowerDraw,
            PowerBasis::Average => Self::PowerAverage,
            PowerBasis::Instant => Self::PowerInstant,
        }
    }
}

impl Unit {
    /// A unit of fewer than eight bytes with its space.
    fn new(unit: &str) -> Self {
        let add = |word, byte: u8| word >> 8 | u64::from(byte) << 56;
        let length = unit.len() + 1;
        let mask = !(u64::MAX >> (8 * length));
        if unit.is_empty() {
            // No word ends with it.
            return Self { word: 1, mask: 0, length: 0 };
        }
        Self { word: std::iter::once(b' ').chain(unit.bytes()).fold(0, add), mask, length }
    }
}

impl UsualRow {
    /// The usual row under a header.
    pub(super) fn new(columns: &Columns) -> Self {
        let texts = [(0, 0); Text::Name as usize + 1];
        let numbers = [NO_COLUMN; Number::Processes as usize + 1];
        let cells = columns.iter().map(Cell::of).collect();
        let key = match columns.gpu_identification() {
            GpuIdentification::Uuid => Text::Uuid,
            GpuIdentification::BusId => Text::BusId,
            GpuIdentification::Index | GpuIdentification::RowOrder => Text::Index,
        };
        Self { cells, key, values: Values { texts, numbers } }
    }

    /// Decodes a row into the values of `entry`; returns the cell that identifies its GPU. `None` if
    /// any cell is unusual or invalid; the values are then undefined.
    #[inline]
    pub(super) fn read<'a>(
        &mut self,
        row: PaddedRow<'a>,
        timestamps: &mut TimestampParser,
        entry: &mut Entry,
    ) -> Option<&'a [u8]> {
        self.split(row)?;
        let values = &self.values;
        let at = timestamps.read_local(values.text(row, Text::Timestamp))?;
        let (power, power_basis) = values.power();
        entry.reading = Reading {
            at,
            utilization: values.utilization()?,
            memory_used: values.get(Number::MemoryUsed).and_then(Bytes::from_mebibytes),
            compute_processes: values.narrow(Number::Processes),
            power,
            power_basis,
            energy: values.get(Number::Energy).map(Millijoules),
            temperature: values.celsius(),
            sm_clock: values.megahertz(Number::SmClock),
            memory_clock: values.megahertz(Number::MemoryClock),
        };
        let set_limit = || values.power_limit(Number::PowerLimit);
        entry.limits = Limits {
            memory_total: values.get(Number::MemoryTotal).and_then(Bytes::from_mebibytes),
            power: values.power_limit(Number::EnforcedPowerLimit).or_else(set_limit),
        };
        Some(values.text(row, self.key))
    }

    /// Splits a row into values; `None` if it is unusual.
    // A function of its own, so that its loop has all registers.
    #[inline(never)]
    fn split(&mut self, row: PaddedRow<'_>) -> Option<()> {
        let Values { texts, numbers } = &mut self.values;
        let (mut block, mut separators) = (0, row.separators(0));
        let (mut start, mut end) = (0, 0);
        for cell in &self.cells {
            while separators == 0 {
                block += BLOCK;
                if block > row.len() {
                    return None;
                }
                separators = row.separators(block);
            }
            end = block + separators.trailing_zeros() as usize;
            separators &= separators - 1;
            match *cell {
                Cell::Skipped => {}
                Cell::Text(text) => texts[text as usize] = (start, end),
                Cell::Integer(number, unit) => {
                    numbers[number as usize] = integer(row, start, end, unit)?;
                }
                Cell::Hundredths(number, unit) => {
                    numbers[number as usize] = hundredths(row, start, end, unit)?;
                }
            }
            start = end + 1;
        }
        (end == row.len()).then_some(())
    }
}

impl Values {
    #[inline]
    fn text<'a>(&self, row: PaddedRow<'a>, text: Text) -> &'a [u8] {
        match self.texts[text as usize] {
            (0, 0) => &[],
            (start, end) => trimmed(row.cell(start, end)),
        }
    }

    #[inline]
    fn get(&self, number: Number) -> Option<u64> {
        let number = self.numbers[number as usize];
        (number < NOT_AVAILABLE).then_some(number)
    }

    #[inline]
    fn narrow(&self, number: Number) -> Option<u32> {
        self.get(number).and_then(|number| u32::try_from(number).ok())
    }

    /// `None` if it is out of range.
    #[inline]
    fn utilization(&self) -> Option<Result<Utilization, MissingReason>> {
        match self.numbers[Number::Utilization as usize] {
            NO_COLUMN => Some(Err(MissingReason::NotCollected)),
            NOT_AVAILABLE => Some(Err(MissingReason::NotSupported)),
            percent => Some(Ok(Utilization::from_ppm(u32::try_from(percent * 100).ok()?)?)),
        }
    }

    #[inline]
    fn milliwatts(&self, number: Number) -> Option<Milliwatts> {
        let milliwatts = u32::try_from(self.get(number)? * 10).ok()?;
        Milliwatts::new(milliwatts)
    }

    /// The first readable one.
    #[inline]
    fn power(&self) -> (Option<Milliwatts>, PowerBasis) {
        let all = [PowerBasis::Draw, PowerBasis::Average, PowerBasis::Instant];
        let readable = |basis: &PowerBasis| self.milliwatts(Number::power(*basis)).is_some();
        let basis = all.into_iter().find(readable).unwrap_or(PowerBasis::Draw);
        (self.milliwatts(Number::power(basis)), basis)
    }

    /// A limit of zero means that there is none.
    #[inline]
    fn power_limit(&self, number: Number) -> Option<Milliwatts> {
        self.milliwatts(number).filter(|limit| limit.get() > 0)
    }

    #[inline]
    fn celsius(&self) -> Option<Celsius> {
        let celsius = i16::try_from(self.get(Number::Temperature)?).ok()?;
        (celsius <= MAX_CELSIUS).then_some(Celsius(celsius))
    }

    #[inline]
    fn megahertz(&self, number: Number) -> Option<Megahertz> {
        self.narrow(number).filter(|megahertz| *megahertz <= MAX_MEGAHERTZ).map(Megahertz)
    }
}

/// The integer in a cell.
#[inline(always)]
fn integer(row: PaddedRow<'_>, start: usize, end: usize, unit: Unit) -> Option<u64> {
    let Some((word, length)) = number(row, start, end, unit) else {
        return not_available(row, start, end);
    };
    if length > 8 { long_integer(row, end, length) } else { last_digits(word, length) }
}

/// The number in a cell, an integer or with two decimals, in hundredths.
#[inline(always)]
fn hundredths(row: PaddedRow<'_>, start: usize, end: usize, unit: Unit) -> Option<u64> {
    let Some((word, length)) = number(row, start, end, unit) else {
        return not_available(row, start, end);
    };
    if length > 3 && (word >> 40) & 0xFF == u64::from(b'.') {
        // Closes the gap between the digits.
        let digits = (word & (0xFFFF << 48)) | ((word & 0xFF_FFFF_FFFF) << 8);
        last_digits(digits, length - 1)
    } else {
        last_digits(word, length).map(|integer| integer * 100)
    }
}

/// The last eight bytes of the number in a cell, the last one highest, and its length, without one
/// space before it and its unit after it. `None` if it ends otherwise.
#[inline(always)]
fn number(row: PaddedRow<'_>, start: usize, end: usize, unit: Unit) -> Option<(u64, usize)> {
    let word = row.word_before(end)?;
    let length = (end - start).wrapping_sub(usize::from(row.byte(start)? == b' '));
    if (word >> 56).wrapping_sub(b'0'.into()) <= 9 {
        return Some((word, length));
    }
    let before = end.checked_sub(unit.length).filter(|_| word & unit.mask == unit.word)?;
    Some((row.word_before(before)?, length.wrapping_sub(unit.length)))
}

/// [`NOT_AVAILABLE`] if that is the cell.
#[cold]
fn not_available(row: PaddedRow<'_>, start: usize, end: usize) -> Option<u64> {
    (trimmed(row.cell(start, end)) == b"[N/A]").then_some(NOT_AVAILABLE)
}

/// An integer of up to 15 digits without a unit.
#[cold]
fn long_integer(row: PaddedRow<'_>, end: usize, length: usize) -> Option<u64> {
    let low = last_digits(row.word_before(end)?, 8)?;
    let high = last_digits(row.word_before(end - 8)?, length - 8)?;
    (length < 16).then_some(high * 100_000_000 + low)
}

/// Text without spaces around it.
#[inline]
fn trimmed(text: &[u8]) -> &[u8] {
    match text {
        [b' ', inner @ ..] if !is_padded(inner) => inner,
        text if !is_padded(text) => text,
        text => text.trim_ascii(),
    }
}

/// Whether text begins or ends with a space, or any other character that might be one, or is empty.
#[inline]
const fn is_padded(text: &[u8]) -> bool {
    matches!(text, [..=b' ', ..] | [.., ..=b' '] | [])
}

/// The last `length` bytes of a word, one to eight digits, as a number. All are processed at once
/// (SWAR): a loop over a varying number of digits would dominate the parsing of a row.
#[inline(always)]
const fn last_digits(word: u64, length: usize) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    if length == 0 || length > 8 {
        return None;
    }
    // The last byte is the highest. Digits are now 0 to 9, and the bytes before them 0.
    let ones = (word ^ (b'0' as u64 * EACH)) & (!0 << (64 - 8 * length));
    // Sets the high bit of bytes that are not digits.
    if (ones.wrapping_add((0x80 - 10) * EACH) | ones) & (0x80 * EACH) != 0 {
        return None;
    }
    // Joins adjacent numbers to two, four and eight digits.
    let twos = ones.wrapping_mul(10).wrapping_add(ones >> 8);
    let (odd, even) = (twos & 0x0000_00FF_0000_00FF, (twos >> 16) & 0x0000_00FF_0000_00FF);
    let odd = odd.wrapping_mul(100 + (1_000_000 << 32));
    let even = even.wrapping_mul(1 + (10_000 << 32));
    Some(odd.wrapping_add(even) >> 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::row::Row;
    use super::*;

    const HEADER: [&str; 17] = [
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
    ];

    /// A number as `nvidia-smi` may write it, or almost, and whether it is followed by its unit.
    fn cell() -> impl Strategy<Value = (String, bool)> {
        let number = prop_oneof![
            30 => "[0-9]{1,3}",
            20 => "[0-9]{1,3}\\.[0-9]{2}",
            10 => "[0-9]{4,16}",
            5 => Just("[N/A]".to_owned()),
            1 => "[0-9]{1,5}\\.[0-9]{1,5}",
            1 => "[ 0-9A-Z./%\\[\\]-]{0,9}",
        ];
        (number, any::<bool>())
    }

    proptest! {
        /// Rows that are read here are read to the same values as by `Row`.
        #[test]
        fn values_are_those_of_any_row(
            timestamp in "2026/07/27 00:00:0[0-2](\\.[0-9]{3})?Z?",
            mut cells in proptest::collection::vec(cell(), HEADER.len()),
            missing in prop_oneof![9 => Just(0_usize), 1 => 1..3_usize],
            order in Just((0..HEADER.len()).collect::<Vec<_>>()).prop_shuffle(),
            after in "[,0-9]{0,80}",
        ) {
            let columns: Vec<_> = order.iter().map(|column| HEADER[*column]).collect();
            cells.truncate(cells.len() - missing);
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
            let text = cells.collect::<Vec<_>>().join(", ");
            let columns = Columns::read(columns.join(", ").as_bytes()).unwrap();
            let bytes = format!("{text}{after}");
            let mut entry = Entry::EMPTY;
            let (mut ours, mut theirs) = (TimestampParser::new(None), TimestampParser::new(None));
            let row = PaddedRow::new(bytes.as_bytes(), text.len());
            ours.read(b"2026/07/27 00:00:00.5").unwrap();
            if let Some(key) = UsualRow::new(&columns).read(row, &mut ours, &mut entry) {
                let expected = Row::read(text.as_bytes(), &columns, &mut theirs).unwrap();
                prop_assert_eq!(key, expected.ids.key());
                prop_assert_eq!(entry.reading, expected.reading);
                prop_assert_eq!(entry.limits, expected.limits);
            }
        }
    }

    /// The rows that `nvidia-smi` writes are read here: with units and without, and without values.
    #[test]
    fn usual_rows_are_read() {
        let columns = Columns::read(HEADER.join(", ").as_bytes()).unwrap();
        for cells in [
            "0, 00000000:17:00.0, 87 %, 30 %, 12345 MiB, 81559 MiB, 312.99 W, 312.40 W, 700.00 W, 700.00 W, 54, 1410 MHz, 2619 MHz, 998877665544, 2",
            "7, 00000000:FF:00.0, 100, [N/A], 0, 81559, 70.00, 71.25, 700.00, 650.00, 54, 1410, 2619, 99887766, 0",
            "7, 00000000:FF:00.0, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]",
        ] {
            let row = format!("2026/07/27 00:22:27.123, NVIDIA H100 80GB HBM3, {cells}");
            let (mut entry, mut timestamps) = (Entry::EMPTY, TimestampParser::new(None));
            timestamps.read(b"2026/07/27 00:22:26.123").unwrap();
            let mut usual = UsualRow::new(&columns);
            let usual = usual.read(row.as_bytes().into(), &mut timestamps, &mut entry);
            assert!(usual.is_some(), "{row}");
        }
    }
}
