//! A backend that rejects by habit, and the time of GPUs that it has accepted, in sums and in gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;

use crate::TIMEOUT;
use crate::mock_backend::{MockBackend, ReceivedRequest, Reply};
use crate::prng::Prng;
use crate::telemetry::decode;

/// What a backend has accepted.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    /// Bodies. A request that is sent again has the same one.
    bodies: BTreeSet<Vec<u8>>,
    /// Of each process and GPU: the start of its sums of time, and the largest, in nanoseconds.
    pub(crate) sums: BTreeMap<(String, String), (i64, i64)>,
    /// Of each process and GPU: the ends of gaps and their lengths.
    pub(crate) gaps: BTreeSet<(String, String, i64, i64)>,
    pub(crate) rejections: u32,
}

impl Accepted {
    fn add(&mut self, request: &ReceivedRequest) {
        if !self.bodies.insert(request.body.to_vec()) {
            return;
        }
        if request.path.contains("metrics") {
            self.add_sums(&decode(request));
        } else if request.path.contains("logs") {
            self.add_gaps(&decode(request));
        }
    }

    /// The sums of one request over all phases.
    fn add_sums(&mut self, request: &ExportMetricsServiceRequest) {
        let mut sums = BTreeMap::<_, (i64, i64)>::new();
        for group in &request.resource_metrics {
            let resource = group.resource.as_ref().map(|it| it.attributes.as_slice());
            let process = text(resource.unwrap_or_default(), "phasemeter.experiment.id");
            let metrics = group.scope_metrics.iter().flat_map(|scope| &scope.metrics);
            for metric in metrics.filter(|metric| metric.name == "phasemeter.gpu.time") {
                let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
                for point in &sum.data_points {
                    let Some(Value::AsDouble(seconds)) = point.value else { panic!("{point:?}") };
                    let gpu = text(&point.attributes, "hw.id");
                    let total = sums.entry((process.clone(), gpu)).or_default();
                    total.0 = i64::try_from(point.start_time_unix_nano).unwrap();
                    total.1 += nanos(seconds);
                }
            }
        }
        for (stream, (start, total)) in sums {
            let known = self.sums.entry(stream).or_insert((start, total));
            known.1 = known.1.max(total);
        }
    }

    fn add_gaps(&mut self, request: &ExportLogsServiceRequest) {
        let scopes = request.resource_logs.iter().flat_map(|it| &it.scope_logs);
        let records = scopes.flat_map(|scope| &scope.log_records);
        for record in records.filter(|record| record.event_name == "phasemeter.gpu.gap.found") {
            let of = |key| text(&record.attributes, key);
            let length = nanos(of("phasemeter.gpu.gap.duration").parse().unwrap());
            let end = i64::try_from(record.time_unix_nano).unwrap();
            self.gaps.insert((of("phasemeter.experiment.id"), of("hw.id"), end, length));
        }
    }

    /// The claimed time of each GPU in order. The name of a process ends with the offset of its wall clock
    /// in seconds.
    fn claimed(&self) -> BTreeMap<String, Vec<(i64, i64)>> {
        let mut claimed = BTreeMap::<_, Vec<_>>::new();
        let offset = |process: &str| -> i64 {
            let (_, seconds) = process.rsplit_once('@').unwrap();
            seconds.parse::<i64>().unwrap() * 1_000_000_000
        };
        for ((process, gpu), (start, total)) in &self.sums {
            let start = start - offset(process);
            claimed.entry(gpu.clone()).or_default().push((start, start + total));
        }
        for (process, gpu, end, length) in &self.gaps {
            let end = end - offset(process);
            claimed.entry(gpu.clone()).or_default().push((end - length, end));
        }
        claimed.values_mut().for_each(|times| times.sort_unstable());
        claimed
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a test is short")]
fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// An attribute as text; empty if there is none.
fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// What a backend answers, by how often of a hundred.
#[derive(Clone, Copy)]
pub(crate) struct Habits {
    /// It rejects.
    pub(crate) rejects: u64,
    /// It is not available.
    pub(crate) is_down: u64,
    /// It accepts, but its answer is lost.
    pub(crate) is_silent: u64,
}

pub(crate) const GOOD: Habits = Habits { rejects: 0, is_down: 0, is_silent: 0 };

/// A backend that records what it has accepted. It rejects nothing that it has.
pub(crate) struct Backend {
    pub(crate) mock: MockBackend,
    pub(crate) accepted: Arc<Mutex<Accepted>>,
    habits: Arc<Mutex<Habits>>,
}

impl Backend {
    pub(crate) fn start(habits: Habits, seed: u64) -> Self {
        let accepted = Arc::<Mutex<Accepted>>::default();
        let habits = Arc::new(Mutex::new(habits));
        let (shared, current) = (Arc::clone(&accepted), Arc::clone(&habits));
        let mut random = Prng(seed);
        let mock = MockBackend::deciding(move |request| {
            let mut accepted = shared.lock().unwrap();
            let has_it = accepted.bodies.contains(&*request.body);
            let Habits { rejects, is_down, is_silent } = *current.lock().unwrap();
            match random.below(100) {
                draw if draw < rejects && !has_it => {
                    accepted.rejections += 1;
                    rejection(&mut random)
                }
                draw if (rejects..rejects + is_down).contains(&draw) => {
                    Reply::Http(StatusCode::SERVICE_UNAVAILABLE, Some("1"), "")
                }
                draw if (rejects + is_down..rejects + is_down + is_silent).contains(&draw) => {
                    accepted.add(request);
                    Reply::NoResponse
                }
                _ => {
                    accepted.add(request);
                    Reply::Accept
                }
            }
        });
        Self { mock, accepted, habits }
    }

    pub(crate) fn claimed(&self) -> BTreeMap<String, Vec<(i64, i64)>> {
        self.accepted.lock().unwrap().claimed()
    }

    pub(crate) fn set(&self, habits: Habits) {
        *self.habits.lock().unwrap() = habits;
    }

    /// Waits until it has accepted something of this process.
    pub(crate) fn wait_for_sums(&self, process: &str) {
        let began = Instant::now();
        let has_any = || self.accepted.lock().unwrap().sums.keys().any(|(it, _)| it == process);
        while !has_any() {
            assert!(began.elapsed() < TIMEOUT, "{process}: {:?}", self.claimed());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Everything but a success of OTLP for all items.
fn rejection(random: &mut Prng) -> Reply {
    let http = |code| Reply::Http(StatusCode::from_u16(code).unwrap(), None, "no");
    match random.below(6) {
        0 => http(400),
        1 => http(401),
        2 => http(413),
        3 => Reply::Partial(1_000_000, "all"),
        4 => Reply::Partial(1, "one"),
        _ => Reply::Http(StatusCode::OK, None, "<html>log in</html>"),
    }
}
