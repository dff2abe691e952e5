//! Notices of interruptions, from a metadata service on the loopback address.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Rig;
use crate::otlp;
use crate::python::python;
use crate::registry::model::Registry;
use crate::registry::wire::WireCheck;
use crate::run::{Running, phasemeter, run_with_report, started, stderr};
use crate::signals::wait;

/// An answer: status, tag and body; `None` keeps the client waiting.
type Reply = Option<(u16, &'static str, &'static str)>;

/// A metadata service that runs until the test ends.
struct MetadataService {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl MetadataService {
    /// Answers requests by their method and path, and how many requests for the same path preceded.
    fn start(reply: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (reply, seen) = (Arc::new(reply), Arc::clone(&requests));
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (reply, seen) = (Arc::clone(&reply), Arc::clone(&seen));
                thread::spawn(move || answer(&connection.unwrap(), &*reply, &seen));
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers the request of a connection.
fn answer(
    mut connection: &TcpStream,
    reply: &dyn Fn(&str, usize) -> Reply,
    seen: &Mutex<Vec<String>>,
) {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let Some(line) = lines.next() else { return };
    let headers: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let request = line.trim_end_matches(" HTTP/1.1").to_owned();
    let (path, before) = {
        let mut seen = seen.lock().unwrap();
        let path = request.split('?').next().unwrap().to_owned();
        let before = seen.iter().filter(|other| other.starts_with(&path)).count();
        seen.push(format!("{request} {}", headers.join(" ").to_lowercase()));
        (path, before)
    };
    match reply(&path, before) {
        // The client ends the connection.
        None => drop(BufReader::new(connection).lines().map_while(Result::ok).next()),
        Some((status, tag, body)) => {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\netag: {tag}\r\nconnection: close\r\n");
            // The client may have ended.
            let _ = write!(connection, "{head}content-length: {length}\r\n\r\n{body}");
        }
    }
}

/// A workload that saves its work once, and ends once a file exists.
const WORKLOAD: &str = "
import os, signal, socket, sys, time
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ['PHASEMETER_SOCKET'])
received = []
signal.signal(signal.SIGUSR1, lambda *_: received.append(1))
connection.sendall(b'work samples 100\\ncheckpoint\\nwork samples 28\\nstep\\n')
open(sys.argv[2], 'w')
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print('signals', len(received))
";

/// Scenario: a spot instance is to be stopped, then terminated, with a rebalance recommendation between
/// them, while a workload has work that is not saved.
/// Guarantee: each notice is an event as the registry defines it, and in the report; the command receives
/// its signal once; what it did since its checkpoint, and what that cost, is lost work.
#[test]
fn notices_are_events_and_unsaved_work_is_lost() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let [file, report, done, ready] =
        ["otlp.json", "report.json", "done", "ready"].map(|name| dir.path().join(name));
    let is_ready = ready.clone();
    let service = MetadataService::start(move |path, before| match (path, before) {
        ("PUT /latest/api/token", _) => {
            // Otherwise the signal would precede its handler.
            while !is_ready.exists() {
                thread::sleep(Duration::from_millis(10));
            }
            Some((200, "", "token-1"))
        }
        ("GET /latest/meta-data/spot/instance-action", 0) => {
            Some((200, "", r#"{"action": "stop", "time": "2099-09-18T08:22:00Z"}"#))
        }
        ("GET /latest/meta-data/spot/instance-action", _) => {
            Some((200, "", r#"{"action": "terminate", "time": "2099-09-18T08:23:00Z"}"#))
        }
        ("GET /latest/meta-data/events/recommendations/rebalance", 0) => {
            Some((200, "", r#"{"noticeTime": "2099-09-18T08:20:00Z"}"#))
        }
        _ => Some((404, "", "")),
    });
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
    let arguments = format!(
        "--interruptions aws --interruption-signal SIGUSR1 --metadata-service {} --otlp-file {} \
         --report {}",
        service.address,
        file.display(),
        report.display(),
    );
    let mut command = phasemeter(&rig, &arguments);
    command.args(["--", python, "-c", WORKLOAD]).args([&done, &ready]);
    command.stdout(std::process::Stdio::piped());
    let (mut run, log) = started(&mut command);
    log.wait_for("aws announces: stop at 2099-09-18T08:22:00Z; SIGUSR1 sent");
    log.wait_for("aws announces: rebalance");
    log.wait_for("aws announces: terminate at 2099-09-18T08:23:00Z");
    fs::write(&done, "").unwrap();
    let Running(child) = &mut run;
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(stdout.next().unwrap().unwrap(), "signals 1");
    assert_eq!(wait(child), Some(0));
    let text = log.rest();
    assert!(text.contains("Lost work") && text.contains("28 samples"), "{text}");

    let requests = service.requests();
    let with_token = "x-aws-ec2-metadata-token: token-1";
    assert!(requests[0].contains("x-aws-ec2-metadata-token-ttl-seconds: 21600"), "{requests:?}");
    assert!(requests[1..].iter().all(|it| it.contains(with_token)), "{requests:?}");

    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let notices = report["interruptions"]["notices"].as_array().unwrap();
    let brief = |notice: &Value| {
        json!([notice["provider"], notice["action"], notice["due"], notice["signal"]])
    };
    assert_eq!(
        notices.iter().map(brief).collect::<Vec<_>>(),
        [
            json!(["aws", "stop", "2099-09-18T08:22:00Z", "SIGUSR1"]),
            json!(["aws", "rebalance", null, null]),
            json!(["aws", "terminate", "2099-09-18T08:23:00Z", null]),
        ]
    );
    let lost = &report["interruptions"]["lost_work"];
    assert_eq!(
        (&lost["work"], &lost["checkpoint"]),
        (&json!({"samples": 28, "steps": 1}), &json!(true)),
        "{lost}"
    );
    let time = lost["seconds"].as_f64().unwrap();
    let span = report["gpus"][0]["span_seconds"].as_f64().unwrap();
    assert!(time > 0.0 && time < span, "{time} s of {span} s");
    let cost: f64 = lost["cost_usd"].as_str().unwrap().parse().unwrap();
    assert!((cost - time / 1e3).abs() < 1e-9, "${cost} for {time} s");

    let captured = otlp::read(&fs::read_to_string(&file).unwrap());
    let events =
        captured.events.iter().filter(|it| it.event_name == "phasemeter.interruption.announced");
    let events: Vec<_> = events.collect();
    let registry = Registry::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let mut check = WireCheck::new(&registry, "environment");
    events.iter().for_each(|event| check.event(event));
    let problems: Vec<_> =
        check.finish().into_iter().filter(|it| it.contains("interruption")).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    let [stop, rebalance, terminate] = events[..] else { panic!("{events:?}") };
    let stop = otlp::attributes(&stop.attributes);
    assert_eq!(stop["phasemeter.interruption.action"], "stop");
    assert_eq!(stop["phasemeter.interruption.signal"], "SIGUSR1");
    assert!(stop["phasemeter.interruption.time_left"].parse::<f64>().unwrap() > 1e6);
    let terminate = otlp::attributes(&terminate.attributes);
    assert_eq!(terminate["phasemeter.interruption.unsaved.samples"], "28");
    assert!(!terminate.contains_key("phasemeter.interruption.signal"));
    let rebalance = otlp::attributes(&rebalance.attributes);
    assert_eq!(rebalance["cloud.provider"], "aws");
    assert!(!rebalance.contains_key("phasemeter.interruption.time_left"));
}

/// Scenario: a preemptible machine, whose service answers once it is preempted, and holds the next
/// request.
/// Guarantee: the command ends by its signal, with its own status, and the held request delays nothing.
#[test]
fn preemption_ends_command_and_waiting_request() {
    let service = MetadataService::start(|_, before| match before {
        0 => Some((200, "a1", "FALSE\n")),
        1 => Some((200, "b2", "TRUE\n")),
        _ => None,
    });
    let rig = Rig::new("[[device]]");
    let arguments = format!(
        "--interruptions gcp --interruption-signal term --metadata-service {}",
        service.address
    );
    let began = Instant::now();
    let (output, report) = run_with_report(&rig, &arguments, |command| {
        command.args(["--", "sh", "-c", "trap 'exit 7' TERM; while :; do sleep 0.05; done"]);
    });
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    let interruptions = &report["interruptions"];
    assert_eq!(interruptions["notices"][0]["action"], "preempt");
    assert_eq!(interruptions["notices"][0]["signal"], "SIGTERM");
    assert_eq!(interruptions["lost_work"], Value::Null, "the command reports no work");
    let requests = service.requests();
    assert!(requests[1].contains("&last_etag=a1 "), "{requests:?}");
    assert!(requests.iter().all(|it| it.contains("metadata-flavor: google")), "{requests:?}");
}

/// Scenario: events of a scale set: another machine is redeployed, this one pauses and is then preempted.
/// Guarantee: only its own events count, and a pause sends no signal.
#[test]
fn events_of_other_machines_do_not_count() {
    let service = MetadataService::start(|path, _| match path {
        "GET /metadata/instance/compute/name" => Some((200, "", "gpus_1")),
        _ => Some((
            200,
            "",
            r#"{"DocumentIncarnation": 1, "Events": [
                {"EventId": "1", "EventType": "Redeploy", "Resources": ["gpus_2"], "NotBefore": ""},
                {"EventId": "2", "EventType": "Freeze", "Resources": ["gpus_1"], "NotBefore": ""},
                {"EventId": "3", "EventType": "Preempt", "Resources": ["gpus_1"],
                 "NotBefore": "Sat, 19 Sep 2099 18:29:47 GMT"}]}"#,
        )),
    });
    let rig = Rig::new("[[device]]");
    let arguments = format!(
        "--interruptions azure --interruption-signal INT --metadata-service {}",
        service.address
    );
    let (output, report) = run_with_report(&rig, &arguments, |command| {
        command.args(["--", "sh", "-c", "trap 'exit 3' INT; while :; do sleep 0.05; done"]);
    });
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let notices = report["interruptions"]["notices"].as_array().unwrap();
    let brief = |notice: &Value| json!([notice["action"], notice["due"], notice["signal"]]);
    assert_eq!(
        notices.iter().map(brief).collect::<Vec<_>>(),
        [json!(["freeze", null, null]), json!(["preempt", "2099-09-19T18:29:47Z", "SIGINT"])]
    );
}

/// Scenario: a machine without a metadata service, and one whose answers are malformed.
/// Guarantee: the run goes on, and logs each problem once.
#[test]
fn missing_service_is_logged_once_and_changes_nothing() {
    let rig = Rig::new("[[device]]");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let arguments = format!("--interruptions aws --metadata-service http://{free} --duration 6");
    let (output, report) = run_with_report(&rig, &arguments, |_| {});
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert_eq!(log.matches("Connection refused").count(), 1, "{log}");
    assert!(log.contains(&format!("interruptions of aws: http://{free}: ")), "{log}");
    assert_eq!(report["interruptions"], json!({"notices": [], "lost_work": null}));

    let service = MetadataService::start(|_, _| Some((200, "", "\u{1b}[31mtwo words")));
    let arguments =
        format!("--interruptions azure --metadata-service {} --duration 6", service.address);
    let (output, _) = run_with_report(&rig, &arguments, |_| {});
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    let error = "/name: invalid answer: expected the name of this machine; requests continue";
    assert_eq!(log.matches(error).count(), 1, "{log}");
    assert!(service.requests().len() >= 2, "{:?}", service.requests());
}

/// Scenario: a metadata service whose answer never ends.
/// Guarantee: it is cut off and logged once; the run goes on.
#[test]
fn answer_without_an_end_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4_096]);
            let _ = connection.write_all(b"HTTP/1.1 200 X\r\n\r\n");
            while connection.write_all(&[b'x'; 4_096]).is_ok() {}
        }
    });
    let rig = Rig::new("[[device]]");
    let arguments = format!("--interruptions aws --metadata-service {address} --duration 4");
    let (output, report) = run_with_report(&rig, &arguments, |_| {});
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert_eq!(log.matches("interruptions of aws: ").count(), 1, "{log}");
    assert!(log.contains("length limit exceeded; requests continue"), "{log}");
    assert_eq!(report["interruptions"], json!({"notices": [], "lost_work": null}));
}

#[test]
fn notices_are_not_requested_by_default() {
    let rig = Rig::new("[[device]]");
    let (output, report) = run_with_report(&rig, "--duration 0.3", |_| {});
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(report.get("interruptions").is_none());
    let output = phasemeter(&rig, "--metadata-service http://127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
