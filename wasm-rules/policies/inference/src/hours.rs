//! Replicas of a service by the hour of the day: fewer in the hours in which fewer suffice on every day of the week.

use phasemeter_diagnoses::{ABOVE, MIN_HOURS, Replay, confidence};
use phasemeter_policy::format::{count, duration, percent};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, RecommendationKind, Remediation, Window, evidence, mean,
};

use crate::replicas::{ABOVE_LOW, MIN_KEPT, Replicas, SAME_MODEL, SURE, TARGET_LOW};

/// Hours of a day.
const DAY: usize = 24;

/// How many replicas are kept in the hours from one to another, and otherwise.
pub(crate) struct Hours {
    from: usize,
    hours: usize,
    kept: [usize; 2],
    /// Share of the time of all replicas that is saved, and if all goes badly.
    pub(crate) saved: f64,
    saved_low: f64,
    target: f64,
    seconds: f64,
}

impl Hours {
    /// The hours that save the most; `None` if hours of several days are not known, or one replica does nothing for hours,
    /// in which another policy stops it.
    pub(crate) fn of(replicas: &Replicas<'_>, replay: &Replay<'_>, target: f64) -> Option<Self> {
        let now = replicas.gpus.len();
        // One is to spare.
        let kept = |target: f64, share: f64| {
            let needed = replay.needed_by_hour(target, share)?;
            Some(needed.map(|needed| (needed + 1).clamp(MIN_KEPT, now)))
        };
        let expected = kept(target, ABOVE).filter(|_| !replicas.have_quiet_hours())?;
        let low = kept(TARGET_LOW * target, ABOVE_LOW)?;
        let hours = |from: usize, hours: usize| {
            let most = |all: &[usize; DAY]| {
                let of = |part: std::ops::Range<usize>| {
                    part.filter_map(|hour| all.get((from + hour) % DAY)).max().copied()
                };
                [of(0..hours).unwrap_or(now), of(hours..DAY).unwrap_or(0)]
            };
            let saved = |[fewer, otherwise]: [usize; 2]| {
                let used = fewer * hours + otherwise * (DAY - hours);
                1.0 - used as f64 / (DAY * now) as f64
            };
            let kept = most(&expected);
            let saved_low = saved(most(&low));
            Self {
                from,
                hours,
                kept,
                saved: saved(kept),
                saved_low,
                target,
                seconds: replay.seconds(),
            }
        };
        let all = (0..DAY).flat_map(|from| (MIN_HOURS..DAY).map(move |length| (from, length)));
        let all =
            all.map(|(from, length)| hours(from, length)).filter(|it| it.kept[0] < it.kept[1]);
        all.max_by(|a, b| a.saved.total_cmp(&b.saved))
    }

    pub(crate) fn recommendation(
        &self,
        replicas: &Replicas<'_>,
        window: &Window,
    ) -> Recommendation {
        let now = replicas.gpus.len();
        let [fewer, otherwise] = self.kept;
        let is_named = replicas.are_named();
        // GPUs that may serve different models promise nothing.
        let low = if is_named { self.saved_low } else { 0.0 };
        let (gpus, target, saving) =
            replicas.booked(now.saturating_sub(fewer), [low, self.saved, self.saved]);
        let until = (self.from + self.hours) % DAY;
        let clock = |hour: usize| format!("{hour:02}:00");
        let offset = window.utc_offset_seconds.unwrap_or(0).to_string();
        let (doubt, wrong) = if is_named { SURE } else { SAME_MODEL };
        Recommendation {
            title: format!(
                "Serve with {} from {} to {} {}, and {otherwise} otherwise",
                count(fewer, "replica"),
                clock(self.from),
                clock(until),
                window.time_zone(),
            ),
            action: format!(
                "Scale the service by these hours, and return the instances of the others{doubt}. Watch the latency."
            ),
            rationale: format!(
                "There are {now} replicas. In each hour of the week of {}, one fewer than these suffices: above {} for \
                 at most {} of the time, in means of 10 seconds{doubt}.",
                duration(self.seconds),
                percent(self.target),
                percent(ABOVE),
            ),
            saving,
            confidence: (if is_named { confidence::NEARLY_CERTAIN } else { confidence::PROBABLE })
                * mean(&gpus, |it| Gpu::confidence(it)),
            evidence: evidence([
                ("replicas", now as f64, "{replica}"),
                ("replicas.needed", otherwise as f64, "{replica}"),
                ("replicas.least", fewer as f64, "{replica}"),
                ("replicas.least.from", self.from as f64, "h"),
                ("replicas.least.until", until as f64, "h"),
                ("time_above_target", ABOVE, "1"),
            ]),
            effort: Effort::Medium,
            remediation: is_named.then(|| {
                Remediation::new(
                    "k8s.scale-by-hour",
                    [
                        ("replicas", otherwise.to_string()),
                        ("replicas_in_hours", fewer.to_string()),
                        ("hours", format!("{}-{until}", self.from)),
                        ("utc_offset_seconds", offset),
                    ],
                )
                .unless(&format!(
                    "{wrong}requests grow, or come at other hours than in the weeks before"
                ))
            }),
            kind: RecommendationKind::Saving,
            ..Recommendation::new("inference.hours", target, "autoscale", gpus)
        }
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{load, steady, window};
    use phasemeter_policy::{LoadBucket, LoadHour};

    use super::*;

    /// Four replicas that need so many percent of one GPU in each hour of the day, on two days.
    fn found(percent: impl Fn(usize) -> u32) -> Option<(String, f64)> {
        let mut window = window(vec![steady(7_200, 0.3); 4]);
        window.utc_offset_seconds = Some(-3 * 3_600);
        let mut all = load(&["GPU-0", "GPU-1", "GPU-2", "GPU-3"], &[(200, 172_800.0)]);
        let hour = |hour: u32| {
            let percent = percent(hour as usize % DAY);
            LoadHour { hour, buckets: vec![LoadBucket { percent, seconds: 3_600.0 }] }
        };
        all.week = (0..48).map(hour).collect();
        window.load = vec![all];
        let replicas = Replicas::new(window.gpus.iter().collect());
        let replay = Replay::of(&replicas.gpus, &window).unwrap();
        let hours = Hours::of(&replicas, &replay, 0.6)?;
        let one = hours.recommendation(&replicas, &window);
        Some((one.title, hours.saved))
    }

    #[test]
    fn nights_need_fewer_replicas() {
        let night = |hour: usize| !(8..22).contains(&hour);
        let (title, saved) = found(|hour| if night(hour) { 50 } else { 170 }).unwrap();
        assert_eq!(title, "Serve with 2 replicas from 22:00 to 08:00 UTC−3, and 4 otherwise");
        assert!((saved - 10.0 / 24.0 / 2.0).abs() < 1e-9, "{saved}");
        // Two carry the night, and one is to spare.
        let (title, _) = found(|hour| if night(hour) { 120 } else { 170 }).unwrap();
        assert!(title.starts_with("Serve with 3 replicas from 22:00"), "{title}");
        assert!(found(|_| 170).is_none(), "the same all day");
        assert!(found(|hour| if hour < 3 { 50 } else { 170 }).is_none(), "three hours");
    }
}
