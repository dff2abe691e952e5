//! The requests that cost the receiver most per byte, of each kind: their time per byte must not grow with their
//! size. Then how long another client waits while such requests arrive one after another.

mod bodies;
mod spans;
mod wait;

use std::hint::black_box;
use std::time::Duration;

use phasemeter_otlp::{EncodedRequest, Request, Signal};
use phasemeter_receiver::{
    ResourceView, SpanView, TakenSpans, accept_bytes, counter_points, held_requests, number_points,
    take_spans,
};

use self::bodies::Body;
use crate::BenchError;
use crate::paths::Paths;

/// Sizes of requests: the largest that is accepted, a quarter of it, and the largest that is not split.
const SIZES: [usize; 3] = [1 << 20, 5 << 20, 20 << 20];

/// Runs per size, of which the fastest counts.
const RUNS: usize = 3;

/// Labels that are looked up for each point.
const LABELS: [&str; 8] = [
    "UUID",
    "hw.id",
    "host.name",
    "pod",
    "namespace",
    "container",
    "service.instance.id",
    "k8s.pod.uid",
];

/// Measures all kinds and prints the tables.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    println!("The worst requests: CPU time per byte, of the fastest of {RUNS} runs\n");
    println!("{:40}{:>12}{:>12}{:>12}", "ns per byte of a request of", "1 MiB", "5 MiB", "20 MiB");
    for kind in bodies::KINDS {
        let bodies = SIZES.map(|size| kind(size - (1 << 10)));
        row(bodies[0].name, &bodies.map(|body| (body.bytes.len(), fastest(|| serve(&body)))));
    }
    row("spans of an hour on 16 GPUs", &SIZES.map(|size| (size, fastest(|| spans::divide(size)))));
    println!();
    wait::bench(paths)
}

fn row(name: &str, measured: &[(usize, Duration)]) {
    let nanos = measured.iter().map(|(bytes, took)| took.as_nanos() as f64 / *bytes as f64);
    let cells: String = nanos.map(|nanos| format!("{nanos:>12.1}")).collect();
    println!("{name:40}{cells}");
}

fn fastest(run: impl Fn()) -> Duration {
    let time = || {
        let started = cpu_time();
        run();
        cpu_time().saturating_sub(started)
    };
    (0..RUNS).map(|_| time()).min().unwrap_or_default()
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Accepts a request, and reads what a gateway reads.
fn serve(body: &Body) {
    let accepted = accept_bytes(body.signal, body.is_json, None, &body.bytes);
    accepted.into_iter().flatten().for_each(read);
}

fn read(received: EncodedRequest) {
    match (received.signal(), received.decode()) {
        (Signal::Metrics, Ok(Request::Metrics(request))) => {
            number_points(
                &request,
                |_, _| true,
                |point| {
                    black_box(LABELS.map(|label| point.label(label)));
                },
            );
            counter_points(
                &request,
                |_| true,
                |point| {
                    black_box(point.stream());
                },
            );
        }
        (Signal::Traces, _) => {
            let mut host =
                |resource: ResourceView<'_>| resource.text("host.name").map(String::from);
            let mut choose = |span: &SpanView<'_>, host: &Option<String>| {
                Some((host.clone(), span.number("tokens")))
            };
            let TakenSpans { spans, .. } =
                take_spans(received, "phasemeter.span.", &mut host, &mut choose);
            let spans = spans.into_iter().map(|(span, _)| (span, Vec::new()));
            held_requests(spans, 1 << 20, &mut |request| drop(black_box(request)));
        }
        _ => {}
    }
}
