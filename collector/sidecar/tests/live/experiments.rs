//! Experiments that the workload begins, tags and ends on its socket.

use std::collections::BTreeMap;
use std::fs;

use crate::otlp::{self, Attributes};
use crate::python::python;
use crate::run::{PARENT, run_with_report, stderr};
use crate::{Rig, unless_stalled};

/// Begins one experiment in the given context, and another that ends with its connection.
const NOTEBOOK: &str = "
import os, socket, time
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ['PHASEMETER_SOCKET'])
def say(line):
    connection.sendall((line + '\\n').encode())
say('begin first CONTEXT')
time.sleep(1)
say('end')
time.sleep(0.5)
say('begin second')
say('tag lr=0.1')
time.sleep(1)
";

/// Scenario: two GPUs, and a notebook that runs two experiments in a part of the time.
/// Guarantee: each is a span in its own context with what its time cost; with what neither has, they
/// sum to the bill, to the nano-dollar.
#[test]
fn experiments_of_a_run_have_their_cost_and_context() {
    let Some(python) = python() else { return };
    unless_stalled(|| {
        let gpu = "[[device]]\n[[device.phase]]\nutilization = 50\n";
        let rig = Rig::new(&gpu.repeat(2));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("otlp.json");
        let script = NOTEBOOK.replace("CONTEXT", PARENT);
        let arguments = format!("--otlp-file {}", file.display());
        let (output, report) = run_with_report(&rig, &arguments, |command| {
            command.args(["--", python, "-c", &script]);
        });
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let captured = otlp::read(&fs::read_to_string(&file).unwrap());
        let spans: BTreeMap<String, (_, Attributes)> = captured
            .named("experiment")
            .into_iter()
            .map(|span| {
                let attributes = otlp::attributes(&span.attributes);
                let is_run = attributes.contains_key("process.pid");
                let id = attributes["phasemeter.experiment.id"].clone();
                (if is_run { "run".to_owned() } else { id }, (span, attributes))
            })
            .collect();
        assert_eq!(spans.keys().collect::<Vec<_>>(), ["first", "run", "second"]);
        let hex = |bytes: &[u8]| bytes.iter().map(|it| format!("{it:02x}")).collect::<String>();
        let (first, run, second) = (&spans["first"], &spans["run"], &spans["second"]);
        assert!(PARENT.contains(&hex(&first.0.trace_id)));
        assert!(PARENT.contains(&hex(&first.0.parent_span_id)));
        assert_eq!(second.0.trace_id, run.0.trace_id);
        assert_eq!(second.0.parent_span_id, run.0.span_id);
        assert_eq!(second.1["phasemeter.experiment.tag.lr"], "0.1");

        let number = |(_, attributes): &(_, Attributes), key: &str| -> f64 {
            attributes[&format!("phasemeter.span.{key}")].parse().unwrap()
        };
        for experiment in [first, second] {
            let span = experiment.0;
            let length = (span.end_time_unix_nano - span.start_time_unix_nano) as f64 / 1e9;
            let gpu_seconds = number(experiment, "gpu_seconds");
            assert!((gpu_seconds - 2.0 * length).abs() < 1e-6, "{gpu_seconds} of {length} s");
            // A nano-dollar per microsecond.
            let cost = number(experiment, "cost");
            assert!((cost - gpu_seconds / 1e3).abs() < 1e-6, "${cost} for {gpu_seconds} s");
            let utilization = number(experiment, "utilization");
            assert!((utilization - 0.5).abs() < 0.01, "{utilization}");
            assert!(number(experiment, "energy") > 0.0);
        }
        let sum = number(first, "cost") + number(second, "cost") + number(run, "unattributed");
        let bill: f64 = report["cost"]["total_usd"].as_str().unwrap().parse().unwrap();
        assert!((sum - bill).abs() < 1e-12, "{sum} ≠ {bill}");

        // In the report they sum to the nano-dollar.
        let experiments = &report["experiments"];
        let listed = experiments["listed"].as_array().unwrap();
        let ids: Vec<_> = listed.iter().map(|experiment| &experiment["id"]).collect();
        assert_eq!(ids, ["first", "second"]);
        assert_eq!(listed[1]["tags"], serde_json::json!({"lr": "0.1"}));
        assert_eq!(listed[0]["trace_id"], hex(&first.0.trace_id));
        let nanos = |value: &serde_json::Value| -> i64 {
            value.as_str().unwrap().replace('.', "").parse().unwrap()
        };
        let costs = listed.iter().map(|experiment| nanos(&experiment["cost_usd"])).sum::<i64>();
        let rest = nanos(&experiments["unattributed_usd"]);
        assert_eq!(costs + rest, nanos(&report["cost"]["total_usd"]));
        let text = stderr(&output);
        assert!(text.contains("first: $0.00") && text.contains("unattributed: $0.00"), "{text}");
    });
}
