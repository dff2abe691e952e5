//! GPUs without a UUID: an ID is unique on its host only.

use std::collections::BTreeSet;

use crate::dcgm::{START, cost_of, hardware_of, page_of_host, usd};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, client};
use crate::{NANO_USD, SOON};

/// Scenario: three hosts send the same `hw.id`; an agent on the second one bills its GPU.
/// Guarantee: they are three GPUs, of which the gateway bills the others; each is named by its host, also on the wire.
#[test]
fn id_is_a_gpu_of_its_host_and_so_is_what_an_agent_bills() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    for host in ["node-1", "node-2", "node-3"] {
        for at in (START..=START + 120).step_by(15) {
            client.enqueue(hardware_of("0", "any", &[("host.name", host)], at));
        }
    }
    let agent = [("service.instance.id", "an agent"), ("host.name", "node-2")];
    client.enqueue(cost_of("0", START, START + 200, &agent));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    let gpus = report["gpus"].as_array().unwrap();
    let mut billed: Vec<_> = gpus.iter().map(|gpu| (&gpu["id"], &gpu["cost_usd"])).collect();
    billed.sort_by_key(|(id, _)| id.to_string());
    let cost = usd(120 * NANO_USD).into();
    assert_eq!(billed, [(&"node-1:0".into(), &cost), (&"node-3:0".into(), &cost)], "{report:#}");
    let captured = crate::metered(&backend);
    for id in ["node-1:0", "node-3:0"] {
        assert!(!captured.last("phasemeter.gpu.cost", id).is_empty(), "{id}");
    }
}

/// The instance ID of a gateway with these options, which has received nothing.
fn instance(backend: &MockBackend, options: &[&str]) -> String {
    let options = [options, &["--duration", "0.1"]].concat();
    let (status, report, log) = Gateway::start(backend, &options).end();
    assert!(status.success(), "{log}");
    report["experiment"]["attributes"]["service.instance.id"].as_str().unwrap().to_owned()
}

/// Scenario: gateways start and start again, with the same addresses, with others, and with a data directory.
/// Guarantee: one that starts again is the same instance: by its directory, wherever it listens, else by its addresses.
#[test]
fn gateway_is_the_same_instance_after_a_restart() {
    let backend = MockBackend::start([]);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let listen = |name: &str| format!("--listen=unix:{}", at(name));
    let [a, b] = ["a", "b"].map(listen);
    let first = instance(&backend, &[&a]);
    assert_eq!(instance(&backend, &[&a]), first);
    assert_ne!(instance(&backend, &[&b]), first);
    let data = format!("--data-dir={}", at("data"));
    let kept = instance(&backend, &[&a, &data]);
    assert_ne!(kept, first);
    assert_eq!(instance(&backend, &[&b, &data]), kept, "it has moved");
    assert_ne!(instance(&backend, &[&a, &format!("--data-dir={}", at("other"))]), kept);
}

/// Scenario: GPUs of two hosts, and one of no known host.
/// Guarantee: the hardware of each host has one resource, with its name and an instance ID of its own.
#[test]
fn hardware_of_each_host_has_one_resource() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    for (host, gpu) in
        [("node-1", "GPU-a"), ("node-1", "GPU-b"), ("node-2", "GPU-c"), ("", "GPU-d")]
    {
        for at in (START..=START + 120).step_by(15) {
            client.enqueue(page_of_host(gpu, host, at, 50.0));
        }
    }
    assert!(client.flush(SOON).all_sent());
    let (status, _) = gateway.stop();
    assert!(status.success());
    let captured = crate::metered(&backend);
    let is_hardware = |names: &[String]| names.iter().any(|name| name.starts_with("hw."));
    let hardware = captured.resources.iter().filter(|(_, names)| is_hardware(names));
    let hardware: BTreeSet<_> = hardware
        .map(|(it, _)| (it.get("host.name").map_or("", String::as_str), &it["service.instance.id"]))
        .collect();
    let hosts: Vec<_> = hardware.iter().map(|(host, _)| *host).collect();
    assert_eq!(hosts, ["", "node-1", "node-2"], "{hardware:?}");
    let instances: BTreeSet<_> = hardware.iter().map(|(_, id)| id).collect();
    assert_eq!(instances.len(), 3);
}

/// Scenario: a second GPU has the UUID of a first one for half of the time, from another host; two Collectors send
/// all pages of a third GPU, which are equal. The requests arrive in either order.
/// Guarantee: the points that contradict each other are unobserved and named in log and report, by sender; all others
/// are billed once.
#[test]
fn points_of_two_gpus_under_one_id_are_refused_and_named() {
    let mut bills = Vec::new();
    for is_reversed in [false, true] {
        let backend = MockBackend::start([]);
        let gateway = Gateway::start(&backend, &[]);
        let client = client(&gateway.endpoint());
        let mut pages = Vec::new();
        for at in (START..=START + 300).step_by(15) {
            pages.push(page_of_host("GPU-a", "node-1", at, 95.0));
            if at >= START + 150 {
                pages.push(page_of_host("GPU-a", "node-2", at, 5.0));
            }
            pages.extend([0, 1].map(|_| page_of_host("GPU-b", "node-1", at, 50.0)));
        }
        if is_reversed {
            pages.reverse();
        }
        pages.into_iter().for_each(|page| client.enqueue(page));
        assert!(client.flush(SOON).all_sent());
        let (_, report, log) = gateway.stop_with_log();
        let mut gpus = report["gpus"].as_array().unwrap().clone();
        gpus.sort_by_key(|gpu| gpu["uuid"].to_string());
        assert_eq!(gpus[0]["unobserved_seconds"], 150.0, "{:#}", gpus[0]);
        assert_eq!(gpus[1]["unobserved_seconds"], 0.0, "{:#}", gpus[1]);
        assert_eq!(gpus[1]["cost_usd"], usd(300 * NANO_USD));
        let refused = "points of GPU GPU-a at one instant differ in utilization and are refused: they differ in host, \
                       too; name such a label in [identity] of a mapping";
        let notes = report["assumptions"].to_string();
        assert!(notes.contains("22 points refused: ") && notes.contains(refused), "{notes}");
        let logged = log.matches(refused).count();
        assert!((1..=6).contains(&logged), "{logged} of 21: {log}");
        bills.push(gpus.iter().map(|gpu| gpu["phases"].clone()).collect::<Vec<_>>());
    }
    assert_eq!(bills[0], bills[1], "in either order");
}
