//! Properties that hold for any input: the bodies of the fuzz targets. Tests run them on the seeds.

#![allow(dead_code, reason = "each fuzz target uses one")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

mod backend;
mod configuration;
mod files;
mod journal;
mod metering;
mod metric_page;
mod outbox;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

pub(crate) use backend::backend_response;
pub(crate) use configuration::configuration;
pub(crate) use files::{
    claims, invoice, mapping, price_book, price_file, profile, report, trial, work_message,
};
pub(crate) use journal::journal;
use metering::{LogFile, audit, meter, observed};
pub(crate) use outbox::outbox;
use phasemeter_alerts::{Profiles, Selection};
use phasemeter_engine::gateway::{CounterIntake, Exclusions, Intake, Replicas, SpanFilter};
use phasemeter_environment::variables::Environment;
use phasemeter_holders::Format;
use phasemeter_logs::SourceError;
use phasemeter_logs::log::{Input, OpenedInputs};
use phasemeter_logs::metric_log::{DmonTimes, MetricLogOptions, MetricLogs, Recognized, recognize};
use phasemeter_logs::nvidia_smi::LogOptions;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::experiment::{ExperimentKind, ExperimentRequest, TraceParent, TraceState};
use phasemeter_otlp::{EncodedRequest, Signal};
use phasemeter_receiver::{accept_bytes, keep_resources};
use phasemeter_rules::fixture::{
    FixtureError, read_quote, read_recommendations, read_request, read_window, write_quote,
    write_recommendations, write_request, write_window,
};
use phasemeter_rules::policy_dir::parse_lock;
use phasemeter_rules::schema::Schema;
use phasemeter_rules::settings::SettingError;
use phasemeter_rules::signature::{PublicKey, SecretKey, Use, verify};
use phasemeter_rules::wasm_info::WasmInfo;
use phasemeter_sources::live::select::{Evidence, GpuName, Variables, Visible, select};
use phasemeter_sources::mapping::{Mappings, ReadingBuffer};
use phasemeter_work::interruption::{Cloud, Notice, Response, Watch};
use phasemeter_work::mapping::WorkMappings;

/// Columns for rows without a header.
const COLUMNS: &str = "timestamp, index, utilization.gpu, memory.used, memory.total, power.draw";

/// The private key of RFC 8410, section 10.
const SECRET_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";

/// Size of a body that is repeated.
const REPEATED: usize = 64 << 10;

/// Points of any time are taken.
const MAX_AGE: Nanos = Nanos(u64::MAX);

static WORK: LazyLock<WorkMappings> = LazyLock::new(|| WorkMappings::built_in().unwrap());

static MAPPINGS: LazyLock<Mappings> = LazyLock::new(|| Mappings::built_in().unwrap());

/// A log is rejected, or metered, exported and reported with consistent accounts.
pub(crate) fn log(bytes: &[u8]) {
    let file = LogFile::of(bytes);
    let option = |options| audit(&file.0, &options);
    option(LogOptions::default());
    option(LogOptions { columns: Some(COLUMNS.to_owned()), ..LogOptions::default() });
    option(LogOptions { gpus: 3.try_into().ok(), ..LogOptions::default() });
}

/// A trace context is rejected or survives a round trip.
pub(crate) fn traceparent(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(parent) = text.parse::<TraceParent>() {
        assert_eq!(parent.to_string().parse(), Ok(parent));
        let experiment = ExperimentRequest::default()
            .under(parent)
            .open(Timestamp::default(), ExperimentKind::Log { gpus: &[] });
        assert_eq!(experiment.trace_id, parent.trace_id);
        let carried = experiment.propagation_env().remove(0).1;
        let carried: TraceParent = carried.unwrap().parse().unwrap();
        assert_eq!(carried.trace_id, parent.trace_id);
        assert_eq!(carried.flags.is_sampled(), parent.flags.is_sampled());
    }
    if let Ok(state) = text.parse::<TraceState>() {
        assert_eq!(state.as_str(), text);
    }
}

/// The names of GPUs in a variable, of which the first line is the value and the others are mounted files, select
/// GPUs that exist, each once, or none with an error; in a pod never more than they name.
pub(crate) fn visible_devices(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let value = lines.next().unwrap_or_default();
    let mounted = || lines.clone().map(str::to_owned).collect::<Vec<_>>();
    let named = |uuid: &str, index| GpuIdentity {
        uuid: Some(uuid.to_owned()),
        index: Some(index),
        ..GpuIdentity::default()
    };
    let gpus = [named("GPU-aa11", 0), named("GPU-aa22", 1), named("GPU-bb33", 2)];
    let visible = Visible::parse(value, mounted);
    let listed = match &visible {
        Some(Visible::Listed(names)) => {
            assert!(!names.is_empty() && names.len() <= text.len());
            assert!(!names.contains(&GpuName::Other(String::new())));
            Some(names.len())
        }
        Some(Visible::All | Visible::Nothing) | None => None,
    };
    for variable in ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] {
        let lookup = |name: &str| (name == variable).then(|| value.to_owned());
        let variables = Variables::read(lookup, mounted);
        for in_pod in [false, true] {
            let evidence = Evidence { in_pod, ..Evidence::default() };
            let Ok(selection) = select(&[], &variables, &evidence, &gpus) else { continue };
            let mut places = selection.gpus.clone();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), selection.gpus.len());
            assert!(places.iter().all(|place| *place < gpus.len()) && !places.is_empty());
            if in_pod && variable == "NVIDIA_VISIBLE_DEVICES" {
                assert!(listed.is_some_and(|names| places.len() <= names), "{value}");
            }
        }
    }
}

/// A fixture (window, quote request or result) is rejected or survives a round trip.
pub(crate) fn fixture(bytes: &[u8]) {
    round_trips(bytes, read_window, |window, out| write_window(window, out));
    round_trips(bytes, read_recommendations, |recommendations, out| {
        write_recommendations(recommendations, out)
    });
    round_trips(bytes, read_request, |request, out| write_request(request, out));
    round_trips(bytes, read_quote, |quote, out| write_quote(quote.as_ref(), out));
}

fn round_trips<T>(
    bytes: &[u8],
    read: impl Fn(&str, &[u8]) -> Result<T, FixtureError>,
    write: impl Fn(&T, &mut Vec<u8>) -> io::Result<()>,
) {
    let Ok(value) = read("fixture", bytes) else { return };
    let written = |value| {
        let mut text = Vec::new();
        write(value, &mut text).unwrap();
        text
    };
    let text = written(&value);
    let again = read("fixture", &text).unwrap();
    assert_eq!(written(&again), text);
}

/// A settings schema is rejected, or accepts settings of limited size; errors are few and short.
pub(crate) fn schema(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // The schema, and after a zero byte the settings.
    let (schema, settings) = text.split_once('\0').unwrap_or((&text, "{}"));
    let short = |error: &SettingError| assert!(error.message.len() < 4_096, "{error}");
    match Schema::parse(schema) {
        Err(error) => short(&error),
        Ok(schema) => {
            for settings in ["{}", settings] {
                let Ok(given) = serde_json::from_str(settings) else { continue };
                match schema.resolve(&given) {
                    Ok(settings) => assert!(settings.iter().count() <= 4_096),
                    Err(errors) => {
                        assert!((1..=8).contains(&errors.len()));
                        errors.iter().for_each(short);
                    }
                }
            }
        }
    }
}

/// The surface of a WebAssembly file is rejected, or has a limited number of names.
pub(crate) fn wasm_info(bytes: &[u8]) {
    match WasmInfo::parse(bytes) {
        Ok(info) => assert!(info.imports.len() <= 1_000 && info.exports.len() <= 1_000),
        Err(error) => assert!(error.to_string().len() < 1_000, "{error}"),
    }
}

/// A lock file is rejected with the number of a line, or has names without directories.
pub(crate) fn lock(bytes: &[u8]) {
    match parse_lock(Path::new("policies.lock"), bytes) {
        Ok(lock) => assert!(lock.keys().all(|name| !name.is_empty() && !name.contains('/'))),
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("policies.lock:") && error.len() < 200, "{error}");
        }
    }
}

/// Keys are rejected or survive a round trip; no signature of this key is guessed, and one for another
/// use or file is never accepted.
pub(crate) fn signature(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
    let secret: SecretKey = SECRET_KEY.parse().unwrap();
    _ = text.parse::<SecretKey>();
    let keys = [secret.public()];
    let (given, file) = bytes.split_at(bytes.len().min(64));
    let uses = [Use::Policy, Use::Settings("a.json"), Use::MachineCode];
    for used_as in uses {
        assert!(verify(&keys, used_as, file, Some(given)).is_err(), "a signature was guessed");
        let signature = secret.sign(used_as, bytes);
        for other in uses {
            let verified = verify(&keys, other, bytes, Some(&signature));
            assert_eq!(verified.is_ok(), used_as == other);
        }
        assert!(verify(&keys, used_as, &[bytes, b"x"].concat(), Some(&signature)).is_err());
    }
}

/// An environment, one NAME=VALUE per line, is accepted or causes warnings; an experiment can always
/// be opened.
pub(crate) fn otlp_environment(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let variables: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once('=')).collect();
    let read = || Environment::read(|name| variables.get(name).map(|value| (*value).to_owned()));
    let environment = read();
    assert_eq!(environment, read());
    for warning in &environment.warnings {
        let name = warning.to_string();
        let name = name.split_once(": ").expect("a warning names the variable").0;
        assert!(variables.contains_key(name), "{name} is not in the environment");
    }
    assert!(environment.export.every >= Nanos::SECOND);
    let experiment =
        environment.experiment.open(Timestamp::default(), ExperimentKind::Log { gpus: &["0"] });
    assert!(!experiment.id.is_empty() && experiment.attributes.contains_key("service.name"));
}

/// A request is rejected with one line, or its bytes can be decoded, hold its items and can be accepted
/// again unchanged; its metrics are readings in limited number. The first byte chooses signal, format and
/// compression.
///
/// Repeated bodies are one body: they take the same decision, and their items add up. So the target also sees
/// requests that are larger than its inputs. `make fuzz` gives it a budget of bytes and time.
pub(crate) fn otlp_request(bytes: &[u8]) {
    let Some((&kind, body)) = bytes.split_first() else { return };
    let signal = Signal::ALL[usize::from(kind) % 3];
    let is_json = kind & 0x40 != 0;
    let encoding = [None, Some("gzip"), Some("zstd"), Some("br")][usize::from(kind >> 4) % 4];
    match accept_bytes(signal, is_json, encoding, body) {
        Err(error) => {
            assert!(!error.contains('\n') && error.len() < 1_000, "{error}");
            assert!(error.contains(": "), "{error}");
        }
        Ok(parts) => {
            parts.iter().for_each(hold_for_accepted);
            let items = parts.iter().map(EncodedRequest::items).sum::<u64>();
            let times = REPEATED / body.len().max(1);
            if !is_json && times > 1 {
                match accept_bytes(signal, false, encoding, &body.repeat(times)) {
                    Ok(repeated) => {
                        let repeated: u64 = repeated.iter().map(EncodedRequest::items).sum();
                        assert_eq!(repeated, items * times as u64);
                    }
                    Err(error) => {
                        let is_limit = ["larger than", "too much memory", "out of capacity"];
                        assert!(is_limit.iter().any(|limit| error.contains(limit)), "{error}");
                    }
                }
            }
        }
    }
}

/// What holds for each part of an accepted request.
fn hold_for_accepted(received: &EncodedRequest) {
    let request = received.decode().expect("what is accepted can be decoded");
    let again = accept_bytes(received.signal(), false, None, received.body()).unwrap();
    let bodies: Vec<u8> = again.iter().flat_map(|part| part.body().to_vec()).collect();
    assert!(again.len() > 1 || bodies == received.body()[..]);
    assert_eq!(again.iter().map(EncodedRequest::items).sum::<u64>(), received.items());
    let mut buffer = ReadingBuffer::new(Nanos::SECOND, None, None);
    let exclusions = Exclusions::default();
    let mut intake = Intake::new(MAPPINGS.clone(), exclusions, String::new(), MAX_AGE);
    intake.take(&request, Timestamp::LAST, Nanos::ZERO, &mut buffer);
    assert!(buffer.release_all().len() as u64 <= received.items());
    let filter = SpanFilter { selections: vec!["*".parse().unwrap()], weight: None };
    let replicas = Replicas::default();
    let (rest, spans) = filter.split(received.clone(), &replicas);
    let left = rest.map_or(0, |rest| rest.items());
    assert_eq!(left + spans.chosen.len() as u64, received.items());
    let is_kept = |id: &[u8]| id[0].is_multiple_of(2);
    let kept = keep_resources(received.clone(), &is_kept).map_or(0, |it| it.items());
    let others = keep_resources(received.clone(), &|id| !is_kept(id));
    assert!(kept + others.map_or(0, |it| it.items()) >= received.items());
    let mut counters = CounterIntake::new(WORK.clone(), Timestamp::EPOCH, MAX_AGE, replicas);
    assert!(counters.take(&request, Timestamp::LAST).len() as u64 <= received.items());
}

/// A page or dump of Prometheus is rejected with one line, or metered with consistent accounts.
pub(crate) fn prometheus_log(bytes: &[u8]) {
    metric_log(bytes, b"# EOF\n");
}

/// So is the output of `dcgmi dmon`, with and without times.
pub(crate) fn dmon_log(bytes: &[u8]) {
    metric_log(bytes, b"#Entity   GPUTL   POWER\n");
}

/// So is a file of OTLP in JSON.
pub(crate) fn otlp_json_log(bytes: &[u8]) {
    metric_log(bytes, b"{\"resourceMetrics\":[]}\n");
}

/// Mutated points of one GPU change no account of another: not by value, labels, time, order or number.
pub(crate) fn metric_page(bytes: &[u8]) {
    let [original, mutated] = metric_page::original_and_mutation(bytes);
    let of = |page: &str| {
        let file = LogFile::of(page.as_bytes());
        let inputs = OpenedInputs::open(&[Input::File(file.0.clone())]).unwrap();
        let Ok(Recognized::Metrics(recognized)) = recognize(inputs) else {
            panic!("the format is not recognized: {page}");
        };
        let options = MetricLogOptions::default();
        observed(MetricLogs::open(recognized, MAPPINGS.clone(), options).unwrap())
    };
    let (expected, found) = (of(&original), of(&mutated));
    for (uuid, ..) in &metric_page::GPUS[1..] {
        assert_eq!(found.get(*uuid), expected.get(*uuid), "{mutated}");
        assert!(expected.contains_key(*uuid), "{original}");
    }
}

/// Audits what follows this beginning, by which its format is recognized.
/// Any JSON of series is a source whose accounts sum to the bill, or an error of one line.
pub(crate) fn series_log(bytes: &[u8]) {
    metric_log(bytes, b"{\"metric\":{}}\n");
}

fn metric_log(bytes: &[u8], beginning: &[u8]) {
    let file = LogFile::of(&[beginning, bytes].concat());
    let inputs = OpenedInputs::open(&[Input::File(file.0.clone())]).unwrap();
    let Ok(Recognized::Metrics(recognized)) = recognize(inputs) else {
        panic!("the format is not recognized");
    };
    let times = DmonTimes { start: Timestamp::default(), interval: Nanos::SECOND };
    let options = MetricLogOptions { dmon_times: Some(times), ..MetricLogOptions::default() };
    match MetricLogs::open(recognized, MAPPINGS.clone(), options) {
        Ok(source) => meter(source, |source| source.rejected().total),
        Err(SourceError::MetricLog(why)) => assert!(!why.to_string().contains('\n'), "{why}"),
        Err(other) => panic!("cannot read the file: {other}"),
    }
}

/// Any answers of a metadata service leave a conversation that goes on, and repeat no notice. The first
/// byte chooses the cloud; lines are a status and a body in turn.
pub(crate) fn interruptions(bytes: &[u8]) {
    let Some((&cloud, answers)) = bytes.split_first() else { return };
    let mut watch = Watch::new(Cloud::ALL[usize::from(cloud) % 3]);
    let mut found: Vec<Notice> = Vec::new();
    let mut lines = answers.split(|byte| *byte == b'\n');
    while let Some(status) = lines.next() {
        let request = watch.request();
        assert!(request.path.starts_with('/') && request.path.len() < 300, "{}", request.path);
        let status = String::from_utf8_lossy(status);
        let Ok(status) = status.parse() else {
            watch.unanswered();
            continue;
        };
        let body = lines.next().unwrap_or_default();
        let etag = std::str::from_utf8(body).ok();
        for notice in watch.answer(Response { status, etag, body }) {
            match notice {
                Ok(notice) => {
                    assert!(!found.contains(&notice), "{notice:?}");
                    found.push(notice);
                    // Only so many are remembered.
                    found.drain(..found.len().saturating_sub(64));
                }
                Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
            }
        }
    }
}

/// A file of alert rules is read, or its problem is one line.
pub(crate) fn alerts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Profiles::parse("rules.toml", &text) {
        Ok(profiles) => assert!(Selection::of(profiles.rules().to_vec(), &[]).is_ok()),
        Err(error) => assert!(error.line >= 1 && !error.to_string().contains('\n'), "{error}"),
    }
}

/// What is read of evidence is bounded by its size, or by the limit of its format.
pub(crate) fn holders(bytes: &[u8]) {
    for format in Format::ALL {
        let entries = format.read(bytes).unwrap_or_default();
        let most = format.max_entries(bytes.len());
        assert!(entries.len() <= most, "{format:?}: {} entries", entries.len());
    }
}
