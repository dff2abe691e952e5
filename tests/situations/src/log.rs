//! Writes the log of a node as `nvidia-smi --format=csv` would.
//!
//! Deterministic.

use std::io::{self, Write};

use time::UtcDateTime;

use crate::column::{self, mebibytes, number};
use crate::level::{Unit, Value};
use crate::prng::Prng;
use crate::situation::{Gpu, Situation, UNLOGGED};
use crate::track::{Millis, Timeline};

/// 2026-07-27T00:00:00Z, a Monday, in milliseconds since the epoch.
const MONDAY: u64 = 1_785_110_400_000;

/// Temperature without load, and what the power limit adds, in degrees Celsius.
const TEMPERATURE: (u64, u64) = (30, 45);

/// Writes the log of one node.
pub(crate) fn write(situation: &Situation, node: &str, out: &mut impl Write) -> io::Result<()> {
    let columns = situation.columns();
    let header: Vec<_> = columns.iter().map(|name| column::header(name)).collect();
    writeln!(out, "{}", header.join(", "))?;
    let gpus = situation.gpus();
    let mut rows: Vec<_> =
        gpus.iter().filter(|gpu| gpu.group.node == node).map(Rows::new).collect();
    let start = MONDAY + situation.start_of_day().unwrap_or(0);
    for tick in situation.ticks() {
        let timestamp = timestamp(start + tick);
        for gpu in &mut rows {
            if let Some(row) = gpu.row(tick, &timestamp, &columns) {
                writeln!(out, "{row}")?;
            }
        }
    }
    Ok(())
}

/// Formats an instant as `nvidia-smi` does.
fn timestamp(millis: u64) -> String {
    let nanos = i128::from(millis) * 1_000_000;
    let at = UtcDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(UtcDateTime::UNIX_EPOCH);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.as_hms();
    let millis = at.millisecond();
    format!("{year}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}

/// The rows of one GPU.
struct Rows<'a> {
    gpu: &'a Gpu<'a>,
    load: Timeline<'a>,
    memory: Timeline<'a>,
    power: Option<Timeline<'a>>,
    further: Vec<(&'a str, Timeline<'a>)>,
    noise: Prng,
}

/// Drawn values of one reading, in thousandths.
struct Drawn {
    load: u64,
    memory: u64,
    power: u64,
}

impl<'a> Rows<'a> {
    fn new(gpu: &'a Gpu<'a>) -> Self {
        let group = gpu.group;
        let further = group.columns.iter();
        Self {
            gpu,
            load: gpu.timeline(&group.load),
            memory: gpu.timeline(&group.memory),
            power: group.power.as_ref().map(|track| gpu.timeline(track)),
            further: further.map(|(name, track)| (name.as_str(), gpu.timeline(track))).collect(),
            noise: gpu.noise(),
        }
    }

    /// The row of a tick; `None` if it was not logged.
    fn row(&mut self, tick: Millis, timestamp: &str, columns: &[&str]) -> Option<String> {
        let word = match self.load.at(tick) {
            Value::Word(UNLOGGED) => return None,
            Value::Word(word) => Some(word),
            Value::Number(..) => None,
        };
        let drawn = self.draw(tick);
        let cells: Vec<_> = columns
            .iter()
            .map(|&name| match (name, word) {
                ("timestamp", _) => timestamp.to_owned(),
                ("index", _) => self.gpu.index.to_string(),
                ("uuid", _) => self.gpu.uuid.clone(),
                ("name", _) => self.gpu.model.name.to_owned(),
                // Every query of a lost GPU fails alike.
                (_, Some(lost)) if lost.contains("lost") => lost.to_owned(),
                ("utilization.gpu", Some(word)) => word.to_owned(),
                _ => self.cell(name, tick, &drawn),
            })
            .collect();
        Some(cells.join(", "))
    }

    fn draw(&mut self, tick: Millis) -> Drawn {
        let noise = &mut self.noise;
        let mut value = |timeline: &Timeline<'_>| match timeline.at(tick) {
            Value::Number(range, _) => range.draw(noise),
            Value::Word(_) => 0,
        };
        let (load, memory) = (value(&self.load), value(&self.memory));
        let power = self.power.as_ref().map(value);
        let power = power.unwrap_or_else(|| self.usual_power(load, memory));
        Drawn { load, memory, power }
    }

    /// Power in thousandths of a watt: up to 90% of the limit, in proportion to the load.
    fn usual_power(&mut self, load: u64, memory: u64) -> u64 {
        let model = self.gpu.model;
        let max = model.limit_watts * 900;
        // Clocks stay high while a process exists.
        let context = if memory > 0 { model.limit_watts * 40 } else { 0 };
        let idle = model.idle_watts * 1_000 + context;
        let noise = self.noise.within(0, model.limit_watts * 10);
        idle + max.saturating_sub(idle) * load / 100_000 + noise
    }

    fn cell(&mut self, name: &str, tick: Millis, drawn: &Drawn) -> String {
        let model = self.gpu.model;
        if let Some((_, timeline)) = self.further.iter().find(|(own, _)| *own == name) {
            return match timeline.at(tick) {
                Value::Number(range, unit) => number(range.draw(&mut self.noise), unit),
                Value::Word(word) => word.to_owned(),
            };
        }
        let recorded = match name {
            "memory.used" => Some(&self.memory),
            "power.draw" => self.power.as_ref(),
            _ => None,
        };
        if let Some(Value::Word(word)) = recorded.map(|timeline| timeline.at(tick)) {
            return word.to_owned();
        }
        match name {
            "utilization.gpu" => number(drawn.load, Unit::Percent),
            "memory.used" => format!("{} MiB", mebibytes(drawn.memory).min(model.memory_mib)),
            "memory.total" => format!("{} MiB", model.memory_mib),
            "power.draw" => number(drawn.power, Unit::Watts),
            "enforced.power.limit" => number(model.limit_watts * 1_000, Unit::Watts),
            "temperature.gpu" => {
                let (idle, range) = TEMPERATURE;
                let celsius = 1_000 * idle + range * drawn.power / model.limit_watts;
                number(celsius, Unit::Celsius)
            }
            "clocks.sm" => {
                let works = drawn.load > 0 || drawn.memory > 0;
                format!("{} MHz", if works { model.clock_mhz } else { 345 })
            }
            _ => "[N/A]".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_match_nvidia_smi() {
        assert_eq!(timestamp(MONDAY), "2026/07/27 00:00:00.000");
        assert_eq!(timestamp(MONDAY + 6 * 86_400_000 + 200), "2026/08/02 00:00:00.200");
    }

    #[test]
    fn rows_follow_the_tracks() {
        let situation: Situation = toml::from_str(
            r#"
            title = "Test"
            workload = "training"
            length = "4s"
            every = "1s"
            without = ["temperature.gpu", "clocks.sm", "enforced.power.limit", "name"]
            [[gpus]]
            name = "a"
            model = "NVIDIA L4"
            load = "1s 100%, 1s unlogged, 1s [N/A], rest [GPU is lost]"
            memory = "2 GiB"
            power = "30.5 W"
            columns."clocks_event_reasons.sw_power_cap" = "Not Active"
            "#,
        )
        .unwrap();
        let mut log = Vec::new();
        write(&situation, "", &mut log).unwrap();
        let id = "0, GPU-00000000-0000-4000-8000-000000000000";
        let rest = "2048 MiB, 23034 MiB, 30.50 W, Not Active";
        let lost = ["[GPU is lost]"; 5].join(", ");
        let expected = [
            "timestamp, index, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB], \
             power.draw [W], clocks_event_reasons.sw_power_cap"
                .to_owned(),
            format!("2026/07/27 00:00:00.000, {id}, 100 %, {rest}"),
            format!("2026/07/27 00:00:02.000, {id}, [N/A], {rest}"),
            format!("2026/07/27 00:00:03.000, {id}, {lost}"),
            format!("2026/07/27 00:00:04.000, {id}, {lost}"),
        ];
        assert_eq!(String::from_utf8(log).unwrap().lines().collect::<Vec<_>>(), expected);
    }
}
