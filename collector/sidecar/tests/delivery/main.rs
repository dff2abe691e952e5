//! Exports of `audit` and `demo` to a backend.

#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

mod flush;
#[path = "../../../otlp/tests/mock_backend/mod.rs"]
mod mock_backend;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use mock_backend::{MockBackend, ReceivedRequest, Reply};
use phasemeter_otlp::{OtlpFile, Request};
use prost::Message;
use serde_json::Value;
use tempfile::TempDir;

/// Two GPUs for five minutes with one minute per phase.
fn log(dir: &TempDir) -> PathBuf {
    let mut log = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n".to_owned();
    for second in 0..300 {
        for gpu in 0..2 {
            let (minute, second, percent) = (second / 60, second % 60, second / 60 * 24);
            writeln!(log, "2026/07/27 00:0{minute}:{second:02}.000Z, {gpu}, {percent} %, 9 MiB")
                .unwrap();
        }
    }
    let path = dir.path().join("log.csv");
    fs::write(&path, log).unwrap();
    path
}

/// Runs the binary with only this environment.
fn phasemeter(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().envs(environment.iter().copied()).args(arguments).output().unwrap()
}

fn audit(log: &Path, more: &[&str], environment: &[(&str, &str)]) -> Output {
    let log = log.to_str().unwrap();
    let arguments = ["audit", log, "--price", "3", "--no-default-policies"];
    phasemeter(&[&arguments, more].concat(), environment)
}

fn endpoint(backend: &MockBackend) -> String {
    format!("http://{}", backend.address)
}

/// The option that exports to it.
fn otlp(backend: &MockBackend) -> String {
    format!("--otlp={}", endpoint(backend))
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A request as a line of an OTLP file.
fn line(request: &ReceivedRequest) -> String {
    if request.headers["content-type"] == "application/json" {
        return String::from_utf8(request.body.to_vec()).unwrap();
    }
    let grpc = request.path.starts_with("/opentelemetry");
    let body = if grpc { &request.body[5..] } else { &request.body };
    let request = match request.path.to_lowercase() {
        path if path.contains("trace") => Request::Traces(Message::decode(body).unwrap()),
        path if path.contains("metrics") => Request::Metrics(Message::decode(body).unwrap()),
        _ => Request::Logs(Message::decode(body).unwrap()),
    };
    let mut line = Vec::new();
    let mut file = OtlpFile::new(&mut line);
    file.write(&request).unwrap();
    file.finish().unwrap();
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

/// Requests are ordered within a signal only. Lines begin with the signal.
fn by_signal(lines: &mut [String]) {
    lines.sort_by_key(|line| line.split(':').next().map(str::to_owned));
}

#[test]
fn backend_receives_the_contents_of_the_file() {
    for protocol in ["grpc", "http/protobuf", "http/json"] {
        let (backend, dir) = (MockBackend::start([]), TempDir::new().unwrap());
        let file = dir.path().join("otlp.jsonl");
        let both = [&*otlp(&backend), "--otlp-file", file.to_str().unwrap()];
        let run = audit(&log(&dir), &both, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));

        let mut sent: Vec<_> = backend.received().iter().map(line).collect();
        let mut written: Vec<_> =
            fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        by_signal(&mut sent);
        by_signal(&mut written);
        assert!(sent.len() > 5, "{} requests", sent.len());
        assert_eq!(sent, written);

        let log = stderr(&run);
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.starts_with("phasemeter: OTLP: ") && log.contains(protocol), "{log}");
    }
}

#[test]
fn signal_without_exporter_is_not_sent() {
    let none = ["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"];
    let none = none.map(|variable| (variable, "none"));
    let sent = |environment: &[(&str, &str)]| {
        let (backend, dir) = (MockBackend::start([]), TempDir::new().unwrap());
        let file = dir.path().join("otlp.jsonl");
        let both = [&*otlp(&backend), "--otlp-file", file.to_str().unwrap()];
        let run = audit(&log(&dir), &both, environment);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        let file = fs::read_to_string(file).unwrap();
        assert!(file.contains("resourceMetrics") && file.contains("resourceSpans"));
        let mut paths: Vec<_> = backend.received().into_iter().map(|it| it.path).collect();
        paths.dedup();
        (paths, stderr(&run).to_owned())
    };
    let (paths, log) = sent(&none);
    let warning = "phasemeter: --otlp is ignored: every OTEL_…_EXPORTER is none\n";
    assert_eq!((&paths[..], &*log), (&[][..], warning));
    assert_eq!(sent(&none[1..]).0, ["/v1/traces"]);
    let (paths, log) = sent(&[none[0], ("OTEL_METRICS_EXPORTER", "console,otlp")]);
    assert_eq!(paths, ["/v1/metrics"]);
    let warning =
        "OTEL_METRICS_EXPORTER: \"console\" is not supported: expected otlp or none; this part";
    assert_eq!(log.matches(warning).count(), 1, "{log}");
}

#[test]
fn otlp_option_without_endpoint_uses_environment() {
    let (backend, dir) = (MockBackend::start([]), TempDir::new().unwrap());
    let log = log(&dir);
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint(&backend))];
    // The argument after the option is a log, not an endpoint.
    let run = phasemeter(&["audit", "--otlp", log.to_str().unwrap()], &environment);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(!backend.received().is_empty());

    // Without the option nothing is sent, whatever the environment.
    let run = audit(&log, &[], &environment);
    assert_eq!((run.status.code(), stderr(&run)), (Some(0), ""));
    assert!(backend.received().is_empty());
}

#[test]
fn failed_delivery_fails_the_command_but_not_the_report() {
    let rejection = Reply::Http(StatusCode::BAD_REQUEST, None, "no such tenant");
    // A retry delay beyond the grace period.
    let later = Reply::Http(StatusCode::TOO_MANY_REQUESTS, Some("3000"), "");
    for (reply, outcome, error) in [
        (rejection, "rejected", "400 Bad Request: no such tenant"),
        (later, "unsent", "429 Too Many Requests"),
    ] {
        let reply_to = move |request: &ReceivedRequest| match request.path.as_str() {
            "/v1/metrics" => reply.clone(),
            _ => Reply::Accept,
        };
        let (backend, dir) = (MockBackend::deciding(reply_to), TempDir::new().unwrap());
        let log = log(&dir);
        // All metrics are one request.
        let environment = [("OTEL_METRIC_EXPORT_INTERVAL", "3600000")];
        let run = audit(&log, &[&otlp(&backend)], &environment);
        assert_eq!(run.status.code(), Some(74));
        // The first line is logged immediately, the last one summarizes.
        let lines: Vec<_> = stderr(&run).lines().collect();
        let [_, summary] = lines[..] else { panic!("{lines:#?}") };
        assert!(summary.contains(outcome) && summary.contains(error), "{summary}");
        assert_eq!(run.stdout, audit(&log, &[], &environment).stdout);
    }
}

/// Scenario: a backend rejects each of hundreds of requests, or answers each with a page.
/// Guarantee: the log has a few lines of each kind and the number of those suppressed, and one line about
/// pages.
#[test]
fn rejections_are_logged_a_limited_number_of_times() {
    let logged = |reply: Reply, text: &str| {
        let (backend, dir) =
            (MockBackend::deciding(move |_| reply.clone()), TempDir::new().unwrap());
        let environment =
            [("OTEL_METRIC_EXPORT_INTERVAL", "1000"), ("OTEL_TRACES_EXPORTER", "none")];
        let run = audit(&log(&dir), &[&otlp(&backend)], &environment);
        assert_eq!(run.status.code(), Some(74), "{}", stderr(&run));
        let metrics = backend.received().iter().filter(|it| it.path == "/v1/metrics").count();
        assert!(metrics >= 300, "{metrics}");
        let lines = stderr(&run).lines().filter(|line| line.starts_with("phasemeter: metrics"));
        let lines: Vec<_> = lines.map(str::to_owned).collect();
        let of_kind = lines.iter().filter(|line| line.contains(text)).count();
        (of_kind, lines, metrics)
    };
    let rejection = Reply::Http(StatusCode::BAD_REQUEST, None, "too old");
    let (rejected, lines, requests) = logged(rejection, "export rejected");
    assert!(rejected < requests / 10, "{lines:#?}");
    // The rest, if less than a minute has passed since the first.
    let suppressed = |line: &String| -> Option<usize> {
        line.strip_prefix("phasemeter: metrics: ")?.split_once(" more messages")?.0.parse().ok()
    };
    let of_line = |line: &String| -> usize {
        let note = line.strip_suffix(" messages of this kind suppressed)");
        note.and_then(|line| line.rsplit_once('(')?.1.parse().ok()).unwrap_or(0)
    };
    let all: usize = lines.iter().map(|line| suppressed(line).unwrap_or(of_line(line))).sum();
    assert_eq!(rejected + all, requests, "{lines:#?}");
    let page = Reply::Http(StatusCode::OK, None, "<html>log in</html>");
    let (warnings, lines, _) = logged(page, "not a backend of OTLP");
    assert_eq!((warnings, lines.len()), (1, 1), "{lines:#?}");
}

#[test]
fn invalid_endpoint_fails_before_reading() {
    let dir = TempDir::new().unwrap();
    let run = audit(&log(&dir), &["--otlp=collector:4318"], &[]);
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(78), &b""[..]));
    assert!(stderr(&run).starts_with("phasemeter: --otlp: "), "{}", stderr(&run));
}

/// One rule for all commands: the default is used, unless there is none and `--otlp` requests export.
#[test]
fn invalid_variable_of_export_is_a_warning_unless_strict() {
    let dir = TempDir::new().unwrap();
    let log = log(&dir);
    let backend = MockBackend::start([]);
    let option = otlp(&backend);
    let timeout = [("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")];
    let run = audit(&log, &[&option], &timeout);
    assert!(run.status.success(), "{}", stderr(&run));
    let warning = "phasemeter: OTEL_EXPORTER_OTLP_TIMEOUT=soon: invalid value: expected milliseconds, 1 to \
                   3600000; the default is used\n";
    assert!(stderr(&run).starts_with(warning), "{}", stderr(&run));
    assert!(!backend.received().is_empty());

    let strict = audit(&log, &[&option, "--strict"], &timeout);
    assert_eq!((strict.status.code(), strict.stdout.as_slice()), (Some(78), &b""[..]));
    assert!(stderr(&strict).contains("--strict: OTEL_EXPORTER_OTLP_TIMEOUT=soon"), "{strict:?}");
    let unused = audit(&log, &["--strict"], &timeout);
    assert_eq!(unused.status.code(), Some(78), "even if nothing is exported");

    let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://collector")];
    let nowhere = audit(&log, &["--otlp"], &endpoint);
    assert_eq!(nowhere.status.code(), Some(78), "{}", stderr(&nowhere));
}

/// The JSON report of a demo without what depends on when it began.
fn timeless(run: &Output) -> Value {
    let mut report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let report_fields = report.as_object_mut().unwrap();
    for field in ["start", "end", "experiment"] {
        report_fields.remove(field).unwrap();
    }
    for gpu in report_fields["gpus"].as_array_mut().unwrap() {
        let gpu = gpu.as_object_mut().unwrap();
        gpu.remove("start").unwrap();
        gpu.remove("end").unwrap();
        for holder in gpu["holders"].as_array_mut().unwrap() {
            for time in ["start", "end", "first_touch"] {
                holder.as_object_mut().unwrap().remove(time).unwrap();
            }
        }
        // They begin at whole hours, and at multiples of a step.
        gpu.remove("periods").unwrap();
        gpu.remove("timeline").unwrap();
        gpu["price"].as_object_mut().unwrap().remove("age_days").unwrap();
    }
    report
}

/// All timestamps in a request in nanoseconds.
fn times(line: &str) -> impl Iterator<Item = u64> {
    line.split("UnixNano\":\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok())
}

#[test]
fn demo_with_speed_ends_now_with_the_same_report() {
    let backend = MockBackend::start([]);
    // Recommendations depend on the date: prices become stale.
    let plain = ["demo", "--format", "json", "--price", "3", "--no-default-policies"];
    let watched = [&*otlp(&backend), "--speed", "3600"];
    let began = SystemTime::now();
    let run = phasemeter(&[&plain[..], &watched].concat(), &[]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(began.elapsed().unwrap() >= Duration::from_secs(2));
    assert_eq!(timeless(&run), timeless(&phasemeter(&plain, &[])));

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let sent: Vec<_> = backend.received().iter().map(line).collect();
    let last = sent.iter().flat_map(|line| times(line)).max().unwrap();
    // No timestamp is in the future.
    let ago = now.checked_sub(Duration::from_nanos(last)).unwrap();
    assert!(ago < Duration::from_secs(600), "{ago:?}");
}

#[test]
fn interrupted_demo_exports_and_reports_what_it_has() {
    let backend = MockBackend::start([]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().args(["demo", "--speed", "60", &otlp(&backend)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It is running.
    backend.next_request();
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(String::from_utf8(run.stdout.clone()).unwrap().contains("Bill"), "{run:?}");
    let mut sent = backend.received().iter().map(line).collect::<Vec<_>>().into_iter();
    assert!(sent.any(|line| line.contains(r#""name":"experiment""#)), "the span did not end");
}

#[test]
fn speed_requires_otlp() {
    let run = phasemeter(&["demo", "--speed", "60"], &[]);
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("--otlp"), "{}", stderr(&run));
}

#[test]
fn log_format_and_level_are_configurable() {
    let dir = TempDir::new().unwrap();
    let log = log(&dir);
    let log_lines = |more: &[&str], environment: &[(&str, &str)]| {
        // One request is rejected; the others are sent.
        let rejection = Reply::Http(StatusCode::BAD_REQUEST, None, "not here");
        let backend = MockBackend::start([rejection]);
        let environment = [environment, &[("TRACEPARENT", "00-x")]].concat();
        let output = audit(&log, &[&[&*otlp(&backend)], more].concat(), &environment);
        assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));
        stderr(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };

    let text = log_lines(&[], &[]);
    let [ignored, rejected, failed] = &text[..] else { panic!("{text:#?}") };
    assert!(ignored.starts_with("phasemeter: TRACEPARENT: invalid"), "{ignored}");
    assert!(rejected.ends_with("export rejected, data dropped: 400 Bad Request: not here"));
    assert!(failed.starts_with("phasemeter: OTLP: "), "{failed}");
    for (more, environment) in
        [(&["--log-level", "error"][..], &[][..]), (&[], &[("PHASEMETER_LOG_LEVEL", "error")])]
    {
        let text = log_lines(more, environment);
        assert!(text.len() == 1 && text[0].starts_with("phasemeter: OTLP: "), "{text:#?}");
    }
    let invalid = log_lines(&[], &[("PHASEMETER_LOG_LEVEL", "loud")]);
    assert!(
        invalid[0].starts_with("phasemeter: PHASEMETER_LOG_LEVEL: invalid value \"loud\""),
        "{invalid:#?}"
    );
    assert_eq!(invalid.len(), 4);

    let json = log_lines(&["--log-format", "json", "--log-level", "debug"], &[]);
    let json: Vec<Value> = json.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let levels: Vec<_> = json.iter().map(|line| line["level"].as_str().unwrap()).collect();
    assert_eq!(levels, ["WARN", "WARN", "ERROR"]);
    let rejected = &json[1];
    assert_eq!(rejected["reason"], "400 Bad Request: not here");
    assert!(rejected["signal"].is_string() && rejected["timestamp"].is_string(), "{rejected}");
    assert!(json[2]["message"].as_str().unwrap().starts_with("OTLP: "), "{json:#?}");
}

/// Guarantee: one warning if headers leave this host unencrypted, and none for a loopback address.
#[test]
fn unencrypted_headers_to_another_host_are_warned_about() {
    let dir = TempDir::new().unwrap();
    let log = log(&dir);
    let headers = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")];
    let warnings = |address: &str, environment: &[(&str, &str)]| {
        let backend = MockBackend::start([]);
        let to = format!("--otlp=http://{address}:{}", backend.address.port());
        let output = audit(&log, &[&to], environment);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let warnings = stderr(&output).lines().filter(|line| line.contains("unencrypted"));
        warnings.map(str::to_owned).collect::<Vec<_>>()
    };
    // Linux connects 0.0.0.0 to this host, although it is not a loopback address.
    let remote = warnings("0.0.0.0", &headers);
    let [warning] = &remote[..] else { panic!("{remote:#?}") };
    assert!(warning.contains("use https") && !warning.contains("secret"), "{warning}");
    assert_eq!(warnings("127.0.0.1", &headers), [""; 0]);
    assert_eq!(warnings("0.0.0.0", &[]), [""; 0]);
}

/// Guarantee: only its owner can read an OTLP file.
#[test]
fn otlp_file_is_readable_only_by_its_owner() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("otlp.json");
    let output = audit(&log(&dir), &["--otlp-file", path.to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
