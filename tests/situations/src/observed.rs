//! What a meter must observe of a situation, from its description alone.
//!
//! A value of a stage is a range, so time near a threshold may be in either of two phases.

use std::collections::BTreeMap;

use crate::level::{Range, Value};
use crate::situation::{Gpu, Situation, UNLOGGED};
use crate::track::Millis;

/// The phases and the utilization from which each begins, in thousandths of a percent.
pub const PHASES: [(&str, u64); 4] =
    [("idle", 0), ("underutilized", 10_000), ("productive", 70_000), ("compute_bound", 90_000)];

/// A reading is valid for this many intervals, and at least for a second.
const STALE_AFTER: Millis = 3;

/// What is observed of one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// Its ID.
    pub uuid: String,
    /// Observed time.
    pub seconds: f64,
    /// Mean utilization in percent; `None` if it was never observed.
    pub mean: Option<f64>,
    /// Minimum and maximum time of each of [`PHASES`].
    pub phases: [(f64, f64); 4],
}

impl Situation {
    /// What is observed of each GPU, in order.
    #[must_use]
    pub fn observed(&self) -> Vec<Observed> {
        let gpus = self.gpus();
        let readings: Vec<_> = gpus.iter().map(|gpu| readings(self, gpu)).collect();
        let end = readings.iter().filter_map(|readings| readings.last()).map(|last| last.0).max();
        let of_each = gpus.iter().zip(readings);
        of_each.map(|(gpu, readings)| observed(self, gpu, readings, end)).collect()
    }
}

/// Utilization × time of a second, and its observed time.
#[derive(Clone, Copy, Default)]
struct Second {
    millis: u64,
    low: u64,
    high: u64,
}

/// Of each reading of a GPU its instant and its range, if it has one.
type Readings = Vec<(Millis, Option<Range>)>;

fn readings(situation: &Situation, gpu: &Gpu<'_>) -> Readings {
    let load = gpu.timeline(&gpu.group.load);
    let mut readings = Vec::new();
    for tick in situation.ticks() {
        match load.at(tick) {
            Value::Number(range, _) => readings.push((tick, Some(range))),
            Value::Word(UNLOGGED) => {}
            Value::Word(_) => readings.push((tick, None)),
        }
    }
    readings
}

/// `end` is the last reading of all GPUs: if the log goes on, the last reading of a GPU is valid for a while.
fn observed(
    situation: &Situation,
    gpu: &Gpu<'_>,
    mut readings: Readings,
    end: Option<Millis>,
) -> Observed {
    readings.extend(end.map(|end| (end, None)));
    let stale_after = (STALE_AFTER * situation.every.0).max(1_000);
    let mut total = Second::default();
    let mut phases = [(0, 0); 4];
    let mut post = |second: Second| {
        if second.millis == 0 {
            return;
        }
        let phase = |sum: u64| {
            let mean = sum / second.millis;
            PHASES.iter().rposition(|(_, from)| mean >= *from).unwrap_or(0)
        };
        let (first, last) = (phase(second.low), phase(second.high));
        for (number, (min, max)) in phases.iter_mut().enumerate() {
            *min += if first == last && number == first { second.millis } else { 0 };
            *max += if (first..=last).contains(&number) { second.millis } else { 0 };
        }
    };
    let mut partial: BTreeMap<Millis, Second> = BTreeMap::new();
    for (&(start, range), &(next, _)) in readings.iter().zip(readings.iter().skip(1)) {
        let Some(range) = range else { continue };
        let end = next.min(start + stale_after);
        let millis = end - start;
        let second = Second { millis, low: range.low * millis, high: range.high * millis };
        total = sum(total, second);
        if situation.every.0 >= 1_000 {
            post(second);
        } else {
            let of_second = partial.entry(start / 1_000).or_default();
            *of_second = sum(*of_second, second);
        }
    }
    partial.into_values().for_each(post);
    let seconds = |millis: u64| millis as f64 / 1_000.0;
    let mean = (total.low + total.high) as f64 / 2_000.0 / total.millis as f64;
    Observed {
        uuid: gpu.uuid.clone(),
        seconds: seconds(total.millis),
        mean: (total.millis > 0).then_some(mean),
        phases: phases.map(|(min, max)| (seconds(min), seconds(max))),
    }
}

fn sum(a: Second, b: Second) -> Second {
    Second { millis: a.millis + b.millis, low: a.low + b.low, high: a.high + b.high }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(every: &str, load: &str) -> Observed {
        let text = format!(
            r#"
            title = "Test"
            workload = "training"
            length = "100s"
            every = "{every}"
            [[gpus]]
            name = "a"
            model = "NVIDIA L4"
            load = "{load}"
            memory = "2 GiB"
            "#
        );
        let situation: Situation = toml::from_str(&text).unwrap();
        situation.observed().remove(0)
    }

    #[test]
    fn phases_follow_whole_seconds() {
        let steady = observe("1s", "40s 45..55%, 60s 5%");
        assert_eq!((steady.seconds, steady.mean), (100.0, Some(23.0)));
        assert_eq!(steady.phases, [(60.0, 60.0), (40.0, 40.0), (0.0, 0.0), (0.0, 0.0)]);
        // A fifth of each second.
        let bursts = observe("200ms", "200ms 100%, 800ms 0%");
        assert_eq!(bursts.mean, Some(20.0));
        assert_eq!(bursts.phases[1], (100.0, 100.0));
        let near = observe("1s", "8..12%");
        assert_eq!((near.phases[0], near.phases[1]), ((0.0, 100.0), (0.0, 100.0)));
    }

    #[test]
    fn last_reading_is_valid_for_a_while_if_the_log_goes_on() {
        let text = r#"
            title = "Test"
            workload = "training"
            length = "100s"
            every = "1s"
            [[gpus]]
            name = "stays"
            model = "NVIDIA L4"
            load = "80%"
            memory = "2 GiB"
            [[gpus]]
            name = "goes"
            model = "NVIDIA L4"
            load = "50s 80%, rest unlogged"
            memory = "2 GiB"
            "#;
        let situation: Situation = toml::from_str(text).unwrap();
        let seconds: Vec<_> = situation.observed().iter().map(|it| it.seconds).collect();
        assert_eq!(seconds, [100.0, 52.0]);
    }

    #[test]
    fn unlogged_time_is_unobserved() {
        let of = |load| {
            let observed = observe("1s", load);
            (observed.seconds, observed.mean)
        };
        assert_eq!(of("50s 80%, rest unlogged"), (49.0, Some(80.0)));
        // The reading at 49 s is valid for three seconds.
        assert_eq!(of("50s 80%, 20s unlogged, rest 80%"), (82.0, Some(80.0)));
        assert_eq!(of("rest [GPU is lost]"), (0.0, None));
    }
}
