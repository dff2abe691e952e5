//! The trace of a run: its parent's, the command's, or a new one.

use std::fs;

use serde_json::json;

use crate::Rig;
use crate::run::{
    PARENT, assert_one_session_per_hour, attribute, named, phasemeter, spans, stderr, times,
    with_command,
};

#[test]
fn command_is_child_of_experiment_and_experiment_of_given_context() {
    let rig = Rig::new("[[device]]\n[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.json");
    let arguments = format!("--otlp-file {}", file.display());
    let script = "echo $TRACEPARENT/$TRACESTATE/$BAGGAGE; sleep 0.3";
    let given = [("TRACEPARENT", PARENT), ("TRACESTATE", "a=1"), ("BAGGAGE", "user=ada")];
    let output = with_command(&rig, &arguments, script).envs(given).output().unwrap();

    let spans = spans(&file);
    let [experiment] = named(&spans, "experiment")[..] else { panic!("{spans:#?}") };
    assert_eq!(experiment["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(experiment["parentSpanId"], "b7ad6b7169203331");
    let own = experiment["spanId"].as_str().unwrap();
    let context = PARENT.replace("b7ad6b7169203331", own);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(stdout, format!("{context}/a=1/user=ada\n"), "{}", stderr(&output));
    let sessions = named(&spans, "gpu session");
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|session| session["parentSpanId"] == own));
    assert_eq!(spans.len(), 5, "one phase per session: {spans:#?}");

    // Without a given context each run starts a new trace, whose ID is random.
    let traces = [(); 2].map(|()| {
        let output = with_command(&rig, "", "echo $TRACEPARENT").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    assert_ne!(traces[0], traces[1]);
    assert!(traces[0].starts_with("00-") && traces[0].ends_with("-03\n"), "{traces:?}");
}

/// A session with its own trace still leads to the command.
#[test]
fn per_session_trace_links_to_experiment() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.json");
    let arguments = format!("--trace-mode per-session --otlp-file {}", file.display());
    with_command(&rig, &arguments, "sleep 0.3").env("TRACEPARENT", PARENT).output().unwrap();
    let spans = spans(&file);
    let [experiment] = named(&spans, "experiment")[..] else { panic!("{spans:#?}") };
    assert_eq!(experiment["parentSpanId"], "b7ad6b7169203331");
    let mut sessions = named(&spans, "gpu session");
    assert_one_session_per_hour(sessions.iter().map(|session| times(session)).collect());
    sessions.sort_by_key(|session| times(session));
    let session = sessions[0];
    assert!(session.get("parentSpanId").is_none(), "{session:#}");
    assert_ne!(session["traceId"], experiment["traceId"]);
    let link = &session["links"][0];
    assert_eq!(link["traceId"], experiment["traceId"]);
    assert_eq!(link["spanId"], experiment["spanId"]);
}

#[test]
fn sessions_without_command_are_children_of_given_context() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.json");
    let arguments = format!("--duration 0.4 --otlp-file {}", file.display());
    phasemeter(&rig, &arguments).env("TRACEPARENT", PARENT).output().unwrap();
    let spans = spans(&file);
    assert!(named(&spans, "experiment").is_empty(), "{spans:#?}");
    assert_eq!(named(&spans, "gpu session")[0]["parentSpanId"], "b7ad6b7169203331");
}

/// The conventions for command-line programs: an exit code other than 0 is an error.
#[test]
fn experiment_span_has_the_exit_of_its_command() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    for (name, script, code, error) in [
        ("ok", "true", "0", None),
        ("failed", "exit 3", "3", Some(json!({"code": 2}))),
        (
            "killed",
            "kill -KILL $$",
            "137",
            Some(json!({"code": 2, "message": "ended by signal 9"})),
        ),
    ] {
        let file = dir.path().join(name);
        let arguments = format!("--otlp-file {}", file.display());
        let mut command = with_command(&rig, &arguments, &format!("echo $$; {script}"));
        command.env("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=rank-3");
        command.env("SLURM_JOB_ID", "4711");
        let output = command.output().unwrap();
        let pid = String::from_utf8(output.stdout).unwrap();
        let spans = spans(&file);
        let [span] = named(&spans, "experiment")[..] else { panic!("{spans:#?}") };
        assert_eq!(span.get("status"), error.as_ref(), "{name}");
        assert_eq!(attribute(span, "process.exit.code"), code);
        assert_eq!(attribute(span, "process.executable.name"), "sh");
        assert_eq!(attribute(span, "process.pid"), pid.trim());
        let attributes = span["attributes"].as_array().unwrap();
        let kind = attributes.iter().find(|attribute| attribute["key"] == "error.type");
        let kind = kind.map(|attribute| attribute["value"]["stringValue"].as_str().unwrap());
        assert_eq!(kind, error.map(|_| code), "{name}");
        let service = fs::read_to_string(&file).unwrap();
        assert!(service.contains("\"unknown_service:sh\""), "{service}");
        assert!(service.contains("\"rank-3\""), "the given service.instance.id: {service}");
        assert!(service.contains("\"slurm.job.id\"") && service.contains("\"4711\""), "{service}");
    }
}
