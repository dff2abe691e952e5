//! Turns a recorded `nvidia-smi` log into phases: each row holds until the next.
//!
//! Columns are found by name, `nvidia-smi --query-gpu=… --format=csv` with or without units. A value
//! missing from a row is taken from the row before, initially from an idle GPU.

use std::fs;
use std::path::{Path, PathBuf};

use phasemeter_meter::units::{Bytes, Celsius, Megahertz, Milliwatts, Nanos, Utilization};
use time::{Date, Month, Time};

use crate::track::{Phase, Rate};

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The log.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// No timestamp column.
    #[error("{path}: line 1 has no column `timestamp`")]
    NoTimestamp {
        /// The log.
        path: PathBuf,
    },
    /// A cell is neither a value nor a placeholder such as `[N/A]`.
    #[error("{path}: line {line}: cannot read {column} `{cell}`")]
    Cell {
        /// The log.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The column's name without its unit.
        column: String,
        /// The cell's text.
        cell: String,
    },
    /// The log has no rows for the requested GPU.
    #[error("{path}: no rows{of}; set `gpu` to an index, UUID or bus ID in the log",
        of = gpu.as_ref().map_or(String::new(), |gpu| format!(" of GPU {gpu}")))]
    Empty {
        /// The log.
        path: PathBuf,
        /// The requested GPU.
        gpu: Option<String>,
    },
}

/// Reads the rows of one GPU, selected by index, UUID or bus ID, or all rows, as phases. The last
/// row lasts as long as the one before it. `idle` supplies values missing from every row.
///
/// # Errors
/// Returns an error if the log cannot be read, has no timestamps or no such rows.
pub fn phases(path: &Path, gpu: Option<&str>, idle: &Phase) -> Result<Vec<Phase>, ReplayError> {
    let read = |source| ReplayError::Read { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(read)?;
    let mut lines = (1..).zip(text.lines());
    let header = lines.next().map_or("", |(_, line)| line);
    let columns: Vec<&str> = header.split(',').map(column_name).collect();
    if !columns.contains(&"timestamp") {
        return Err(ReplayError::NoTimestamp { path: path.to_owned() });
    }

    let mut phases: Vec<Phase> = Vec::new();
    let mut last_at: Option<i128> = None;
    let mut phase = idle.clone();
    for (line, row) in lines {
        let cells: Vec<&str> = row.split(',').map(str::trim).collect();
        let named = || columns.iter().copied().zip(cells.iter().copied());
        let is_selected = |gpu: &str| {
            named().any(|(column, cell)| {
                matches!(column, "index" | "uuid" | "gpu_uuid" | "pci.bus_id") && cell == gpu
            })
        };
        // Skip truncated rows.
        if cells.len() != columns.len() || !gpu.is_none_or(is_selected) {
            continue;
        }
        let mut at = None;
        for (column, cell) in named() {
            let known = match column {
                "timestamp" => {
                    at = unix_nanos(cell);
                    at.is_some()
                }
                _ => cell.starts_with('[') || apply(column, cell, &mut phase).is_some(),
            };
            if !known {
                let (path, column, cell) = (path.to_owned(), column.to_owned(), cell.to_owned());
                return Err(ReplayError::Cell { path, line, column, cell });
            }
        }
        let since = |last: i128| u64::try_from(at.unwrap_or_default() - last).unwrap_or(0);
        if let (Some(last), Some(last_at)) = (phases.last_mut(), last_at) {
            match since(last_at) {
                // Two rows with one timestamp: keep the first.
                0 => continue,
                length => last.length = Nanos(length),
            }
        }
        phase.length = phases.last().map_or(phase.length, |last| last.length);
        phases.push(phase.clone());
        last_at = at;
    }
    if phases.is_empty() {
        return Err(ReplayError::Empty { path: path.to_owned(), gpu: gpu.map(str::to_owned) });
    }
    Ok(phases)
}

/// Strips the unit: `power.draw [W]` becomes `power.draw`.
fn column_name(header: &str) -> &str {
    header.split('[').next().unwrap_or(header).trim()
}

/// Applies one cell; `None` if it cannot be parsed. Unknown columns are accepted and ignored.
fn apply(column: &str, cell: &str, phase: &mut Phase) -> Option<()> {
    let number = cell.split(' ').next().unwrap_or(cell);
    match column {
        "utilization.gpu" => {
            let ppm = Utilization::from_percent(number.parse().ok()?)?.ppm();
            set(phase, Rate::Busy, u64::from(ppm));
            set(phase, Rate::Sm, u64::from(ppm));
        }
        "utilization.memory" => {
            let ppm = Utilization::from_percent(number.parse().ok()?)?.ppm();
            set(phase, Rate::Dram, u64::from(ppm));
        }
        "power.draw" => {
            let (watts, rest) = number.split_once('.').unwrap_or((number, ""));
            let thousandths: u32 = format!("{rest:0<3}").get(..3)?.parse().ok()?;
            let milliwatts = watts.parse::<u32>().ok()?.checked_mul(1_000)? + thousandths;
            set(phase, Rate::Power, u64::from(Milliwatts::new(milliwatts)?.get()));
        }
        "memory.used" => phase.state.memory_used = Bytes::from_mebibytes(number.parse().ok()?)?,
        "temperature.gpu" => phase.state.temperature = Celsius(number.parse().ok()?),
        "clocks.current.sm" | "clocks.sm" => phase.state.sm_clock = Megahertz(number.parse().ok()?),
        "clocks.current.memory" | "clocks.mem" => {
            phase.state.memory_clock = Megahertz(number.parse().ok()?);
        }
        "pstate" => phase.state.performance_state = number.strip_prefix('P')?.parse().ok()?,
        _ => {}
    }
    Some(())
}

fn set(phase: &mut Phase, rate: Rate, value: u64) {
    phase.on = phase.on.with(rate, value);
    phase.off = phase.off.with(rate, value);
}

/// Parses `2023/07/14 10:12:46.483` as UTC.
fn unix_nanos(text: &str) -> Option<i128> {
    let (date, clock) = text.split_once(' ')?;
    let mut date = date.split('/');
    let year = date.next()?.parse().ok()?;
    let month = Month::try_from(date.next()?.parse::<u8>().ok()?).ok()?;
    let date = Date::from_calendar_date(year, month, date.next()?.parse().ok()?).ok()?;
    let (clock, milli) = clock.split_once('.')?;
    let mut clock = clock.split(':').map(|part| part.parse::<u8>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let time = Time::from_hms_milli(hour, minute, second, milli.parse().ok()?).ok()?;
    Some(date.with_time(time).assume_utc().unix_timestamp_nanos())
}
