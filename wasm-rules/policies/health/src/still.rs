//! GPUs whose readings repeat: a monitor that stopped reports its last values, which are counted as load.

use phasemeter_diagnoses::confidence;
use phasemeter_policy::format::{duration, subject};
use phasemeter_policy::{Gpu, Recommendation, Window, evidence};

use crate::risk;

/// Warns of them together: one monitor reads several.
pub(crate) fn recommend(window: &Window) -> Option<Recommendation> {
    let still = window.gpus.iter().filter_map(|gpu| Some((gpu, gpu.metric("still.seconds")?)));
    let found: Vec<(&Gpu, f64)> = still.collect();
    let seconds = found.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let time = duration(seconds);
    (!found.is_empty()).then(|| Recommendation {
        evidence: evidence([("still.time", seconds, "s")]),
        ..risk(
            "health.still",
            "measure",
            found.iter().map(|(gpu, _)| *gpu),
            [
                &["Readings stood still for ", &*time, ": read the driver directly"].concat(),
                "Restart what reads the GPUs, or record them with phasemeter record. Load and waste of this time are computed from the \
                 repeated values, so do not rely on them.",
            ],
            format!(
                "{} repeated the same utilization, power and memory for {time}, which no GPU at part load does: its monitor \
                 stopped.",
                subject(found.len()),
            ),
            confidence::VERY_LIKELY,
        )
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    #[test]
    fn readings_that_repeat_are_doubted() {
        let still =
            Gpu { metrics: vec![("still.seconds".to_owned(), 3_900.0)], ..steady(36_000, 0.4) };
        let found = recommend(&window(vec![still.clone(), steady(36_000, 0.4), still])).unwrap();
        assert_eq!((found.gpus.len(), found.code.as_str()), (2, "health.still"));
        assert!(found.title.contains("for 1 h 5 min"), "{}", found.title);
        assert!(recommend(&window(vec![steady(36_000, 0.4)])).is_none());
    }
}
