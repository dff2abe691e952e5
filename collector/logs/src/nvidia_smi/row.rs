//! Decodes one row into a reading, however its cells are written.
//!
//! Allocates nothing.

use std::borrow::Cow;

use phasemeter_meter::device_state::DeviceState;
use phasemeter_meter::energy_source::PowerBasis;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{
    Bytes, Celsius, Megahertz, Millijoules, Milliwatts, PPM, Timestamp, Utilization,
};

use super::cell::{Cells, SCALE, missing_reason};
use super::columns::{Column, Columns};
use super::limits::Limits;
use super::timestamp::TimestampParser;
use crate::Counts;

/// The decoded values of a row. Text is borrowed from its bytes.
pub(super) struct Row<'a> {
    pub(super) reading: Reading,
    pub(super) limits: Limits,
    pub(super) counts: Counts,
    pub(super) ids: Ids<'a>,
    pub(super) name: &'a [u8],
    pub(super) parts: Parts<'a>,
}

/// The cells that name parts and neighbors of the row's GPU; empty if there is no such column.
#[derive(Clone, Copy, Default)]
pub(super) struct Parts<'a> {
    pub(super) mig_mode: &'a [u8],
    pub(super) mig_profiles: &'a [u8],
    pub(super) nvlink_peers: &'a [u8],
}

/// The cells that identify the row's GPU; empty if there is no such column.
#[derive(Clone, Copy, Default)]
pub(super) struct Ids<'a> {
    pub(super) uuid: &'a [u8],
    pub(super) bus_id: &'a [u8],
    pub(super) index: &'a [u8],
    pub(super) host: &'a [u8],
}

impl<'a> Ids<'a> {
    /// The cell of the most reliable ID.
    pub(super) const fn id(&self) -> &'a [u8] {
        match (self.uuid, self.bus_id) {
            ([], []) => self.index,
            ([], bus_id) => bus_id,
            (uuid, _) => uuid,
        }
    }

    /// The key of the GPU in its log: that cell, with the host if there is one.
    #[inline]
    pub(super) fn key(&self) -> Cow<'a, [u8]> {
        match self.host {
            [] => Cow::Borrowed(self.id()),
            host => Cow::Owned([host, b"\0", self.id()].concat()),
        }
    }
}

impl<'a> Row<'a> {
    /// Decodes a row, given without its line ending. `None` if it has the wrong number of cells or
    /// an invalid timestamp.
    #[inline]
    pub(super) fn read(
        row: &'a [u8],
        columns: &Columns,
        timestamps: &mut TimestampParser,
    ) -> Option<Self> {
        let mut cells = Cells::of(row);
        let mut limits = Limits::default();
        let mut counts = Counts::NONE;
        let mut set_limit = None;
        let mut reading = Reading::at(Timestamp::default());
        let mut ids = Ids::default();
        let mut name: &[u8] = &[];
        let mut parts = Parts::default();
        for column in columns.iter() {
            match column {
                Column::Unknown | Column::HardwareSlowdown => _ = cells.text(),
                Column::Timestamp => reading.at = cells.instant(timestamps)?,
                Column::Uuid => ids.uuid = cells.text(),
                Column::BusId => ids.bus_id = cells.text(),
                Column::Index => ids.index = cells.text(),
                Column::Host => ids.host = cells.text(),
                Column::Name => name = cells.text(),
                Column::MigMode => parts.mig_mode = cells.text(),
                Column::MigProfiles => parts.mig_profiles = cells.text(),
                Column::NvLinkPeers => parts.nvlink_peers = cells.text(),
                Column::Value(Quantity::Utilization) => {
                    reading.utilization = utilization(&mut cells);
                }
                Column::Value(Quantity::MemoryUsed) => {
                    reading.memory_used = mebibytes(&mut cells, Quantity::MemoryUsed);
                }
                Column::Value(Quantity::MemoryTotal) => {
                    limits.memory_total = mebibytes(&mut cells, Quantity::MemoryTotal);
                }
                Column::Power(basis) => {
                    let power = milliwatts(&mut cells, column, Quantity::Power);
                    set_power(&mut reading, power, basis);
                }
                Column::EnforcedPowerLimit => limits.power = power_limit(&mut cells, column),
                Column::PowerLimit => set_limit = power_limit(&mut cells, column),
                Column::Value(Quantity::Energy) => reading.energy = millijoules(&mut cells),
                Column::Value(Quantity::Temperature) => reading.temperature = celsius(&mut cells),
                Column::Value(Quantity::SmClock) => {
                    reading.sm_clock = megahertz(&mut cells, Quantity::SmClock);
                }
                Column::Value(Quantity::MemoryClock) => {
                    reading.memory_clock = megahertz(&mut cells, Quantity::MemoryClock);
                }
                Column::Value(Quantity::Processes) => {
                    reading.compute_processes = count(&mut cells, Quantity::Processes);
                }
                Column::Value(Quantity::EventReasons) => {
                    set_event_reasons(&mut reading.device, cells.text());
                }
                Column::PcieTraffic => counts.pcie = traffic(&mut cells),
                Column::NvLinkTraffic => counts.nvlink = traffic(&mut cells),
                Column::Value(Quantity::Xid) => counts.xid = count(&mut cells, Quantity::Xid),
                Column::Value(of) => {
                    set_device(&mut reading.device, of, device(&mut cells, column));
                }
                Column::Ratio(of) => {
                    let ppm = cells.number("").ok().map(|ratio| ratio * u64::from(PPM) / SCALE);
                    set_device(&mut reading.device, of, ppm);
                }
            }
        }
        limits.power = limits.power.or(set_limit);
        cells.is_complete().then_some(Self { reading, limits, counts, ids, name, parts })
    }
}

/// Percent in units of 1/[`SCALE`] are ppm.
fn utilization(cells: &mut Cells<'_>) -> Result<Utilization, MissingReason> {
    let ppm = cells.number(Column::Value(Quantity::Utilization).unit()).map_err(missing_reason)?;
    let ppm = Quantity::Utilization.admit(ppm);
    ppm.and_then(Utilization::from_ppm).ok_or(MissingReason::Unreadable)
}

fn mebibytes(cells: &mut Cells<'_>, quantity: Quantity) -> Option<Bytes> {
    bytes(quantity, whole(cells.number(Column::Value(Quantity::MemoryUsed).unit()))?)
}

/// From mebibytes.
#[inline]
pub(super) fn bytes(quantity: Quantity, mebibytes: u64) -> Option<Bytes> {
    quantity.admit(mebibytes.checked_mul(Bytes::MEBIBYTE)?).and_then(Bytes::new)
}

/// In bytes.
fn traffic(cells: &mut Cells<'_>) -> Option<u64> {
    whole(cells.number(Column::PcieTraffic.unit()))?.checked_mul(Bytes::MEBIBYTE)
}

fn milliwatts(cells: &mut Cells<'_>, column: Column, quantity: Quantity) -> Option<Milliwatts> {
    let milliwatts = cells.number(column.unit()).ok()? / (SCALE / 1_000);
    quantity.admit(milliwatts).and_then(Milliwatts::new)
}

/// Sets the power of a reading, unless it has that of a column that takes precedence.
#[inline]
pub(super) fn set_power(reading: &mut Reading, power: Option<Milliwatts>, basis: PowerBasis) {
    if power.is_some() && (reading.power.is_none() || basis < reading.power_basis) {
        (reading.power, reading.power_basis) = (power, basis);
    }
}

fn power_limit(cells: &mut Cells<'_>, column: Column) -> Option<Milliwatts> {
    milliwatts(cells, column, Quantity::PowerLimit)
}

fn megahertz(cells: &mut Cells<'_>, quantity: Quantity) -> Option<Megahertz> {
    quantity.admit(whole(cells.number(Column::Value(Quantity::SmClock).unit()))?).map(Megahertz)
}

fn millijoules(cells: &mut Cells<'_>) -> Option<Millijoules> {
    Quantity::Energy
        .admit(whole(cells.number(Column::Value(Quantity::Energy).unit()))?)
        .map(Millijoules)
}

fn count(cells: &mut Cells<'_>, quantity: Quantity) -> Option<u32> {
    quantity.admit(whole(cells.number(Column::Value(Quantity::Processes).unit()))?)
}

fn celsius(cells: &mut Cells<'_>) -> Option<Celsius> {
    const UNIT: &str = Column::Value(Quantity::Temperature).unit();
    let (sign, magnitude) = match cells.number(UNIT) {
        Err(text) => (-1, Cells::of(text.strip_prefix(b"-")?).number(UNIT)),
        number => (1, number),
    };
    let degrees = i64::try_from(whole(magnitude)?).ok()?;
    Quantity::Temperature.admit(sign * degrees).map(Celsius)
}

/// The value of a device column, in ppm of a percent or of one.
fn device(cells: &mut Cells<'_>, column: Column) -> Option<u64> {
    cells.number(column.unit()).or_else(|text| activity(text).ok_or(text)).ok()
}

/// Whether a reason for reduced clocks is active, in ppm.
pub(super) fn activity(text: &[u8]) -> Option<u64> {
    match text {
        b"Active" => Some(u64::from(PPM)),
        b"Not Active" => Some(0),
        _ => None,
    }
}

/// Sets which reasons for reduced clocks are active, from a hexadecimal number.
pub(super) fn set_event_reasons(state: &mut DeviceState, text: &[u8]) {
    let digits = std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix("0x"));
    if let Some(active) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        state.set_event_reasons(active);
    }
}

/// Sets a value that is kept with the reading: a share in ppm, or a number in units of 1/[`SCALE`].
#[inline]
pub(super) fn set_device(state: &mut DeviceState, quantity: Quantity, scaled: Option<u64>) {
    let unit = if quantity.is_share() { 1 } else { SCALE };
    state.set(quantity, scaled.and_then(|scaled| quantity.admit(scaled / unit)));
}

/// The integer part of a number in units of 1/[`SCALE`].
fn whole(number: Result<u64, &[u8]>) -> Option<u64> {
    number.ok().map(|number| number / SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "timestamp, index, utilization.gpu [%], memory.used [MiB], \
        memory.total [MiB], power.draw [W], temperature.gpu, clocks.sm [MHz], \
        total_energy_consumption [mJ]";

    fn read(row: &str) -> Option<Reading> {
        under(HEADER, row).map(|row| row.reading)
    }

    fn under<'a>(header: &str, row: &'a str) -> Option<Row<'a>> {
        let columns = Columns::read(header.as_bytes()).unwrap();
        Row::read(row.as_bytes(), &columns, &mut TimestampParser::new(None))
    }

    fn reading(cells: &str) -> Reading {
        read(&format!("2026/07/27 00:22:27.123, 3, {cells}")).unwrap()
    }

    #[test]
    fn row_decodes_with_and_without_units() {
        let bare = reading("87, 12345, 81559, 312.40, 54, 1410, 99887766");
        let with_units =
            reading("87 %, 12345 MiB, 81559 MiB, 312.40 W, 54 C, 1410 MHz, 99887766 mJ");
        assert_eq!(bare, with_units);
        assert_eq!(bare.utilization, Ok(Utilization::from_percent(87).unwrap()));
        assert_eq!(bare.memory_used, Bytes::from_mebibytes(12_345));
        assert_eq!(bare.power, Milliwatts::new(312_400));
        assert_eq!(bare.temperature, Some(Celsius(54)));
        assert_eq!(bare.sm_clock, Some(Megahertz(1_410)));
        assert_eq!(bare.energy, Some(Millijoules(99_887_766)));
    }

    #[test]
    fn placeholder_is_missing_not_zero() {
        let none = reading("[N/A], [N/A], [N/A], [Unknown Error], N/A, , [Not Supported]");
        let expected =
            Reading { utilization: Err(MissingReason::NotSupported), ..Reading::at(none.at) };
        assert_eq!(none, expected);
    }

    #[test]
    fn out_of_range_value_is_missing() {
        for utilization in ["101", "1000000000", "-3", "12 MiB", "[Unknown Error]"] {
            let reading = reading(&format!("{utilization}, 1, 1, 9999999999, -301, 100001, -1"));
            assert_eq!(reading.utilization, Err(MissingReason::Unreadable), "{utilization}");
            assert_eq!((reading.power, reading.temperature), (None, None));
            assert_eq!((reading.sm_clock, reading.energy), (None, None));
        }
        assert_eq!(reading("0.5, 1, 1, 1, -3, 1, 1").utilization.unwrap().ppm(), 5_000);
        assert_eq!(reading("0.5, 1, 1, 1, -3, 1, 1").temperature, Some(Celsius(-3)));
    }

    #[test]
    fn enforced_power_limit_takes_precedence() {
        for (set, enforced, expected) in [
            ("700.00 W", "650.00 W", 650_000),
            ("700.00", "[N/A]", 700_000),
            ("700.00 W", "0.00 W", 700_000),
            ("[N/A]", "312.5", 312_500),
            ("[N/A]", "[Not Supported]", 0),
            ("0.00 W", "", 0),
            ("700 mW", "9999999999 W", 0),
        ] {
            let header = "timestamp, power.draw [W], power.limit [W], enforced.power.limit [W]";
            let row = format!("2026/07/27 00:22:27.123, 71.25 W, {set}, {enforced}");
            let row = under(header, &row).unwrap();
            let expected = Milliwatts::new(expected).filter(|limit| limit.get() > 0);
            assert_eq!(row.limits.power, expected, "{set}, {enforced}");
            assert_eq!(row.reading.power, Milliwatts::new(71_250));
        }
    }

    #[test]
    fn power_is_the_first_readable_of_its_columns() {
        let header = "timestamp, power.draw.instant [W], power.draw [W], power.draw.average [W]";
        for (cells, expected) in [
            ("9.00 W, 7.00 W, 8.00 W", Some((7_000, PowerBasis::Draw))),
            ("9.00 W, [N/A], 8.00 W", Some((8_000, PowerBasis::Average))),
            ("9.00 W, [N/A], [Unknown Error]", Some((9_000, PowerBasis::Instant))),
            ("0.00 W, 99999999 W, -8.00 W", Some((0, PowerBasis::Instant))),
            ("[N/A], [N/A], [N/A]", None),
        ] {
            let row = format!("2026/07/27 00:22:27.123, {cells}");
            let reading = under(header, &row).unwrap().reading;
            let power = reading.power.map(|power| (power.get(), reading.power_basis));
            assert_eq!(power, expected, "{cells}");
        }
    }

    #[test]
    fn malformed_row_is_rejected() {
        for row in [
            "2026/07/27 00:22:27.123, 3, 87, 1",
            "2026/07/27 00:22:27.123, 3, 87, 1, 1, 1, 1, 1, 1, 1",
            "2026/07/27 00:22, 3, 87, 1, 1, 1, 1, 1, 1",
            "2026/07/27 00:22:27.123x, 3, 87, 1, 1, 1, 1, 1, 1",
            "[N/A], 3, 87, 1, 1, 1, 1, 1, 1",
        ] {
            assert_eq!(read(row), None, "{row}");
        }
    }

    #[test]
    fn bit_mask_of_event_reasons_is_read_as_their_columns() {
        let active = |cell: &str, header: &str| {
            let header = format!("timestamp, index, utilization.gpu [%], {header}");
            let row = format!("2026/07/27 00:00:00.000, 0, 50 %, {cell}");
            let device = under(&header, &row).unwrap().reading.device;
            Quantity::THROTTLING.map(|reason| device.share(reason).map(Utilization::ppm))
        };
        let (no, yes) = (Some(0), Some(PPM));
        for name in ["clocks_event_reasons.active", "clocks_throttle_reasons.active"] {
            assert_eq!(active("0x0000000000000000", name), [no; 5]);
            assert_eq!(active("0x0000000000000001", name), [no; 5], "idle");
            assert_eq!(active("0x0000000000000004", name), [yes, no, no, no, no]);
            assert_eq!(active("0x00000000000000f8", name), [no, yes, yes, yes, yes]);
            assert_eq!(active("0x0000000000000088", name), [no, no, no, no, yes]);
            assert_eq!(active("0x0000000000000008", name), [no, no, no, yes, no], "the sum only");
            for missing in ["[N/A]", "[Not Supported]", "4", "0x", "0xg", "0x10000000000000000"] {
                assert_eq!(active(missing, name), [None; 5], "{missing}");
            }
        }
    }
}
