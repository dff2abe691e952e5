//! The real schedulers and launchers of batch jobs: Slurm, torchrun, Ray.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod ray;
mod slurm;
mod torchrun;

use std::io::Write;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Deadline for what takes seconds on an idle machine, up to half a minute.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Prints that the test that calls this is skipped, since it needs `program`.
fn skip(program: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let skipped = format!("\nSKIPPED: {test} (no {program}): run `make test-backends`\n");
    // Not captured, as what `println!` prints is.
    std::io::stdout().write_all(skipped.as_bytes()).unwrap();
}

/// Waits until `probe` returns something.
fn wait<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a process has ended.
fn wait_for_end(what: &str, child: &mut Child) -> ExitStatus {
    wait(what, || child.try_wait().unwrap())
}
