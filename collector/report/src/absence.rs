//! Notes on time in which GPUs were not listed: unobserved and billed, or absent and not billed.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos, Timestamp};

use super::input::{GpuInput, Input};
use super::text::format::Dollars;
use super::value::Utc;

/// Maximum number of GPUs or hosts named in a note.
const NAMED: usize = 4;

/// Time of one or several GPUs, and its cost as far as they have a price.
#[derive(Clone, Copy, Debug, Default)]
struct GpuTime {
    time: Nanos,
    cost: Option<NanoUsd>,
}

impl GpuTime {
    fn add(&mut self, gpu: &GpuInput<'_>, time: Nanos) {
        self.time += time;
        let cost = gpu.meter.rate().map(|rate| rate.cost(time));
        self.cost = match (self.cost, cost) {
            (Some(sum), Some(cost)) => Some(sum + cost),
            (known, cost) => known.or(cost),
        };
    }

    /// `3.00 GPU-hours`, and with a price `3.00 GPU-hours ($7.45)`.
    #[expect(clippy::cast_precision_loss, reason = "rounded to hundredths")]
    fn text(&self) -> String {
        let hours = self.time.0 as f64 / NANOS_PER_HOUR as f64;
        let time = match hours {
            hours if hours < 1.0 => format!("{:.1} GPU-minutes", hours * 60.0),
            hours => format!("{hours:.2} GPU-hours"),
        };
        match self.cost {
            Some(cost) => format!("{time} ({})", Dollars::of(cost).short()),
            None => time,
        }
    }
}

/// What absent time of a GPU would have cost; `None` without a price.
pub(super) fn cost(gpu: &GpuInput<'_>) -> Option<NanoUsd> {
    Some(gpu.meter.rate()?.cost(gpu.absence.time))
}

/// The notes. `names` are those of the GPUs, in the same order.
pub(super) fn notes(input: &Input<'_>, names: &[String]) -> Vec<String> {
    [unlisted(input, names), absent(input, names)].into_iter().flatten().collect()
}

/// GPUs that end before the run and are billed until its end.
fn unlisted(input: &Input<'_>, names: &[String]) -> Option<String> {
    let mut sum = GpuTime::default();
    let mut ends = Vec::new();
    for (gpu, name) in input.gpus.iter().zip(names) {
        let time = gpu.unlisted;
        if time > Nanos::ZERO {
            sum.add(gpu, time);
            let end = gpu.meter.span().map(|(_, end)| end.saturating_sub(time));
            ends.push((name.clone(), end.unwrap_or_default()));
        }
    }
    let time = sum.text();
    (!ends.is_empty()).then(|| {
        format!("no longer listed: {}; {time} are unobserved, and billed", since(&ends, input))
    })
}

/// Hosts that are gone before the end of the run, and pauses that are not billed.
fn absent(input: &Input<'_>, names: &[String]) -> Option<String> {
    let mut sum = GpuTime::default();
    let mut ends: Vec<(String, Timestamp)> = Vec::new();
    for (gpu, name) in input.gpus.iter().zip(names) {
        // Time that another meter may have billed does not count.
        sum.add(gpu, gpu.absence.time - gpu.meter.left_out());
        if let Some((from, _)) = gpu.absence.after {
            let end = (gone(gpu, from, input).unwrap_or(name).to_owned(), from);
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
    }
    let time = sum.text();
    let what = match ends.as_slice() {
        [] => "pauses without readings".to_owned(),
        ends => since(ends, input),
    };
    (sum.time > Nanos::ZERO)
        .then(|| format!("absent: {what}; {time} are not billed; --missing=unobserved bills them"))
}

/// The host of a GPU that has gone, if none of its GPUs goes on.
fn gone<'a>(gpu: &GpuInput<'a>, from: Timestamp, input: &Input<'_>) -> Option<&'a str> {
    let node = gpu.identity.node()?;
    let goes_on = |other: &GpuInput<'_>| {
        other.identity.node() == Some(node)
            && other.absence.after.is_none_or(|(other_from, _)| other_from > from)
    };
    (!input.gpus.iter().any(goes_on)).then_some(node)
}

/// `GPU 1 from 10:05:03Z on, GPU 4 from 10:07:00Z on and 3 more`.
fn since(ends: &[(String, Timestamp)], input: &Input<'_>) -> String {
    let one = |(name, end): &(String, Timestamp)| {
        format!("{name} from {} on", Utc(input.wall.wall(*end)))
    };
    let named: Vec<String> = ends.iter().take(NAMED).map(one).collect();
    match ends.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
