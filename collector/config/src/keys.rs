//! The table of Phasemeter's own keys: which option of the command line each one is.
//!
//! Names, types, values and meaning follow from the option; so do the schema and the reference page.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

/// The section of a file that is Phasemeter's.
pub(crate) const SECTION: &str = "distribution.phasemeter";

/// The commands that a file configures.
pub(crate) const COMMANDS: [&str; 7] =
    ["run", "agent", "gateway", "record", "audit", "demo", "flush"];

/// The command that checks what others need. It has their options, and some of a call.
pub(crate) const CHECK: &str = "doctor";

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
    ("outbox", &[("directory", "data-dir"), ("state", "state")]),
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

/// The options of all commands.
pub(crate) struct Options {
    cli: Command,
}

impl Options {
    pub(crate) fn new(mut cli: Command) -> Self {
        // Gives each command the options of all.
        cli.build();
        Self { cli }
    }

    /// The whole command line.
    pub(crate) const fn cli(&self) -> &Command {
        &self.cli
    }

    pub(crate) fn command(&self, name: &str) -> Option<&Command> {
        self.cli.find_subcommand(name)
    }

    /// The commands with this option.
    pub(crate) fn commands(&self, option: &str) -> impl Iterator<Item = &'static str> {
        COMMANDS.into_iter().filter(move |name| {
            self.command(name).is_some_and(|command| argument(command, option).is_some())
        })
    }

    /// The option as the first command has it that has one.
    pub(crate) fn argument(&self, option: &str) -> Option<&Arg> {
        let command = self.commands(option).next()?;
        argument(self.command(command)?, option)
    }

    /// Why a command refuses this option with this value, whatever else it needs; `None` if it does not.
    pub(crate) fn refusal(&self, option: &str, value: Option<&str>) -> Option<String> {
        let command = self.commands(option).next()?;
        let given = assignment(option, value);
        let parsed = self.cli.clone().try_get_matches_from(["phasemeter", command, &given]);
        parsed.err().and_then(|error| reason(&error))
    }
}

/// The option of a command.
pub(crate) fn argument<'a>(command: &'a Command, option: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(option))
}

/// The option as an argument.
pub(crate) fn assignment(option: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("--{option}={value}"),
        None => format!("--{option}"),
    }
}

/// What is expected in place of a value; `None` if the value is accepted.
fn reason(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    use std::error::Error as _;
    match error.kind() {
        ErrorKind::InvalidValue => {
            let known = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(known)) => known.join(", "),
                _ => return Some("expected a value".to_owned()),
            };
            Some(format!("expected one of {known}"))
        }
        ErrorKind::ValueValidation => {
            Some(error.source().map_or_else(|| "invalid".to_owned(), ToString::to_string))
        }
        ErrorKind::MissingRequiredArgument
        | ErrorKind::ArgumentConflict
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelp => None,
        kind => Some(kind.as_str().unwrap_or("invalid").to_owned()),
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

    use clap::CommandFactory;
    use phasemeter_cli::Cli;

    use super::*;

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

    #[test]
    fn refusals_are_about_the_value_only() {
        let options = Options::new(Cli::command());
        let of = |option, value| options.refusal(option, Some(value));
        assert_eq!(of("interval", "x").unwrap(), "expected seconds, at least 0.01");
        assert_eq!(of("log-format", "x").unwrap(), "expected one of text, json");
        // It needs --alerts.
        assert_eq!(of("alert-set", "high_memory.for=10m"), None);
        assert_eq!(of("report-every", "1h"), None);
        assert_eq!(options.refusal("receive", None), None);
        assert_eq!(of("mapping", "file"), None);
    }
}
