//! A Secret with headers for the backend, which the chart mounts, and which is replaced.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::backend::{Backend, Conduct};
use crate::chart::{directory, template};
use crate::node::{kubectl, node, output, wait_until};
use crate::otelcol::Otelcol;
use crate::points::{read, sums};
use crate::release::agent_of_test;
use crate::sent::{End, FILE, Sent, check};
use crate::volume::{Volume, status};

const NAMESPACE: &str = "tokens";
const POD: [&str; 3] = ["pods", "-n", NAMESPACE];

/// Scenario: the backend demands another token before the Secret has it.
/// Guarantee: the agent of the chart follows the Secret without a restart, and all that it has exported arrives.
#[test]
fn agent_of_the_chart_follows_a_secret() {
    let Some(node) = node() else { return };
    let Some(otelcol) = Otelcol::find() else { return };
    let volume = Volume::new(NAMESPACE);
    let state = volume.data();
    let backend = Backend::start(&otelcol, 34318, &volume.file("arrived.jsonl"));
    let header = |token: &str| format!("authorization=Bearer%20{token}");
    let demand = |token: &str| backend.set(Conduct::Demands(format!("Bearer {token}")));
    kubectl(&["create", "namespace", NAMESPACE]);
    let literal = format!("--from-literal=token={}", header("first"));
    kubectl(&["create", "secret", "generic", "backend", "-n", NAMESPACE, &literal]);
    demand("first");
    let mut agent = agent_of_test("/run/phasemeter-tokens", &state.to_string_lossy());
    let file = format!("--otlp-file=/var/lib/phasemeter/{FILE}");
    agent["extraArgs"] = json!(["--basis=nvml.gpu", file]);
    let values = json!({
        "image": { "pullPolicy": "Never" },
        "policies": { "default": false },
        "price": { "perGpuHour": "3" },
        "otlp": {
            "endpoint": "http://10.252.0.1:34318",
            "protocol": "http/protobuf",
            "intervalSeconds": 1,
            "headers": { "secret": "backend", "key": "token" },
        },
        "agent": agent,
    });
    fs::write(volume.file("values.json"), values.to_string()).unwrap();
    let mut install = helm(&["install", "tokens"]);
    output(install.arg(directory()).arg("--values").arg(volume.file("values.json")));
    let with = |token: &str| {
        let value = format!("Bearer {token}");
        let received = backend.received();
        received.iter().filter(|it| it.header("authorization") == Some(&value)).count()
    };
    wait_until("requests with the first token", || with("first") > 10);

    demand("second");
    wait_until("refused requests", || backend.refused() > 2);
    let secret = json!({ "stringData": { "token": header("second") } }).to_string();
    kubectl(&["patch", "secret", "backend", "-n", NAMESPACE, "--patch", &secret]);
    // The kubelet looks after a pod that changes, else within a minute.
    kubectl(&["annotate", "pods", "--all", "-n", NAMESPACE, "token=second"]);
    wait_until("requests with the second token", || with("second") > 10);
    let pods = node.get(&POD)["items"].clone();
    let pods: Vec<&Value> = pods.as_array().unwrap().iter().collect();
    let [pod] = pods[..] else { panic!("{pods:#?}") };
    assert_eq!(status(pod, "phasemeter")["restartCount"], 0, "{pod:#}");
    output(&mut helm(&["uninstall", "tokens", "--wait"]));
    wait_until("the end of the agent", || node.get(&POD)["items"] == json!([]));
    kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
    backend.stop();

    let sent = Sent::of(&state.join(FILE), End::InOrder);
    check(&sums(&read(&volume.file("arrived.jsonl"))), &[sent]);
}

/// Guarantee: agent and gateway have the file of the Secret, and no variable has its contents.
#[test]
fn secret_of_headers_is_mounted() {
    let Some(_node) = node() else { return };
    let rendered = template(&["--set", "otlp.headers.secret=one,otlp.headers.key=two"]);
    let count = |text: &str| rendered.matches(text).count();
    assert_eq!(count("value: /etc/phasemeter/headers/two"), 2);
    assert_eq!(count("{name: headers, mountPath: /etc/phasemeter/headers, readOnly: true}"), 2);
    assert_eq!(count("secret: {secretName: one}"), 2);
    assert_eq!(count("secretKeyRef"), 0);
}

fn helm(arguments: &[&str]) -> Command {
    let mut helm = Command::new("helm");
    helm.args(arguments).args(["--namespace", NAMESPACE]);
    helm
}
