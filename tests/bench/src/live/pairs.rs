//! CPU time of live metering with exports each ten seconds, as a ratio to that of nvitop-exporter in the same
//! minute: five pairs, which start in alternating order.

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::fleet;
use super::nvitop;
use super::{MEASURED, RUN, WARM_UP};
use crate::BenchError;
use crate::otelcol::Otelcol;
use crate::paths::Paths;
use crate::process::Process;

const PAIRS: usize = 5;

/// Bound of the median ratio.
const BOUND: f64 = 0.35;

const EXPORT_INTERVAL_MS: &str = "10000";

/// Measures the pairs and prints them.
pub(super) fn bench(paths: &Paths, otelcol: &Otelcol) -> Result<(), BenchError> {
    println!("CPU beside nvitop-exporter at 1 Hz, exporting each 10 s, in {PAIRS} pairs");
    let mut ratios = Vec::new();
    for pair in 0..PAIRS {
        let Some((own, peer)) = measure(paths, otelcol, pair % 2 == 0)? else {
            println!("SKIPPED: nvitop-exporter is not installed\n");
            return Ok(());
        };
        let percent = |used: Duration| used.as_secs_f64() / MEASURED.as_secs_f64() * 100.0;
        let ratio = own.as_secs_f64() / peer.as_secs_f64();
        println!(
            "  phasemeter {:.2}%, nvitop-exporter {:.2}%: {ratio:.2}",
            percent(own),
            percent(peer)
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let at = |place: usize| ratios.get(place).copied().unwrap_or(f64::NAN);
    let (least, median, most) = (at(0), at(PAIRS / 2), at(PAIRS - 1));
    println!("median {median:.2} of {least:.2} to {most:.2} (bound {BOUND})\n");
    if median <= BOUND {
        return Ok(());
    }
    let broken = format!("live metering takes {median:.2} of nvitop-exporter's CPU, not {BOUND}");
    Err(BenchError::Bounds(vec![broken]))
}

/// CPU time of both in the same minute.
fn measure(
    paths: &Paths,
    otelcol: &Otelcol,
    own_first: bool,
) -> Result<Option<(Duration, Duration)>, BenchError> {
    let fake = fleet::install(paths)?;
    let mut command = Command::new(paths.phasemeter());
    command.env_clear().envs(fake.environment());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", otelcol.http));
    command.env("OTEL_METRIC_EXPORT_INTERVAL", EXPORT_INTERVAL_MS);
    command.args(["run", "--price", "2.985", "--duration", &RUN.to_string()]);
    let mut start = || Process::start(&mut command, &paths.file("live.txt"));
    let (own, peer) = if own_first {
        let own = start()?;
        (own, nvitop::start(paths, &fake)?)
    } else {
        let peer = nvitop::start(paths, &fake)?;
        (start()?, peer)
    };
    let Some(peer) = peer else { return Ok(None) };
    thread::sleep(WARM_UP);
    let (own_before, peer_before) = (own.cpu()?, peer.cpu()?);
    thread::sleep(MEASURED);
    let used = (own.used_since(own_before)?.cpu, peer.used_since(peer_before)?.cpu);
    own.end()?;
    Ok(Some(used))
}
