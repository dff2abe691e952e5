//! The image in containers of the strictest Pod Security, in 64 MiB and a tenth of a core.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::node::{kubectl, node, output, wait_until};

const POD: [&str; 4] = ["pod", "restricted", "-n", "restricted"];

/// Guarantee: `run` finds its GPU and `gateway` is ready, neither is restarted, and neither has a shell. What the start costs
/// is printed.
#[test]
fn image_starts_restricted() {
    let Some(node) = node() else { return };
    let _applied = node.apply("restricted");
    wait_until("readiness", || {
        let conditions = node.get(&POD)["status"]["conditions"].clone();
        each(&conditions).any(|it| it["type"] == "Ready" && it["status"] == "True")
    });
    let logs = || kubectl(&["logs", "restricted", "-n", "restricted", "-c", "run"]);
    wait_until("the GPU", || logs().contains("metering 1 of 1 GPUs"));

    let pod = node.get(&POD);

    let containers = &pod["status"]["containerStatuses"];
    for container in each(containers) {
        assert_eq!(container["restartCount"], 0, "{container:#}");
        let id = container["containerID"].as_str().unwrap();
        let started = container["state"]["running"]["startedAt"].as_str().unwrap();
        println!("{} started at {started}: {}", container["name"], start_cost(id));
    }
    let ready = each(&pod["status"]["conditions"]).find(|it| it["type"] == "Ready").unwrap();
    println!("ready at {}", ready["lastTransitionTime"]);
    for name in ["run", "gateway"] {
        let mut shell = Command::new("kubectl");
        shell.args(["exec", "restricted", "-n", "restricted", "-c", name, "--", "sh"]);
        let error = String::from_utf8(shell.output().unwrap().stderr).unwrap();
        assert!(error.contains(r#""sh": executable file not found"#), "{error}");
    }
}

/// CPU time that a container has used until now, and how often it had to wait for more.
fn start_cost(id: &str) -> String {
    let id = id.rsplit('/').next().unwrap();
    let mut find = Command::new("find");
    let found = output(find.args(["/sys/fs/cgroup", "-type", "d", "-name", id]));
    // With version 1, each controller has a hierarchy of its own, and so have the unified control groups beside it.
    let read = |file: &str| -> String {
        let texts = found.lines().map(|dir| fs::read_to_string(Path::new(dir).join(file)));
        texts.filter_map(Result::ok).collect()
    };
    let stat = read("cpu.stat");
    let value = |key: &str| {
        let mut words = stat.lines().filter_map(|line| line.split_once(' '));
        words.find(|(name, _)| *name == key).map(|(_, value)| value.parse::<u64>().unwrap())
    };
    let microseconds = value("usage_usec")
        .unwrap_or_else(|| read("cpuacct.usage").trim().parse::<u64>().unwrap() / 1_000);
    let throttled = value("nr_throttled").unwrap();
    format!("{} ms of CPU time, throttled in {throttled} periods of 100 ms", microseconds / 1_000)
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
