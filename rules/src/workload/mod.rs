//! Kinds of workload, as their owners declare them, or as labels, programs and completed work imply them.
//!
//! What a GPU does shows load, not purpose: a batch job and a service can look the same. So nothing follows from
//! utilization, and the kind is unknown without a sure sign: a wrong recommendation costs more than none.

mod labels;
mod program;

use std::collections::BTreeMap;

use crate::fixture_value::named;

pub use labels::keys as label_keys;
pub use program::{is_infrastructure, kind as kind_of_process};

/// Declares the kind: `training`, `serving`, `interactive` or `batch`.
pub const WORKLOAD: &str = "phasemeter.workload";

/// Declares the team that owns the work.
pub const TEAM: &str = "phasemeter.team";

/// Declares the framework or the program.
pub const FRAMEWORK: &str = "phasemeter.framework";

/// Declares the number format of most of the arithmetic: one of [`PRECISIONS`].
pub const PRECISION: &str = "phasemeter.precision";

/// Number formats, from the most exact to the fastest.
pub const PRECISIONS: [&str; 6] = ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8"];

/// Declares that work may be interrupted: `true`.
pub const INTERRUPTIBLE: &str = "phasemeter.interruptible";

/// Kind of workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// Not declared.
    #[default]
    Unknown,
    /// Training of a model.
    Training,
    /// A service.
    Serving,
    /// A person works on it, as in a notebook.
    Interactive,
    /// Work that no user waits for.
    Batch,
}

named!(Workload, "workload");

/// Prefixes of attributes that only services have, of OpenTelemetry's conventions.
const SERVICE_ATTRIBUTES: [&str; 3] = ["gen_ai.", "http.", "rpc."];

/// Attributes that only jobs of a cluster have, of OpenTelemetry's conventions.
const JOB_ATTRIBUTES: [&str; 2] = ["k8s.job.name", "k8s.cronjob.name"];

/// Attributes whose values may name a program.
const NAMES: [&str; 7] = [
    "service.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.container.name",
    PROGRAM,
];

/// Name of the executable, and what precedes it in `service.name` if the service has no name of its own.
const PROGRAM: &str = "process.executable.name";
const UNNAMED_SERVICE: &str = "unknown_service:";

/// Words in the names of notebooks.
const NOTEBOOKS: [&str; 4] = ["jupyter", "notebook", "vscode", "rstudio"];

/// What is known of the work of a GPU.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The attributes of the GPU.
    pub gpu: &'a BTreeMap<String, String>,
    /// Those of the run.
    pub run: &'a BTreeMap<String, String>,
    /// The kind of the processes on the GPU.
    pub processes: Workload,
    /// Whether the run completed requests, and all of its work is of one kind.
    pub requests: bool,
}

impl Workload {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Unknown, Self::Training, Self::Serving, Self::Interactive, Self::Batch];

    /// Those that can be declared.
    pub const DECLARED: [Self; 4] = [Self::Training, Self::Serving, Self::Interactive, Self::Batch];

    /// The name in attributes and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Training => "training",
            Self::Serving => "serving",
            Self::Interactive => "interactive",
            Self::Batch => "batch",
        }
    }

    /// The kind of the work of a GPU: what is declared of the GPU, else of the run, else what names and labels
    /// of its pod imply, then its processes, then what services do. A job of which nothing else is known is
    /// batch work.
    #[must_use]
    pub fn of(evidence: &Evidence<'_>) -> Self {
        let Evidence { gpu, run, processes, requests } = *evidence;
        let of = [gpu, run];
        if let Some(declared) = of.into_iter().find_map(Self::declared) {
            return declared;
        }
        let kind = |is: bool, kind: Self| if is { kind } else { Self::Unknown };
        Self::named(gpu)
            .or(|| Self::named(run))
            .or(|| processes)
            .or(|| kind(requests || of.into_iter().any(serves), Self::Serving))
            .or(|| kind(of.into_iter().any(is_job), Self::Batch))
    }

    /// This kind; if it is unknown, another one.
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::Unknown { other() } else { self }
    }

    /// The kind that these attributes name; unknown if there is no such kind.
    fn declared(attributes: &BTreeMap<String, String>) -> Option<Self> {
        let declared = attributes
            .get(WORKLOAD)
            .map(String::as_str)
            .or_else(|| labels::label(attributes, WORKLOAD))?;
        Some(Self::ALL.into_iter().find(|kind| kind.name() == declared).unwrap_or_default())
    }

    /// The kind that names and labels of these attributes imply.
    fn named(attributes: &BTreeMap<String, String>) -> Self {
        let mut names = NAMES.iter().filter_map(|name| attributes.get(*name));
        let is_notebook = |name: &String| NOTEBOOKS.iter().any(|word| name.contains(word));
        let notebook = || if names.any(is_notebook) { Self::Interactive } else { Self::Unknown };
        let of_program = |name| kind_of_process([&[name][..]]);
        labels::implied(attributes)
            .or(notebook)
            .or(|| program(attributes).map_or(Self::Unknown, of_program))
    }
}

/// Whether only a service has these attributes.
fn serves(attributes: &BTreeMap<String, String>) -> bool {
    let is_of_service = |name: &String| SERVICE_ATTRIBUTES.iter().any(|it| name.starts_with(it));
    attributes.keys().any(is_of_service)
}

/// Whether these are attributes of a job.
fn is_job(attributes: &BTreeMap<String, String>) -> bool {
    JOB_ATTRIBUTES.iter().any(|name| attributes.contains_key(*name)) || labels::is_job(attributes)
}

/// The program that runs, if it is known.
fn program(attributes: &BTreeMap<String, String>) -> Option<String> {
    let of_service = || attributes.get("service.name")?.strip_prefix(UNNAMED_SERVICE);
    attributes.get(PROGRAM).map(String::as_str).or_else(of_service).map(str::to_owned)
}

/// Whether these attributes declare that the work may be interrupted.
#[must_use]
pub fn is_interruptible(attributes: &BTreeMap<String, String>) -> bool {
    let label = || labels::label(attributes, INTERRUPTIBLE);
    attributes.get(INTERRUPTIBLE).map(String::as_str).or_else(label) == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    fn of(
        gpu: &BTreeMap<String, String>,
        run: &BTreeMap<String, String>,
        requests: bool,
    ) -> Workload {
        Workload::of(&Evidence { gpu, run, processes: Workload::Unknown, requests })
    }

    fn declared(name: &str, value: &str, requests: bool) -> Workload {
        of(&BTreeMap::new(), &attributes(name, value), requests)
    }

    #[test]
    fn declared_kind_precedes_implied_kind() {
        let [training, batch] = ["training", "batch"].map(|kind| attributes(WORKLOAD, kind));
        let [notebook, server] =
            ["jupyter-ana", "server"].map(|pod| attributes("k8s.pod.name", pod));
        let labeled = attributes("k8s.pod.label.phasemeter.workload", "training");
        for (gpu, run, requests, expected) in [
            (&training, &batch, true, Workload::Training),
            (&labeled, &batch, true, Workload::Training),
            (&notebook, &batch, true, Workload::Batch),
            (&notebook, &server, true, Workload::Interactive),
            (&server, &notebook, true, Workload::Interactive),
            (&server, &server, true, Workload::Serving),
            (&server, &server, false, Workload::Unknown),
        ] {
            assert_eq!(of(gpu, run, requests), expected, "{gpu:?} {run:?}");
        }
    }

    /// Labels, then processes, then what services do, then jobs.
    #[test]
    fn surer_sign_precedes() {
        let none = BTreeMap::new();
        let notebook = attributes("k8s.pod.label.notebook-name", "ana");
        let job = attributes("k8s.pod.label.job-name", "nightly");
        let (unknown, training) = (Workload::Unknown, Workload::Training);
        for (gpu, processes, requests, expected) in [
            (&notebook, training, true, Workload::Interactive),
            (&job, training, true, training),
            (&job, unknown, true, Workload::Serving),
            (&job, unknown, false, Workload::Batch),
            (&none, training, true, training),
            (&none, unknown, true, Workload::Serving),
            (&none, unknown, false, unknown),
        ] {
            let evidence = Evidence { gpu, run: &none, processes, requests };
            assert_eq!(Workload::of(&evidence), expected, "{evidence:?}");
        }
        let deployment = attributes("k8s.deployment.name", "chat");
        assert_eq!(of(&deployment, &none, false), unknown, "it may be a notebook or a worker");
    }

    #[test]
    fn kind_follows_from_what_is_declared_only() {
        for kind in Workload::ALL {
            assert_eq!(declared(WORKLOAD, kind.name(), true), kind);
        }
        assert_eq!(declared(WORKLOAD, "cats", false), Workload::Unknown);
        assert_eq!(declared("gen_ai.request.model", "llama-3-8b", false), Workload::Serving);
        assert_eq!(declared("k8s.pod.name", "jupyter-ana", true), Workload::Interactive);
        assert_eq!(declared("k8s.deployment.name", "jupyter-ana", true), Workload::Interactive);
        assert_eq!(declared("team", "vision", true), Workload::Serving);
        assert_eq!(declared("k8s.pod.name", "chat-7d9f8", false), Workload::Unknown);
        assert_eq!(declared("process.executable.name", "tritonserver", false), Workload::Serving);
        assert_eq!(declared("process.executable.name", "torchrun", false), Workload::Unknown);
        assert_eq!(
            declared("service.name", "unknown_service:llama-server", false),
            Workload::Serving
        );
        assert_eq!(
            declared("service.name", "llama-server", false),
            Workload::Unknown,
            "any program"
        );
        assert_eq!(declared("service.name", "unknown_service:vllm", false), Workload::Unknown);
        assert_eq!(declared("k8s.cronjob.name", "nightly-embeddings", false), Workload::Batch);
        assert_eq!(declared("k8s.job.name", "server-load-test", true), Workload::Serving);
    }

    #[test]
    fn work_is_interruptible_only_if_declared() {
        let of = |value: &str| {
            is_interruptible(&BTreeMap::from([(INTERRUPTIBLE.to_owned(), value.to_owned())]))
        };
        assert!(of("true"));
        assert!(is_interruptible(&attributes("k8s.pod.label.phasemeter.interruptible", "true")));
        assert!(!of("false") && !of("yes") && !is_interruptible(&BTreeMap::new()));
    }
}
