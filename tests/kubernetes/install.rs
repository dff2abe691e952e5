//! The Helm chart, installed as its users do: agent, gateway, monitors, rules; jobs and servers with sidecars beside it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{Bill, bills, devices};
use crate::metering::metered_seconds;
use crate::node::{Node, kubectl, node, wait_until};
use crate::page::Page;
use crate::release::{NAMESPACE, STATE, admit, example, make_policy, prepare, values_of_test};

/// How long the last agent runs: some readings.
const METERED: Duration = Duration::from_secs(4);

/// Guarantee: the API server admits everything that the chart and the plain manifests have. The commands of the page install
/// the chart; its agent, with a signed policy from a ConfigMap, then from an image, bills a training job and an inference server, whose sidecars
/// leave cost to it, so that all sums to the bill; its gateway is ready, with a volume of its own, and answers where the
/// ServiceMonitor says. Upgrade and rollback change the price, also to that of a label of the node. After `helm uninstall` only
/// the volume is left.
#[test]
fn chart_installs_meters_and_leaves() {
    let Some(node) = node() else { return };
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let page = Page::new(&dir);
    prepare(&dir);
    let values = dir.join("values.json");
    fs::write(&values, values_of_test().to_string()).unwrap();
    let more = format!("--values {}", values.display());

    for command in page.commands("2. Install the agent") {
        let is_install = command.starts_with("helm install");
        if is_install {
            make_policy(&dir);
            admit(&dir);
        }
        page.run(&command, if is_install { &more } else { "" });
    }
    for command in page.commands("4. Add the gateway") {
        page.run(&command, "");
    }
    for command in page.commands("5. Add Prometheus Operator") {
        page.run(&command, "");
    }
    rolled_out("phasemeter", "daemonset/phasemeter-agent");
    rolled_out("phasemeter", "statefulset/phasemeter-gateway");
    assert!(scraped(node).contains("phasemeter_"));

    let workloads = [("training", "Job"), ("inference", "Deployment")].map(|(name, kind)| {
        let file = dir.join(format!("{name}.json"));
        fs::write(&file, example(name, kind).to_string()).unwrap();
        kubectl(&["apply", "-f", &file.to_string_lossy()]);
        file
    });
    kubectl(&["wait", "job/training", "--for=condition=Complete", "--timeout=120s"]);
    rolled_out("default", "deployment/inference");
    let [training, inference] = ["training", "inference"].map(pod_of);
    let given = devices(node, &inference);
    // The sidecar ends after the job, once it has the agent's accounts.
    let log = || node.logs(&training, "phasemeter");
    wait_until("the report of the sidecar", || log().contains("4bf92f3577b34da6a3ce929d0e0e4736"));
    let sidecar = log();
    assert!(sidecar.contains("those of this pod, by the node agent"), "{sidecar}");
    assert!(metered_seconds(&sidecar) > 2.0, "{sidecar}");
    for file in workloads {
        kubectl(&["delete", "-f", &file.to_string_lossy(), "--wait=true"]);
    }

    let last = page.commands("Upgrade, roll back, uninstall");
    let [upgrade, rollback, uninstall] = last.as_slice() else { panic!("{last:?}") };
    page.run(upgrade, "");
    rolled_out("phasemeter", "daemonset/phasemeter-agent");
    assert!(arguments().contains("--price=4"), "{}", arguments());
    // The agent before has left its report.
    let (report, bills) = last_report();
    evaluated(&report);
    for pod in [&training, &inference] {
        let own: Vec<_> = bills.iter().filter(|bill| bill.pod == *pod).collect();
        assert_eq!(own.len(), 1, "{bills:#?}");
        assert_eq!(own[0].method, "exclusive");
        assert!(own[0].used.abs_diff(own[0].cost * 97 / 100) <= 2, "{own:#?}");
    }
    let own = bills.iter().filter(|bill| bill.pod == inference);
    assert_eq!(own.map(|bill| bill.gpu.clone()).collect::<Vec<_>>(), given);

    page.run(rollback, "");
    rolled_out("phasemeter", "daemonset/phasemeter-agent");
    assert!(arguments().contains("--price=3"), "{}", arguments());

    let policies = "policies.configMap=,policies.image=localhost/policies:1";
    let label = "price.byNodeLabel[0].label=kubernetes.io/hostname,price.byNodeLabel[0].value=node";
    let upgrade =
        upgrade.replace("--set-string", &format!("--set {label},{policies} --set-string"));
    page.run(&upgrade.replace("perGpuHour=4", "byNodeLabel[0].usd=5"), "");
    rolled_out("phasemeter", "daemonset/phasemeter-agent");
    thread::sleep(METERED);
    page.run(uninstall, "--wait");
    let kinds = "all,serviceaccounts,clusterroles,clusterrolebindings,networkpolicies,servicemonitors,podmonitors,\
                 prometheusrules";
    let selector = "--selector=app.kubernetes.io/name=phasemeter";
    wait_until("the end of all objects", || {
        kubectl(&["get", kinds, "--all-namespaces", selector, "--output=name"]).is_empty()
    });
    let (report, _) = last_report();
    evaluated(&report);
    assert_eq!(report["gpus"][0]["rate_usd_per_gpu_hour"], "5.000000000", "{report:#}");
    // What no agent has metered, since they were replaced, is not billed in silence.
    let assumptions = report["assumptions"].to_string();
    assert!(assumptions.contains("between an earlier run and this one"), "{assumptions}");
    let volume = kubectl(&["get", "persistentvolumeclaims", "-n", NAMESPACE, "--output=name"]);
    assert_eq!(volume, "persistentvolumeclaim/state-phasemeter-gateway-0\n");
    for command in page.commands("Without Helm") {
        page.run(&command, "--dry-run=server");
    }
    kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
}

/// The signed policy has been accepted.
fn evaluated(report: &Value) {
    let policies = report["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 1, "{policies:#?}");
    assert_eq!((&policies[0]["name"], &policies[0]["error"]), (&json!("memory"), &Value::Null));
}

/// The report of the agent, and what pods pay by it.
fn last_report() -> (Value, Vec<Bill>) {
    let report = fs::read(Path::new(STATE).join("report.json")).unwrap();
    let report = serde_json::from_slice(&report).unwrap();
    let bills = bills(&report);
    (report, bills)
}

fn rolled_out(namespace: &str, what: &str) {
    kubectl(&["rollout", "status", what, "-n", namespace, "--timeout=120s"]);
}

/// The name of the only pod of a workload.
fn pod_of(name: &str) -> String {
    let selector = format!("--selector=app.kubernetes.io/name={name}");
    let path = "--output=jsonpath={.items[*].metadata.name}";
    kubectl(&["get", "pods", &selector, path])
}

/// Arguments of the agent.
fn arguments() -> String {
    let path = "--output=jsonpath={.items[*].spec.containers[0].args}";
    let selector = "--selector=app.kubernetes.io/component=agent";
    kubectl(&["get", "pods", "-n", NAMESPACE, selector, path])
}

/// What Prometheus would get: the port and path of the ServiceMonitor, at the address of the pod that its Service selects.
fn scraped(node: &Node) -> String {
    let get = |kind: &str| node.get(&[kind, "phasemeter-gateway", "-n", NAMESPACE]);
    let endpoint = get("servicemonitor")["spec"]["endpoints"][0].clone();
    assert_eq!(endpoint["honorLabels"], true);
    let subset = get("endpoints")["subsets"][0].clone();
    let port =
        subset["ports"].as_array().unwrap().iter().find(|port| port["name"] == endpoint["port"]);
    let (address, port) = (subset["addresses"][0]["ip"].as_str().unwrap(), &port.unwrap()["port"]);
    let mut page = String::new();
    wait_until("a page of metrics", || {
        page.clear();
        let Ok(mut stream) = TcpStream::connect(format!("{address}:{port}")) else { return false };
        let path = endpoint["path"].as_str().unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
            .unwrap();
        stream.read_to_string(&mut page).is_ok() && page.starts_with("HTTP/1.1 200")
    });
    page
}
