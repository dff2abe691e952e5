//! Components of GPUs: fans, PCIe and NVLink links, MIG instances, and the power limit.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue, MigId};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Bytes, Utilization};
use phasemeter_sources::live::{Event, Metric, Observed, UnsupportedReason};
use serde_json::Value;

use crate::run::{elements, phasemeter, run_with_report, stderr};
use crate::{Rig, Run, unless_stalled};

/// All values in order, counters apart.
fn values(run: &Run, gpu: usize) -> Vec<(Component, Quantity, DeviceValue)> {
    let metrics = run.device_metrics(gpu).into_iter();
    let others = metrics.filter(|metric| !matches!(metric.value, DeviceValue::Total(_)));
    others.map(|metric| (metric.component, metric.quantity, metric.value)).collect()
}

/// The totals of a counter, in order.
fn totals(run: &Run, component: Component, quantity: Quantity) -> Vec<(f64, u64)> {
    let is_own =
        |metric: &DeviceMetric| metric.component == component && metric.quantity == quantity;
    let own = run.device_metrics(0).into_iter().filter(is_own);
    let own = own.filter_map(|metric| match metric.value {
        DeviceValue::Total(total) => Some((metric.at.as_nanos() as f64 / 1e9, total)),
        _ => None,
    });
    own.collect()
}

#[test]
fn components_match_driver() {
    unless_stalled(|| {
        let rig = Rig::new(
            "[[device]]
            nvlinks = 3
            [[device.phase]]
            memory_temperature_c = 71
            fans_percent = [40, 104]
            pcie_replays = 6
            power_limit_w = 650
            nvlink_tx_mib_s = 300
            nvlink_errors = [{ link = 2, replay = 3, recovery = 1, crc = 5 }]",
        );
        let [first, last] = [Component::NvLink(0), Component::NvLink(2)];
        let run = rig.sample_until(|run| totals(run, last, Quantity::NvlinkTransmitted).len() >= 2);
        assert_eq!(run.faults(0), []);
        let values = values(&run, 0);
        for expected in [
            (Component::Gpu, Quantity::MemoryTemperature, DeviceValue::Now(71)),
            (Component::Gpu, Quantity::PowerLimit, DeviceValue::Now(650_000)),
            (Component::Fan(0), Quantity::FanSpeed, DeviceValue::Now(400_000)),
            (Component::Fan(1), Quantity::FanSpeed, DeviceValue::Now(1_040_000)),
        ] {
            assert!(values.contains(&expected), "{expected:?}: {values:?}");
        }
        for (component, counter, total) in [
            (Component::Pcie, Quantity::LinkReplays, 6),
            (Component::Pcie, Quantity::PcieCorrectable, 6),
            (Component::Pcie, Quantity::PcieNonFatal, 2),
            (first, Quantity::LinkReplays, 0),
            (last, Quantity::LinkReplays, 3),
            (last, Quantity::LinkRecoveries, 1),
            (last, Quantity::LinkCrcErrors, 5),
            (last, Quantity::NvlinkReceived, 0),
        ] {
            let totals = totals(&run, component, counter);
            assert!(!totals.is_empty(), "{component:?} {counter:?}");
            assert!(totals.iter().all(|(_, it)| *it == total), "{component:?} {counter:?}");
        }
        // A third of the GPU's traffic. A timestamp and its counter are two calls.
        let sent = totals(&run, first, Quantity::NvlinkTransmitted);
        let (seconds, bytes) = (sent[1].0 - sent[0].0, (sent[1].1 - sent[0].1) as f64);
        let truth = seconds * 100.0 * 1_048_576.0;
        assert!((bytes - truth).abs() < 2e6, "{bytes} bytes, expected {truth}");
    });
}

/// Blackwell counts recoveries in a new field and lacks the other error counters.
#[test]
fn recoveries_have_two_fields() {
    let rig = Rig::new(
        "[[device]]
        architecture = \"blackwell\"
        nvlinks = 1
        [[device.phase]]
        nvlink_errors = [{ link = 0, replay = 3, recovery = 7 }]",
    );
    let link = Component::NvLink(0);
    let run = rig.sample_until(|run| !totals(run, link, Quantity::LinkRecoveries).is_empty());
    assert!(totals(&run, link, Quantity::LinkRecoveries).iter().all(|(_, total)| *total == 7));
    assert_eq!(totals(&run, link, Quantity::LinkReplays), []);
    assert_eq!(run.faults(0), []);
}

/// Scenario: an old driver, on a GPU without a power limit.
/// Guarantee: what is missing is reported once and not exported.
#[test]
fn missing_components_are_reported_once() {
    let rig = Rig::new(
        "[[device]]
        [[fault]]
        functions = [\"nvmlDeviceGetNumFans\", \"nvmlDeviceGetMaxMigDeviceCount\"]
        error = \"function_not_found\"
        [[fault]]
        functions = [
            \"nvmlDeviceGetEnforcedPowerLimit\", \"nvmlDeviceGetPowerManagementLimit\",
            \"nvmlDeviceGetFieldValues\",
        ]
        error = \"not_supported\"",
    );
    let run = rig.sample_until(|run| run.readings(0).len() >= 21);
    let (device, driver) = (UnsupportedReason::Device, UnsupportedReason::Driver);
    let expected = [
        (Metric::Counters, device),
        (Metric::PowerLimit, device),
        (Metric::Fans, driver),
        (Metric::NvLinks, device),
        (Metric::Mig, driver),
    ];
    let expected = expected.map(|(metric, reason)| Event::Unsupported(metric, reason));
    assert_eq!(run.faults(0), expected);
    let components: Vec<_> = values(&run, 0).into_iter().map(|(it, ..)| it).collect();
    assert!(components.iter().all(|it| *it == Component::Gpu), "{components:?}");
}

const UUID: &str = "GPU-00000000-0000-0000-0000-000000000000";

const MIG: &str = "MIG-4b9c1bd5-0e1f-5a2b-8c3d-00000000007f";

/// Scenario: a GPU with two instances, one of which is destroyed; and one without GPM.
/// Guarantee: existing instances report memory, and activity if GPM is supported.
#[test]
fn mig_instances_report_memory_and_activity() {
    let rig = Rig::stepped(&format!(
        "length_ms = 600000
        [[device]]
        mig = true
        [[device.instance]]
        uuid = \"{MIG}\"
        profile = \"2g.20gb+me\"
        gpu_instance = 9
        placement = {{ start = 2, size = 2 }}
        memory_total_mib = 9856
        memory_used_mib = 2464
        sm = 80
        tensor = 40
        dram = 20
        [[device.instance]]
        gpu_instance = 11
        for_ms = 1000
        [[device]]
        mig = true
        gpm = false
        [[device.instance]]
        memory_used_mib = 1",
    ));
    let [first, brief, other] = [
        MIG,
        "MIG-00000000-0000-0000-0000-000000000001",
        "MIG-00000000-0000-0000-0001-000000000000",
    ]
    .map(|uuid| Component::Mig(MigId::parse(uuid).unwrap()));
    let of = |run: &Run, gpu, component| -> Vec<(Quantity, DeviceValue)> {
        let values = values(run, gpu).into_iter().filter(|(own, ..)| *own == component);
        values.map(|(_, quantity, value)| (quantity, value)).collect()
    };
    let mut sampling = rig.sample();
    sampling.until(|run| {
        !of(run, 0, first).is_empty()
            && !of(run, 0, brief).is_empty()
            && !of(run, 1, other).is_empty()
    });
    // The next poll is 1.6 s after the first.
    rig.set_time(1_500);
    let activity = |run: &Run| {
        let values = of(run, 0, first).into_iter();
        let activity = values.filter_map(|(quantity, value)| match value {
            DeviceValue::Mean { share, .. } => Some((quantity, share)),
            _ => None,
        });
        activity.collect::<Vec<_>>()
    };
    sampling.until(|run| !activity(run).is_empty() && of(run, 1, other).len() >= 2);
    let run = sampling.stop();
    let percent = |percent| Utilization::from_percent(percent).unwrap();
    let expected = [
        (Quantity::SmActivity, percent(80)),
        (Quantity::TensorActivity, percent(40)),
        (Quantity::DramActivity, percent(20)),
    ];
    assert_eq!(activity(&run)[..3], expected);
    let memory = |used, total| {
        [(Quantity::MemoryUsed, used), (Quantity::MemoryTotal, total)].map(|(quantity, mib)| {
            let bytes = Bytes::from_mebibytes(mib).unwrap().get();
            (quantity, DeviceValue::Now(i64::try_from(bytes).unwrap()))
        })
    };
    assert_eq!(of(&run, 0, first)[..2], memory(2_464, 9_856));
    assert_eq!(of(&run, 0, brief), memory(0, 9_856), "until it was destroyed");
    let other = of(&run, 1, other);
    assert!(other.chunks(2).all(|values| *values == memory(1, 9_856)), "no activity");

    let instances = run.of(0).filter_map(|observed| match observed {
        Observed::MigInstance(instance) => Some(instance),
        _ => None,
    });
    let of_first: Vec<_> = instances.filter(|it| Component::Mig(it.id) == first).collect();
    let instance = of_first[0];
    assert_eq!((instance.gpu_instance, instance.start), (Some(9), Some(2)));
    assert_eq!(instance.profile.unwrap().to_string(), "2g.20gb");
    assert!(of_first.iter().all(|again| *again == instance));
}

/// The streams of a metric: attributes except those of the board, and the last value.
fn streams(file: &Path, name: &str) -> BTreeMap<String, f64> {
    const BOARD: [&str; 5] =
        ["model", "vendor", "serial_number", "driver_version", "firmware_version"];
    let metrics = elements(file, ["resourceMetrics", "scopeMetrics", "metrics"]);
    let own = metrics.iter().filter(|metric| metric["name"] == name);
    let data = own.map(|metric| metric.get("sum").unwrap_or(&metric["gauge"]));
    let points = data.flat_map(|data| data["dataPoints"].as_array().unwrap());
    let attribute = |attribute: &Value| {
        let key = attribute["key"].as_str().unwrap();
        let is_board = key.strip_prefix("hw.").is_some_and(|key| BOARD.contains(&key));
        (!is_board)
            .then(|| format!("{key}={}", attribute["value"]["stringValue"].as_str().unwrap()))
    };
    let stream = |point: &Value| {
        let attributes = point["attributes"].as_array().unwrap().iter().filter_map(attribute);
        let whole = point["asInt"].as_str().map(|whole| whole.parse().unwrap());
        let value = whole.or(point["asDouble"].as_f64()).unwrap();
        (attributes.collect::<Vec<_>>().join(" "), value)
    };
    points.map(stream).collect()
}

/// Scenario: the power limit is lowered during the run.
/// Guarantee: components are exported with an identity of their own and their GPU as parent, the
/// power limit as it changes, also in the policy window.
#[test]
fn components_are_exported_with_their_parent() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        nvlinks = 2
        [[device.phase]]
        for_ms = 1000
        memory_temperature_c = 71
        fans_percent = [40, 104]
        pcie_replays = 6
        [[device.phase]]
        memory_temperature_c = 71
        fans_percent = [40, 104]
        pcie_replays = 6
        power_limit_w = 400",
    );
    let dir = tempfile::tempdir().unwrap();
    let [file, window] = ["otlp.json", "window.json"].map(|name| dir.path().join(name));
    let arguments =
        format!("--duration 3 --otlp-file {} --dump-windows {}", file.display(), window.display());
    let output = phasemeter(&rig, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let component =
        |id: &str, name: &str| format!("hw.id={UUID}/{id} hw.parent={UUID} hw.name=GPU 0 {name}");
    let fans = [(component("fan0", "fan 0"), 0.4), (component("fan1", "fan 1"), 1.04)];
    assert_eq!(streams(&file, "hw.fan.speed_ratio"), fans.into());
    let sensor = |at| format!("hw.id={UUID} hw.name=GPU 0 hw.sensor_location={at}");
    let temperatures = [(sensor("gpu"), 30.0), (sensor("memory"), 71.0)];
    assert_eq!(streams(&file, "hw.temperature"), temperatures.into());
    let limit = streams(&file, "phasemeter.gpu.power.limit");
    assert_eq!(limit, [(format!("hw.id={UUID}"), 400.0)].into());

    let links = [component("nvlink0", "NVLink 0"), component("nvlink1", "NVLink 1")];
    let traffic = links.iter().flat_map(|link| {
        ["receive", "transmit"].map(|way| (format!("{link} network.io.direction={way}"), 0.0))
    });
    assert_eq!(streams(&file, "hw.network.io"), traffic.collect());
    let error = |link: &str, kind| format!("{link} hw.type=network error.type={kind}");
    let [first, second] = &links;
    let mut expected: Vec<_> = [first, second]
        .into_iter()
        .flat_map(|link| ["replay", "recovery", "crc"].map(|kind| error(link, kind)))
        .collect();
    let of_pcie = ["replay", "correctable", "non_fatal"];
    expected.extend(of_pcie.map(|kind| error(&component("pcie", "PCIe"), kind)));
    let mut errors = streams(&file, "hw.errors");
    errors.retain(|stream, _| stream.contains("hw.type=network"));
    // The increase since the first poll.
    assert_eq!(errors, expected.into_iter().map(|stream| (stream, 0.0)).collect());

    let window: Value = serde_json::from_slice(&fs::read(window).unwrap()).unwrap();
    assert_eq!(window["window"]["gpus"][0]["power_limit_milliwatts"], 400_000);
}

/// Scenario: a GPU in MIG mode with an instance.
/// Guarantee: the instance's memory and activity have its UUID and its GPU as parent; the bill has the
/// GPU only.
#[test]
fn mig_instances_are_exported_with_their_parent() {
    let rig = Rig::new(&format!(
        "length_ms = 60000
        [[device]]
        mig = true
        memory_total_mib = 80000
        [[device.instance]]
        uuid = \"{MIG}\"
        memory_total_mib = 10000
        memory_used_mib = 2500
        sm = 80",
    ));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.json");
    let arguments = format!("--duration 3 --otlp-file {}", file.display());
    let (_, report) = run_with_report(&rig, &arguments, |_| {});
    assert_eq!(report["gpus"].as_array().map(Vec::len), Some(1));

    let instance = format!("hw.id={MIG} hw.parent={UUID}");
    let bytes = |mebibytes: u32| f64::from(mebibytes) * 1_048_576.0;
    for (name, expected) in
        [("limit", bytes(10_000)), ("usage", bytes(2_500)), ("utilization", 0.25)]
    {
        let streams = streams(&file, &format!("hw.gpu.memory.{name}"));
        assert_eq!(streams.get(&instance), Some(&expected), "{name}: {streams:?}");
    }
    let activity = streams(&file, "phasemeter.gpu.sm.activity")[&instance];
    assert!((activity - 0.8).abs() < 1e-9, "{activity}");
    let cost = streams(&file, "phasemeter.gpu.cost");
    assert!(!cost.is_empty() && cost.keys().all(|stream| !stream.contains("MIG")), "{cost:?}");
}

/// Scenario: an administrator enables MIG mode of one GPU during the run, and disables that of another.
/// Guarantee: the log names each change and what it means, and the last window has the mode at its end.
#[test]
fn change_of_mig_mode_is_followed() {
    unless_stalled(|| {
        let rig = Rig::new(
            "length_ms = 60000
            [[device]]
            mig = true
            mig_from_ms = 5000
            [[device]]
            mig = true
            mig_for_ms = 5000
            [[device]]",
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("window.json");
        let arguments = format!("--duration 13 --dump-windows {}", file.display());
        let (output, report) = run_with_report(&rig, &arguments, |_| {});
        let log = stderr(&output);
        let unobserved = "MIG mode is enabled; the driver reports no utilization of the GPU in it";
        let observed = "MIG mode is disabled; the GPU is observed";
        let expected = [
            ("GPU 0: ", vec![unobserved]),
            ("GPU 1: ", vec![unobserved, observed]),
            ("GPU 2: ", vec![]),
        ];
        for (gpu, messages) in expected {
            let lines: Vec<_> = log.lines().filter(|it| it.contains("MIG mode")).collect();
            let own: Vec<_> = lines.iter().filter(|line| line.contains(gpu)).collect();
            assert_eq!(own.len(), messages.len(), "{log}");
            for (line, message) in own.into_iter().zip(messages) {
                assert!(line.contains(message), "{line}");
            }
        }
        let window: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for (gpu, mode) in [(0, "enabled"), (1, "disabled"), (2, "disabled")] {
            let attributes = &window["window"]["gpus"][gpu]["attributes"];
            assert_eq!(attributes["phasemeter.gpu.mig.mode"], mode, "{window:#}");
            let reasons = report["gpus"][gpu]["unobserved_reasons"].as_array().unwrap();
            let is_missing = reasons.iter().any(|it| it["reason"] == "not_supported");
            assert_eq!(is_missing, gpu < 2, "{reasons:?}");
        }
    });
}
