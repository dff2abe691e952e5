//! Writes readings in the format of `nvidia-smi --format=csv`, so that they can be audited as a
//! log.
//!
//! Timestamps are truncated to milliseconds and memory to MiB.

use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{
    GpuIdentity, MIG_MODE, MIG_PROFILES, MissingReason, NVLINK_PEERS, Reading,
};
use phasemeter_meter::units::{Bytes, Milliwatts, Timestamp, Utilization};
use time::UtcDateTime;

use crate::Counts;

/// The columns before those of quantities that a reading keeps, and after them. The header differs from that of
/// `nvidia-smi`:
///
/// - Energy, processes, activities, MIG profiles, NVLink peers, traffic and XIDs are added.
/// - Profiles and peers are lists, separated by spaces.
/// - Reasons for reduced clocks are shares of the time; `nvidia-smi` writes `Active` or `Not Active`.
const FIRST: &str = "timestamp, index, uuid, pci.bus_id, name, utilization.gpu [%], \
    memory.used [MiB], memory.total [MiB], power.draw [W], enforced.power.limit [W], \
    temperature.gpu, clocks.sm [MHz], clocks.mem [MHz], total_energy_consumption [mJ], \
    compute_processes";
const LAST: &str =
    ", mig.mode.current, mig.profiles, nvlink.peers, pcie.traffic [MiB], nvlink.traffic [MiB], xid";

/// The header.
fn header() -> String {
    let column = |(quantity, name): (Quantity, &str)| match quantity.is_share() {
        true => format!(", {name} [%]"),
        false => format!(", {name}"),
    };
    let kept: String = Quantity::recorded().map(column).collect();
    format!("{FIRST}{kept}{LAST}\n")
}

/// Placeholder for a missing value.
const NOT_AVAILABLE: &str = "[N/A]";
/// Placeholder in all cells of a lost GPU.
const LOST: &str = "[GPU is lost]";

/// Writes the header line.
///
/// # Errors
/// Returns an error if `out` fails.
pub fn write_header(out: &mut impl Write) -> io::Result<()> {
    out.write_all(header().as_bytes())
}

/// Writes one reading of a GPU, and what was counted up to it, as a row.
///
/// # Errors
/// Returns an error if `out` fails.
pub fn write_row(
    out: &mut impl Write,
    gpu: &GpuIdentity,
    reading: &Reading,
    counts: &Counts,
) -> io::Result<()> {
    let none = match reading.utilization {
        Err(MissingReason::Lost) => LOST,
        _ => NOT_AVAILABLE,
    };
    let utilization = match reading.utilization {
        Err(MissingReason::Unreadable) => Cell { value: None, none: "[Unknown Error]", unit: "" },
        utilization => cell(utilization.ok().map(Percent), none, " %"),
    };
    let mebibytes =
        |bytes: Option<Bytes>| cell(bytes.map(|bytes| bytes.get() / Bytes::MEBIBYTE), none, " MiB");
    write!(
        out,
        "{}, {}, {}, {}, {}, {utilization}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
        CsvTimestamp(reading.at),
        cell(gpu.index, NOT_AVAILABLE, ""),
        cell(gpu.uuid.as_deref().map(CellText), NOT_AVAILABLE, ""),
        cell(gpu.bus_id.as_deref().map(CellText), NOT_AVAILABLE, ""),
        cell(gpu.model.as_deref().map(CellText), NOT_AVAILABLE, ""),
        mebibytes(reading.memory_used),
        mebibytes(gpu.memory_total),
        cell(reading.power.map(Watts), none, " W"),
        cell(gpu.power_limit.map(Watts), none, " W"),
        cell(reading.temperature.map(|temperature| temperature.0), none, ""),
        cell(reading.sm_clock.map(|clock| clock.0), none, " MHz"),
        cell(reading.memory_clock.map(|clock| clock.0), none, " MHz"),
        cell(reading.energy.map(|energy| energy.0), none, " mJ"),
        cell(reading.compute_processes, none, ""),
    )?;
    for (quantity, _) in Quantity::recorded() {
        if quantity.is_share() {
            write!(out, ", {}", cell(reading.device.share(quantity).map(Percent), none, " %"))?;
        } else {
            write!(out, ", {}", cell(reading.device.number(quantity), none, ""))?;
        }
    }
    let mode = if gpu.is_in_mig_mode() { "Enabled" } else { "Disabled" };
    let mode = gpu.attributes.contains_key(MIG_MODE).then_some(mode);
    write!(out, ", {}", cell(mode, NOT_AVAILABLE, ""))?;
    for attribute in [MIG_PROFILES, NVLINK_PEERS] {
        let text = gpu.attributes.get(attribute).map(|text| CellText(text));
        write!(out, ", {}", cell(text, NOT_AVAILABLE, ""))?;
    }
    for traffic in [counts.pcie, counts.nvlink] {
        let mebibytes = traffic.map(|bytes| bytes / Bytes::MEBIBYTE);
        write!(out, ", {}", cell(mebibytes, NOT_AVAILABLE, " MiB"))?;
    }
    writeln!(out, ", {}", cell(counts.xid, NOT_AVAILABLE, ""))
}

/// A value with its unit, or a placeholder.
struct Cell<T> {
    value: Option<T>,
    none: &'static str,
    unit: &'static str,
}

const fn cell<T>(value: Option<T>, none: &'static str, unit: &'static str) -> Cell<T> {
    Cell { value, none, unit }
}

impl<T: Display> Display for Cell<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{value}{}", self.unit),
            None => f.write_str(self.none),
        }
    }
}

/// In UTC with its zone, so that readers need not assume one.
struct CsvTimestamp(Timestamp);

impl Display for CsvTimestamp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let nanos = i128::from(self.0.as_nanos());
        let at = UtcDateTime::from_unix_timestamp_nanos(nanos).map_err(|_| fmt::Error)?;
        let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
        let (hour, minute, second, milli) = at.as_hms_milli();
        write!(f, "{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Whole percent as drivers report it; only finer values have decimals.
struct Percent(Utilization);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.0.ppm() / 10_000, self.0.ppm() % 10_000) {
            (percent, 0) => write!(f, "{percent}"),
            (percent, rest) => write!(f, "{percent}.{rest:04}"),
        }
    }
}

/// In W, with the resolution of NVML: 1 mW.
struct Watts(Milliwatts);

impl Display for Watts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0.get() / 1_000, self.0.get() % 1_000)
    }
}

/// Text without characters that would end its cell.
struct CellText<'a>(&'a str);

impl Display for CellText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ends_cell = |letter: char| letter == ',' || letter.is_control();
        self.0.split(ends_cell).try_for_each(|part| f.write_str(part))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use phasemeter_meter::device_state::DeviceState;
    use phasemeter_meter::units::{Celsius, Megahertz, Millijoules};
    use proptest::option;
    use proptest::prelude::*;

    use super::super::columns::Columns;
    use super::super::row::Row;
    use super::super::timestamp::TimestampParser;
    use super::*;

    fn written(gpu: &GpuIdentity, reading: &Reading, counts: &Counts) -> String {
        let mut out = Vec::new();
        write_row(&mut out, gpu, reading, counts).unwrap();
        String::from_utf8(out).unwrap().trim_end_matches('\n').to_owned()
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    #[test]
    fn row_has_format_of_nvidia_smi() {
        let gpu = GpuIdentity {
            uuid: Some("GPU-5e5ba0b2".to_owned()),
            bus_id: Some("00000000:17:00.0".to_owned()),
            index: Some(3),
            model: Some("NVIDIA H100, \n80GB".to_owned()),
            memory_total: Bytes::from_mebibytes(81_559),
            power_limit: Milliwatts::new(700_000),
            attributes: [(MIG_MODE.to_owned(), "disabled".to_owned())].into(),
            ..GpuIdentity::default()
        };
        let ids = "2026/07/27 00:22:27.123Z, 3, GPU-5e5ba0b2, 00000000:17:00.0, NVIDIA H100 80GB";
        let reading = Reading {
            utilization: Ok(Utilization::from_percent(87).unwrap()),
            memory_used: Bytes::from_mebibytes(12_345),
            power: Milliwatts::new(312_040),
            temperature: Some(Celsius(-3)),
            ..Reading::at(at(1_785_111_747_123))
        };
        let mut reading = reading;
        reading.device.set(Quantity::FanSpeed, Some(300_000));
        reading.device.set(Quantity::TensorActivity, Some(125_000));
        reading.device.set(Quantity::PcieWidth, Some(16));
        assert_eq!(
            written(&gpu, &reading, &Counts { xid: Some(79), ..Counts::NONE }),
            format!(
                "{ids}, 87 %, 12345 MiB, 81559 MiB, 312.040 W, 700.000 W, -3, [N/A], [N/A], [N/A], \
                 [N/A], [N/A], 30 %, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], 12.5000 %, [N/A], \
                 [N/A], [N/A], [N/A], [N/A], 16, [N/A], [N/A], [N/A], [N/A], Disabled, [N/A], [N/A], [N/A], [N/A], 79"
            )
        );
        let lost = Reading { utilization: Err(MissingReason::Lost), ..Reading::at(reading.at) };
        let cells = written(&gpu, &lost, &Counts::NONE);
        let lost = format!(
            "{ids}, {LOST}, {LOST}, 81559 MiB, {LOST}, 700.000 W, {}, {}",
            [LOST; 24].join(", "),
            ["Disabled", NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE, NOT_AVAILABLE]
                .join(", ")
        );
        assert_eq!(cells, lost);
    }

    fn device() -> impl Strategy<Value = DeviceState> {
        let values = proptest::array::uniform16(option::of(0..=200_u32));
        values.prop_map(|values| {
            let mut state = DeviceState::NONE;
            for ((quantity, _), value) in Quantity::recorded().zip(values) {
                let unit = if quantity.is_share() { 5_000 } else { 1 };
                state.set(quantity, value.and_then(|it| quantity.admit(it * unit)));
            }
            state
        })
    }

    /// Any possible value, or none.
    fn possible<T: TryFrom<i64> + Debug>(quantity: Quantity) -> impl Strategy<Value = Option<T>> {
        let (least, most) = quantity.range();
        option::of((least..=most).prop_filter_map("fits", |value| T::try_from(value).ok()))
    }

    fn readings() -> impl Strategy<Value = Reading> {
        let utilization = prop_oneof![
            (0..=1_000_000_u32).prop_map(|ppm| Ok(Utilization::from_ppm(ppm).unwrap())),
            (0..=100_u32).prop_map(|percent| Ok(Utilization::from_percent(percent).unwrap())),
            Just(Err(MissingReason::NotSupported)),
            Just(Err(MissingReason::Lost)),
            Just(Err(MissingReason::Unreadable)),
        ];
        (
            (0..Timestamp::END / 1_000_000, utilization),
            option::of(0..=Bytes::MAX / Bytes::MEBIBYTE),
            possible(Quantity::Processes),
            possible(Quantity::Power),
            // More digits are not read.
            option::of(0..10_u64.pow(15)),
            possible(Quantity::Temperature),
            possible(Quantity::SmClock),
            possible(Quantity::MemoryClock),
            device(),
        )
            .prop_map(
                |(
                    (millis, utilization),
                    memory,
                    processes,
                    power,
                    energy,
                    heat,
                    sm,
                    mem,
                    device,
                )| {
                    Reading {
                        utilization,
                        memory_used: memory.and_then(Bytes::from_mebibytes),
                        compute_processes: processes,
                        power: power.and_then(Milliwatts::new),
                        energy: energy.map(Millijoules),
                        temperature: heat.map(Celsius),
                        sm_clock: sm.map(Megahertz),
                        memory_clock: mem.map(Megahertz),
                        device,
                        ..Reading::at(at(millis))
                    }
                },
            )
    }

    proptest! {
        /// Decoding a written row yields the same reading.
        #[test]
        fn reading_round_trips_through_row(
            reading in readings(), index in option::of(any::<u32>()), uuid in "[!-+\\--~]{1,40}",
            model in "[A-Z][ -+\\--~]{0,40}[A-Z]", total in 1..=Bytes::MAX / Bytes::MEBIBYTE,
            limit in possible(Quantity::PowerLimit), xid in possible(Quantity::Xid),
            traffic in proptest::array::uniform2(option::of(0..10_u64.pow(12))),
        ) {
            let gpu = GpuIdentity {
                index,
                uuid: Some(uuid.clone()),
                model: Some(model.clone()),
                memory_total: Bytes::from_mebibytes(total),
                power_limit: limit.and_then(Milliwatts::new),
                ..GpuIdentity::default()
            };
            let columns = Columns::read(header().trim_end().as_bytes()).unwrap();
            let [pcie, nvlink] = traffic.map(|traffic| Some(traffic? * Bytes::MEBIBYTE));
            let counts = Counts { xid, pcie, nvlink };
            let row = written(&gpu, &reading, &counts);
            let mut timestamps = TimestampParser::new(None);
            let read = Row::read(row.as_bytes(), &columns, &mut timestamps).unwrap();
            prop_assert_eq!(read.reading, reading);
            prop_assert_eq!(read.counts, counts);
            prop_assert!(!timestamps.assumed_utc());
            prop_assert_eq!(read.limits.memory_total, gpu.memory_total);
            prop_assert_eq!(read.limits.power, gpu.power_limit);
            let index = index.map_or(NOT_AVAILABLE.to_owned(), |index| index.to_string());
            prop_assert_eq!(read.ids.index, index.as_bytes());
            prop_assert_eq!(read.ids.uuid, uuid.as_bytes());
            prop_assert_eq!(read.ids.bus_id, NOT_AVAILABLE.as_bytes());
            prop_assert_eq!(read.name, model.as_bytes());
        }

        /// Any GPU name leaves the row intact.
        #[test]
        fn row_stays_intact_for_any_name(model in any::<String>()) {
            let gpu = GpuIdentity { model: Some(model), ..GpuIdentity::default() };
            let columns = Columns::read(header().trim_end().as_bytes()).unwrap();
            let row = written(&gpu, &Reading::at(at(0)), &Counts::NONE);
            prop_assert_eq!(row.lines().count(), 1);
            let mut timestamps = TimestampParser::new(None);
            prop_assert!(Row::read(row.as_bytes(), &columns, &mut timestamps).is_some());
        }
    }
}
