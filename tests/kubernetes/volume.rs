//! Directories of the node with what pods keep and what they have sent, and the processes of their containers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::node::{Node, output, wait_until};

/// So many requests of metrics show that a process exports.
const ROUNDS: usize = 4;

/// The directory `/var/lib/phasemeter-NAME` of the node.
pub(crate) struct Volume {
    dir: PathBuf,
}

impl Volume {
    /// With the directories `data` and `sent`, in which any user may write.
    pub(crate) fn new(name: &str) -> Self {
        let dir = PathBuf::from(format!("/var/lib/phasemeter-{name}"));
        for name in ["data", "sent"] {
            fs::create_dir_all(dir.join(name)).unwrap();
            fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o777)).unwrap();
        }
        Self { dir }
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// A file that is not in a volume of a pod.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A file that this pod has written.
    pub(crate) fn sent(&self, pod: &Value, name: &str) -> PathBuf {
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        self.dir.join("sent").join(uid).join(name)
    }

    /// Waits until there is a pod with this name that exports to these files, other than the one before.
    pub(crate) fn wait_for_rounds(
        &self,
        node: &Node,
        name: &str,
        before: Option<&Value>,
        files: &[&str],
    ) -> Value {
        let before = before.map(|pod| &pod["metadata"]["uid"]);
        let mut found = None;
        wait_until("another pod", || {
            found = node.find(name).filter(|pod| Some(&pod["metadata"]["uid"]) != before);
            found.is_some()
        });
        let pod = found.unwrap();
        for file in files {
            let file = self.sent(&pod, file);
            wait_until(&file.to_string_lossy(), || rounds(&file) >= ROUNDS);
        }
        node.find(name).unwrap()
    }

    /// Waits until there are some more rounds in a file of a pod.
    pub(crate) fn wait_for_more(&self, pod: &Value, file: &str) {
        let file = self.sent(pod, file);
        let until = rounds(&file) + ROUNDS;
        wait_until("more rounds", || rounds(&file) >= until);
    }

    /// Gives a file of a pod another name. A process that writes it goes on, and the next one begins another file.
    pub(crate) fn set_aside(&self, pod: &Value, file: &str) -> PathBuf {
        let path = self.sent(pod, file);
        let names = (1..).map(|number| path.with_extension(number.to_string()));
        let aside = names.into_iter().find(|aside| !aside.exists()).unwrap();
        fs::rename(&path, &aside).unwrap();
        aside
    }
}

/// Sends a signal to the process of a container of a pod.
pub(crate) fn send(pod: &Value, container: &str, signal: Signal) {
    let id = status(pod, container)["containerID"].as_str().unwrap();
    let id = id.trim_start_matches("containerd://");
    let tasks = output(Command::new("ctr").args(["-n", "k8s.io", "tasks", "list"]));
    let task = tasks.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("{tasks}"));
    let process = task.split_whitespace().nth(1).unwrap().parse().unwrap();
    kill_process(Pid::from_raw(process).unwrap(), signal).unwrap();
}

/// The status of a container of a pod.
pub(crate) fn status<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let mut each =
        lists.iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    each.find(|status| status["name"] == container).unwrap_or_else(|| panic!("{pod:#}"))
}

fn rounds(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().matches("resourceMetrics").count()
}
