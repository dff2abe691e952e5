//! `phasemeter policy bench`: what a policy takes, of what it may take.

use std::time::{Duration, Instant};

use super::desk::{self, Desk};
use super::shown::Shown;
use crate::cli::BenchArgs;
use crate::command::Failure;
use crate::report::text::{clean, grouped};

/// Runs it over and over.
pub(super) fn run(args: &BenchArgs) -> Result<(), Failure> {
    let desk = Desk::open(&args.guest.host)?;
    let size = desk::read(&args.guest.file)?.len();
    let started = Instant::now();
    let compiled = desk.compile(&args.guest.file)?.len();
    let compiling = started.elapsed();
    let policy = desk.load(&args.guest.file, args.guest.settings.as_deref())?;
    let shown = Shown::of(&args.shown)?;
    let mut times = Vec::new();
    let (mut fuel, mut memory) = (0, 0);
    for _ in 0..args.runs.get() {
        let (_, usage) = desk::ask(&policy, &shown)?;
        times.push(usage.time);
        fuel = usage.fuel;
        memory = usage.memory;
    }
    times.sort_unstable();
    let limits = desk.limits();
    println!("{}: {} runs", clean(policy.file()), times.len());
    println!(
        "  size    {} bytes, compiled {} bytes in {}",
        bytes(size),
        bytes(compiled),
        ms(compiling)
    );
    println!("  fuel    {} of {}", grouped(fuel.into()), grouped(limits.fuel.into()));
    println!("  memory  {} of {} KiB", bytes(memory >> 10), bytes(limits.memory >> 10));
    let [p50, p99] = [50, 99].map(|percent| ms(percentile(&times, percent)));
    println!("  time    p50 {p50}, p99 {p99} of {}", ms(limits.deadline));
    Ok(())
}

fn bytes(count: usize) -> String {
    grouped(count as u128)
}

fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// The smallest that so many percent are not above.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}
