//! Video engines that limit a job. Utilization does not cover them.

use phasemeter_diagnoses::{FULL_ENGINE, confidence};
use phasemeter_policy::format::percent;
use phasemeter_policy::{Gpu, Recommendation, Target, Window, evidence, groups};

use crate::risk;

/// GPUs whose video decoder or encoder is full.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    let full = window.gpus.iter().filter_map(|gpu| Some((gpu, full(gpu, window)?)));
    let groups = groups(full, |a, b| a.1.0 == b.1.0 && a.0.workload == b.0.workload);
    groups.iter().map(|group| warn(group)).collect()
}

/// The busiest engine and its use, if it is full.
fn full(gpu: &Gpu, window: &Window) -> Option<(&'static str, f64)> {
    let engines = [("decoder", "decoder.utilization"), ("encoder", "encoder.utilization")];
    let of = |(name, metric)| Some((name, gpu.metric(metric)?));
    let busiest = engines.into_iter().filter_map(of).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let is_limit = busiest.1 >= FULL_ENGINE
        && gpu.accounts.observed().level() < window.thresholds().productive;
    is_limit.then_some(busiest)
}

fn warn(group: &[(&Gpu, (&str, f64))]) -> Recommendation {
    let (first, (engine, used)) = &group[0];
    let level = first.accounts.observed().level();
    let is_idle = first.lost_idle() > first.lost_underload();
    let busy = percent(*used);
    let (remedy, action) = if *engine == "decoder" {
        (
            "decode less, or add decoders",
            "Decode only the frames that are used, at the size that is used, or share the work with CPU cores. \
             Compare GPUs by the price of a decoder (NVDEC), not by their cores.",
        )
    } else {
        (
            "encode faster, or add encoders",
            "Use a faster preset or fewer output sizes, or share the work with CPU cores. Compare GPUs by the \
             price of an encoder (NVENC), not by their cores.",
        )
    };
    Recommendation {
        // Where most of what utilization calls waste is.
        target: if is_idle { Target::Idle } else { Target::Underload },
        evidence: evidence([("engine.use", *used, "1"), ("utilization", level, "1")]),
        reversible: true,
        ..risk(
            "health.video",
            "other",
            group.iter().map(|(gpu, _)| *gpu),
            [&format!("Video {engine} {busy} busy: {remedy}"), action],
            format!(
                "The video {engine} is {busy} busy, and the SMs {}: it most likely limits this work, and utilization \
                 does not cover it. Nothing else with video fits beside it.",
                percent(level),
            ),
            confidence::VERY_LIKELY,
        )
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    #[test]
    fn full_engine_limits_a_gpu_whose_sms_have_room() {
        let with = |level: f64, decoder: f64, encoder: f64| {
            let metrics = [("decoder.utilization", decoder), ("encoder.utilization", encoder)];
            let metrics = metrics.map(|(name, value)| (name.to_owned(), value)).to_vec();
            recommend(&window(vec![Gpu { metrics, ..steady(3_600, level) }]))
        };
        let decoder = with(0.09, 0.93, 0.0);
        assert!(decoder[0].rationale.starts_with("The video decoder is 93% busy"));
        assert!(with(0.3, 0.2, 0.9)[0].title.contains("encode faster"));
        assert!(with(0.09, 0.5, 0.3).is_empty());
        assert!(with(0.95, 0.93, 0.0).is_empty(), "the SMs are full too");
        assert!(recommend(&window(vec![steady(3_600, 0.09)])).is_empty(), "not recorded");
    }
}
