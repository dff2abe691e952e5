//! The table of Phasemeter's own keys: which option of the command line each one is.
//!
//! Names, types, values and meaning follow from the option; so do the schema and the reference page.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction};

/// The section of a file that is Phasemeter's.
pub(crate) const SECTION: &str = "distribution.phasemeter";

/// A key below [`SECTION`], and its option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    /// The option, without dashes.
    pub(crate) option: &'static str,
}

/// What a key may have as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `true` or `false`.
    Switch,
    /// A text or number.
    Scalar,
    /// `true`, or a text or number.
    Optional,
    /// One or several texts or numbers.
    List,
    /// The same as `name: value`.
    Pairs,
}

/// The keys of each section, and their options.
const SECTIONS: [(&str, &[(&str, &str)]); 14] = [
    (
        "gpus",
        &[
            ("select", "gpu"),
            ("require", "require-gpu"),
            ("interval", "interval"),
            ("basis", "basis"),
            ("procfs", "procfs"),
            ("exclude", "exclude-gpu"),
            ("exclude_hosts", "exclude-host"),
            ("max", "max-gpus"),
        ],
    ),
    (
        "phases",
        &[
            ("thresholds", "thresholds"),
            ("stale_after", "stale-after"),
            ("missing", "missing"),
            ("hold", "hold"),
            ("max_age", "max-age"),
        ],
    ),
    (
        "prices",
        &[
            ("usd_per_gpu_hour", "price"),
            ("books", "prices"),
            ("provider", "provider"),
            ("region", "region"),
            ("instance_type", "instance-type"),
            ("plan", "plan"),
            ("node_labels", "node-labels"),
            ("by_node_label", "price-label"),
        ],
    ),
    (
        "workload",
        &[
            ("kind", "workload"),
            ("team", "team"),
            ("framework", "framework"),
            ("precision", "precision"),
            ("experiment", "experiment"),
            ("trace_mode", "trace-mode"),
            ("socket", "work-socket"),
            ("mappings", "work-mapping"),
            ("trials", "trials"),
            ("interruptions", "interruptions"),
            ("interruption_signal", "interruption-signal"),
            ("metadata_service", "metadata-service"),
        ],
    ),
    (
        "policies",
        &[
            ("files", "policy"),
            ("directory", "policies"),
            ("settings", "policy-settings"),
            ("no_defaults", "no-default-policies"),
            ("keys", "policy-key"),
            ("limits", "policy-limit"),
            ("stub_imports", "policy-stub-imports"),
            ("cache", "policy-cache"),
            ("window_interval", "window-interval"),
        ],
    ),
    ("alerts", &[("rules", "alerts"), ("set", "alert-set")]),
    (
        "report",
        &[
            ("file", "report"),
            ("html", "html"),
            ("every", "report-every"),
            ("period", "report-period"),
            ("utc_offset", "utc-offset"),
        ],
    ),
    (
        "export",
        &[
            ("metrics", "metrics"),
            ("headers_file", "otlp-headers-file"),
            ("otlp_file", "otlp-file"),
            ("fail_on_undelivered", "fail-on-undelivered"),
        ],
    ),
    ("outbox", &[("directory", "data-dir")]),
    (
        "receiver",
        &[
            ("listen", "listen"),
            ("command", "receive"),
            ("tls_certificate", "tls-certificate"),
            ("tls_key", "tls-key"),
            ("token_file", "token-file"),
            ("max_request_body_size", "max-request-body-size"),
            ("mappings", "mapping"),
            ("replicas", "replicas"),
            ("replica", "replica"),
            ("routed", "routed"),
        ],
    ),
    (
        "spans",
        &[
            ("price", "price-spans"),
            ("weight", "span-weight"),
            ("wait", "span-wait"),
            ("memory", "span-memory"),
            ("all_gpus", "span-all-gpus"),
        ],
    ),
    (
        "holders",
        &[
            ("kubelet_socket", "kubelet-socket"),
            ("resource_slices", "resource-slices"),
            ("pods", "pods"),
            ("labels", "label"),
            ("pod_logs", "pod-logs"),
            ("job_mapping", "job-mapping"),
            ("slurm_jobs", "slurm-jobs"),
            ("socket", "socket"),
        ],
    ),
    ("health", &[("listen", "health-listen")]),
    ("log", &[("format", "log-format"), ("strict", "strict")]),
];

/// All keys.
pub(crate) fn keys() -> impl Iterator<Item = Key> {
    SECTIONS.into_iter().flat_map(|(section, keys)| {
        keys.iter().map(move |&(name, option)| Key { section, name, option })
    })
}

impl Key {
    /// The whole path.
    pub(crate) fn path(self) -> String {
        format!("{SECTION}.{}.{}", self.section, self.name)
    }
}

/// What the value of a key may be.
pub(crate) fn shape(arg: &Arg) -> Shape {
    let value_name = || arg.get_value_names().unwrap_or_default().iter().any(|it| it.contains('='));
    match arg.get_action() {
        ArgAction::SetTrue => Shape::Switch,
        ArgAction::Append if value_name() => Shape::Pairs,
        ArgAction::Append => Shape::List,
        _ if arg.get_num_args().is_some_and(|range| range.min_values() == 0) => Shape::Optional,
        _ => Shape::Scalar,
    }
}

/// The values that an option accepts, if they are few.
pub(crate) fn choices(arg: &Arg) -> Vec<String> {
    let parser: &ValueParser = arg.get_value_parser();
    let values = parser.possible_values().into_iter().flatten();
    values.map(|value| value.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory};
    use phasemeter_cli::Cli;

    use super::*;
    use crate::options::{COMMANDS, Options};

    /// Options that belong to one call, not to a file.
    const OF_A_CALL: [&str; 24] = [
        "all-gpus",
        "color",
        "columns",
        "config",
        "dmon-interval",
        "dmon-start",
        "dump-windows",
        "duration",
        "explain",
        "fail-on-alert",
        "format",
        "gpu-count",
        "gpu-model",
        "gpu-model-override",
        "help",
        "log-level",
        "otlp",
        "overwrite",
        "seed",
        "speed",
        "timeout",
        "traceparent",
        "work",
        "work-log",
    ];

    #[test]
    fn every_key_is_an_option_and_every_option_a_key_or_of_one_call() {
        let options = Options::new(Cli::command());
        let mut seen = BTreeSet::new();
        for key in keys() {
            assert!(options.argument(key.option).is_some(), "{} is not an option", key.option);
            assert!(seen.insert(key.option), "{} has two keys", key.option);
        }
        let all = COMMANDS.into_iter().filter_map(|name| options.command(name));
        let all: BTreeSet<_> =
            all.flat_map(Command::get_arguments).filter_map(Arg::get_long).collect();
        let known: BTreeSet<_> = seen.iter().copied().chain(OF_A_CALL).collect();
        let lacking: Vec<_> = all.difference(&known).collect();
        assert!(lacking.is_empty(), "options without a key: {lacking:?}");
        let obsolete: Vec<_> = known.difference(&all).collect();
        assert!(obsolete.is_empty(), "no such options: {obsolete:?}");
    }

    #[test]
    fn shapes_follow_from_options() {
        let options = Options::new(Cli::command());
        let of = |option| shape(options.argument(option).unwrap());
        assert_eq!(of("require-gpu"), Shape::Switch);
        assert_eq!(of("interval"), Shape::Scalar);
        assert_eq!(of("receive"), Shape::Optional);
        assert_eq!(of("gpu"), Shape::List);
        assert_eq!(of("alert-set"), Shape::Pairs);
        assert_eq!(choices(options.argument("log-format").unwrap()), ["text", "json"]);
    }
}
