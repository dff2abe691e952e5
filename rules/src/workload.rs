//! Kinds of workload, as their owners declare them in attributes.
//!
//! What a GPU does shows load, not purpose: a batch job and a service can look the same. So the kind
//! is what attributes declare, and is unknown without them. Must not depend on measurements.

use std::collections::BTreeMap;

/// Declares the kind: `training`, `serving`, `interactive` or `batch`.
pub const WORKLOAD: &str = "phasemeter.workload";

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

/// Prefixes of attributes that only services have, of OpenTelemetry's conventions.
const SERVICE_ATTRIBUTES: [&str; 3] = ["gen_ai.", "http.", "rpc."];

/// Attributes that only jobs of a cluster have, of OpenTelemetry's conventions.
const JOB_ATTRIBUTES: [&str; 2] = ["k8s.job.name", "k8s.cronjob.name"];

/// Attributes whose values may name a program.
const NAMES: [&str; 6] = [
    "service.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.statefulset.name",
    "k8s.container.name",
    PROGRAM,
];

/// Name of the executable, and what precedes it in `service.name` if the service has no name of its own.
const PROGRAM: &str = "process.executable.name";
const UNNAMED_SERVICE: &str = "unknown_service:";

/// Words in the names of notebooks.
const NOTEBOOKS: [&str; 4] = ["jupyter", "notebook", "vscode", "rstudio"];

/// Programs that only serve models. `torchrun` starts jobs of any kind, and `vllm` has batch commands.
const SERVERS: [&str; 4] =
    ["tritonserver", "text-generation-launcher", "text-generation-server", "llama-server"];

impl Workload {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Unknown, Self::Training, Self::Serving, Self::Interactive, Self::Batch];

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

    /// The kind of the work of a GPU in a run: what is declared of the GPU, else of the run, else what the
    /// attributes of the GPU imply, else those of the run. `requests`: whether the run completed requests,
    /// and all of its work is of one kind.
    #[must_use]
    pub fn of(
        gpu: &BTreeMap<String, String>,
        run: &BTreeMap<String, String>,
        requests: bool,
    ) -> Self {
        let implied = || match Self::implied(gpu, false) {
            Self::Unknown => Self::implied(run, requests),
            kind => kind,
        };
        Self::declared(gpu).or_else(|| Self::declared(run)).unwrap_or_else(implied)
    }

    /// The kind that these attributes name; unknown if there is no such kind.
    fn declared(attributes: &BTreeMap<String, String>) -> Option<Self> {
        let declared = attributes.get(WORKLOAD)?;
        Some(Self::ALL.into_iter().find(|kind| kind.name() == declared).unwrap_or_default())
    }

    /// The kind that only work with these attributes has, or with completed `requests`.
    fn implied(attributes: &BTreeMap<String, String>, requests: bool) -> Self {
        let mut names = NAMES.iter().filter_map(|name| attributes.get(*name));
        let is_notebook = |name: &String| NOTEBOOKS.iter().any(|word| name.contains(word));
        let serves = |name: &String| SERVICE_ATTRIBUTES.iter().any(|it| name.starts_with(it));
        if names.any(is_notebook) {
            Self::Interactive
        } else if requests
            || attributes.keys().any(serves)
            || program(attributes).is_some_and(|name| SERVERS.contains(&name))
        {
            Self::Serving
        } else if JOB_ATTRIBUTES.iter().any(|name| attributes.contains_key(*name)) {
            Self::Batch
        } else {
            Self::Unknown
        }
    }
}

/// The program that runs, if it is known.
fn program(attributes: &BTreeMap<String, String>) -> Option<&str> {
    let of_service = || attributes.get("service.name")?.strip_prefix(UNNAMED_SERVICE);
    attributes.get(PROGRAM).map(String::as_str).or_else(of_service)
}

/// Whether these attributes declare that the work may be interrupted.
#[must_use]
pub fn is_interruptible(attributes: &BTreeMap<String, String>) -> bool {
    attributes.get(INTERRUPTIBLE).is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    fn declared(name: &str, value: &str, requests: bool) -> Workload {
        Workload::of(&BTreeMap::new(), &attributes(name, value), requests)
    }

    #[test]
    fn declared_kind_precedes_implied_kind() {
        let [training, batch] = ["training", "batch"].map(|kind| attributes(WORKLOAD, kind));
        let [notebook, server] =
            ["jupyter-ana", "server"].map(|pod| attributes("k8s.pod.name", pod));
        for (gpu, run, requests, expected) in [
            (&training, &batch, true, Workload::Training),
            (&notebook, &batch, true, Workload::Batch),
            (&notebook, &server, true, Workload::Interactive),
            (&server, &notebook, true, Workload::Interactive),
            (&server, &server, true, Workload::Serving),
            (&server, &server, false, Workload::Unknown),
        ] {
            assert_eq!(Workload::of(gpu, run, requests), expected, "{gpu:?} {run:?}");
        }
    }

    #[test]
    fn kind_follows_from_what_is_declared_only() {
        for kind in Workload::ALL {
            assert_eq!(declared(WORKLOAD, kind.name(), true), kind);
        }
        assert_eq!(declared(WORKLOAD, "cats", false), Workload::Unknown);
        assert_eq!(declared("gen_ai.request.model", "llama-3-8b", false), Workload::Serving);
        assert_eq!(declared("k8s.pod.name", "jupyter-ana", true), Workload::Interactive);
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
        assert!(!of("false") && !of("yes") && !is_interruptible(&BTreeMap::new()));
    }
}
