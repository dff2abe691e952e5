//! The utilization of a GPU over time, in steps of one width.

use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::series::{Recorded, Series};
use phasemeter_meter::units::{Timestamp, Utilization};
use phasemeter_meter::wall_time::WallOffset;
use serde::{Serialize, Serializer};

use super::value::{Seconds, Utc};

/// At most 600 steps, whose width doubles as a run grows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// Start of the first step, which may be before the first reading.
    pub start: Utc,
    /// Width of a step.
    pub step_seconds: Seconds,
    /// Mean utilization of what was observed in each step, in percent.
    pub utilization_percent: Percentages,
}

/// Percentages in steps of 0.1, rounded down, so that none reaches a threshold that the mean does not reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Percentages(Vec<Option<u16>>);

impl Timeline {
    /// The steps that overlap `span`; `None` if nothing was observed in them.
    pub(super) fn new(
        series: &Series,
        span: (Timestamp, Timestamp),
        wall: WallOffset,
    ) -> Option<Self> {
        let step = series.step();
        let mut points = series
            .points(Recorded::Utilization)
            .filter(|(at, _)| span.0 < *at + step && *at < span.1)
            .map(|(at, point)| (at, point.mean().map(tenths)))
            .skip_while(|(_, mean)| mean.is_none())
            .peekable();
        let start = points.peek()?.0;
        let mut means: Vec<_> = points.map(|(_, mean)| mean).collect();
        let observed = means.iter().rposition(Option::is_some);
        means.truncate(observed.map_or(0, |last| last + 1));
        Some(Self {
            start: Utc(wall.wall(start)),
            step_seconds: Seconds(step),
            utilization_percent: Percentages(means),
        })
    }
}

/// The bounds of phases in percent.
pub(super) fn thresholds_percent(thresholds: &Thresholds) -> [f64; 3] {
    thresholds.bounds().map(Utilization::percent)
}

/// Tenths of a percent, of ppm.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1,000")]
fn tenths(ppm: f64) -> u16 {
    // The mean has single precision, and is rounded to one ppm.
    (ppm.round() / 1_000.0).floor() as u16
}

impl Serialize for Percentages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let percent = |tenths: &Option<u16>| tenths.map(|tenths| f64::from(tenths) / 10.0);
        serializer.collect_seq(self.0.iter().map(percent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis(second * 1_000).unwrap()
    }

    fn timeline(span: (u64, u64), values: &[(u64, u64, u64)]) -> Option<serde_json::Value> {
        let mut series = Series::new(at(10));
        for (from, to, ppm) in values {
            series.record(Recorded::Utilization, at(*from), at(*to), *ppm);
        }
        let timeline = Timeline::new(&series, (at(span.0), at(span.1)), WallOffset::default());
        timeline.map(|timeline| serde_json::to_value(timeline).unwrap())
    }

    #[test]
    fn steps_cover_the_observed_part_of_the_span() {
        let values = [(10, 12, 899_999), (14, 15, 1_000_000), (15, 16, 100_000)];
        let means = |span| timeline(span, &values).unwrap()["utilization_percent"].to_string();
        assert_eq!(means((10, 20)), "[89.9,89.9,null,null,100.0,10.0]");
        assert_eq!(means((12, 15)), "[100.0]");
        assert_eq!(timeline((12, 20), &values).unwrap()["start"], "1970-01-01T00:00:14Z");
        assert_eq!(timeline((12, 14), &values), None);
        assert_eq!(timeline((10, 10), &values), None);
    }

    #[test]
    fn long_run_has_at_most_600_steps() {
        let values = [(0, 86_400, 500_000)];
        let day = timeline((0, 86_400), &values).unwrap();
        let steps = day["utilization_percent"].as_array().unwrap().len();
        assert_eq!((steps, day["step_seconds"].as_f64()), (338, Some(256.0)));
    }
}
