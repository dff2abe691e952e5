//! The agent of the node: who pays for which GPU, over deaths and recreations of pods.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::metering::metered_seconds;
use crate::node::{bill, node, wait_until};

/// The file of the agent's report, in a directory of the node.
const REPORT: &str = "/run/phasemeter/report.json";

/// How long pods hold their GPUs: some polls, and some seconds of the GPUs.
const HELD: Duration = Duration::from_secs(4);

/// Seconds until a recreated pod is told apart from the one before.
const SETTLED: u64 = 6;

/// Labels of a node of EC2, and the price of each of its eight GPUs in nano-dollars per hour: $55.04 for all, by the price
/// book.
const LABELS: [&str; 2] =
    ["node.kubernetes.io/instance-type=p5.48xlarge", "topology.kubernetes.io/region=us-east-1"];
const PROVIDER: &str = "aws:///us-east-1a/i-0a1b";
const RATE: u64 = 6_880_000_000;

/// What a pod pays for a GPU.
#[derive(Debug)]
pub(crate) struct Bill {
    pub(crate) gpu: String,
    pub(crate) pod: String,
    uid: String,
    workload: String,
    team: Option<String>,
    start: String,
    end: Option<String>,
    pub(crate) method: String,
    pub(crate) used: u64,
    pub(crate) cost: u64,
}

/// Guarantee: on each GPU, what pods and nobody pay sums to the bill, to the nano-dollar; each pod pays for the GPUs that it
/// was given and for no other, of the load that the driver plays it used its part; a pod that is recreated under its name
/// is another one, and none pays after its end. A sidecar without a driver meters the GPU of its pod by the agent, which
/// bills that once. The price of a GPU follows from the labels of the node, and each pod has its workload and label.
#[test]
fn each_pod_pays_for_its_gpus() {
    let Some(node) = node() else { return };
    node.describe(&LABELS, PROVIDER);
    let agent = node.apply("agent");
    node.wait_ready("agent");
    let applied = node.apply("holders");
    let pods = ["one-0", "one-1", "two", "left", "right"];
    pods.iter().for_each(|pod| node.wait_ready(pod));
    let given: BTreeMap<_, _> = pods[..3].iter().map(|pod| (*pod, devices(node, pod))).collect();
    let first = uid(node, "one-0");
    thread::sleep(HELD);

    node.delete("two");
    node.delete("one-0");
    wait_until("another one-0", || {
        node.find("one-0").is_some_and(|pod| pod["metadata"]["uid"] != first.as_str())
    });
    node.wait_ready("one-0");
    let second = uid(node, "one-0");
    let beside = node.apply("beside-agent");
    node.wait_succeeded("beside");
    let [sidecar, server] = ["phasemeter", "server"].map(|it| node.logs("beside", it));
    drop(beside);
    drop(applied);
    node.delete("agent");
    drop(agent);

    let report: Value = serde_json::from_slice(&fs::read(REPORT).unwrap()).unwrap();
    let bills = bills(&report);
    let of = |pod: &str, uid: Option<&str>| -> Vec<&Bill> {
        let is_own = |bill: &&Bill| bill.pod == pod && uid.is_none_or(|uid| bill.uid == uid);
        bills.iter().filter(is_own).collect()
    };

    for gpu in report["gpus"].as_array().unwrap() {
        assert_eq!(nano_usd(&gpu["rate_usd_per_gpu_hour"]), RATE, "{gpu:#}");
        assert_eq!(gpu["price"]["instance_type"], "p5.48xlarge", "{gpu:#}");
    }
    for bill in &bills {
        let (workload, team) = match bill.pod.as_str() {
            "one-0" | "one-1" => ("StatefulSet one", Some("vision")),
            "two" => ("Pod two", Some("speech")),
            "left" => ("Pod left", Some("vision")),
            "right" => ("Pod right", None),
            _ => continue,
        };
        assert_eq!((bill.workload.as_str(), bill.team.as_deref()), (workload, team), "{bill:?}");
    }
    // By workload and by label, each row is what its pods pay, and all rows are the bill.
    let sum = |is_own: &dyn Fn(&Bill) -> bool| -> u64 {
        bills.iter().filter(|bill| is_own(bill)).map(|bill| bill.cost).sum()
    };
    let all = nano_usd(&report["cost"]["total_usd"]);
    let workloads = rows(&bill(REPORT, "workload"), "workload");
    assert_eq!(workloads.values().sum::<u64>(), all, "{workloads:?}");
    assert_eq!(
        workloads["one"],
        sum(&|bill| matches!(&*bill.pod, "one-0" | "one-1")),
        "{workloads:?}"
    );
    assert_eq!(workloads["two"], sum(&|bill| bill.pod == "two"), "{workloads:?}");
    let teams = rows(&bill(REPORT, "label:team"), "label:team");
    assert_eq!(teams.values().sum::<u64>(), all, "{teams:?}");
    for team in ["vision", "speech"] {
        assert_eq!(teams[team], sum(&|bill| bill.team.as_deref() == Some(team)), "{teams:?}");
    }

    // Each GPU of the device plugin, by the pod that the kubelet gave it to.
    let gpus = |bills: &[&Bill]| bills.iter().map(|bill| bill.gpu.clone()).collect::<Vec<_>>();
    assert_eq!(gpus(&of("one-1", None)), given["one-1"], "{bills:#?}");
    assert_eq!(gpus(&of("two", None)), given["two"], "{bills:#?}");

    // The sidecar has metered the GPU of the server's container, as the agent reads it. Neither exports.
    let own = of("beside", None);
    assert_eq!(own.len(), 1, "{bills:#?}");
    assert!(server.contains(&format!("NVIDIA_VISIBLE_DEVICES={}\n", own[0].gpu)), "{server}");
    assert!(metered_seconds(&sidecar) > 4.0, "{sidecar}");
    let read = "metering 1 of 1 GPUs, those of this pod, by the node agent";
    assert!(sidecar.contains(read), "{sidecar}");

    // The driver plays 97%, all of it that of the pods that hold the GPU, at the price of the node.
    for bill in bills.iter().filter(|bill| bill.method == "exclusive") {
        let expected = bill.cost * 97 / 100;
        assert!(bill.used.abs_diff(expected) <= 2, "{bill:?}");
        if let Some(end) = &bill.end {
            let held = nanoseconds(end) - nanoseconds(&bill.start);
            assert!(
                bill.cost.abs_diff(
                    u64::try_from(u128::from(held) * u128::from(RATE) / 3_600_000_000_000).unwrap()
                ) <= 1,
                "{bill:?}"
            );
        }
    }

    // The claim is one GPU, of which each pod has a half.
    let [left, right] = ["left", "right"].map(|pod| of(pod, None));
    assert_eq!((left.len(), right.len()), (1, 1), "{bills:#?}");
    assert_eq!(left[0].gpu, right[0].gpu);
    assert_ne!(left[0].method, "exclusive");

    // The recreated pod is another one. Until the kubelet has made its directory of logs, nothing tells them apart but
    // their GPUs: what it holds then can be charged to the one before.
    let [before, after] = [first, second].map(|uid| of("one-0", Some(&uid)));
    assert_eq!(after.len(), 1, "{bills:#?}");
    let (own, late): (Vec<&Bill>, Vec<&Bill>) =
        before.iter().partition(|bill| given["one-0"].contains(&bill.gpu));
    assert_eq!(own.len(), 1, "{bills:#?}");
    assert!(before.iter().all(|bill| *bill.end.as_ref().unwrap() <= after[0].start), "{bills:#?}");
    let limit = SETTLED * RATE / 3_600;
    assert!(late.iter().all(|bill| bill.gpu == after[0].gpu && bill.cost < limit), "{bills:#?}");
    assert!(of("two", None).iter().all(|bill| bill.end.is_some()), "{bills:#?}");
}

/// The GPUs that the kubelet gave to a pod, in order.
pub(crate) fn devices(node: &crate::node::Node, pod: &str) -> Vec<String> {
    let resources = node.pod_resources(pod, "server");
    let devices = resources["devices"].as_array().unwrap();
    let ids = devices.iter().flat_map(|device| device["device_ids"].as_array().unwrap());
    let mut ids: Vec<_> = ids.map(|id| id.as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn uid(node: &crate::node::Node, pod: &str) -> String {
    node.find(pod).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// What pods pay, by GPU. Checks that with nobody they pay for all of it.
pub(crate) fn bills(report: &Value) -> Vec<Bill> {
    let mut bills = Vec::new();
    for gpu in report["gpus"].as_array().unwrap() {
        let id = gpu["uuid"].as_str().unwrap();
        let mut sum = nano_usd(&gpu["nobody"]["cost_usd"]);
        for holder in gpu["holders"].as_array().unwrap() {
            let text = |key: &str| holder[key].as_str().map(str::to_owned);
            let bill = Bill {
                gpu: id.to_owned(),
                pod: text("pod").unwrap(),
                uid: text("uid").unwrap_or_default(),
                workload: format!(
                    "{} {}",
                    text("workload_kind").unwrap_or_default(),
                    text("workload").unwrap_or_default()
                ),
                team: holder["labels"]["team"].as_str().map(str::to_owned),
                start: text("start").unwrap(),
                end: text("end"),
                method: text("method").unwrap(),
                used: nano_usd(&holder["used_usd"]),
                cost: nano_usd(&holder["cost_usd"]),
            };
            sum += bill.cost;
            bills.push(bill);
        }
        assert_eq!(sum, nano_usd(&gpu["cost_usd"]), "{gpu:#}");
    }
    bills.sort_by(|a, b| (&a.pod, &a.gpu).cmp(&(&b.pod, &b.gpu)));
    bills
}

/// The totals of the rows of a bill, in nano-dollars: by their value, else by the account that they are.
fn rows(bill: &Value, by: &str) -> BTreeMap<String, u64> {
    let name = |row: &Value| {
        let value = row["group"][by].as_str().or_else(|| row["account"].as_str());
        value.unwrap_or_default().to_owned()
    };
    let rows = bill["rows"].as_array().unwrap();
    rows.iter().map(|row| (name(row), nano_usd(&row["total_usd"]))).collect()
}

/// Dollars with nine decimals.
pub(crate) fn nano_usd(value: &Value) -> u64 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    format!("{whole}{decimals:0<9}").parse().unwrap_or_else(|_| panic!("{value}"))
}

/// An instant like `2026-11-26T05:32:50.25Z`, in nanoseconds since the beginning of its month.
fn nanoseconds(instant: &str) -> u64 {
    let (_, rest) = instant.rsplit_once('-').unwrap();
    let fields: Vec<_> = rest.trim_end_matches('Z').split(['T', ':', '.']).collect();
    let number = |place: usize| fields[place].parse::<u64>().unwrap();
    let seconds = ((number(0) * 24 + number(1)) * 60 + number(2)) * 60 + number(3);
    let decimals = fields.get(4).copied().unwrap_or_default();
    seconds * 1_000_000_000 + format!("{decimals:0<9}").parse::<u64>().unwrap()
}
