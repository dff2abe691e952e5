//! What a run sends, and its internal telemetry, is what the registry defines, in both directions.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread;

use crate::mock_backend::MockBackend;
use crate::policies::{hostile, recommender};
use crate::registry::model::Registry;
use crate::registry::wire::WireCheck;
use crate::run::{run_with_report, stderr};
use crate::telemetry::{Received, received};
use crate::work::connect;
use crate::{Rig, otlp, unless_stalled};

/// Scenario: a GPU with everything that a driver can report, which is lost, returns and hangs, and one that
/// is added.
/// Guarantee: each metric, span and event is defined as it is sent, and each defined one is sent.
#[test]
fn run_sends_what_the_registry_defines() {
    let registry = Registry::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    unless_stalled(|| {
        let rig = Rig::new(
            "length_ms = 60000
        [[device]]
        nvlinks = 2
        [[device.phase]]
        for_ms = 1500
        utilization = 60
        sm = 80
        tensor = 40
        dram = 20
        fp32 = 10
        encoder = 30
        sm_clock_mhz = 1755
        throttle = [\"hw_thermal\"]
        pcie_rx_mib_s = 100
        memory_temperature_c = 71
        fans_percent = [40, 50]
        power_limit_w = 650
        nvlink_tx_mib_s = 300
        [[device.phase]]
        utilization = 95
        [[device]]
        [[device]]
        listed_from_ms = 3000
        [[fault]]
        device = 0
        at_ms = 1600
        xid = 79
        [[fault]]
        device = 1
        at_ms = 1000
        for_ms = 1500
        error = \"gpu_is_lost\"
        [[fault]]
        device = 0
        at_ms = 2400
        for_ms = 3200
        functions = [\"nvmlDeviceGetPowerUsage\"]
        hang = true",
        );
        let dir = tempfile::tempdir().unwrap();
        let policies = dir.path().join("policies");
        fs::create_dir(&policies).unwrap();
        for (name, policy) in
            [("good", recommender("good", '1')), ("bad", hostile("trap-unreachable"))]
        {
            fs::write(policies.join(format!("{name}.wasm")), policy).unwrap();
        }
        let [file, socket] = ["otlp.json", "work.sock"].map(|name| dir.path().join(name));
        let backend = MockBackend::start([]);
        let arguments = format!(
            "--duration 7 --no-default-policies --policies {} --otlp-file {} --work-socket {}",
            policies.display(),
            file.display(),
            socket.display()
        );
        let workload = thread::spawn({
            let socket = socket.clone();
            move || connect(&socket).write_all(b"work samples 512\nstep\ncheckpoint\n").unwrap()
        });
        let (output, _) = run_with_report(&rig, &arguments, |command| {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
            command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        });
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        workload.join().unwrap();

        let mut check = WireCheck::new(&registry, "run");
        check.captured(&otlp::read(&fs::read_to_string(&file).unwrap()));
        let problems = check.finish();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));

        let mut check = WireCheck::new(&registry, "internal");
        let Received { own, .. } = received(&backend.received());
        let scopes = own.iter().flat_map(|resource| &resource.scope_metrics);
        scopes.flat_map(|scope| &scope.metrics).for_each(|metric| check.metric(metric));
        let problems = check.finish();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    });
}
