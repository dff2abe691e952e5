//! Warns of what ends or slows a job: a hang, memory that runs out, and GPUs that are lost, capped,
//! hot or slower than the others, and of video engines and replicas that are full; and of GPUs whose
//! utilization their power contradicts.
//!
//! A risk saves nothing by itself; a job that hangs or fails loses its work.

mod balance;
mod contradiction;
mod cost;
mod credibility;
mod ended;
mod hang;
mod hardware;
mod memory;
mod program;
mod slow;
mod still;
mod uneven;
mod video;
mod warn;

use phasemeter_policy::{Gpu, Recommendation, RecommendationKind, Response, Target, Window};

phasemeter_policy::settings! {
    /// Time at full utilization and a flat low power after which a job hangs, in seconds.
    hang_seconds: number = 600.0 in 60.0..=86400.0;
    /// Time in that state after which automation may restart a job that never waited so before, in seconds.
    restart_seconds: number = 3600.0 in 60.0..=604800.0;
    /// Warn if memory is full within this time, in seconds.
    memory_full_seconds: number = 14400.0 in 60.0..=604800.0;
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let mut found = hardware::gone(window);
    found.extend(hardware::faulty(window));
    found.extend(program::recommend(window));
    found.extend(uneven::recommend(window));
    found.extend(hardware::slow_links(window));
    found.extend(hardware::unlinked(window));
    found.extend(memory::recommend(settings, window));
    found.extend(ended::recommend(window));
    found.extend(still::recommend(window));
    found.extend(balance::recommend(window));
    found.extend(video::recommend(window));
    found.extend(contradiction::recommend(window));
    let mut response = hang::recommend(settings, window);
    response.extend(found.into());
    response.extend(slow::recommend(window));
    response.extend(credibility::recommend(window));
    response
}

/// A risk, with low effort.
fn risk<'a>(
    code: &str,
    lever: &str,
    gpus: impl IntoIterator<Item = &'a Gpu>,
    texts: [&str; 2],
    rationale: String,
    confidence: f64,
) -> Recommendation {
    Recommendation {
        title: texts[0].to_owned(),
        action: texts[1].to_owned(),
        rationale,
        confidence,
        kind: RecommendationKind::Risk,
        reversible: false,
        ..Recommendation::new(code, Target::Throughput, lever, gpus)
    }
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(gpus)).recommendations
    }

    fn codes(gpus: Vec<Gpu>) -> Vec<String> {
        recommendations(gpus).into_iter().map(|one| one.code).collect()
    }

    #[test]
    fn lost_gpu_is_a_risk() {
        let metrics = vec![("lost.seconds".to_owned(), 3_600.0)];
        let lost = Gpu { metrics, ..steady(3_600, 0.9) };
        assert_eq!(codes(vec![lost, steady(3_600, 0.9)]), ["health.lost"]);
    }
}
