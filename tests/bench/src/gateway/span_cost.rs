//! The price of the requests of an LLM server: 200, 2,000 and 20,000 at once, for a minute.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use std::{fs, thread};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use phasemeter_otlp::{EncodedRequest, Request};
use serde_json::Value as Json;

use super::backend::Backend;
use super::llm::llm_requests;
use super::requests::{TOKENS, llm_request, page, traces};
use super::{Gateway, MEBIBYTE, SOON, Used, client};
use crate::BenchError;
use crate::costs::grouped;
use crate::paths::Paths;

/// Length in seconds.
const LENGTH: u64 = 60;

const GPUS: u64 = 8;

/// Spans per request.
const BATCH: usize = 512;

const NANOS: u64 = 1_000_000_000;

/// Prices the requests at each load, and prints the table.
pub(super) fn bench(paths: &Paths) -> Result<(), BenchError> {
    println!("Price of spans: a minute of {GPUS} GPUs, at hold 1 s\n");
    println!(
        "{:>8}{:>12}{:>12}{:>12}{:>10}{:>12}  spans + unattributed = bill",
        "at once", "spans", "with cost", "followed", "CPU", "resident"
    );
    for load in [1, 10, 100] {
        measure(paths, 200 * load)?;
    }
    println!();
    Ok(())
}

fn measure(paths: &Paths, concurrent: u64) -> Result<(), BenchError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let base = now.as_secs() - LENGTH - 40;
    let spans = llm_spans(base, concurrent);
    let mut backend = Backend::start()?;
    let report = paths.file("gateway.json");
    let path = report.display().to_string();
    let options = ["--hold", "1", "--price-spans", "llm_request", "--span-weight", TOKENS];
    let options = [&options[..], &["--report", &path]].concat();
    let gateway = Gateway::start(paths, &backend.endpoint(), &options)?;
    let is_stopped = AtomicBool::new(false);
    let (sums, used) = thread::scope(|scope| {
        let received = scope.spawn(|| Sums::collect(&mut backend, &is_stopped));
        let used = send(gateway, &spans, base);
        is_stopped.store(true, Ordering::Relaxed);
        (received.join().map_err(|_| BenchError::Forwarding), used)
    });
    let (sums, Used { cpu, peak }) = (sums?, used?);
    let text = fs::read_to_string(&report).map_err(BenchError::at(&report))?;
    let report: Json = serde_json::from_str(&text)?;
    let nano_usd = |value: &Json| -> Option<i128> { value.as_str()?.replace('.', "").parse().ok() };
    let attribution = &report["attribution"];
    let unattributed = nano_usd(&attribution["unattributed_usd"]);
    let bill = nano_usd(&report["cost"]["total_usd"]);
    let difference = bill.zip(unattributed).map(|(bill, rest)| bill - rest - sums.nano_usd);
    let outcome = match difference {
        Some(0) => "exact".to_owned(),
        Some(some) => format!("differs by {some} nano-dollars"),
        None => "unknown".to_owned(),
    };
    println!(
        "{:>8}{:>12}{:>12}{:>12}{:>8.2} s{:>8.1} MiB  {outcome}",
        grouped(concurrent),
        grouped(spans.len() as u64),
        grouped(sums.with_cost),
        grouped(sums.followed),
        cpu.as_secs_f64(),
        peak as f64 / MEBIBYTE,
    );
    Ok(())
}

/// Sends all and stops the gateway once most is priced.
fn send(gateway: Gateway, spans: &[Span], base: u64) -> Result<Used, BenchError> {
    let client = client(&gateway.endpoint())?;
    for spans in spans.chunks(BATCH) {
        client.enqueue_waiting(traces(spans.to_vec()), SOON);
    }
    for second in 0..=LENGTH {
        client.enqueue_waiting(page(GPUS, base + second, 60.0), SOON);
    }
    if !client.flush(SOON).all_sent() {
        return Err(BenchError::Forwarding);
    }
    // Readings are metered a second after their arrival; the rest follows at the end.
    thread::sleep(Duration::from_secs(5));
    gateway.stop()
}

/// One request after another for each of those at once, of 2 to 12 s.
fn llm_spans(base: u64, concurrent: u64) -> Vec<Span> {
    let requests = llm_requests(concurrent, &(2 * NANOS..12 * NANOS), LENGTH * NANOS);
    let numbered = (0..).zip(requests);
    numbered.map(|(n, it)| llm_request(n, base, (it.from, it.to), i64::from(it.tokens))).collect()
}

/// What a backend has received.
#[derive(Default)]
struct Sums {
    with_cost: u64,
    followed: u64,
    nano_usd: i128,
}

impl Sums {
    /// Takes requests until the gateway is stopped.
    fn collect(backend: &mut Backend, is_stopped: &AtomicBool) -> Self {
        let mut sums = Self::default();
        loop {
            match backend.next(Duration::from_millis(100)) {
                Some(received) => sums.take(&received),
                None if is_stopped.load(Ordering::Relaxed) => return sums,
                None => {}
            }
        }
    }

    fn take(&mut self, received: &EncodedRequest) {
        match received.decode() {
            Ok(Request::Traces(request)) => {
                let scopes = request.resource_spans.iter().flat_map(|it| &it.scope_spans);
                for span in scopes.flat_map(|it| &it.spans) {
                    self.with_cost += self.add(&span.attributes);
                }
            }
            Ok(Request::Logs(request)) => {
                let scopes = request.resource_logs.iter().flat_map(|it| &it.scope_logs);
                for record in scopes.flat_map(|it| &it.log_records) {
                    self.followed += self.add(&record.attributes);
                }
            }
            _ => {}
        }
    }

    /// Adds the cost among attributes; 1 if there is one.
    #[expect(clippy::cast_possible_truncation, reason = "a double has all nano-dollars of it")]
    fn add(&mut self, attributes: &[KeyValue]) -> u64 {
        let cost = attributes.iter().find(|it| it.key == "phasemeter.span.cost");
        let cost = cost.and_then(|it| match it.value.as_ref()?.value.as_ref()? {
            Value::DoubleValue(usd) => Some((usd * 1e9).round() as i128),
            _ => None,
        });
        self.nano_usd += cost.unwrap_or_default();
        u64::from(cost.is_some())
    }
}
