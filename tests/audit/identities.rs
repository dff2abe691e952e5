//! Which GPU a point of a metric is about, and its model, as labels name them.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use crate::phasemeter::Phasemeter;
use crate::report::{self, list};

/// A whole minute, in milliseconds.
const START: u64 = 1_785_110_400_000;

/// Ten minutes of samples, each 15 s: what `page` writes at each instant, with its number.
fn log(page: impl Fn(u64) -> String) -> String {
    let mut log = String::new();
    for tick in 0..=40 {
        for sample in page(tick).lines() {
            writeln!(log, "{sample} {}", START + tick * 15_000).unwrap();
        }
    }
    log
}

fn audit(log: &str, args: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.prom");
    fs::write(&path, log).unwrap();
    let report = Phasemeter::audit().args(args).arg(&path).report();
    report::check(&report);
    report
}

/// Scenario: nvidia_gpu_exporter has the model in a metric of its own, before or after the others; labels of
/// dcgm-exporter and of Google's receivers have it in the form of Kubernetes.
/// Guarantee: it is that model, with its price and its memory.
#[test]
fn model_is_read_from_labels_of_any_form() {
    const H100: &str = "NVIDIA H100 80GB HBM3";
    let price = ["--provider", "aws", "--instance-type", "p5.48xlarge"];
    let uuid = "5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d60";
    let info = |tick: u64, at: u64| {
        let labels = format!("driver_version=\"550.54\",name=\"{H100}\",uuid=\"{uuid}\"");
        if tick == at { format!("nvidia_smi_gpu_info{{{labels}}} 1\n") } else { String::new() }
    };
    let smi = |at| {
        log(|tick| {
            let value = format!("nvidia_smi_utilization_gpu_ratio{{uuid=\"{uuid}\"}} 0.5\n");
            format!("{value}{}", info(tick, at))
        })
    };
    let labeled = |metric: &str, label: &str, model: &str, value: &str| {
        log(|_| {
            format!(
                "{metric}{{uuid=\"GPU-{uuid}\",UUID=\"GPU-{uuid}\",{label}=\"{model}\"}} {value}\n"
            )
        })
    };
    let dashed = H100.replace(' ', "-");
    for log in [
        smi(0),
        smi(7),
        labeled("DCGM_FI_DEV_GPU_UTIL", "modelName", &dashed, "50"),
        labeled("DCGM_FI_DEV_GPU_UTIL", "modelName", &format!("{dashed}-SHARED"), "50"),
        labeled("nvml.gpu.utilization", "model", &dashed.to_lowercase(), "0.5"),
    ] {
        let log = log.replace("nvml.gpu.utilization{", "{__name__=\"nvml.gpu.utilization\",");
        let report = audit(&log, &price);
        let gpu = &list(&report["gpus"])[0];
        assert_eq!((list(&report["gpus"]).len(), &gpu["model"]), (1, &H100.into()), "{log:.200}");
        assert!(gpu["cost_usd"].is_string(), "{gpu:#}");
        assert_eq!(report["gpus"][0]["effective_seconds"], 300.0, "{log:.200}");
    }
    let given = audit(
        &log(|_| "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-a\"} 5\n".to_owned()),
        &["--gpu-model", &dashed, "--provider", "aws"],
    );
    assert!(given["gpus"][0]["cost_usd"].is_string(), "{given:#}");
}

/// Scenario: GPUs of three hosts with the same `hw.id`, bus ID or index, and no UUID; then two files without
/// hosts. Other samples have UUIDs that two exporters label with different hosts.
/// Guarantee: an ID without a UUID is a GPU on each host, else in each file; a UUID is one everywhere.
#[test]
fn id_is_unique_on_its_host_unless_it_is_a_uuid() {
    let hosts = |sample: &dyn Fn(&str, u64) -> String| {
        log(|_| (1..=3).map(|node| sample(&format!("node-{node}"), 10 * node) + "\n").collect())
    };
    let hw = |id: &'static str| {
        move |host: &str, percent: u64| {
            let labels = format!("\"hw.id\"=\"{id}\",\"host.name\"=\"{host}\"");
            format!("{{__name__=\"hw.gpu.utilization\",{labels}}} 0.{percent}")
        }
    };
    let dcgm = |labels: &'static str| {
        move |host: &str, percent: u64| {
            format!("DCGM_FI_DEV_GPU_UTIL{{{labels},Hostname=\"{host}\"}} {percent}")
        }
    };
    let google = |host: &str, percent: u64| {
        let labels = format!("gpu_number=\"1\",\"host.name\"=\"{host}\"");
        format!("{{__name__=\"nvml.gpu.utilization\",{labels}}} 0.{percent}")
    };
    let scraped = |host: &str, percent: u64| {
        format!("DCGM_FI_DEV_GPU_UTIL{{gpu=\"0\",instance=\"{host}:9400\"}} {percent}")
    };
    let means = |report: &Value| {
        let mean = |gpu: &Value| gpu["utilization"]["mean"].as_f64().unwrap().round() as u64;
        let mut means: Vec<u64> = list(&report["gpus"]).iter().map(mean).collect();
        means.sort_unstable();
        means
    };
    for log in [
        hosts(&hw("0")),
        hosts(&hw("GPU-0")),
        hosts(&hw("0000:3b:00.0")),
        hosts(&dcgm("pci_bus_id=\"00000000:3B:00.0\"")),
        hosts(&dcgm("gpu=\"0\"")),
        hosts(&google),
        hosts(&scraped),
    ] {
        let report = audit(&log, &["--price", "3.6"]);
        assert_eq!(means(&report), [10, 20, 30], "{log:.200}");
        assert_eq!(report["cost"]["total_usd"], "1.800000000", "three GPUs of ten minutes");
        assert!(list(&report["gpus"]).iter().all(|gpu| gpu["uuid"].is_null()), "{report:#}");
    }
    let uuid = hosts(&hw("GPU-5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d60"));
    assert_eq!(list(&audit(&uuid, &["--price", "1"])["gpus"]).len(), 1);

    let dir = tempfile::tempdir().unwrap();
    let files = ["a.prom", "b.prom"].map(|name| dir.path().join(name));
    for (file, percent) in files.iter().zip([10, 20]) {
        let sample = |_| format!("DCGM_FI_DEV_GPU_UTIL{{gpu=\"0\"}} {percent}\n");
        fs::write(file, log(sample)).unwrap();
    }
    let report = Phasemeter::audit().args(["--price", "1"]).args(&files).report();
    assert_eq!(means(&report), [10, 20], "{report:#}");
}

/// Labels of a GPU of dcgm-exporter, with these further ones.
fn dcgm(further: &str) -> String {
    let uuid = "GPU-5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d60";
    format!("{{gpu=\"0\",UUID=\"{uuid}\",modelName=\"NVIDIA L4\",Hostname=\"node-1\"{further}}}")
}

/// Scenario: a time-sliced GPU of dcgm-exporter, whose device has a series without a pod beside those of its pods, in
/// any order; then only the series of pods.
/// Guarantee: the GPU is the series of the device, else the sum of its shares, which the report states; all other
/// values are those of the device.
#[test]
fn pods_of_a_time_sliced_gpu_are_shares_of_it() {
    let pod = |name: &str| {
        dcgm(&format!(",pod=\"{name}\",namespace=\"ml\",container=\"main\",vgpu=\"1\""))
    };
    let shares = |util: &dyn Fn(usize) -> u64| {
        let mut page = String::new();
        for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
            let labels = pod(name);
            writeln!(page, "DCGM_FI_DEV_GPU_UTIL{labels} {}", util(index)).unwrap();
            writeln!(page, "DCGM_FI_DEV_FB_USED{labels} {}", 1_000 * index).unwrap();
            writeln!(page, "DCGM_FI_DEV_POWER_USAGE{labels} 70").unwrap();
        }
        page
    };
    let device = format!("DCGM_FI_DEV_GPU_UTIL{0} 92\nDCGM_FI_DEV_FB_USED{0} 9000\n", dcgm(""));
    let util = |index: usize| [3, 80, 9][index];
    for page in [format!("{device}{}", shares(&util)), format!("{}{device}", shares(&util))] {
        let report = audit(&log(|_| page.clone()), &["--price", "1"]);
        let gpu = &list(&report["gpus"])[0];
        assert_eq!((&gpu["utilization"]["mean"], list(&report["gpus"]).len()), (&92.0.into(), 1));
        assert_eq!(gpu["memory"]["used_peak_bytes"], 9_000_u64 << 20);
        assert_eq!(gpu["energy_joules"], 70.0 * 600.0, "power is that of the device");
        assert_eq!(report["assumptions"].to_string().matches("added up").count(), 0);
    }
    let report = audit(&log(|_| shares(&util)), &["--price", "1"]);
    let gpu = &list(&report["gpus"])[0];
    assert_eq!(gpu["utilization"]["mean"], 92.0);
    assert_eq!(gpu["memory"]["used_peak_bytes"], 3_000_u64 << 20);
    assert_eq!(gpu["energy_joules"], 70.0 * 600.0);
    let note = report["assumptions"].to_string();
    assert!(note.contains("no value of the whole GPU") && note.contains("added up"), "{note}");
    let full = audit(&log(|_| shares(&|index| 60 + index as u64)), &["--price", "1"]);
    assert_eq!(full["gpus"][0]["utilization"]["mean"], 100.0);
    let exclusive = log(|_| format!("DCGM_FI_DEV_GPU_UTIL{} 40\n", pod("a")));
    let report = audit(&exclusive, &["--price", "1"]);
    assert_eq!(report["gpus"][0]["utilization"]["mean"], 40.0);
    assert!(!report["assumptions"].to_string().contains("added up"));
}

/// Scenario: GPUs at 0% without memory in use, allocated for the first half of the time, by labels of each form; one
/// that works after a minute; one with labels of the exporter's own pod; one that is not allocated.
/// Guarantee: an allocated GPU is held, by its holder's name; what nothing ever touched is a line of its own; free
/// time is free.
#[test]
fn allocated_gpu_is_held_and_named_by_its_holder() {
    let page = |tick: u64, further: &str, percent: u64| {
        let labels = dcgm(if tick < 20 { further } else { "" });
        format!("DCGM_FI_DEV_GPU_UTIL{labels} {percent}\nDCGM_FI_DEV_FB_USED{labels} 0\n")
    };
    let prometheus = ",pod=\"nvidia-dcgm-exporter-x7\",namespace=\"gpu-operator\"";
    for (further, holder) in [
        (",pod=\"notebook-ana\",namespace=\"ml\",container=\"main\"".to_owned(), "ml/notebook-ana"),
        (format!("{prometheus},exported_pod=\"train-0\",exported_namespace=\"ml\""), "ml/train-0"),
        (",dra_claim_name=\"c1\",dra_claim_namespace=\"ml\"".to_owned(), "claim ml/c1"),
        (",hpc_job=\"4711\"".to_owned(), "job 4711"),
    ] {
        let report = audit(&log(|tick| page(tick, &further, 0)), &["--price", "3.6"]);
        let gpu = &list(&report["gpus"])[0];
        for phases in [&gpu["phases"], &report["fleet"]["phases"]] {
            let seconds = |row: &str| phases[row]["seconds"].as_f64();
            assert_eq!(seconds("idle_held"), Some(300.0), "{further}");
            assert_eq!(seconds("idle_never_touched"), Some(300.0), "{further}");
            assert_eq!(seconds("idle_free"), Some(300.0), "{further}");
            assert_eq!(phases["idle_never_touched"]["cost_usd"], "0.300000000");
        }
        let holders = &list(&gpu["holders"])[0];
        assert_eq!(
            (&holders["name"], &holders["never_touched_seconds"]),
            (&holder.into(), &300.0.into())
        );
    }
    let pod = ",pod=\"a\",namespace=\"ml\"";
    let worked =
        audit(&log(|tick| page(tick, pod, if tick == 4 { 50 } else { 0 })), &["--price", "1"]);
    let phases = &worked["gpus"][0]["phases"];
    assert_eq!(
        (&phases["idle_held"]["seconds"], &phases["idle_never_touched"]["seconds"]),
        (&285.0.into(), &60.0.into()),
        "what it had before it was touched stays so"
    );
    let free = audit(&log(|tick| page(tick, prometheus, 0)), &["--price", "1"]);
    assert_eq!(free["gpus"][0]["phases"]["idle_held"]["seconds"], 0.0);
    assert_eq!(free["gpus"][0]["phases"]["idle_never_touched"], Value::Null);

    let dir = tempfile::tempdir().unwrap();
    let [path, window] = ["log.prom", "one.window.json"].map(|name| dir.path().join(name));
    fs::write(&path, log(|tick| page(tick, pod, 0))).unwrap();
    let text = Phasemeter::new("audit").args(["--price", "1", "--dump-windows"]);
    let text = text.arg(&window).arg(&path).run().out;
    let rows = ["  held by a job ", "    never touched ", "Holder   GPUs "];
    for row in rows {
        assert_eq!(text.lines().filter(|line| line.starts_with(row)).count(), 1, "{row}: {text}");
    }
    let held = "ml/a    GPU 0  $0.000    $0.000         $0.084  $0.084";
    assert!(text.contains(held), "{text}");
    let window: Value = serde_json::from_slice(&fs::read(&window).unwrap()).unwrap();
    let gpu = &window["window"]["gpus"][0];
    assert_eq!(gpu["holders"][0]["never_touched"]["time_nanos"], 300_000_000_000_u64);
    assert_eq!(gpu["attributes"]["phasemeter.gpu.holders"], "ml/a");
    assert_eq!(gpu["attributes"]["phasemeter.gpu.never_touched_by"], "ml/a");
}

/// Scenario: two GPUs under one UUID, on one page or on pages of their own, in either order, beside a GPU of its own
/// and a time-sliced one, of which a page has the share of a pod twice.
/// Guarantee: the points that contradict each other are refused, in each order alike, and named with what
/// distinguishes them; every other value counts.
#[test]
fn points_of_two_gpus_under_one_id_are_refused_alone() {
    const SHARED: &str = "GPU-5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d60";
    let of = |uuid: &str, index: u32, percent: u32| {
        let labels = format!("{{gpu=\"{index}\",UUID=\"{uuid}\",Hostname=\"node-1\"}}");
        format!("DCGM_FI_DEV_GPU_UTIL{labels} {percent}\nDCGM_FI_DEV_POWER_USAGE{labels} 70\n")
    };
    let pod = |name: &str, percent: u32| {
        format!("DCGM_FI_DEV_GPU_UTIL{} {percent}\n", dcgm(&format!(",pod=\"{name}\"")))
    };
    // From the 20th page on, a second GPU has the ID of the first.
    let page = |tick: u64, is_first: bool| {
        let mut parts = vec![of("GPU-a", 0, 95), of("GPU-b", 1, 50), pod("x", 30), pod("y", 40)];
        if tick >= 20 {
            let at = if is_first { 0 } else { parts.len() };
            parts.insert(at, of("GPU-a", 4, 5));
        }
        if tick == 30 {
            parts.extend([pod("y", 41), of("GPU-b", 1, 50)]);
        }
        parts.concat()
    };
    for is_first in [true, false] {
        let report = audit(&log(|tick| page(tick, is_first)), &["--price", "3.6"]);
        let gpu = |uuid: &str| {
            list(&report["gpus"]).iter().find(|gpu| gpu["uuid"] == uuid).unwrap().clone()
        };
        let (a, b, shared) = (gpu("GPU-a"), gpu("GPU-b"), gpu(SHARED));
        assert_eq!(
            (&a["unobserved_seconds"], &a["effective_seconds"]),
            (&300.0.into(), &285.0.into())
        );
        assert_eq!(a["energy_joules"], 70.0 * 600.0, "equal powers agree");
        assert_eq!(
            (&b["unobserved_seconds"], &b["effective_seconds"]),
            (&0.0.into(), &300.0.into())
        );
        assert_eq!(shared["unobserved_seconds"], 15.0);
        assert_eq!(shared["utilization"]["mean"], 70.0);
        // 21 pages with one contradiction each, and one share; the first point of each has no line of its own.
        assert_eq!(report["rejected_total"], 22);
        let note = "44 points refused: node-1: points of GPU GPU-a at one instant differ in utilization and are \
                    refused: they differ in index, too; name such a label in [identity] of a mapping, or record \
                    times with decimals";
        assert!(list(&report["assumptions"]).contains(&note.into()), "{}", report["assumptions"]);
    }
}
