//! What `audit` and `demo` send to a backend, with the program as people run it.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "../../otlp/tests/backend/mod.rs"]
mod backend;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backend::{Backend, Reply, Seen};
use http::StatusCode;
use phasemeter_otlp::Request;
use phasemeter_otlp::delivery::OtlpFile;
use prost::Message;
use serde_json::Value;
use tempfile::TempDir;

/// Two GPUs and five minutes, a minute of each phase.
fn log(folder: &TempDir) -> PathBuf {
    let mut log = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n".to_owned();
    for second in 0..300 {
        for gpu in 0..2 {
            let (minute, second, percent) = (second / 60, second % 60, second / 60 * 24);
            writeln!(log, "2026/07/27 00:0{minute}:{second:02}.000Z, {gpu}, {percent} %, 9 MiB")
                .unwrap();
        }
    }
    let path = folder.path().join("log.csv");
    fs::write(&path, log).unwrap();
    path
}

/// The program, which knows no environment but this.
fn phasemeter(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().envs(environment.iter().copied()).args(arguments).output().unwrap()
}

fn audit(log: &Path, more: &[&str], environment: &[(&str, &str)]) -> Output {
    let log = log.to_str().unwrap();
    let arguments = ["audit", log, "--price", "3", "--no-default-policies"];
    phasemeter(&[&arguments, more].concat(), environment)
}

fn endpoint(backend: &Backend) -> String {
    format!("http://{}", backend.address)
}

/// The option that sends to it.
fn otlp(backend: &Backend) -> String {
    format!("--otlp={}", endpoint(backend))
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A request as a line of a file.
fn line(seen: &Seen) -> String {
    let grpc = seen.path.starts_with("/opentelemetry");
    let body = if grpc { &seen.body[5..] } else { &seen.body };
    let request = match seen.path.to_lowercase() {
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

/// A signal has its own order, but none with the others: the lines begin with what it is.
fn by_signal(lines: &mut [String]) {
    lines.sort_by_key(|line| line.split(':').next().map(str::to_owned));
}

#[test]
fn a_backend_gets_what_the_file_holds() {
    for protocol in ["grpc", "http/protobuf"] {
        let (backend, folder) = (Backend::start([]), TempDir::new().unwrap());
        let file = folder.path().join("otlp.jsonl");
        let both = [&*otlp(&backend), "--otlp-file", file.to_str().unwrap()];
        let run = audit(&log(&folder), &both, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));

        let mut sent: Vec<_> = backend.rest().iter().map(line).collect();
        let mut written: Vec<_> =
            fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        by_signal(&mut sent);
        by_signal(&mut written);
        assert!(sent.len() > 5, "{} requests", sent.len());
        assert_eq!(sent, written);

        let said = stderr(&run);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("phasemeter: OTLP: ") && said.contains(protocol), "{said}");
    }
}

#[test]
fn without_an_endpoint_it_goes_where_the_environment_says() {
    let (backend, folder) = (Backend::start([]), TempDir::new().unwrap());
    let log = log(&folder);
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint(&backend))];
    // What follows the option is a log, not an endpoint.
    let run = phasemeter(&["audit", "--otlp", log.to_str().unwrap()], &environment);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(!backend.rest().is_empty());

    // Unasked, nothing is sent, whatever the environment says.
    let run = audit(&log, &[], &environment);
    assert_eq!((run.status.code(), stderr(&run)), (Some(0), ""));
    assert!(backend.rest().is_empty());
}

#[test]
fn what_is_not_accepted_fails_the_command_and_not_the_report() {
    let refuse = Reply::Http(StatusCode::BAD_REQUEST, None, "no such tenant");
    // It asks to be left alone for longer than anyone waits.
    let later = Reply::Http(StatusCode::TOO_MANY_REQUESTS, Some("3000"), "");
    for (reply, fate, error) in [
        (refuse, "refused", "400 Bad Request: no such tenant"),
        (later, "unsent", "429 Too Many Requests"),
    ] {
        let (backend, folder) = (Backend::start([reply]), TempDir::new().unwrap());
        let log = log(&folder);
        let run = audit(&log, &[&otlp(&backend)], &[]);
        assert_eq!(run.status.code(), Some(74));
        // The first line is said when it happens, the last one sums it up.
        let said: Vec<_> = stderr(&run).lines().collect();
        let [_, said] = said[..] else { panic!("{said:#?}") };
        assert!(said.contains(fate) && said.contains(error), "{said}");
        assert_eq!(run.stdout, audit(&log, &[], &[]).stdout);
    }
}

#[test]
fn a_setting_that_cannot_be_used_is_told_before_anything_is_read() {
    let folder = TempDir::new().unwrap();
    let run = audit(&log(&folder), &["--otlp=collector:4318"], &[]);
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(78), &b""[..]));
    assert!(stderr(&run).starts_with("phasemeter: --otlp: "), "{}", stderr(&run));
}

/// The JSON of a metered demo without what says when it was.
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
        gpu["price"].as_object_mut().unwrap().remove("age_days").unwrap();
    }
    report
}

/// All times in a request, in nanoseconds.
fn times(line: &str) -> impl Iterator<Item = u64> {
    line.split("UnixNano\":\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok())
}

#[test]
fn a_demo_that_is_watched_ends_now_and_tells_the_same() {
    let backend = Backend::start([]);
    // Advice is about when it is given: prices grow old.
    let plain = ["demo", "--format", "json", "--price", "3", "--no-default-policies"];
    let watched = [&*otlp(&backend), "--speed", "3600"];
    let began = SystemTime::now();
    let run = phasemeter(&[&plain[..], &watched].concat(), &[]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(began.elapsed().unwrap() >= Duration::from_secs(2));
    assert_eq!(timeless(&run), timeless(&phasemeter(&plain, &[])));

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let sent: Vec<_> = backend.rest().iter().map(line).collect();
    let last = sent.iter().flat_map(|line| times(line)).max().unwrap();
    // Nothing lies in the future.
    let ago = now.checked_sub(Duration::from_nanos(last)).unwrap();
    assert!(ago < Duration::from_secs(60), "{ago:?}");
}

#[test]
fn a_demo_that_is_interrupted_sends_and_reports_what_there_was() {
    let backend = Backend::start([]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().args(["demo", "--speed", "60", &otlp(&backend)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It is under way.
    backend.next();
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(String::from_utf8(run.stdout.clone()).unwrap().contains("Bill"), "{run:?}");
    let mut sent = backend.rest().iter().map(line).collect::<Vec<_>>().into_iter();
    assert!(sent.any(|line| line.contains(r#""name":"experiment""#)), "its span is not closed");
}

#[test]
fn a_speed_is_for_watching() {
    let run = phasemeter(&["demo", "--speed", "60"], &[]);
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("--otlp"), "{}", stderr(&run));
}

#[test]
fn what_is_said_is_for_people_or_for_programs_down_to_a_level() {
    let folder = TempDir::new().unwrap();
    let log = log(&folder);
    let said = |more: &[&str], environment: &[(&str, &str)]| {
        // One request is refused for good, which is no end of the others.
        let refusal = Reply::Http(StatusCode::BAD_REQUEST, None, "not here");
        let backend = Backend::start([refusal]);
        let environment = [environment, &[("TRACEPARENT", "00-x")]].concat();
        let output = audit(&log, &[&[&*otlp(&backend)], more].concat(), &environment);
        assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));
        stderr(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };

    let text = said(&[], &[]);
    let [ignored, refused, failed] = &text[..] else { panic!("{text:#?}") };
    assert!(ignored.starts_with("phasemeter: TRACEPARENT is ignored:"), "{ignored}");
    assert!(refused.ends_with("OTLP was refused, and is dropped: 400 Bad Request: not here"));
    assert!(failed.starts_with("phasemeter: OTLP: "), "{failed}");
    for (more, environment) in
        [(&["--log-level", "error"][..], &[][..]), (&[], &[("PHASEMETER_LOG_LEVEL", "error")])]
    {
        let text = said(more, environment);
        assert!(text.len() == 1 && text[0].starts_with("phasemeter: OTLP: "), "{text:#?}");
    }
    let wrong = said(&[], &[("PHASEMETER_LOG_LEVEL", "loud")]);
    assert!(
        wrong[0].starts_with("phasemeter: PHASEMETER_LOG_LEVEL is ignored: \"loud\""),
        "{wrong:#?}"
    );
    assert_eq!(wrong.len(), 4);

    let json = said(&["--log-format", "json", "--log-level", "debug"], &[]);
    let json: Vec<Value> = json.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let levels: Vec<_> = json.iter().map(|line| line["level"].as_str().unwrap()).collect();
    assert_eq!(levels, ["WARN", "WARN", "ERROR"]);
    let refused = &json[1];
    assert_eq!(refused["reason"], "400 Bad Request: not here");
    assert!(refused["signal"].is_string() && refused["timestamp"].is_string(), "{refused}");
    assert!(json[2]["message"].as_str().unwrap().starts_with("OTLP: "), "{json:#?}");
}
