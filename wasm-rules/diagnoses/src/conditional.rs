//! Advice for work of unknown kind: what applies if it is of one kind or another. As a condition it promises nothing,
//! and nothing of it is summed.

use crate::bounds::MATTERS;
use std::collections::BTreeSet;

use crate::{computes_in_fp64, confidence, time};
use phasemeter_policy::format::percent;
use phasemeter_policy::{
    Gpu, Recommendation, RecommendationKind, Response, Saving, Window, Workload,
};

/// Kinds whose advice differs most, and the condition.
const KINDS: [(Workload, &str); 2] =
    [(Workload::Training, "If this is training: "), (Workload::Serving, "If it serves requests: ")];

/// Returns the advice for a window, and for its GPUs of unknown kind that of each kind they may be of.
pub fn with_conditions(window: &Window, advise: impl Fn(&Window) -> Response) -> Response {
    let mut response = advise(window);
    let is_unknown = |gpu: &&Gpu| gpu.workload == Workload::Unknown && may_gain(gpu);
    let unknown: BTreeSet<&str> =
        window.gpus.iter().filter(is_unknown).map(|gpu| gpu.id.as_str()).collect();
    if unknown.is_empty() {
        return response;
    }
    let mut assumed = window.clone();
    // Of others each evaluation would log that they are skipped.
    assumed.gpus.retain(is_clear);
    for (kind, condition) in KINDS {
        for gpu in assumed.gpus.iter_mut().filter(|gpu| unknown.contains(gpu.id.as_str())) {
            gpu.workload = kind;
        }
        let given = |lever: &str| response.recommendations.iter().any(|it| it.lever == lever);
        let mut branches = advise(&assumed).recommendations;
        branches.retain(|it| {
            let is_of_unknown = || it.gpus.iter().all(|id| unknown.contains(id.as_str()));
            let matters = it.kind == RecommendationKind::Capacity || it.saving.high >= MATTERS;
            matters && !given(&it.lever) && is_of_unknown()
        });
        // The best of each set of GPUs: others follow once the kind is known.
        branches.sort_by(|a, b| b.saving.expected.total_cmp(&a.saving.expected));
        let mut covered = BTreeSet::new();
        let best: Vec<_> = branches
            .into_iter()
            .filter(|it| it.gpus.iter().all(|id| covered.insert(id.clone())))
            .map(|it| if_kind(it, condition))
            .collect();
        response.recommendations.extend(best);
    }
    response
}

/// Whether it was observed for long enough, with a clear pattern.
fn is_clear(gpu: &Gpu) -> bool {
    gpu.pattern.is_some() && gpu.accounts.observed().seconds >= time::LASTING
}

/// Whether something is lost while it works, or waits for input, and it may be a model.
fn may_gain(gpu: &Gpu) -> bool {
    is_clear(gpu)
        && !computes_in_fp64(gpu)
        && gpu.lost_starvation() + gpu.lost_underload() >= MATTERS
}

fn if_kind(branch: Recommendation, condition: &str) -> Recommendation {
    let mut letters = branch.title.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().to_string()).unwrap_or_default();
    let could = if branch.saving.high > 0.0 {
        format!(" It could save up to {} of the cost of these GPUs.", percent(branch.saving.high))
    } else {
        String::new()
    };
    let open = " Nothing is counted before the kind is declared (--workload).";
    Recommendation {
        code: [&branch.code, ".conditional"].concat(),
        title: [condition, &first, letters.as_str()].concat(),
        rationale: [&*branch.rationale, &could, open].concat(),
        saving: Saving::NONE,
        confidence: confidence::EVEN * branch.confidence,
        kind: RecommendationKind::Saving,
        remediation: None,
        ..branch
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};
    use phasemeter_policy::{Remediation, Target};

    use super::*;

    /// Trains: a larger batch. Serves: more requests. Unknown: nothing.
    fn advise(window: &Window) -> Response {
        let of = |gpu: &Gpu| {
            let (lever, title) = match gpu.workload {
                Workload::Training => ("batch", "Raise the batch"),
                Workload::Serving => ("concurrency", "Take more requests"),
                _ => return None,
            };
            Some(Recommendation {
                title: title.to_owned(),
                saving: Saving { low: 0.1, expected: 0.2, high: 0.3 },
                confidence: 0.8,
                remediation: Some(Remediation::new("k8s.scale", [])),
                ..Recommendation::new("test.more", Target::Underload, lever, [gpu])
            })
        };
        window.gpus.iter().filter_map(of).collect()
    }

    #[test]
    fn unknown_kind_gets_both_branches_without_a_promise() {
        let gpu = |workload, level| Gpu { workload, ..steady(3_600, level) };
        let mut window = window(vec![
            gpu(Workload::Unknown, 0.4),
            gpu(Workload::Training, 0.4),
            gpu(Workload::Unknown, 0.99),
        ]);
        window.gpus[2].id = "full".to_owned();
        let found = with_conditions(&window, advise).recommendations;
        let titles: Vec<_> = found.iter().map(|it| it.title.as_str()).collect();
        assert_eq!(titles, ["Raise the batch", "If it serves requests: take more requests"]);
        window.gpus.remove(1);
        let found = with_conditions(&window, advise).recommendations;
        let levers: Vec<_> = found.iter().map(|it| it.lever.as_str()).collect();
        assert_eq!(levers, ["batch", "concurrency"]);
        for branch in &found {
            assert!(branch.saving.high <= 0.0 && branch.remediation.is_none());
            assert!(branch.code == "test.more.conditional" && branch.confidence < 0.5);
            assert!(branch.rationale.contains("up to 30%") && branch.gpus.len() == 1);
        }
    }
}
