//! CPU time of a start without a cache: from exec until every GPU was read once.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::BenchError;
use crate::live::fleet::{self, GPUS};
use crate::paths::Paths;
use crate::process::Process;

/// Number of starts.
const RUNS: usize = 15;

/// CPU time of the median start, in a container with a tenth of a core a second.
const BUDGET: Duration = Duration::from_millis(100);

/// The command starts once all GPUs are known; by then each was due, at 10 Hz.
const FIRST_ROUND: Duration = Duration::from_millis(120);

/// How long the command takes to start at most.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Measures and prints it.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let mut times = (0..RUNS).map(|_| start(paths)).collect::<Result<Vec<_>, _>>()?;
    times.sort_unstable();
    let millis = |place: usize| times.get(place).map_or(0, Duration::as_millis);
    let (least, median, most) = (millis(0), millis(RUNS / 2), millis(RUNS - 1));
    println!(
        "Start: CPU time until {GPUS} GPUs were read once, with the default policies and without a \
         cache\n\nmedian {median} ms of {RUNS} starts, {least} to {most} ms, to 10 ms (budget {} ms)\n",
        BUDGET.as_millis()
    );
    if median > BUDGET.as_millis() {
        let budget = BUDGET.as_millis();
        return Err(BenchError::Bounds(vec![format!(
            "a start takes {median} ms, not {budget} ms"
        )]));
    }
    Ok(())
}

/// The CPU time of one start.
fn start(paths: &Paths) -> Result<Duration, BenchError> {
    let fake = fleet::install(paths)?;
    let mut command = Command::new(paths.phasemeter());
    command.env_clear().envs(fake.environment()).args(["run", "--", "sleep", "60"]);
    let run = Process::start(&mut command, &paths.file("start.txt"))?;
    let (began, children) = (Instant::now(), format!("/proc/{0}/task/{0}/children", run.id()));
    // The first child is the command, unless a policy is compiled.
    while fs::read_to_string(&children).unwrap_or_default().trim().is_empty() {
        if began.elapsed() > TIMEOUT {
            let expected = "a started command";
            return Err(BenchError::Output { path: paths.file("start.txt"), expected });
        }
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(FIRST_ROUND);
    let cpu = run.cpu()?;
    // Its own end is not measured; the command would live on.
    for child in fs::read_to_string(&children).unwrap_or_default().split_whitespace() {
        let _ = Command::new("kill").arg(child).status();
    }
    Ok(cpu)
}
