//! The agent of a node beside `run` and nvitop-exporter, in one run: eight GPUs at 10 Hz, which sixteen pods hold,
//! exporting each ten seconds; and both again with a data directory.
//!
//! The measured time has one window of policies per five minutes, as by default.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use fake_nvml::Fake;

use super::fleet::GPUS;
use super::received::{Lateness, lateness};
use super::{MEBIBYTE, fleet, kubelet, load, nvitop};
use crate::BenchError;
use crate::otelcol::Otelcol;
use crate::paths::Paths;
use crate::process::{self, Process};
use crate::resident::Resident;

/// Startup is not measured; then the windows of policies are in the measured time.
const WARM_UP: Duration = Duration::from_secs(10);

/// The measured interval, and the variable that sets it, in seconds.
const MEASURED: Duration = Duration::from_secs(300);
const SECONDS: &str = "BENCH_SECONDS";

const DAY: Duration = Duration::from_secs(86_400);

/// Bounds of the resident memory in MiB, and of the bytes written per day with a data directory.
const RESIDENT: f64 = 25.0;
const WRITTEN: f64 = 500e6;

/// What is measured.
#[derive(Clone, Copy)]
struct Program {
    command: &'static str,
    stores: bool,
}

const PROGRAMS: [Program; 4] = [
    Program { command: "agent", stores: false },
    Program { command: "agent", stores: true },
    Program { command: "run", stores: false },
    Program { command: "run", stores: true },
];

/// What one used in the measured time.
struct Usage {
    /// In percent of a core, and as a ratio to nvitop-exporter's.
    percent: f64,
    ratio: f64,
    resident: Resident,
    /// Bytes per day, extrapolated.
    written: f64,
}

/// Measures and prints the table.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let seconds = std::env::var(SECONDS).ok().and_then(|it| it.parse().ok());
    let measured = seconds.map_or(MEASURED, Duration::from_secs);
    let (pods, seconds) = (GPUS * kubelet::EACH, measured.as_secs());
    println!(
        "Agent: {GPUS} GPUs at 10 Hz, {pods} pods, exporting each 10 s to a Collector, {seconds} s"
    );
    println!("Load average before the run: {}\n", load());
    let Some(otelcol) = Otelcol::start(paths)? else {
        println!("SKIPPED: no Collector; run `make collector`\n");
        return Ok(());
    };
    let fake = fleet::install(paths)?;
    for program in PROGRAMS {
        let directory = program.directory(paths);
        // There may be none.
        _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(BenchError::at(&directory))?;
    }
    let node = paths.file("node");
    let kubelet = kubelet::start(&node, GPUS)?;
    let peer = nvitop::start(paths, &fake)?;
    let mut programs = Vec::new();
    for program in PROGRAMS {
        programs.push((program, program.start(paths, &node, &fake, otelcol.http)?));
    }
    thread::sleep(WARM_UP);
    let read = |process: &Process| Ok((process.cpu()?, process::written(process.id())?));
    let before = programs.iter().map(|(_, it)| read(it)).collect::<Result<Vec<_>, BenchError>>()?;
    let peer_before = peer.as_ref().map(Process::cpu).transpose()?;
    thread::sleep(measured);
    let percent = |used: Duration| used.as_secs_f64() / measured.as_secs_f64() * 100.0;
    let peer = peer.as_ref().zip(peer_before).map(|(peer, before)| peer.used_since(before));
    let peer = peer.transpose()?.map(|used| percent(used.cpu));
    let mut usages = Vec::new();
    for ((_, process), (cpu, written)) in programs.iter().zip(before) {
        let percent = percent(process.used_since(cpu)?.cpu);
        let written = process::written(process.id())?.saturating_sub(written);
        usages.push(Usage {
            percent,
            ratio: peer.map_or(f64::NAN, |peer| percent / peer),
            resident: Resident::of(process.id())?,
            written: written as f64 * DAY.as_secs_f64() / measured.as_secs_f64(),
        });
    }

    println!(
        "{:22}{:>7}{:>7}{:>10}{:>8}{:>11}{:>9}{:>8}{:>12}{:>10}",
        "",
        "CPU",
        "ratio",
        "resident",
        "shared",
        "anonymous",
        "program",
        "driver",
        "written/day",
        "p99 late"
    );
    let mut broken = Vec::new();
    for ((program, process), usage) in programs.into_iter().zip(usages) {
        process.terminate()?;
        program.print(&usage, &program.lateness(paths)?);
        program.check(&usage, &mut broken);
    }
    drop(kubelet);
    match peer {
        Some(percent) => println!("{:22}{percent:>6.2}%   at 1 Hz, not scraped", "nvitop-exporter"),
        None => println!("nvitop-exporter: not installed, no ratio"),
    }
    println!(
        "resident in MiB, of which anonymous, and of the files of program and driver; shared: with pages that \
         others use divided\nLoad average after the run: {}\n",
        load()
    );
    if broken.is_empty() { Ok(()) } else { Err(BenchError::Bounds(broken)) }
}

impl Program {
    fn name(self) -> String {
        format!("{}{}", self.command, if self.stores { ", data directory" } else { "" })
    }

    /// Where it keeps what is its own.
    fn directory(self, paths: &Paths) -> PathBuf {
        paths.file(&self.name().replace(", ", "-").replace(' ', "-"))
    }

    fn start(
        self,
        paths: &Paths,
        node: &Path,
        fake: &Fake,
        otelcol: SocketAddr,
    ) -> Result<Process, BenchError> {
        let directory = self.directory(paths);
        let mut command = Command::new(paths.phasemeter());
        command.env_clear().envs(fake.environment());
        // Beside one another, each exports all.
        command.env("RUNTIME_DIRECTORY", &directory);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{otelcol}"));
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "10000");
        command.args([self.command, "--price", "2.985", "--report"]);
        command.arg(directory.join("report.json"));
        if self.command == "agent" {
            command.arg("--kubelet-socket").arg(kubelet::socket(node));
            command.arg("--pod-logs").arg(kubelet::logs(node));
            command.arg("--socket").arg(directory.join("agent.sock"));
        }
        if self.stores {
            command.arg("--data-dir").arg(directory.join("data"));
        }
        Process::start(&mut command, &directory.join("log.txt"))
    }

    /// What its report states once it has ended.
    fn lateness(self, paths: &Paths) -> Result<Lateness, BenchError> {
        let path = self.directory(paths).join("report.json");
        let text = fs::read_to_string(&path).map_err(BenchError::at(&path))?;
        let expected = "the tick lateness";
        lateness(&serde_json::from_str(&text)?).ok_or(BenchError::Output { path, expected })
    }

    fn print(self, usage: &Usage, lateness: &Lateness) {
        let Usage { percent, ratio, resident, written } = usage;
        let mebibytes = |bytes: u64| bytes as f64 / MEBIBYTE;
        println!(
            "{:22}{percent:>6.2}%{ratio:>7.2}{:>10.1}{:>8.1}{:>11.1}{:>9.1}{:>8.1}{:>9.0} MB{:>7.2} ms",
            self.name(),
            mebibytes(resident.all),
            mebibytes(resident.proportional),
            mebibytes(resident.anonymous),
            mebibytes(resident.program),
            mebibytes(resident.driver),
            written / 1e6,
            lateness.p99,
        );
    }

    /// Adds the bounds that do not hold. The ratio is none if there is no nvitop-exporter.
    fn check(self, usage: &Usage, broken: &mut Vec<String>) {
        let (percent, ratio) = if self.stores { (0.7, 0.4) } else { (0.5, 0.35) };
        let written = if self.stores { WRITTEN } else { f64::INFINITY };
        let resident = usage.resident.all as f64 / MEBIBYTE;
        for (what, value, bound) in [
            ("percent of a core", usage.percent, percent),
            ("of nvitop-exporter's CPU", usage.ratio, ratio),
            ("MiB resident", resident, RESIDENT),
            ("bytes written per day", usage.written, written),
        ] {
            if value > bound {
                broken.push(format!("{}: {value:.2} {what}, not {bound}", self.name()));
            }
        }
    }
}
