//! How long a client waits while another one sends the worst requests, one after another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_otlp::EncodedRequest;

use super::bodies::{Body, SENT};
use crate::BenchError;
use crate::gateway::{Backend, Gateway, client, spans};
use crate::paths::Paths;

/// Requests of the client whose wait is measured, and the time between them.
const REQUESTS: u64 = 50;
const INTERVAL: Duration = Duration::from_millis(100);

/// Sizes of the worst requests in MiB: of those that are not split, and the largest.
const SIZES: [usize; 2] = [1, 20];

const SOON: Duration = Duration::from_secs(60);

/// Prints a row for each kind.
pub(super) fn bench(paths: &Paths) -> Result<(), BenchError> {
    println!(
        "Wait of a client with a span every {INTERVAL:?} beside the worst requests of 1 and 20 MiB\n"
    );
    println!("{:40}{:>8}{:>12}{:>12}", "ms until accepted (budget 1,000)", "MiB", "p50", "max");
    for (kind, mebibytes) in SENT.iter().flat_map(|kind| SIZES.map(|size| (kind, size))) {
        let body = kind((mebibytes << 20) - (1 << 10));
        let (median, most) = measure(paths, &body)?;
        let millis = |wait: Duration| wait.as_secs_f64() * 1e3;
        println!("{:40}{mebibytes:>8}{:>12.1}{:>12.1}", body.name, millis(median), millis(most));
    }
    println!();
    Ok(())
}

fn measure(paths: &Paths, body: &Body) -> Result<(Duration, Duration), BenchError> {
    let mut backend = Backend::start()?;
    let gateway = Gateway::start(paths, &backend.endpoint(), &["--price-spans", "*"])?;
    let (hostile, good) = (client(&gateway.endpoint())?, client(&gateway.endpoint())?);
    let is_over = AtomicBool::new(false);
    let mut waits = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let bytes = body.bytes.clone().into();
                hostile.enqueue_waiting(EncodedRequest::new(body.signal, 1, bytes), SOON);
            }
        });
        let (backend, is_over) = (&mut backend, &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                backend.next(Duration::from_millis(10));
            }
        });
        let waits: Vec<_> = (0..REQUESTS)
            .map(|number| {
                thread::sleep(INTERVAL);
                let started = Instant::now();
                let receipt = good.enqueue_with_receipt(spans(number, 1));
                while receipt.as_ref().is_some_and(|receipt| receipt.outcome().is_none())
                    && started.elapsed() < SOON
                {
                    thread::sleep(Duration::from_millis(1));
                }
                started.elapsed()
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        waits
    });
    gateway.stop()?;
    waits.sort_unstable();
    let at = |index: usize| waits.get(index).copied().unwrap_or_default();
    Ok((at(waits.len() / 2), at(waits.len().saturating_sub(1))))
}
