//! Live metering: eight GPUs at 10 Hz on the scripted driver, exporting to a real Collector, beside
//! nvitop-exporter on the same driver. Budgets are printed next to the measured values.

pub(crate) mod agent;
mod fleet;
mod idle_baseline;
mod kubelet;
mod nvitop;
mod pairs;
mod received;
pub(crate) mod start;

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::BenchError;
use crate::otelcol::Otelcol;
use crate::paths::Paths;
use crate::process::{Process, Used};
use crate::relay::Relay;
use fleet::GPUS;
use idle_baseline::IdleBaseline;
use received::{Lateness, Received};

/// Startup is not measured.
const WARM_UP: Duration = Duration::from_secs(5);
/// The measured interval.
const MEASURED: Duration = Duration::from_secs(60);
/// Duration of the run in seconds; the end is not measured either.
const RUN: u64 = 66;
/// Default metric exports per hour.
const EXPORTS_PER_HOUR: f64 = 60.0;
const SECONDS_PER_HOUR: f64 = 3_600.0;
const MEBIBYTE: f64 = 1_048_576.0;

/// Measurements of one run.
struct Measured {
    phasemeter: Used,
    nvitop: Option<Used>,
    /// Bytes of all metrics and of all spans.
    metrics: u64,
    traces: u64,
    received: Received,
    /// Wake-up lateness of idle threads on this machine.
    baseline: IdleBaseline,
}

/// Measures a run and prints the table, or why it was skipped.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let (seconds, load) = (MEASURED.as_secs(), load());
    println!(
        "Live: {GPUS} GPUs at 10 Hz on the scripted driver, exporting to a Collector, {seconds} s"
    );
    println!("Load average before the run: {load}\n");
    match Otelcol::start(paths)? {
        Some(otelcol) => {
            measure(paths, otelcol)?.print();
            if let Some(otelcol) = Otelcol::start(paths)? {
                pairs::bench(paths, &otelcol)?;
            }
        }
        None => println!("SKIPPED: no Collector; run `make collector`\n"),
    }
    Ok(())
}

fn measure(paths: &Paths, otelcol: Otelcol) -> Result<Measured, BenchError> {
    let fake = fleet::install(paths)?;
    let relay = || Relay::to(otelcol.http).map_err(BenchError::Network);
    let [metrics, traces] = [relay()?, relay()?];
    let report = paths.file("live.json");
    let mut command = Command::new(paths.phasemeter());
    command.env_clear().envs(fake.environment());
    for (signal, relay) in [("METRICS", &metrics), ("TRACES", &traces)] {
        let endpoint = format!("http://{}/v1/{}", relay.address, signal.to_lowercase());
        command.env(format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"), endpoint);
    }
    // Of the default set, but for effective time by the basis that is not billed.
    command.env("PHASEMETER_METRICS", "default,keep:phasemeter.gpu.effective_time");
    command.args(["run", "--price", "2.985", "--duration", &RUN.to_string()]);
    command.arg("--report").arg(&report);

    let peer = nvitop::start(paths, &fake)?;
    let run = Process::start(&mut command, &paths.file("live.txt"))?;
    thread::sleep(WARM_UP);
    let (before, peer_before) = (run.cpu()?, peer.as_ref().map(Process::cpu).transpose()?);
    let baseline = idle_baseline::measure(GPUS, MEASURED);
    let phasemeter = run.used_since(before)?;
    let nvitop = peer.zip(peer_before).map(|(peer, before)| peer.used_since(before)).transpose()?;
    run.end()?;
    let (metrics, traces) = (metrics.sent(), traces.sent());
    let received = Received::read(&otelcol.stop()?, &report)?;
    Ok(Measured { phasemeter, nvitop, metrics, traces, received, baseline })
}

impl Measured {
    fn print(&self) {
        let Self { phasemeter, nvitop, metrics, traces, received, baseline } = self;
        println!("{:32}{:>10}{:>16}", "", "CPU", "peak resident");
        print_used("phasemeter run, 10 Hz", phasemeter, "budget 0.50%, 25 MiB");
        match nvitop {
            Some(nvitop) => print_used("nvitop-exporter, 1 Hz", nvitop, "not scraped"),
            None => println!("nvitop-exporter: not installed, no comparison"),
        }
        println!();
        let Lateness { p50, p99, max, missed } = received.lateness;
        println!(
            "lateness          p50 {p50:.2} ms, p99 {p99:.2} ms (budget 2 ms), max {max:.2} ms; \
             {missed} ticks missed"
        );
        let [p50, p99, max] =
            [baseline.p50, baseline.p99, baseline.max].map(|late| late.as_secs_f64() * 1e3);
        println!("  idle threads    p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms");
        // Metric exports have constant size; the number of spans grows with time.
        let hours = RUN as f64 / SECONDS_PER_HOUR;
        let metrics_per_hour = *metrics as f64 / received.exports as f64 * EXPORTS_PER_HOUR;
        let bytes = metrics_per_hour + *traces as f64 / hours / f64::from(GPUS);
        let spans = received.phase_spans as f64 / hours / f64::from(GPUS);
        println!(
            "on the wire       {:.2} MiB and {spans:.0} spans per GPU-hour (budget 1 MiB, 720)",
            bytes / MEBIBYTE
        );
        let (truth, Received { drained, polled, .. }) = (fleet::BURST_PERCENT, received);
        println!(
            "50 ms bursts      true {truth:.2}%, drained {drained:.2}%, polled {polled:.2}%\n"
        );
    }
}

fn print_used(name: &str, used: &Used, note: &str) {
    let percent = used.cpu.as_secs_f64() / MEASURED.as_secs_f64() * 100.0;
    let peak = used.peak as f64 / MEBIBYTE;
    println!("{name:32}{percent:>9.2}%{peak:>12.1} MiB   {note}");
}

/// Load average of this machine, which affects lateness.
fn load() -> String {
    let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = averages.split(' ').next().unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{minute} on {cores} cores")
}
