//! Jobs that stood before they ended: an exchange that did not finish, and was ended by its time limit or by a person.

use phasemeter_diagnoses::{SIMILAR, confidence};
use phasemeter_policy::format::{duration, subject};
use phasemeter_policy::{Gpu, Recommendation, Window, evidence, groups};

use crate::risk;

/// Warns of them, those that stood for equally long together.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    let stood = window.gpus.iter().filter(|gpu| gpu.workload.is_job());
    let stood = stood.filter_map(|gpu| Some((gpu, gpu.metric("ends.stood.seconds")?)));
    let is_alike = |a: &(&Gpu, f64), b: &(&Gpu, f64)| (a.1 - b.1).abs() <= SIMILAR * a.1;
    groups(stood, is_alike).iter().map(|group| warn(group)).collect()
}

fn warn(group: &[(&Gpu, f64)]) -> Recommendation {
    let seconds = group.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let standing = duration(seconds);
    let action = match group {
        [_] => {
            "Read its log, and that of the host: it waited for something that did not come, such as another rank, a file or a \
             service. Continue from the last saved state."
        }
        _ => {
            "Read the log of each rank (NCCL_DEBUG=INFO) for the first that stopped, and check its GPU and network. Continue \
             from the last saved state, and let the job requeue itself, so that nobody has to see that it ended."
        }
    };
    Recommendation {
        evidence: evidence([("standing.time", seconds, "s")]),
        ..risk(
            "health.stood",
            "restart",
            gpus(),
            [
                &["The job stood for ", &*standing, " before it ended: find out why"].concat(),
                action,
            ],
            format!(
                "{} stood for {standing} at full utilization with half of its usual power or less, and then its process was \
                 gone: most likely it waited in a collective until a time limit, or somebody ended it.",
                subject(group.len()),
            ),
            confidence::PROBABLE,
        )
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Workload;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    #[test]
    fn job_that_stood_before_it_ended_is_explained() {
        let gpu = |workload, seconds: f64| Gpu {
            workload,
            metrics: vec![("ends.stood.seconds".to_owned(), seconds)],
            ..steady(3_600, 0.9)
        };
        let gpus = vec![gpu(Workload::Training, 600.0), gpu(Workload::Training, 595.0)];
        let found = recommend(&window(gpus));
        assert_eq!((found.len(), found[0].gpus.len()), (1, 2));
        assert!(found[0].title.contains("stood for 10 min"), "{}", found[0].title);
        assert!(recommend(&window(vec![gpu(Workload::Serving, 600.0)])).is_empty());
        assert!(recommend(&window(vec![steady(3_600, 0.9)])).is_empty());
    }
}
