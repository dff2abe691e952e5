//! A session that is used now and then, or a job that runs now and then: an instance for each use, instead of one
//! that waits for the next.

use phasemeter_diagnoses::{NEARLY_IDLE, Unit, confidence};
use phasemeter_policy::format::{count, duration};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, Saving, Target, Window, Workload, evidence, mean,
};

use crate::idle::{Idle, MIN_END_SECONDS};
use crate::text::{after_idle, automated};
use crate::{Settings, idle_saving};

/// Time that its next start takes, in seconds: expected. An assumption.
const START_SECONDS: f64 = 300.0;

/// Whether it may start an instance for each use.
pub(crate) fn applies(unit: &Unit<'_>) -> bool {
    match unit.workload() {
        Workload::Interactive => true,
        Workload::Batch => unit.gpus.iter().all(|gpu| gpu.quiet_share() >= NEARLY_IDLE),
        _ => false,
    }
}

pub(crate) fn recommend(
    unit: &Unit<'_>,
    window: &Window,
    settings: &Settings,
) -> Option<Recommendation> {
    let idle = Idle::of(unit, window, MIN_END_SECONDS);
    let after = idle.ends_after(unit.workload(), settings);
    let expected = idle.saved(after + START_SECONDS);
    // A job that holds its memory between its steps goes on.
    let is_running = unit.workload() == Workload::Batch && idle.is_held;
    if unit.is_committed || !idle.is_known || is_running || expected < settings.min_lost {
        return None;
    }
    let gpus = || unit.gpus.iter().copied();
    let saved = [0.0, expected, idle.all_saved(after)];
    Some(Recommendation {
        title: "Start an instance for each use".to_owned(),
        action: format!(
            "Return the instance {} after each use, and start it for the next, which waits for it; or work on one that \
             others use too.",
            duration(after),
        ),
        rationale: format!(
            "{} did nothing for {} of {}, in {} of at most {}.",
            count(unit.gpus.len(), "GPU"),
            duration(idle.seconds()),
            duration(idle.length),
            count(idle.periods.len(), "period"),
            duration(idle.longest()),
        ),
        saving: Saving::combined(idle_saving(unit, saved)),
        confidence: confidence::DOUBTFUL * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("idle.time", idle.seconds(), "s"),
            ("idle.longest", idle.longest(), "s"),
            ("idle.ends_after", after, "s"),
        ]),
        effort: Effort::Medium,
        reversible: false,
        // What is held may be somebody's state.
        remediation: automated(window, after_idle("process.end", after)).filter(|_| !idle.is_held),
        ..Recommendation::new("lifecycle.on-demand", Target::Idle, "autoscale", gpus())
    })
}
