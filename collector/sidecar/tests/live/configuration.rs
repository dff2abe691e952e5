//! The configuration file of a run.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use crate::Rig;
use crate::run::{NO_POLICIES, phasemeter, run_with_report, stderr, with_command};

fn file(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("phasemeter.yaml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

#[test]
fn file_replaces_variables_but_not_contexts() {
    let rig = Rig::new("[[device]]");
    let text = "file_format: \"1.1\"\nresource: {attributes_list: \"team=${TEAM:-none},zone=a\"}\n\
                distribution: {phasemeter: {policies: {no_defaults: true}, workload: {framework: jax}}}\n";
    let (_dir, path) = file(text);
    let run = |arguments: &str| {
        let arguments = format!("--duration 0.3 --config {} {arguments}", path.display());
        let (output, report) = run_with_report(&rig, &arguments, |command| {
            command.env("OTEL_RESOURCE_ATTRIBUTES", "team=other").env("TEAM", "vision");
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://refused");
            command.env("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        });
        let log = stderr(&output);
        assert!(output.status.success() && !log.contains("ENDPOINT: "), "{log}");
        report
    };
    let report = run("");
    let attributes = &report["experiment"]["attributes"];
    let of = |key: &str| attributes[key].clone();
    assert_eq!((of("team"), of("zone")), (json!("vision"), json!("a")));
    assert_eq!(of("phasemeter.framework"), json!("jax"));
    assert!(report.to_string().contains("0af7651916cd43dd8448eb211c80319c"), "{report}");
    let report = run("--framework pytorch");
    assert_eq!(report["experiment"]["attributes"]["phasemeter.framework"], json!("pytorch"));
}

/// The file of the environment may be that of the command.
#[test]
fn file_of_a_command_never_stops_it() {
    let rig = Rig::new("[[device]]");
    for text in [
        "file_format: \"1.9\"\nnew: 1\nviews: 2\n",
        "file_format: \"1.1\"\ndistribution: {phasemeter: {gpus: {interval: soon}}}\n",
        "file_format: \"1.1\"\ndistribution: {phasemeter: {report: {every: 1h}}}\n",
        "file_format: \"0.4\"\n",
        "a: [\n",
        "",
    ] {
        let (_dir, path) = file(text);
        let mut command = with_command(&rig, NO_POLICIES, "echo ran");
        let output = command.env("OTEL_CONFIG_FILE", &path).output().unwrap();
        let log = stderr(&output);
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"ran\n"[..]), "{log}");
        assert!(log.contains(&path.display().to_string()), "{log}");

        let own = format!("--config {} {NO_POLICIES}", path.display());
        let output = with_command(&rig, &own, "echo ran").output().unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(78), &b""[..]), "{text}");
        let mut alone = phasemeter(&rig, &format!("--duration 0.1 {NO_POLICIES}"));
        let output = alone.env("OTEL_CONFIG_FILE", &path).output().unwrap();
        assert_eq!(output.status.code(), Some(78), "{text}");
    }
}

/// Such a file may be valid, and name what is not there.
#[test]
fn what_the_file_of_a_command_names_never_stops_it() {
    let rig = Rig::new("[[device]]");
    for options in [
        "prices: {books: [/missing.csv]}",
        "alerts: {rules: [/missing.toml]}",
        "report: {file: /missing/report.json}",
        "export: {headers_file: /missing}",
        "workload: {mappings: [/missing.toml]}",
    ] {
        let text = format!("file_format: \"1.1\"\ndistribution: {{phasemeter: {{{options}}}}}\n");
        let (_dir, path) = file(&text);
        let run = |arguments: &str| {
            let mut command = with_command(&rig, arguments, "echo ran");
            command.env("OTEL_CONFIG_FILE", &path).output().unwrap()
        };
        let output = run(NO_POLICIES);
        let log = stderr(&output);
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"ran\n"[..]), "{log}");
        assert!(log.contains("/missing"), "{log}");
    }
}

#[test]
fn all_problems_are_reported_at_once_with_lines() {
    let rig = Rig::new("[[device]]");
    let (_dir, path) = file(
        "file_format: \"1.1\"\ndisable: true\ndistribution:\n  phasemeter:\n    gpus:\n      interval: soon\n",
    );
    let arguments = format!("--config {}", path.display());
    let output = with_command(&rig, &arguments, "echo ran").output().unwrap();
    let path = path.display();
    let expected = format!(
        "phasemeter: {path}:2: disable: unknown key; did you mean disabled?\n\
         phasemeter: {path}:6: distribution.phasemeter.gpus.interval: invalid value: expected seconds, at least 0.01\n"
    );
    assert_eq!(stderr(&output), expected);
}
