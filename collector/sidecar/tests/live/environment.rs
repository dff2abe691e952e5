//! Variables of the environment: invalid ones, and those that name the pod.

use std::process::Command;

use serde_json::json;

use crate::Rig;
use crate::run::{NO_POLICIES, phasemeter, run_with_report, stderr, with_command};

/// The environment is that of a cluster more often than that of a command.
#[test]
fn invalid_environment_is_a_warning_unless_strict() {
    let rig = Rig::new("[[device]]");
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://x"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://["),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier pigeon"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"),
    ] {
        let change = |command: &mut Command| {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:9").env(variable, value);
        };
        for (arguments, status) in [("", 0), ("--fail-on-undelivered", 74), ("--receive", 0)] {
            let arguments = format!("{NO_POLICIES} {arguments}");
            let mut command = with_command(&rig, &arguments, "echo ran");
            change(&mut command);
            let output = command.output().unwrap();
            let log = stderr(&output);
            assert_eq!(output.status.code(), Some(status), "{arguments}: {log}");
            assert_eq!(output.stdout, b"ran\n", "{log}");
            let is_followed = log.contains("; the default is used")
                || log.contains("; what it is for is not exported");
            assert!(log.contains(variable) && is_followed, "{log}");

            let mut strict = with_command(&rig, &format!("{arguments} --strict"), "echo ran");
            change(&mut strict);
            let output = strict.output().unwrap();
            assert_eq!((output.status.code(), &*output.stdout), (Some(78), &b""[..]));
            let log = stderr(&output);
            assert!(log.contains("--strict: ") && log.contains(variable), "{log}");
        }
        for (strict, status) in [("", 0), ("--strict", 78)] {
            let mut alone = phasemeter(&rig, &format!("--duration 0.1 {NO_POLICIES} {strict}"));
            change(&mut alone);
            let output = alone.output().unwrap();
            assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        }
    }
}

/// The pod is an attribute of the workload, and changes no price.
#[test]
fn pod_that_variables_name_is_in_the_report_unless_given() {
    let rig = Rig::new("[[device]]");
    let run = |given: &str| {
        let arguments = format!("--duration 0.3 --gpu 0 {NO_POLICIES}");
        let (output, report) = run_with_report(&rig, &arguments, |command| {
            command.env("KUBERNETES_SERVICE_HOST", "10.96.0.1");
            command.env("POD_NAME", "trainer-0").env("POD_NAMESPACE", "ml");
            command.env("OTEL_RESOURCE_ATTRIBUTES", given);
        });
        assert!(output.status.success(), "{}", stderr(&output));
        let attributes = &report["experiment"]["attributes"];
        let of = |key: &str| attributes[key].clone();
        (of("k8s.pod.name"), of("k8s.namespace.name"), report["gpus"][0]["price"].clone())
    };
    let (pod, namespace, price) = run("team=vision");
    assert_eq!((pod, namespace), (json!("trainer-0"), json!("ml")));
    let (pod, namespace, other) = run("k8s.namespace.name=web");
    assert_eq!((pod, namespace), (json!(null), json!("web")), "what contradicts is not detected");
    assert_eq!(price, other);
}
