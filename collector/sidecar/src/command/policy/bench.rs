//! `phasemeter policy bench`: measures fuel, memory and time of a policy, with their limits.

use std::time::{Duration, Instant};

use phasemeter_terminal::escape::clean;
use phasemeter_terminal::number::grouped;

use super::input::PolicyInput;
use super::loader::PolicyLoader;
use super::{files, output, project};
use crate::command::error::CommandError;
use phasemeter_cli::BenchArgs;

/// Evaluates the policy repeatedly.
pub(super) fn run(args: &BenchArgs) -> Result<(), CommandError> {
    let loader = PolicyLoader::new(&args.guest.host)?;
    let file = project::component_of(&args.guest.policy)?;
    let size = files::read(&file)?.len();
    let started = Instant::now();
    let compiled = loader.compile(&file)?.len();
    let compile_time = started.elapsed();
    let policy = loader.load(&file, args.guest.settings.as_deref())?;
    let input = PolicyInput::from_args(&args.input)?;
    let mut times = Vec::new();
    let (mut fuel, mut memory) = (0, 0);
    for _ in 0..args.runs.get() {
        let (_, usage) = output::evaluate(&policy, &input)?;
        times.push(usage.time);
        fuel = usage.fuel;
        memory = usage.memory;
    }
    times.sort_unstable();
    let limits = loader.limits();
    println!("{}: {} evaluations", clean(policy.file()), times.len());
    println!(
        "  size    {} bytes, compiled {} bytes in {}",
        bytes(size),
        bytes(compiled),
        ms(compile_time)
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

/// The nearest-rank percentile.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}
