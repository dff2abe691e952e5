//! Live metering: eight GPUs at 10 Hz on the scripted driver, exporting to a real Collector, beside
//! nvitop-exporter on the same driver. The budgets are printed next to what was measured.

mod arrived;
mod fleet;
mod nvitop;
mod otelcol;
mod process;
mod relay;
mod waiting;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::BenchError;
use crate::place::Place;
use arrived::{Arrived, Lateness};
use fleet::GPUS;
use otelcol::Otelcol;
use process::{Process, Used};
use relay::Relay;
use waiting::Waited;

/// What starting up costs is not counted.
const WARM_UP: Duration = Duration::from_secs(5);
/// CPU time is that of so long.
const MEASURED: Duration = Duration::from_secs(60);
/// All of a run, in seconds: what it costs to end is not counted either.
const RUN: u64 = 66;
/// How often metrics are exported by default.
const EXPORTS_AN_HOUR: f64 = 60.0;
const SECONDS_AN_HOUR: f64 = 3_600.0;
const MEBIBYTE: f64 = 1_048_576.0;

/// What was measured, all of it in one run.
struct Measured {
    phasemeter: Used,
    nvitop: Option<Used>,
    /// Bytes of all metrics, and of all spans.
    metrics: u64,
    traces: u64,
    arrived: Arrived,
    /// What this machine does to a thread that has nothing to do.
    waited: Waited,
}

/// Runs it and prints the table; says so where it cannot.
pub(crate) fn bench(place: &Place) -> Result<(), BenchError> {
    let (seconds, load) = (MEASURED.as_secs(), load());
    println!(
        "Live: {GPUS} GPUs at 10 Hz on the scripted driver, exporting to a Collector, {seconds} s"
    );
    println!("Load of this machine before: {load}\n");
    match Otelcol::start(place)? {
        Some(otelcol) => measure(place, otelcol)?.print(),
        None => println!("There is no Collector (see `make collector`): nothing was measured.\n"),
    }
    Ok(())
}

fn measure(place: &Place, otelcol: Otelcol) -> Result<Measured, BenchError> {
    let fake = fleet::install(place)?;
    let [metrics, traces] = [Relay::to(otelcol.http)?, Relay::to(otelcol.http)?];
    let report = place.file("live.json");
    let mut command = Command::new(place.phasemeter());
    command.env_clear().envs(fake.environment());
    for (signal, relay) in [("METRICS", &metrics), ("TRACES", &traces)] {
        let endpoint = format!("http://{}/v1/{}", relay.address, signal.to_lowercase());
        command.env(format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"), endpoint);
    }
    command.args(["run", "--price", "2.985", "--duration", &RUN.to_string()]);
    command.arg("--report").arg(&report);

    let peer = nvitop::start(place, &fake)?;
    let run = Process::start(&mut command, &place.file("live.txt"))?;
    thread::sleep(WARM_UP);
    let (before, peer_before) = (run.cpu()?, peer.as_ref().map(Process::cpu).transpose()?);
    let waited = waiting::wait(GPUS, MEASURED);
    let phasemeter = run.used_since(before)?;
    let nvitop = peer.zip(peer_before).map(|(peer, before)| peer.used_since(before)).transpose()?;
    run.end()?;
    let (metrics, traces) = (metrics.sent(), traces.sent());
    let arrived = Arrived::read(&otelcol.stop()?, &report)?;
    Ok(Measured { phasemeter, nvitop, metrics, traces, arrived, waited })
}

impl Measured {
    fn print(&self) {
        let Self { phasemeter, nvitop, metrics, traces, arrived, waited } = self;
        println!("{:32}{:>10}{:>16}", "", "CPU", "peak resident");
        print_used("phasemeter run, 10 Hz", phasemeter, "budget 0.50 %, 25 MiB");
        match nvitop {
            Some(nvitop) => print_used("nvitop-exporter, 1 Hz", nvitop, "not scraped"),
            None => println!("nvitop-exporter is not installed here: nothing to compare with"),
        }
        println!();
        let Lateness { p50, p99, max, missed } = arrived.lateness;
        println!(
            "lateness          p50 {p50:.2} ms, p99 {p99:.2} ms (budget 2 ms), max {max:.2} ms; \
             {missed} ticks missed"
        );
        let [p50, p99, max] =
            [waited.p50, waited.p99, waited.max].map(|late| late.as_secs_f64() * 1e3);
        println!("  who only waits  p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms");
        // Every export is as large as the next; spans are as many as the time is long.
        let hours = RUN as f64 / SECONDS_AN_HOUR;
        let metrics_an_hour = *metrics as f64 / arrived.exports as f64 * EXPORTS_AN_HOUR;
        let bytes = metrics_an_hour + *traces as f64 / hours / f64::from(GPUS);
        let spans = arrived.phase_spans as f64 / hours / f64::from(GPUS);
        println!(
            "on the wire       {:.2} MiB and {spans:.0} spans an hour a GPU (budget 1 MiB, 720)",
            bytes / MEBIBYTE
        );
        let (truth, Arrived { drained, polled, .. }) = (fleet::BURST_PERCENT, arrived);
        println!(
            "50 ms bursts      true {truth:.2} %, drained {drained:.2} %, polled {polled:.2} %\n"
        );
    }
}

fn print_used(name: &str, used: &Used, note: &str) {
    let percent = used.cpu.as_secs_f64() / MEASURED.as_secs_f64() * 100.0;
    let peak = used.peak as f64 / MEBIBYTE;
    println!("{name:32}{percent:>8.2} %{peak:>12.1} MiB   {note}");
}

/// What else runs here: lateness is a matter of that too.
fn load() -> String {
    let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = averages.split(' ').next().unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{minute} on {cores} cores")
}

/// A port of this machine that was free a moment ago.
fn free_port() -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::Network)?;
    listener.local_addr().map_err(BenchError::Network)
}
