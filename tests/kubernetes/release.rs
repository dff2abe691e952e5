//! What a release of the chart needs on the node of the tests: policies, a volume, definitions, values, examples.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::chart::{directory, template};
use crate::image::Images;
use crate::node::{in_path, kubectl, output, phasemeter};

pub(crate) const NAMESPACE: &str = "phasemeter";
/// Directories of the node, apart from those of another agent.
const SOCKET: &str = "/run/phasemeter-chart";
pub(crate) const STATE: &str = "/var/lib/phasemeter-chart";

/// A signed policy as ConfigMap and as image, and the key that it is signed with.
pub(crate) fn make_policy(dir: &Path) {
    let root = dir.join("policies");
    fs::create_dir_all(&root).unwrap();
    let [key, public] = ["team.key", "team.pub"].map(|name| dir.join(name));
    let policy = root.join("memory.wasm");
    fs::copy(directory().join("../../wasm-rules/dist/memory.wasm"), &policy).unwrap();
    output(Command::new("openssl").args(["genpkey", "-algorithm", "ed25519", "-out"]).arg(&key));
    output(Command::new(phasemeter()).args(["policy", "sign", "--key"]).arg(&key).arg(&policy));
    let mut openssl = Command::new("openssl");
    openssl.args(["pkey", "-pubout", "-outform", "DER", "-in"]).arg(&key);
    let der = openssl.output().unwrap().stdout;
    // The last 32 bytes are the key itself.
    let hexadecimal = der[der.len() - 32..].iter().map(|byte| format!("{byte:02x}"));
    fs::write(&public, hexadecimal.collect::<String>()).unwrap();
    let from = |file: &Path| format!("--from-file={}", file.display());
    let signature = policy.with_extension("wasm.sig");
    let create = |name: &str, files: &[&Path]| {
        let files: Vec<_> = files.iter().map(|file| from(file)).collect();
        let files = files.iter().map(String::as_str).collect::<Vec<_>>();
        kubectl(&[&["create", "configmap", name, "-n", NAMESPACE], files.as_slice()].concat());
    };
    create("policies", &[&policy, &signature]);
    create("policy-keys", &[&public]);
    Images::new(&dir.join("images")).import_for_test("localhost/policies:1", "", &[&root]);
}

/// Definitions of Prometheus Operator, and a volume for the gateway: the node has no provisioner.
pub(crate) fn prepare(dir: &Path) {
    let definitions = in_path("prometheus-operator.yaml");
    kubectl(&["apply", "--server-side", "-f", &definitions.to_string_lossy()]);
    let established = ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
    kubectl(&established);
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
pub(crate) fn admit(dir: &Path) {
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
pub(crate) fn values_of_test() -> Value {
    json!({
        "image": { "pullPolicy": "Never" },
        "policies": {
            "default": false,
            "configMap": "policies",
            "keys": { "configMap": "policy-keys", "names": ["team.pub"] },
        },
        "agent": agent_of_test(SOCKET, STATE),
        "networkPolicy": { "enabled": true },
    })
}

/// The agent, with these directories of the node.
pub(crate) fn agent_of_test(socket: &str, state: &str) -> Value {
    json!({
        "claims": true,
        "socketDirectory": socket,
        "stateDirectory": state,
        "extraEnv": [
            { "name": "LD_LIBRARY_PATH", "value": "/run/fake-nvml" },
            { "name": "FAKE_NVML_SCRIPT", "value": "/run/fake-nvml/all.toml" },
        ],
        "volumes": [{ "name": "driver", "hostPath": { "path": "/run/fake-nvml" } }],
        "volumeMounts": [{ "name": "driver", "mountPath": "/run/fake-nvml", "readOnly": true }],
    })
}

/// An example, with an image of this node that does some work, and the socket of the agent of this test.
pub(crate) fn example(name: &str, kind: &str) -> Value {
    let file = example_file(name);
    let text =
        kubectl(&["create", "--dry-run=client", "-o", "json", "-f", &file.to_string_lossy()]);
    let mut object: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(object["kind"], kind);
    let pod = &mut object["spec"]["template"]["spec"];
    if kind != "Job" {
        // The server of this test ignores SIGTERM.
        pod["terminationGracePeriodSeconds"] = json!(5);
    }
    let main = &mut pod["containers"][0];
    main["image"] = json!("localhost/workload:1");
    main["command"] = json!(["sleep", if kind == "Job" { "15" } else { "3600" }]);
    main["args"] = json!([]);
    let volumes = pod["volumes"].as_array_mut().unwrap();
    let agent = volumes.iter_mut().find(|volume| volume["name"] == "agent").unwrap();
    agent["hostPath"]["path"] = json!(SOCKET);
    object
}

fn example_file(name: &str) -> PathBuf {
    directory().join("../manifests/examples").join(name).with_extension("yaml")
}
