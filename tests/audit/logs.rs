//! Generates logs in the many formats that occur in practice.

use std::fmt::Write;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use phasemeter_oracle::calendar;

use crate::prng::Prng;

/// 2026-07-26T23:59:57.250Z, shortly before a new minute, hour and day.
const START: u64 = 1_785_110_397_250;

pub(crate) const MODEL: &str = "NVIDIA H100 80GB HBM3";

/// The columns that identify GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    Index,
    BusId,
    Uuid,
    Nothing,
}

/// Parameters of a generated log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) gpus: usize,
    /// Milliseconds between ticks, and the maximum delay of a tick.
    pub(crate) every: u64,
    pub(crate) jitter: u64,
    pub(crate) ticks: u64,
    pub(crate) ids: Ids,
    /// After every `pause_after` ticks (0: never) nothing is logged for `pause` milliseconds.
    pub(crate) pause_after: u64,
    pub(crate) pause: u64,
    /// Missing values per thousand.
    pub(crate) missing: u64,
    /// Rows are written up to this many milliseconds late.
    pub(crate) late: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 1,
            gpus: 2,
            every: 100,
            jitter: 0,
            ticks: 600,
            ids: Ids::Index,
            pause_after: 0,
            pause: 0,
            missing: 0,
            late: 0,
        }
    }
}

/// One GPU at one instant.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) at: u64,
    pub(crate) gpu: usize,
    /// Percent, or the placeholder in its place.
    pub(crate) percent: Result<u64, &'static str>,
    pub(crate) mebibytes: u64,
    /// Hundredths of a watt.
    pub(crate) power: u64,
}

/// The format of a log.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    pub(crate) columns: Vec<&'static str>,
    /// `71.25 W` instead of `71.25`.
    pub(crate) units: bool,
    pub(crate) line_end: &'static str,
    /// The header is repeated after this many rows.
    pub(crate) header_again: Option<usize>,
    /// Memory, power and energy have no value during some stretches of time, each its own.
    pub(crate) patchy: bool,
}

impl Plan {
    /// The rows in file order.
    pub(crate) fn rows(self) -> Vec<Row> {
        let mut prng = Prng(self.seed);
        let mut gpus: Vec<Load> = (0..self.gpus).map(|_| Load::default()).collect();
        let mut rows = Vec::new();
        let mut tick_at = START;
        for tick in 0..self.ticks {
            // The rows of a tick follow one another.
            let mut at = tick_at + prng.below(self.jitter + 1);
            for (gpu, load) in gpus.iter_mut().enumerate() {
                let percent = load.next(&mut prng);
                let missing = prng.below(1_000) < self.missing;
                let placeholders =
                    ["[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "101", ""];
                rows.push(Row {
                    at,
                    gpu,
                    percent: if missing { Err(prng.one_of(&placeholders)) } else { Ok(percent) },
                    mebibytes: load.mebibytes,
                    power: 7_000 + 600 * percent + prng.below(99),
                });
                at += prng.below(1 + self.every / (10 * self.gpus as u64).max(20));
            }
            tick_at += self.every;
            if self.pause_after > 0 && tick % self.pause_after == self.pause_after - 1 {
                tick_at += self.pause;
            }
        }
        if self.late > 0 {
            rows.sort_by_cached_key(|row| row.at + prng.below(self.late + 1));
        }
        rows
    }

    /// All columns, values with units: the default of `nvidia-smi`.
    pub(crate) fn style(self) -> Style {
        let ids: &[&str] = match self.ids {
            Ids::Index => &["index"],
            Ids::BusId => &["pci.bus_id"],
            Ids::Uuid => &["uuid", "index"],
            Ids::Nothing => &[],
        };
        let rest =
            ["name", "pstate", "utilization.gpu", "memory.used", "memory.total", "power.draw"];
        let columns = ["timestamp"].iter().chain(ids).chain(&rest).copied().collect();
        Style { columns, units: true, line_end: "\n", header_again: None, patchy: false }
    }

    pub(crate) fn text(self) -> String {
        self.style().write(&self.rows())
    }
}

/// The state of a GPU.
#[derive(Default)]
struct Load {
    ticks: u64,
    levels: &'static [u64],
    percent: u64,
    mebibytes: u64,
}

impl Load {
    /// Covers every phase and threshold, constant and changing values, held and free.
    fn next(&mut self, prng: &mut Prng) -> u64 {
        if self.ticks == 0 {
            self.ticks = 1 + prng.below(60);
            self.levels = prng.one_of(&[
                &[0][..],
                &[0, 1, 2],
                &[9, 10, 11],
                &[33, 48],
                &[69, 70, 71],
                &[89, 90],
                &[95, 99, 100],
                &[0, 100],
                &[5, 20, 60, 80, 97],
            ]);
            self.mebibytes = prng.one_of(&[0, 4, 815, 816, 817, 40_000, 81_000]);
        }
        self.ticks -= 1;
        if prng.below(3) == 0 || !self.levels.contains(&self.percent) {
            self.percent = prng.one_of(self.levels);
        }
        self.percent
    }
}

impl Style {
    pub(crate) fn header(&self) -> String {
        let unit = |name: &&str| match *name {
            "utilization.gpu" => " [%]",
            "memory.used" | "memory.total" => " [MiB]",
            name if name.starts_with("power.draw") => " [W]",
            "total_energy_consumption" => " [mJ]",
            _ => "",
        };
        let names: Vec<_> =
            self.columns.iter().map(|name| format!("{name}{}", unit(name))).collect();
        names.join(", ") + self.line_end
    }

    pub(crate) fn row(&self, row: &Row) -> String {
        let unit = |unit| if self.units { unit } else { "" };
        let watts = |power: u64| format!("{}.{:02}{}", power / 100, power % 100, unit(" W"));
        let cell = |name: &&str| match *name {
            name if self.lacks(name, row) => "[N/A]".to_owned(),
            "timestamp" => calendar::format_millis(row.at),
            "index" => row.gpu.to_string(),
            "pci.bus_id" => format!("00000000:{:02X}:00.0", 16 + row.gpu),
            "uuid" => format!("GPU-7b1a6b40-0000-4000-8000-{:012x}", row.gpu),
            "name" => MODEL.to_owned(),
            "pstate" => "P0".to_owned(),
            "utilization.gpu" => match row.percent {
                Ok(percent) => format!("{percent}{}", unit(" %")),
                Err(placeholder) => placeholder.to_owned(),
            },
            "memory.used" => format!("{}{}", row.mebibytes, unit(" MiB")),
            "memory.total" => format!("81559{}", unit(" MiB")),
            "power.draw" => watts(row.power),
            "power.draw.average" => watts(row.power / 2),
            "power.draw.instant" => watts(row.power * 3),
            // The driver restarts it every 40 s.
            "total_energy_consumption" => format!("{}{}", row.at % 40_000 * 317, unit(" mJ")),
            name => panic!("unknown column {name}"),
        };
        self.columns.iter().map(cell).collect::<Vec<_>>().join(", ") + self.line_end
    }

    /// Whether a column has no value in the row.
    fn lacks(&self, name: &str, row: &Row) -> bool {
        let columns = [
            "memory.used",
            "power.draw",
            "power.draw.average",
            "power.draw.instant",
            "total_energy_consumption",
        ];
        let column = columns.iter().position(|column| *column == name);
        self.patchy
            && column.is_some_and(|column| {
                let stretch = row.at / (3_000 + 1_100 * column as u64) * 64;
                Prng(stretch + (row.gpu * columns.len() + column) as u64).below(2) == 0
            })
    }

    pub(crate) fn write(&self, rows: &[Row]) -> String {
        let mut text = self.header();
        for (number, row) in rows.iter().enumerate() {
            if number > 0 && Some(number) == self.header_again {
                text += &self.header();
            }
            write!(text, "{}", self.row(row)).unwrap();
        }
        text
    }
}

pub(crate) fn gzipped(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    zipped.write_all(bytes.as_ref()).unwrap();
    zipped.finish().unwrap()
}

/// UTF-16 with a byte order mark.
pub(crate) fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(unit).collect()
}
