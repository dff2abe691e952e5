//! The Helm chart: values, schema, README and plain manifests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::node::{node, output};

/// Guarantee: each set of values passes `helm lint`, and the schema rejects a value that the chart does not have.
#[test]
fn chart_is_linted() {
    let Some(_node) = node() else { return };
    let sets = fs::read_dir(directory().join("ci")).unwrap();
    let mut linted = 0;
    for set in sets {
        output(lint().arg("--values").arg(set.unwrap().path()));
        linted += 1;
    }
    assert!(linted >= 4);

    let misspelled = lint().args(["--set", "agent.claim=true"]).output().unwrap();

    let text = String::from_utf8(misspelled.stdout).unwrap();
    assert!(!misspelled.status.success() && text.contains("claim"), "{text}");
}

/// Guarantee: each value has an example, which changes what is rendered, and a row of the README.
#[test]
fn every_value_has_an_effect_and_a_row() {
    let Some(_node) = node() else { return };
    let schema = fs::read(directory().join("values.schema.json")).unwrap();
    let mut examples = Vec::new();
    collect("", &serde_json::from_slice(&schema).unwrap(), &mut examples);
    let rendered = template(&[]);

    for (path, example) in &examples {
        let changed = template(&["--set-json", &format!("{path}={example}")]);
        assert_ne!(changed, rendered, "{path}={example} changes nothing");
    }

    let readme = fs::read_to_string(directory().join("README.md")).unwrap();
    let is_type = |cell: &str| ["string", "bool", "int", "list", "object"].contains(&cell);
    let rows: BTreeSet<_> = readme
        .lines()
        .map(|line| line.split(" | ").collect::<Vec<_>>())
        .filter(|cells| cells.len() >= 4 && is_type(cells[1]))
        .map(|cells| cells[0].trim_start_matches("| ").to_owned())
        .collect();
    assert_eq!(rows, examples.into_iter().map(|(path, _)| path).collect());
}

/// Guarantee: plain manifests and README are what the chart renders.
#[test]
fn manifests_are_rendered_from_chart() {
    let Some(_node) = node() else { return };
    let manifests = directory().join("../manifests");
    let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("manifests");
    fs::create_dir_all(&fresh).unwrap();
    let mut render = Command::new(manifests.join("render.sh"));
    output(render.arg(&fresh).arg(fresh.join("README.md")));

    for name in ["agent.yaml", "agent-dra.yaml", "gateway.yaml"] {
        assert_same(&manifests.join(name), &fresh.join(name));
    }
    assert_same(&directory().join("README.md"), &fresh.join("README.md"));
}

/// The directory of the chart.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../otel-config/chart")
}

fn assert_same(committed: &Path, fresh: &Path) {
    let [a, b] = [committed, fresh].map(|file| fs::read_to_string(file).unwrap());
    assert!(a == b, "{}: run make manifests", committed.display());
}

fn lint() -> Command {
    let mut lint = Command::new("helm");
    lint.args(["lint", "--strict"]).arg(directory());
    lint
}

/// What the chart renders with everything that it has, and with these arguments.
pub(crate) fn template(arguments: &[&str]) -> String {
    let mut helm = Command::new("helm");
    helm.args(["template", "phasemeter"]).arg(directory()).args(["--namespace", "phasemeter"]);
    output(helm.arg("--values").arg(directory().join("ci/everything-values.yaml")).args(arguments))
}

/// The path and the example of each value.
fn collect(path: &str, schema: &Value, examples: &mut Vec<(String, Value)>) {
    if let Some(example) = schema["examples"].get(0) {
        examples.push((path.to_owned(), example.clone()));
        return;
    }
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(&path, value, examples);
    }
}
