//! CPU time and memory of the gateway that meters 1,000 GPUs, beside those of the Collector that scrapes them, in
//! the same run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::BenchError;
use crate::gateway::{Backend, Gateway};
use crate::nodes::{GPUS_PER_NODE, Nodes};
use crate::otelcol::Otelcol;
use crate::paths::Paths;
use crate::process::{cpu, resident};

const NODES: u64 = 125;

/// Seconds between scrapes.
const EVERY: u64 = 1;

/// Time before the measurement, and the number of measurements and the time between them.
const WARM_UP: Duration = Duration::from_secs(20);
const MEASUREMENTS: u32 = 6;
const APART: Duration = Duration::from_secs(20);

const MEBIBYTE: f64 = 1_048_576.0;

/// Measures and prints the table; says so if there is no Collector.
pub(super) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let nodes = Nodes::serve(NODES).map_err(BenchError::Network)?;
    let backend = Backend::start()?;
    let options = ["--hold", "5", "--stale-after", "3"];
    let gateway = Gateway::start(paths, &backend.endpoint(), &options)?;
    let address = gateway.endpoint();
    let address = address.trim_start_matches("http://");
    let Some(collector) = Otelcol::scraping(paths, &nodes.receivers(EVERY), address)? else {
        println!("SKIPPED: a scraped fleet: no Collector; run `make collector`\n");
        return Ok(());
    };
    let gpus = NODES * GPUS_PER_NODE;
    println!("{gpus} GPUs, scraped by a Collector every {EVERY} s, through the gateway\n");
    println!("{:>8}{:>24}{:>24}", "", "gateway", "scraping Collector");
    println!("{:>8}{:>12}{:>12}{:>12}{:>12}", "seconds", "CPU", "resident", "CPU", "resident");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                backend.next(Duration::from_millis(100));
            }
        });
        let measured = measure([gateway.id(), collector.id()], gpus);
        is_over.store(true, Ordering::Relaxed);
        measured
    })?;
    collector.stop()?;
    gateway.stop()?;
    Ok(())
}

fn measure(programs: [u32; 2], gpus: u64) -> Result<(), BenchError> {
    thread::sleep(WARM_UP);
    let read = || -> Result<[(Duration, u64); 2], BenchError> {
        let [gateway, collector] = programs;
        Ok([(cpu(gateway)?, resident(gateway)?), (cpu(collector)?, resident(collector)?)])
    };
    let before = read()?;
    let mut now = before;
    for number in 1..=MEASUREMENTS {
        thread::sleep(APART);
        now = read()?;
        print!("{:>8}", (WARM_UP + APART * number).as_secs());
        for ((cpu, resident), (before, _)) in now.into_iter().zip(before) {
            let (cpu, mebibytes) = (cpu.saturating_sub(before), resident as f64 / MEBIBYTE);
            print!("{:>10.2} s{mebibytes:>8.1} MiB", cpu.as_secs_f64());
        }
        println!();
    }
    let seconds = (APART * MEASUREMENTS).as_secs_f64();
    let [gateway, collector] = [0, 1].map(|program: usize| {
        let of = |values: [(Duration, u64); 2]| {
            values.get(program).map_or(f64::NAN, |it| it.0.as_secs_f64())
        };
        (of(now) - of(before)) / (gpus as f64 * seconds / EVERY as f64) * 1e6
    });
    println!(
        "\nper scrape of a GPU: gateway {gateway:.0} µs, Collector {collector:.0} µs of CPU\n"
    );
    Ok(())
}
