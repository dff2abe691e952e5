//! The driver, and which of its calls answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use phasemeter_engine::sampler::SamplerStats;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_process::ProcessTable;
use phasemeter_sources::live::{Metric, UnsupportedReason};
use phasemeter_terminal::number::counted;

use super::findings::{Findings, Topic};
use super::seen::{Seen, SeenGpu};

/// The paths that the dynamic linker searches before its own.
const LINKER_PATHS: &str = "LD_LIBRARY_PATH";

/// Numbers of GPUs in the driver's listing.
type Indices = BTreeSet<u32>;

/// Which driver was found, and where. `library`: the path of its library, if this process has loaded it.
pub fn driver(library: Option<&str>, gpus: &[GpuIdentity], findings: &mut Findings) {
    let versions: BTreeSet<_> =
        gpus.iter().filter_map(|gpu| gpu.board.driver_version.as_deref()).collect();
    for version in &versions {
        findings.fact(Topic::Driver, format!("version {version}"));
    }
    let paths = std::env::var(LINKER_PATHS).ok().filter(|paths| !paths.is_empty());
    findings.fact(
        Topic::Driver,
        match (library, paths) {
            (Some(library), _) => format!("library {library}"),
            (None, Some(paths)) => {
                format!("no library; searched: {LINKER_PATHS}={paths}, then the linker's own paths")
            }
            (None, None) => "no library; searched: the linker's own paths".to_owned(),
        },
    );
}

/// What became of the calls.
pub fn describe(
    seen: &Seen,
    stats: &SamplerStats,
    gpus: &[GpuIdentity],
    procfs: Option<&Path>,
    findings: &mut Findings,
) {
    if seen.gpus.is_empty() {
        return;
    }
    let index = |place: usize| gpus.get(place).and_then(|gpu| gpu.index);
    let each = || seen.gpus.iter().filter_map(|(place, gpu)| Some((index(*place)?, gpu)));
    calls(&each().collect(), stats, findings);
    for (index, gpu) in each() {
        cadence(index, gpu, findings);
        if let Some(call) = gpu.hung {
            findings.problem(format!(
                "GPU {index}: {call} hangs; check `dmesg`, the GPU may need a reset"
            ));
        } else if let Some(reason) = gpu.lost {
            findings.problem(format!("GPU {index}: {reason}; check `nvidia-smi` and `dmesg`"));
        }
    }
    let counting: Indices =
        each().filter(|(_, gpu)| gpu.has_activity).map(|(index, _)| index).collect();
    findings.fact(
        Topic::Gpm,
        match counting.is_empty() {
            true => "no hardware counters; utilization is that of the driver".to_owned(),
            false => format!("hardware counters of {}", named(&counting, each().count())),
        },
    );
    let processes: BTreeSet<u32> = each().flat_map(|(_, gpu)| &gpu.processes).copied().collect();
    let holding = each().filter(|(_, gpu)| !gpu.processes.is_empty()).count();
    let root = procfs.unwrap_or(Path::new(ProcessTable::OWN));
    let processes = match processes.len() {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    findings.fact(Topic::Processes, format!("{processes} on {}", counted(holding as u64, "GPU")));
    let has = if ProcessTable::at(root).is_of_host() { "has" } else { "does not have" };
    findings
        .fact(Topic::Processes, format!("{} {has} the process IDs of the host", root.display()));
}

/// The metrics that answer, and those that are refused.
fn calls(gpus: &BTreeMap<u32, &SeenGpu>, stats: &SamplerStats, findings: &mut Findings) {
    let mut answering: BTreeSet<Metric> = BTreeSet::new();
    for metric in stats.gpus.iter().flat_map(|gpu| &gpu.metrics) {
        if metric.calls > metric.failed {
            answering.insert(metric.metric);
        }
    }
    let names = answering.iter().map(|metric| metric.name()).collect::<Vec<_>>();
    findings.fact(Topic::Calls, format!("answer: {}", names.join(", ")));
    let mut refused: BTreeMap<&str, BTreeMap<Metric, Indices>> = BTreeMap::new();
    for (index, gpu) in gpus {
        for (metric, reason) in &gpu.refused {
            let by_metric = refused.entry(text(*reason)).or_default();
            by_metric.entry(*metric).or_default().insert(*index);
        }
    }
    for (reason, metrics) in refused {
        let of = |(metric, of): (&Metric, &Indices)| match of.len() == gpus.len() {
            true => metric.name().to_owned(),
            false => format!("{} ({})", metric.name(), named(of, gpus.len())),
        };
        let metrics = metrics.iter().map(of).collect::<Vec<_>>().join(", ");
        findings.fact(Topic::Calls, format!("{reason}: {metrics}"));
        if reason == text(UnsupportedReason::Permission) {
            findings.note(format!(
                "calls: {reason}: {metrics}; run as root, or allow this user in the driver's settings \
                 (GPM: NVreg_RestrictProfilingToAdminUsers=0)"
            ));
        }
    }
}

/// How often values change.
fn cadence(index: u32, gpu: &SeenGpu, findings: &mut Findings) {
    let changes = |name: &str, is_known: bool, count: u64| match is_known {
        true => format!("{name} {count}"),
        false => format!("no {name}"),
    };
    findings.fact(
        Topic::Cadences,
        format!(
            "GPU {index}: changes in {}: {}, {}",
            counted(gpu.readings, "reading"),
            changes("utilization", gpu.utilization.is_known(), gpu.utilization.count),
            changes("power", gpu.power.is_known(), gpu.power.count)
        ),
    );
}

const fn text(reason: UnsupportedReason) -> &'static str {
    match reason {
        UnsupportedReason::Device => "not supported by the GPU",
        UnsupportedReason::Driver => "not supported by the driver",
        UnsupportedReason::Permission => "permission denied",
    }
}

/// Some GPUs, of so many.
fn named(indices: &Indices, all: usize) -> String {
    if indices.len() == all {
        return "all GPUs".to_owned();
    }
    let indices: Vec<_> = indices.iter().map(u32::to_string).collect();
    format!("GPU {}", indices.join(", "))
}
