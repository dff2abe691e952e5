//! The node of these tests, and what users do with one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, thread};

use serde_json::Value;

use crate::image::{Images, containerfile};
use crate::plugin::Plugin;

/// How long anything on the node may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A node with images and GPUs.
pub(crate) struct Node {
    _plugin: Plugin,
}

/// The objects of a file in `manifests`, which exist until this is dropped.
pub(crate) struct Applied {
    file: PathBuf,
}

/// The node that `node/run` has started, with images and GPUs; `None` without one, and the test that calls this is
/// reported as skipped.
pub(crate) fn node() -> Option<&'static Node> {
    static NODE: OnceLock<Node> = OnceLock::new();
    let Some(dir) = env::var_os("PHASEMETER_NODE") else {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        let skipped = format!("\nSKIPPED: {test} (no node): run `make test-kubernetes`\n");
        // Not captured, as what `println!` prints is.
        std::io::Write::write_all(&mut std::io::stdout(), skipped.as_bytes()).unwrap();
        return None;
    };
    Some(NODE.get_or_init(|| Node::set_up(Path::new(&dir))))
}

impl Node {
    fn set_up(dir: &Path) -> Self {
        let began = Instant::now();
        let images = Images::new(&dir.join("images"));
        let pause = images.root("pause", &[(&in_path("pause"), "pause")]);
        images.import_for_test("localhost/pause:1", r#"ENTRYPOINT ["/pause"]"#, &[&pause]);
        let phasemeter = images.phasemeter(&phasemeter());
        let name = concat!("docker.io/library/phasemeter:", env!("CARGO_PKG_VERSION"));
        images.import(name, &containerfile(), &[&phasemeter]);
        let tag = ["-n", "k8s.io", "images", "tag", name, "localhost/phasemeter:1"];
        output(Command::new("ctr").args(tag));
        let tools =
            ["sh", "env", "sleep", "cat"].map(|tool| (in_path(tool), format!("usr/bin/{tool}")));
        let tools = tools.each_ref().map(|(file, path)| (file.as_path(), path.as_str()));
        let tools = images.root("tools", &tools);
        images.import_for_test("localhost/workload:1", "", &[&phasemeter, &tools]);

        println!("images after {:.1} s", began.elapsed().as_secs_f64());
        let node = Self { _plugin: Plugin::start(dir) };
        kubectl(&["apply", "-f", &manifest("device-class").to_string_lossy()]);
        wait_until("the device plugin's GPUs", || {
            kubectl(&["get", "node", "node", "-o", "jsonpath={.status.allocatable}"])
                .contains(r#""nvidia.com/gpu":"4""#)
        });
        wait_until("the DRA driver's GPUs", || {
            !kubectl(&["get", "resourceslices", "-o", "name"]).is_empty()
        });
        println!("GPUs after {:.1} s", began.elapsed().as_secs_f64());
        node
    }

    /// Sets labels of the node, and the ID that its cloud has given it.
    pub(crate) fn describe(&self, labels: &[&str], provider: &str) {
        kubectl(&[&["label", "node", "node", "--overwrite"], labels].concat());
        let patch = serde_json::json!({"spec": {"providerID": provider}}).to_string();
        kubectl(&["patch", "node", "node", "--patch", &patch]);
    }

    /// Creates the objects of this file.
    pub(crate) fn apply(&self, name: &str) -> Applied {
        let file = manifest(name);
        kubectl(&["apply", "-f", &file.to_string_lossy()]);
        Applied { file }
    }

    /// Waits until a pod is ready.
    pub(crate) fn wait_ready(&self, pod: &str) {
        let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
        kubectl(&["wait", "pod", pod, "--for=condition=Ready", &timeout]);
    }

    /// Waits until all main containers of a pod have ended without an error.
    pub(crate) fn wait_succeeded(&self, pod: &str) {
        let mut phase = String::new();
        wait_until(pod, || {
            phase = kubectl(&["get", "pod", pod, "-o", "jsonpath={.status.phase}"]);
            phase == "Succeeded" || phase == "Failed"
        });
        assert_eq!(phase, "Succeeded", "{}", kubectl(&["describe", "pod", pod]));
    }

    /// Deletes a pod, and waits until it is gone, or another one has its name.
    pub(crate) fn delete(&self, pod: &str) {
        kubectl(&["delete", "pod", pod, "--wait=true"]);
    }

    /// A pod; `None` if there is none with this name.
    pub(crate) fn find(&self, pod: &str) -> Option<Value> {
        let found = kubectl(&["get", "pod", pod, "-o", "json", "--ignore-not-found"]);
        (!found.is_empty()).then(|| serde_json::from_str(&found).unwrap())
    }

    /// What a container has printed.
    pub(crate) fn logs(&self, pod: &str, container: &str) -> String {
        kubectl(&["logs", pod, "-c", container])
    }

    /// An object, or a list of them.
    pub(crate) fn get(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&kubectl(&[&["get", "-o", "json"], arguments].concat())).unwrap()
    }

    /// What PodResources of the kubelet lists of a container.
    pub(crate) fn pod_resources(&self, pod: &str, container: &str) -> Value {
        let list: Value =
            serde_json::from_str(&output(Command::new("gpu-plugin").arg("list"))).unwrap();
        let named = |list: &Value, name: &str| {
            let found =
                list.as_array().and_then(|list| list.iter().find(|entry| entry["name"] == name));
            found.unwrap_or_else(|| panic!("no {name} in {list}")).clone()
        };
        named(&named(&list["pod_resources"], pod)["containers"], container)
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        if thread::panicking() {
            let pods = Command::new("kubectl").args(["describe", "-f"]).arg(&self.file).output();
            eprintln!(
                "{}",
                String::from_utf8_lossy(&pods.map(|pods| pods.stdout).unwrap_or_default())
            );
        }
        let file = &self.file;
        let _ = Command::new("kubectl")
            .args(["delete", "--now", "--wait=false", "-f"])
            .arg(file)
            .output();
    }
}

/// The output of a command, which must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The output of `kubectl`, which must succeed.
pub(crate) fn kubectl(arguments: &[&str]) -> String {
    output(Command::new("kubectl").args(arguments))
}

fn manifest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests").join(name).with_extension("yaml")
}

/// The program that a shell would run.
pub(crate) fn in_path(program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap();
    let found = env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("no {program} in PATH"))
}

/// The bill of a report on this machine, by this dimension.
pub(crate) fn bill(report: &str, by: &str) -> Value {
    let arguments = ["bill", report, "--by", by, "--idle", "separate", "--format", "json"];
    serde_json::from_str(&output(Command::new(phasemeter()).args(arguments))).unwrap()
}

/// The binary: that of `PHASEMETER`, else the one that cargo built beside this test.
pub(crate) fn phasemeter() -> PathBuf {
    let beside = || env::current_exe().unwrap().parent().unwrap().with_file_name("phasemeter");
    let program = env::var_os("PHASEMETER").map_or_else(beside, PathBuf::from);
    assert!(program.is_file(), "no {}: build it, or set PHASEMETER", program.display());
    program
}

pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < TIMEOUT, "{what}: nothing after {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(200));
    }
}
