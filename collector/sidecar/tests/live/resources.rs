//! What identifies series of hardware: the machine and a slot, not the job.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::otlp::{self, Attributes};
use crate::run::{NO_POLICIES, phasemeter, stderr, with_command};
use crate::{Rig, TIMEOUT, unless_stalled};

const UUIDS: [&str; 2] =
    ["GPU-00000000-0000-0000-0000-000000000000", "GPU-00000000-0000-0000-0000-000000000001"];

const TWO_GPUS: &str = "length_ms = 600000\n[[device]]\n[[device]]";

/// The resources of a file that have any metric with this beginning, without what describes the machine.
fn resources(file: &Path, prefix: &str) -> BTreeSet<Attributes> {
    let captured = otlp::read(&fs::read_to_string(file).unwrap());
    let has = |names: &[String]| names.iter().any(|name| name.starts_with(prefix));
    captured.resources.into_iter().filter(|(_, names)| has(names)).map(|(it, _)| it).collect()
}

/// The number of points of `hw.power` of each GPU.
fn power(file: &Path) -> BTreeMap<String, usize> {
    let captured = otlp::read(&fs::read_to_string(file).unwrap());
    let streams = captured.streams("hw.power").into_iter();
    streams.map(|(attributes, it)| (attributes["hw.id"].clone(), it.points.len())).collect()
}

/// The times of the first GPU's points of `hw.power`.
fn times(file: &Path) -> BTreeSet<u64> {
    let captured = otlp::read(&fs::read_to_string(file).unwrap());
    let streams = captured.streams("hw.power").into_iter();
    let own = streams.filter(|(attributes, _)| attributes["hw.id"] == UUIDS[0]);
    own.flat_map(|(_, stream)| stream.points.into_iter().map(|point| point.time)).collect()
}

fn only(resources: &BTreeSet<Attributes>) -> &Attributes {
    assert_eq!(resources.len(), 1, "{resources:#?}");
    resources.first().unwrap()
}

/// Scenario: two jobs of different names run on a machine, one after the other.
/// Guarantee: series of hardware, and what the driver measures of it, have the same resource, which names the host;
/// those of time and cost are each job's own.
#[test]
fn hardware_has_one_identity_over_jobs() {
    let rig = Rig::new(TWO_GPUS);
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|job| {
        let file = dir.path().join(job);
        let arguments = format!("{NO_POLICIES} --experiment {job} --otlp-file {}", file.display());
        let mut command = with_command(&rig, &arguments, "sleep 2");
        let output = command.env("OTEL_SERVICE_NAME", job).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        file
    });
    let hardware = resources(&first, "hw.");
    assert!(only(&hardware).contains_key("host.name"));
    assert_eq!(only(&hardware)["service.name"], "phasemeter");
    assert_eq!(resources(&second, "hw."), hardware);
    for of_driver in ["phasemeter.gpu.clock", "phasemeter.gpu.throttle", "phasemeter.gpu.power"] {
        assert_eq!(resources(&second, of_driver), hardware, "{of_driver}");
    }
    let [first, second] = [first, second].map(|file| resources(&file, "phasemeter.gpu.cost"));
    assert_ne!(only(&first)["service.instance.id"], only(&second)["service.instance.id"]);
}

/// Scenario: a run meters both GPUs while another one meters the first; the other one ends first.
/// Guarantee: meanwhile each GPU is exported as hardware by one of them, which have different slots; after that, the
/// run that goes on exports both. Both bill what they meter throughout.
#[test]
fn gpu_is_exported_as_hardware_by_one_of_two_runs_at_once() {
    unless_stalled(|| {
        let rig = Rig::new(TWO_GPUS);
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let wait = |name: &str| {
            let began = Instant::now();
            while !at(name).exists() {
                assert!(began.elapsed() < TIMEOUT, "{name}");
                thread::sleep(Duration::from_millis(50));
            }
        };
        let start = |name: &str, options: &str| {
            let options = format!("{NO_POLICIES} {options} --otlp-file {}", at(name).display());
            let script = format!(
                "touch {0}; while [ ! -e {1} ]; do sleep 0.1; done",
                at(&format!("{name}-began")).display(),
                at(&format!("{name}-ends")).display()
            );
            let mut command = with_command(&rig, &options, &script);
            command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            wait(&format!("{name}-began"));
            child
        };
        let first = start("first", "--gpu 0");
        // The GPU joins within two seconds.
        let lock = rig.fake.library().with_file_name(format!("phasemeter-gpu-{}.lock", UUIDS[0]));
        let began = Instant::now();
        while !lock.exists() {
            assert!(began.elapsed() < TIMEOUT);
            thread::sleep(Duration::from_millis(50));
        }
        let second = start("second", "");
        thread::sleep(Duration::from_secs(4));
        fs::write(at("first-ends"), "").unwrap();
        let first = first.wait_with_output().unwrap();
        assert!(first.status.success(), "{}", stderr(&first));
        thread::sleep(Duration::from_secs(4));
        fs::write(at("second-ends"), "").unwrap();
        let second = second.wait_with_output().unwrap();
        assert!(second.status.success(), "{}", stderr(&second));
        let log = stderr(&second);
        assert!(log.contains("another run on this machine exports it as hardware"), "{log}");

        let [first, second] = ["first", "second"].map(at);
        let (of_first, of_second) = (resources(&first, "hw."), resources(&second, "hw."));
        let instance = |of| only(of)["service.instance.id"].clone();
        assert_ne!(instance(&of_first), instance(&of_second));
        assert_eq!(power(&first).keys().collect::<Vec<_>>(), [UUIDS[0]]);
        let counts = power(&second);
        assert_eq!(counts.keys().collect::<Vec<_>>(), UUIDS, "taken over: {counts:?}");
        let [of_first, of_second] = [times(&first), times(&second)];
        assert!(of_first.last() < of_second.first(), "{of_first:?} {of_second:?}");
        let captured = otlp::read(&fs::read_to_string(&second).unwrap());
        let costs = captured.streams("phasemeter.gpu.time");
        let billed: BTreeSet<_> = costs.keys().map(|it| it["hw.id"].as_str()).collect();
        assert_eq!(billed, BTreeSet::from(UUIDS));
    });
}

/// Scenario: a run exports the default set.
/// Guarantee: no link, no clock and no histogram is exported.
#[test]
fn default_set_has_no_series_of_links() {
    let rig = Rig::new(TWO_GPUS);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.json");
    let arguments =
        format!("{NO_POLICIES} --duration 2 --metrics default --otlp-file {}", file.display());
    let output = phasemeter(&rig, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(power(&file).len(), 2);
    let captured = otlp::read(&fs::read_to_string(&file).unwrap());
    for name in ["hw.network.io", "phasemeter.gpu.clock.frequency", "phasemeter.gpu.utilization"] {
        assert!(!captured.metrics.iter().any(|metric| metric.name == name), "{name}");
    }
}
