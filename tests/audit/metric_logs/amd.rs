//! Pages of AMD's device-metrics-exporter, by a mapping of the user.

use std::fmt::Write;
use std::fs;

use serde_json::Value;

use super::formats::START;
use crate::phasemeter::Phasemeter;
use crate::report::{self, list};

const MAPPING: &str = r#"
[identity]
id = ["gpu_uuid", "gpu_id"]
index = ["gpu_id"]
model = ["card_series"]
host = ["hostname"]

[[metric]]
name = "gpu_gfx_activity"
is = "utilization"
basis = "hw.gpu"
unit = "percent"

[[metric]]
name = "gpu_used_vram"
is = "memory_used"
unit = "MiBy"

[[metric]]
name = "gpu_total_vram"
is = "memory_total"
unit = "MiBy"

[[metric]]
name = "gpu_power_usage"
is = "power"
unit = "W"
"#;

/// Percent, MiB and watts at a tick.
type Load = fn(u64) -> (u64, u64, u64);

/// Two hours of a node, each fifteen seconds, with the labels of version 1.4: GPUs that are full at little power, that
/// bounce, that are steady at a part of the load, and that never work.
fn pages() -> String {
    let load: [Load; 5] = [
        |_| (99, 150_000, 300),
        |tick| if tick / 4 % 2 == 0 { (96, 60_000, 600) } else { (1, 60_000, 160) },
        |_| (45, 40_000, 400),
        |_| (0, 250, 140),
        |_| (22, 9_000, 250),
    ];
    let mut log = String::new();
    for tick in 0..480 {
        for (gpu, load) in load.iter().enumerate() {
            let (percent, mebibytes, watts) = load(tick);
            let values = [
                ("gpu_gfx_activity", percent),
                ("gpu_used_vram", mebibytes),
                ("gpu_total_vram", 196_592),
                ("gpu_power_usage", watts),
            ];
            let at = START + 15_000 * tick;
            for (name, value) in values {
                writeln!(
                    log,
                    "{name}{{card_model=\"102-G30211-0C\",card_series=\"AMD Instinct MI300X OAM\",card_vendor=\"AMD\",\
                     driver_version=\"6.12.12\",gpu_compute_partition_type=\"spx\",gpu_id=\"{gpu}\",gpu_partition_id=\"0\",\
                     gpu_uuid=\"{gpu}cff74a1-0000-1000-80e0-c6d49f5b0d86\",hostname=\"node-1\",\
                     serial_number=\"69240900540{gpu}\"}} {value} {at}",
                )
                .unwrap();
            }
        }
    }
    log
}

/// Words of NVIDIA's tools, technologies and sources.
pub(crate) const NVIDIA: [&str; 11] = [
    "nsys",
    "ncu,",
    "nvidia-smi",
    "nvidia.",
    "dcgm",
    "DCGM",
    "MIG",
    "MPS",
    "\"mps\"",
    "nvml.",
    "NVLink",
];

/// Scenario: a log of AMD's exporter.
/// Guarantee: its GPUs are known, and neither report names a tool, a technology or a source of NVIDIA.
#[test]
fn report_on_a_log_of_amds_exporter_names_nothing_of_nvidia() {
    let dir = tempfile::tempdir().unwrap();
    let [log, mapping] = ["node.prom", "amd.toml"].map(|name| dir.path().join(name));
    fs::write(&log, pages()).unwrap();
    fs::write(&mapping, MAPPING).unwrap();
    let mut advice = 0;
    for workload in ["training", "serving", "batch", "interactive"] {
        let run = |format: &str| {
            let options = ["--price=4", "--workload", workload, "--explain", "--format", format];
            let command = Phasemeter::new("audit").args(options).arg("--mapping").arg(&mapping);
            let outcome = command.arg(&log).run();
            assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
            outcome.out
        };
        let json = run("json");
        let report: Value = serde_json::from_str(&json).unwrap();
        report::check(&report);
        assert_eq!(report["gpus"][0]["model"], "AMD Instinct MI300X");
        assert_eq!(report["gpus"][0]["utilization"]["basis"], "hw.gpu");
        advice += list(&report["recommendations"]).len() + list(&report["needs"]).len();
        for text in [json, run("text")] {
            let found = NVIDIA.iter().find(|word| text.contains(*word));
            assert!(found.is_none(), "{workload}: {found:?} in {text}");
        }
    }
    assert!(advice > 10, "{advice}");
}
