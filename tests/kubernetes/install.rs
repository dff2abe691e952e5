//! The Helm chart, installed as its users do: agent, gateway, monitors, rules; jobs and servers with sidecars beside it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agent::{bills, devices};
use crate::chart::{directory, template};
use crate::metering::metered_seconds;
use crate::node::{Node, in_path, kubectl, node, output, wait_until};

const NAMESPACE: &str = "metering";
/// Directories of the node, apart from those of another agent.
const SOCKET: &str = "/run/phasemeter-chart";
const STATE: &str = "/var/lib/phasemeter-chart";

/// Guarantee: the API server admits everything that the chart and the plain manifests have. The chart installs; its agent
/// bills a training job and an inference server, whose sidecars leave cost to it, so that all sums to the bill; its gateway
/// is ready, with a volume of its own, and answers where the ServiceMonitor says. Upgrade and rollback change its price. After
/// `helm uninstall` only the volume is left.
#[test]
fn chart_installs_meters_and_leaves() {
    let Some(node) = node() else { return };
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    prepare(&dir);
    admit(&dir);
    let values = dir.join("values.json");
    fs::write(&values, values_of_test().to_string()).unwrap();

    let mut install = helm("install");
    install.arg("phasemeter").arg(directory()).arg("--values").arg(&values);
    println!("{}", output(install.args(["--wait", "--timeout=120s"])));
    rolled_out("daemonset/phasemeter-agent");
    rolled_out("statefulset/phasemeter-gateway");
    assert!(scraped(node).contains("phasemeter_"));

    let workloads = [("training", "Job"), ("inference", "Deployment")].map(|(name, kind)| {
        let file = dir.join(format!("{name}.json"));
        fs::write(&file, example(name, kind).to_string()).unwrap();
        kubectl(&["apply", "-f", &file.to_string_lossy()]);
        file
    });
    kubectl(&["wait", "job/training", "--for=condition=Complete", "--timeout=120s"]);
    rolled_out_in("default", "deployment/inference");
    let [training, inference] = ["training", "inference"].map(pod_of);
    let given = devices(node, &inference);
    let sidecar = node.logs(&training, "phasemeter");
    assert!(sidecar.contains("those of this pod, by the node agent"), "{sidecar}");
    assert!(sidecar.contains("4bf92f3577b34da6a3ce929d0e0e4736"), "{sidecar}");
    assert!(metered_seconds(&sidecar) > 2.0, "{sidecar}");
    for file in workloads {
        kubectl(&["delete", "-f", &file.to_string_lossy(), "--wait=true"]);
    }

    upgraded(&[
        "upgrade",
        "phasemeter",
        &directory().to_string_lossy(),
        "--reuse-values",
        "--set-string=price.perGpuHour=4",
    ]);
    assert!(arguments().contains("--price=4"), "{}", arguments());
    // The agent before has left its report.
    let report = fs::read(Path::new(STATE).join("report.json")).unwrap();
    let bills = bills(&serde_json::from_slice(&report).unwrap());
    for pod in [&training, &inference] {
        let own: Vec<_> = bills.iter().filter(|bill| bill.pod == *pod).collect();
        assert_eq!(own.len(), 1, "{bills:#?}");
        assert_eq!(own[0].method, "exclusive");
        assert!(own[0].used.abs_diff(own[0].cost * 97 / 100) <= 2, "{own:#?}");
    }
    let gpus = |pod: &str| -> Vec<_> {
        bills.iter().filter(|bill| bill.pod == pod).map(|bill| bill.gpu.clone()).collect()
    };
    assert_eq!(gpus(&inference), given);

    upgraded(&["rollback", "phasemeter", "1"]);
    assert!(arguments().contains("--price=3"), "{}", arguments());

    output(helm("uninstall").args(["phasemeter", "--wait"]));
    let kinds = "all,serviceaccounts,clusterroles,clusterrolebindings,networkpolicies,servicemonitors,podmonitors,\
                 prometheusrules";
    let selector = "--selector=app.kubernetes.io/name=phasemeter";
    wait_until("the end of all objects", || {
        kubectl(&["get", kinds, "--all-namespaces", selector, "--output=name"]).is_empty()
    });
    let volume = kubectl(&["get", "persistentvolumeclaims", "-n", NAMESPACE, "--output=name"]);
    assert_eq!(volume, "persistentvolumeclaim/state-phasemeter-gateway-0\n");
    kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]);
}

/// Definitions of Prometheus Operator, namespaces, secrets of the gateway, and a volume: the node has no provisioner.
fn prepare(dir: &Path) {
    let definitions = in_path("prometheus-operator.yaml");
    kubectl(&["apply", "--server-side", "-f", &definitions.to_string_lossy()]);
    let established = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
    kubectl(&established);
    for namespace in [NAMESPACE, "phasemeter"] {
        kubectl(&["create", "namespace", namespace]);
        let label = "pod-security.kubernetes.io/enforce=privileged";
        kubectl(&["label", "namespace", namespace, label]);
    }
    let [key, certificate] = ["tls.key", "tls.crt"].map(|name| dir.join(name));
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]);
    openssl.args(["-days", "2", "-subj", "/CN=gateway", "-keyout"]);
    output(openssl.arg(&key).arg("-out").arg(&certificate));
    let [key, certificate] = [("key", key), ("cert", certificate)]
        .map(|(name, file)| format!("--{name}={}", file.display()));
    kubectl(&["create", "secret", "tls", "gateway-tls", "-n", NAMESPACE, &key, &certificate]);
    let token = "--from-literal=token=0123456789abcdef0123456789abcdef";
    kubectl(&["create", "secret", "generic", "gateway-token", "-n", NAMESPACE, token]);

    let volume = "/var/lib/phasemeter-gateway";
    fs::create_dir_all(volume).unwrap();
    let node = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["node"] });
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": "gateway" },
        "spec": {
            "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"],
            "local": { "path": volume },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [node] }] } },
        },
    });
    let file = dir.join("volume.json");
    fs::write(&file, volume.to_string()).unwrap();
    kubectl(&["apply", "-f", &file.to_string_lossy()]);
}

/// The API server admits all objects, and none of their fields is unknown.
fn admit(dir: &Path) {
    let everything = dir.join("everything.yaml");
    fs::write(&everything, template(&[])).unwrap();
    let manifests = directory().join("../manifests");
    let plain = ["agent.yaml", "agent-dra.yaml", "gateway.yaml"].map(|name| manifests.join(name));
    let examples = ["training", "inference"].map(example_file);
    for file in plain.iter().chain(&examples).chain([&everything]) {
        let file = file.to_string_lossy();
        kubectl(&["apply", "--dry-run=server", "--validate=strict", "-f", &file]);
    }
}

/// As for real GPUs, but for the driver, which NVIDIA's container runtime adds, and directories of the node.
fn values_of_test() -> Value {
    json!({
        "image": { "pullPolicy": "Never" },
        "otlp": { "endpoint": "http://127.0.0.1:9" },
        "clusterName": "test",
        "price": { "perGpuHour": "3" },
        "policies": { "default": false },
        "agent": {
            "claims": true,
            "socketDirectory": SOCKET,
            "stateDirectory": STATE,
            "extraEnv": [
                { "name": "LD_LIBRARY_PATH", "value": "/run/fake-nvml" },
                { "name": "FAKE_NVML_SCRIPT", "value": "/run/fake-nvml/all.toml" },
            ],
            "volumes": [{ "name": "driver", "hostPath": { "path": "/run/fake-nvml" } }],
            "volumeMounts": [{ "name": "driver", "mountPath": "/run/fake-nvml", "readOnly": true }],
        },
        "gateway": {
            "enabled": true,
            "tlsSecret": "gateway-tls",
            "token": { "secret": "gateway-token" },
        },
        "networkPolicy": { "enabled": true },
        "serviceMonitor": { "enabled": true },
        "podMonitor": { "enabled": true },
        "prometheusRule": { "enabled": true },
    })
}

/// An example, with an image of this node that does some work, and the socket of the agent of this test.
fn example(name: &str, kind: &str) -> Value {
    let file = example_file(name);
    let text =
        kubectl(&["create", "--dry-run=client", "-o", "json", "-f", &file.to_string_lossy()]);
    let mut object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["kind"], kind);
    let pod = &mut object["spec"]["template"]["spec"];
    // The server of this test ignores SIGTERM.
    pod["terminationGracePeriodSeconds"] = json!(5);
    let main = &mut pod["containers"][0];
    main["image"] = json!("localhost/workload:1");
    main["command"] = json!(["sleep", if kind == "Job" { "6" } else { "3600" }]);
    main["args"] = json!([]);
    let volumes = pod["volumes"].as_array_mut().unwrap();
    let agent = volumes.iter_mut().find(|volume| volume["name"] == "agent").unwrap();
    agent["hostPath"]["path"] = json!(SOCKET);
    object
}

fn example_file(name: &str) -> PathBuf {
    directory().join("../manifests/examples").join(name).with_extension("yaml")
}

fn helm(verb: &str) -> Command {
    let mut helm = Command::new("helm");
    helm.arg(verb).args(["--namespace", NAMESPACE]);
    helm
}

/// Changes the release, and waits until its agent and gateway are the new ones.
fn upgraded(arguments: &[&str]) {
    output(helm(arguments[0]).args(&arguments[1..]));
    rolled_out("daemonset/phasemeter-agent");
    rolled_out("statefulset/phasemeter-gateway");
}

fn rolled_out(what: &str) {
    rolled_out_in(NAMESPACE, what);
}

fn rolled_out_in(namespace: &str, what: &str) {
    kubectl(&["rollout", "status", what, "-n", namespace, "--timeout=120s"]);
}

/// The name of the only pod of a workload.
fn pod_of(name: &str) -> String {
    let selector = format!("--selector=app.kubernetes.io/name={name}");
    let path = "--output=jsonpath={.items[*].metadata.name}";
    let pods = kubectl(&["get", "pods", &selector, path]);
    if pods.is_empty() {
        kubectl(&["get", "pods", &format!("--selector=job-name={name}"), path])
    } else {
        pods
    }
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
