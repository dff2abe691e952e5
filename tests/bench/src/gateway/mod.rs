//! The gateway: the delay that it adds at 10,000 spans per second, also over a slow link, its memory while the
//! backend is down,
//! and the price of spans at 1, 10 and 100 times the load of an LLM server.
//!
//! The backend is Phasemeter's own receiver, in this process, so that bytes are compared.

mod backend;
mod link;
#[path = "../../../llm/mod.rs"]
mod llm;
mod requests;
mod span_cost;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use backend::Backend;
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::delivery::{Client, Config, Destination};
pub(crate) use requests::spans;
use wait4::Wait4;

use crate::BenchError;
use crate::paths::Paths;
use crate::process::peak;

/// Spans per request, and time between requests: 10,000 spans per second.
const SPANS: u64 = 100;
const INTERVAL: Duration = Duration::from_millis(10);

/// Number of requests: ten seconds.
const REQUESTS: u64 = 1_000;

/// Deadline of what happens at once.
const SOON: Duration = Duration::from_secs(60);

const MEBIBYTE: f64 = 1_048_576.0;

/// Runs all and prints the tables.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("Gateway: {SPANS} spans every {INTERVAL:?} for 10 s over gRPC");
    println!("Load average before the run: {}\n", load.split(' ').next().unwrap_or_default());
    let requests: Vec<_> = (0..REQUESTS).map(|n| spans(n, SPANS)).collect();
    let mut backend = Backend::start()?;
    let endpoint = backend.endpoint();
    let direct = delays(&mut backend, &endpoint, &requests)?;
    let mut backend = Backend::start()?;
    let gateway = Gateway::start(paths, &backend.endpoint(), &[])?;
    let through = delays(&mut backend, &gateway.endpoint(), &requests)?;
    let used = gateway.stop()?;
    println!("{:28}{:>10}{:>10}{:>10}", "delay in ms", "p50", "p99", "max");
    let row = |name: &str, value: &dyn Fn(usize) -> f64| {
        println!("{name:28}{:>10.2}{:>10.2}{:>10.2}", value(50), value(99), value(100));
    };
    row("direct", &|percent| direct.millis(percent));
    row("through the gateway", &|percent| through.millis(percent));
    row("added (p99 budget 5 ms)", &|percent| through.millis(percent) - direct.millis(percent));
    let cpu = used.cpu.as_secs_f64() / (INTERVAL.as_secs_f64() * REQUESTS as f64) * 100.0;
    println!("{REQUESTS} requests with the same bytes; {cpu:.1}% of a core\n");
    link::bench(paths, &requests, &direct)?;

    let peak = peak_without_backend(paths)? as f64 / MEBIBYTE;
    println!("{peak:.1} MiB resident at most while the backend is down (budget 64 MiB)\n");
    span_cost::bench(paths)
}

/// How long requests took to arrive.
struct Delays {
    /// Of each request, sorted.
    each: Vec<Duration>,
    /// From the first request to the arrival of the last.
    took: Duration,
}

impl Delays {
    /// A percentile in milliseconds.
    fn millis(&self, percent: usize) -> f64 {
        let last = self.each.len().saturating_sub(1);
        self.each.get(last * percent / 100).map_or(f64::NAN, |delay| delay.as_secs_f64() * 1e3)
    }
}

/// Sends requests at their times, and returns how long each took to arrive. The bytes must be the same, in order;
/// several requests may arrive as one.
fn delays(
    backend: &mut Backend,
    endpoint: &str,
    requests: &[EncodedRequest],
) -> Result<Delays, BenchError> {
    let client = client(endpoint)?;
    thread::scope(|scope| {
        let arrivals = scope.spawn(move || {
            let (mut received, mut at) = (Vec::new(), Instant::now());
            let mut arrive = |sent: &EncodedRequest| {
                if received.is_empty() {
                    let request = backend.next(SOON).ok_or(BenchError::Forwarding)?;
                    (received, at) = (request.body().to_vec(), Instant::now());
                }
                let sent = sent.body();
                if !received.starts_with(sent) {
                    return Err(BenchError::Forwarding);
                }
                received.drain(..sent.len());
                Ok(at)
            };
            requests.iter().map(&mut arrive).collect::<Result<Vec<_>, _>>()
        });
        let started = Instant::now();
        let mut sent = Vec::with_capacity(requests.len());
        for (n, request) in (0..).zip(requests) {
            thread::sleep((started + INTERVAL * n).saturating_duration_since(Instant::now()));
            sent.push(Instant::now());
            client.enqueue(request.clone());
        }
        let is_sent = client.flush(SOON).all_sent();
        let arrivals = arrivals.join().map_err(|_| BenchError::Forwarding)??;
        if !is_sent {
            return Err(BenchError::Forwarding);
        }
        let took = arrivals.last().map_or(Duration::ZERO, |last| last.duration_since(started));
        let mut each: Vec<_> =
            sent.iter().zip(arrivals).map(|(sent, at)| at.duration_since(*sent)).collect();
        each.sort_unstable();
        Ok(Delays { each, took })
    })
}

/// The peak of resident memory while more is sent than fits, and nothing can be delivered.
fn peak_without_backend(paths: &Paths) -> Result<u64, BenchError> {
    let nothing = Backend::unreachable()?;
    let gateway = Gateway::start(paths, &nothing, &[])?;
    let clients = (0..8).map(|_| client(&gateway.endpoint())).collect::<Result<Vec<_>, _>>()?;
    for (n, client) in (0..80).zip(clients.iter().cycle()) {
        client.enqueue(spans(n, 5_000));
    }
    thread::scope(|scope| {
        for client in clients {
            scope.spawn(move || client.flush(Duration::from_secs(5)));
        }
    });
    Ok(gateway.stop()?.peak)
}

const QUEUE_BYTES: u64 = 32 << 20;

/// A client of this endpoint over gRPC.
pub(crate) fn client(endpoint: &str) -> Result<Client, BenchError> {
    let variable = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.to_owned()),
        "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("grpc".to_owned()),
        _ => None,
    };
    let config = Config::read(Destination::Environment, variable).ok().flatten();
    let mut config = config.ok_or(BenchError::Forwarding)?;
    // It has to hold the largest request.
    config.queue_bytes = config.queue_bytes.max(QUEUE_BYTES);
    Client::start(&config).map_err(|_| BenchError::Forwarding)
}

/// A gateway that bills $3.60 per GPU-hour.
pub(crate) struct Gateway {
    child: Child,
    address: String,
}

/// Resources that a gateway used.
pub(crate) struct Used {
    cpu: Duration,
    /// Peak resident memory in bytes.
    peak: u64,
}

impl Gateway {
    /// Starts it on a free port.
    pub(crate) fn start(
        paths: &Paths,
        backend: &str,
        options: &[&str],
    ) -> Result<Self, BenchError> {
        let program = paths.phasemeter().display().to_string();
        let mut command = Command::new(paths.phasemeter());
        command.env_clear().env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", backend).stdin(Stdio::null());
        command.args(["gateway", "--listen", "127.0.0.1:0", "--price", "3.6"]);
        // Readings have fixed times.
        command.args(["--max-age", "315360000"]);
        command.args(["--no-default-policies"]).args(options).stderr(Stdio::piped());
        let failed = |source| BenchError::Start { program: program.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let mut lines = BufReader::new(child.stderr.take().ok_or(BenchError::Forwarding)?).lines();
        let found = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("receiving OTLP on ")?;
            address.split_whitespace().next().map(ToOwned::to_owned)
        });
        thread::spawn(move || lines.for_each(drop));
        let address = found.ok_or(BenchError::Forwarding)?;
        Ok(Self { child, address })
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops it, and waits until it has delivered what it can. Its peak is that before it stopped.
    pub(crate) fn stop(self) -> Result<Used, BenchError> {
        let peak = peak(self.child.id())?;
        let pid = rustix::process::Pid::from_child(&self.child);
        let killed = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        killed.map_err(|error| BenchError::Network(error.into()))?;
        let usage = self.child.wait4().map_err(BenchError::Network)?.rusage;
        Ok(Used { cpu: usage.utime + usage.stime, peak })
    }
}
