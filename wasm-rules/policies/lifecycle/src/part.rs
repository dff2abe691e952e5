//! GPUs of an instance that never work in some hours of the day, while the others do.

use phasemeter_diagnoses::{Unit, are_separate, is_credible};
use phasemeter_policy::groups;

use crate::schedule::Schedule;

/// The GPUs with the same hours, for each set of hours; none if they are all GPUs of the instance.
pub(crate) fn parts<'a>(unit: &Unit<'a>) -> Vec<Unit<'a>> {
    let alone = |gpus| Unit { gpus, is_whole: false, ..*unit };
    let scheduled = unit.gpus.iter().filter(|gpu| is_credible(gpu)).filter_map(|gpu| {
        let schedule = Schedule::of(&alone(vec![*gpu]))?;
        Some((*gpu, schedule))
    });
    let parts = groups(scheduled, |a, b| {
        a.1.has_hours_of(&b.1) && a.0.is_alike(b.0) && !are_separate(a.0, b.0)
    });
    let is_part = |part: &Vec<_>| !unit.is_whole || part.len() < unit.gpus.len();
    let of = |part: Vec<_>| alone(part.into_iter().map(|(gpu, _)| gpu).collect());
    parts.into_iter().filter(is_part).map(of).collect()
}
