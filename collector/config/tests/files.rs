//! Files of configuration: what each sets and what is wrong with it, the examples, and the reference page.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::CommandFactory;
use phasemeter_cli::Cli;
use phasemeter_config::{Format, Strictness};

/// Variables of OpenTelemetry that a file sets.
const VARIABLES: &str = include_str!("../../../tests/fixtures/otel-variables.txt");

static FORMAT: LazyLock<Format> = LazyLock::new(|| Format::of(Cli::command()));

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_update() -> bool {
    std::env::var_os("PHASEMETER_UPDATE").is_some()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|it| it.extension().is_some_and(|it| it == "yaml")).collect();
    files.sort();
    assert!(files.len() > 2, "{}", directory.display());
    files
}

fn environment(name: &str) -> Option<String> {
    (name == "TOKEN").then(|| "s3cr3t".to_owned())
}

fn compare(path: &Path, text: &str) {
    if is_update() {
        fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, expected, "{}: run make generate", path.display());
}

/// All that a text means.
fn described(text: &str) -> String {
    let configuration = FORMAT.parse(text, Strictness::Own, &environment);
    let mut lines: Vec<_> = configuration.findings().iter().map(ToString::to_string).collect();
    let without_effect = configuration.without_effect().iter();
    lines.extend(without_effect.map(|(line, key)| format!("{line}: {key}: has no effect here")));
    let names = VARIABLES.lines().filter_map(|line| Some(line.split_once('=')?.0));
    let value = |name: &str| Some(format!("{name}={}", configuration.variable(name)?));
    lines.extend(names.filter_map(value));
    for command in ["run", "gateway"] {
        let line = FORMAT.command_line(&[command.into()]);
        lines.push(
            format!("{command} {}", line.options(&configuration).join(" ")).trim_end().to_owned(),
        );
    }
    let text = lines.join("\n") + "\n";
    let findings = configuration.findings();
    assert!(findings.iter().all(|it| !it.to_string().contains("s3cr3t")), "{text}");
    text
}

/// Each case is a file with what it means beside it.
#[test]
fn cases_mean_what_stands_beside_them() {
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")) {
        let text = fs::read_to_string(&path).unwrap();
        compare(&path.with_extension("txt"), &described(&text));
    }
}

#[test]
fn printed_document_means_the_same_without_secrets() {
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")) {
        let text = fs::read_to_string(&path).unwrap();
        let configuration = FORMAT.parse(&text, Strictness::Own, &environment);
        if !configuration.findings().is_empty() {
            continue;
        }
        let printed = configuration.print();
        assert!(!printed.contains("s3cr3t"), "{printed}");
        let again = FORMAT.parse(&printed, Strictness::Own, &|_| None);
        assert_eq!(again.findings(), [], "{printed}");
        assert_eq!(again.print(), printed);
        for name in [
            "OTEL_RESOURCE_ATTRIBUTES",
            "OTEL_TRACES_SAMPLER_ARG",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        ] {
            assert_eq!(again.variable(name), configuration.variable(name), "{name}: {printed}");
        }
    }
}

#[test]
fn examples_are_valid_and_have_effect() {
    for path in files(&root().join("otel-config/configuration")) {
        let configuration = FORMAT.read(&path, Strictness::Own, &|_| None).unwrap();
        let name = path.display();
        assert_eq!(configuration.findings(), [], "{name}");
        assert_eq!(configuration.without_effect(), [], "{name}");
        assert!(
            FORMAT.conflicts(&configuration).is_empty(),
            "{name}: {:?}",
            FORMAT.conflicts(&configuration)
        );
    }
}

#[test]
fn a_file_of_a_command_is_read_as_far_as_it_is_known() {
    let text = "file_format: \"1.7\"\nnew_key: 1\nlog_level: loud\ntracer_provider:\n  processors:\n  - batch: \
                {exporter: {otlp_http: {new: 1, timeout: 7}}}\ndistribution: {phasemeter: {gpus: {interval: x, max: 9}}}\n";
    let own = FORMAT.parse(text, Strictness::Own, &environment);
    assert_eq!(own.findings().len(), 1);
    assert_eq!(own.variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"), None);
    let others = FORMAT.parse(text, Strictness::OfACommand, &environment);
    let lines: Vec<_> = others.findings().iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [2, 3, 6, 7], "{:?}", others.findings());
    assert_eq!(others.variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"), Some("7"));
    let line = FORMAT.command_line(&["gateway".into()]);
    assert_eq!(line.options(&others), ["--max-gpus=9"]);
    for text in ["file_format: \"2.0\"\n", "a: [", "a: 1\n", ""] {
        let others = FORMAT.parse(text, Strictness::OfACommand, &environment);
        assert_eq!(others.findings().len(), 1, "{text}");
        assert_eq!(others.variable("OTEL_TRACES_EXPORTER"), None);
    }
}

#[test]
fn options_that_are_given_replace_those_of_the_file() {
    let text = "file_format: \"1.1\"\nlog_level: debug\ndistribution: {phasemeter: {gpus: {select: [0, 1], require: true}, \
                prices: {usd_per_gpu_hour: 2}, alerts: {rules: optimization}}}\n";
    let configuration = FORMAT.parse(text, Strictness::Own, &environment);
    assert_eq!(configuration.findings(), []);
    let with = |arguments: &[&str]| {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let line = FORMAT.command_line(&arguments);
        let all = line.with(&arguments, &configuration);
        (line, all.into_iter().map(|it| it.into_string().unwrap()).collect::<Vec<_>>().join(" "))
    };
    let (line, all) = with(&[
        "--log-level",
        "warn",
        "run",
        "--gpu=7",
        "--alert-set",
        "high_memory.for=10m",
        "--",
        "train",
        "--price",
        "1",
    ]);
    assert!(line.is_configured && line.is_for_others && line.file.is_none());
    assert_eq!(
        all,
        "--log-level warn run --gpu=7 --alert-set high_memory.for=10m --require-gpu --price=2 --alerts=optimization -- \
         train --price 1"
    );
    let (line, all) = with(&["agent", "--config", "a.yaml", "--price", "3"]);
    assert_eq!(line.file.as_deref(), Some(Path::new("a.yaml")));
    assert!(line.is_configured && !line.is_for_others);
    assert_eq!(
        all,
        "agent --config a.yaml --price 3 --log-level=debug --gpu=0 --gpu=1 --require-gpu --alerts=optimization"
    );
    let (line, all) = with(&["--config=b.yaml", "bill", "a.json"]);
    assert!(!line.is_configured);
    assert_eq!(line.file.as_deref(), Some(Path::new("b.yaml")));
    assert_eq!(all, "--config=b.yaml bill a.json --log-level=debug");
    let (_, all) = with(&["audit", "log.csv"]);
    assert_eq!(all, "audit log.csv --log-level=debug --price=2 --alerts=optimization");
}

#[test]
fn changes_are_those_that_the_command_line_leaves_to_the_file() {
    let parse = |text: &str| {
        let configuration = FORMAT.parse(text, Strictness::Own, &environment);
        assert_eq!(configuration.findings(), [], "{text}");
        configuration
    };
    let before = parse(
        "file_format: \"1.1\"\nlog_level: info\nmeter_provider: {readers: [{periodic: {interval: 1000, exporter: \
         {otlp_http: }}}]}\nresource: {attributes_list: a=1}\ndistribution: {phasemeter: {prices: {usd_per_gpu_hour: 2}, \
         gpus: {interval: 1}}}\n",
    );
    let after = parse(
        "file_format: \"1.1\"\nlog_level: debug\nmeter_provider:\n  readers:\n  - periodic:\n      interval: 2000\n      \
         exporter: {otlp_http: {endpoint: http://b}}\ndistribution:\n  phasemeter:\n    prices: {usd_per_gpu_hour: 3}\n    \
         holders: {pods: true}\n",
    );
    let changes = |arguments: &[&str]| {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let changes = FORMAT.command_line(&arguments).changes(&before, &after);
        changes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let of_run = [
        "distribution.phasemeter.gpus.interval",
        "resource.attributes",
        "2: log_level",
        "6: meter_provider.readers[0].periodic.interval",
        "7: meter_provider.readers[0].periodic.exporter.otlp_http.endpoint",
        "10: distribution.phasemeter.prices.usd_per_gpu_hour",
    ];
    assert_eq!(changes(&["run"]), of_run);
    // What is given does not change, and `run` has no pods.
    assert_eq!(changes(&["run", "--price=9", "--interval=1"]), of_run[1..5]);
    assert!(changes(&["agent"]).contains(&"11: distribution.phasemeter.holders.pods".to_owned()));
    let none = FORMAT.command_line(&["run".into()]).changes(&after, &after);
    assert_eq!(none, []);
}

#[test]
fn options_that_do_not_go_together_are_conflicts() {
    let text = "file_format: \"1.1\"\ndistribution: {phasemeter: {report: {every: 1h}}}\n";
    let configuration = FORMAT.parse(text, Strictness::Own, &environment);
    assert_eq!(configuration.findings(), []);
    let conflicts = FORMAT.conflicts(&configuration);
    assert!(
        conflicts[0].contains("--report <FILE>") && !conflicts[0].contains('\n'),
        "{conflicts:?}"
    );
}

/// The schema itself is valid, and nothing in it is left unchecked.
#[test]
fn schema_is_valid_and_uses_what_is_implemented() {
    let schema = FORMAT.schema();
    jsonschema::meta::validate(schema).unwrap();
    let known = [
        "$ref",
        "additionalProperties",
        "enum",
        "exclusiveMinimum",
        "items",
        "maxProperties",
        "maximum",
        "minItems",
        "minProperties",
        "minimum",
        "oneOf",
        "properties",
        "required",
        "type",
    ];
    let comments = [
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "default",
        "description",
        "isSdkExtensionPlugin",
        "title",
    ];
    fn keywords(schema: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
        let Some(object) = schema.as_object() else { return };
        for (keyword, value) in object {
            found.insert(keyword.clone());
            match keyword.as_str() {
                "properties" | "$defs" => {
                    value.as_object().unwrap().values().for_each(|it| keywords(it, found));
                }
                "items" | "additionalProperties" => keywords(value, found),
                "oneOf" => value.as_array().unwrap().iter().for_each(|it| keywords(it, found)),
                _ => {}
            }
        }
    }
    let mut found = std::collections::BTreeSet::new();
    keywords(schema, &mut found);
    let unknown: Vec<_> = found
        .iter()
        .filter(|it| !known.contains(&it.as_str()) && !comments.contains(&it.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn reference_page_is_that_of_the_tables() {
    compare(&root().join("docs/reference/configuration.md"), &FORMAT.page());
}
