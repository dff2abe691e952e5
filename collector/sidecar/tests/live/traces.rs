//! In which trace a run stands: the command's, its parent's, or one of its own.

use crate::Rig;
use crate::run::{PARENT, around, named, phasemeter, spans, stderr};

#[test]
fn a_command_stands_under_the_experiment_and_that_under_its_parent() {
    let rig = Rig::new("[[device]]\n[[device]]");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    let arguments = format!("--otlp-file {}", file.display());
    let script = "echo $TRACEPARENT/$TRACESTATE/$BAGGAGE; sleep 0.3";
    let given = [("TRACEPARENT", PARENT), ("TRACESTATE", "a=1"), ("BAGGAGE", "user=ada")];
    let output = around(&rig, &arguments, script).envs(given).output().unwrap();

    let spans = spans(&file);
    let [experiment] = named(&spans, "experiment")[..] else { panic!("{spans:#?}") };
    assert_eq!(experiment["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(experiment["parentSpanId"], "b7ad6b7169203331");
    let own = experiment["spanId"].as_str().unwrap();
    let context = PARENT.replace("b7ad6b7169203331", own);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(told, format!("{context}/a=1/user=ada\n"), "{}", stderr(&output));
    let sessions = named(&spans, "gpu session");
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|session| session["parentSpanId"] == own));
    assert_eq!(spans.len(), 5, "a phase a session: {spans:#?}");

    // Without a context it opens a trace of its own, another each time.
    let traces = [(); 2].map(|()| {
        let output = around(&rig, "", "echo $TRACEPARENT").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    assert_ne!(traces[0], traces[1]);
    assert!(traces[0].starts_with("00-") && traces[0].ends_with("-01\n"), "{traces:?}");
}

/// Each session in its own trace still leads to the command.
#[test]
fn a_session_that_is_a_trace_is_linked_to_the_experiment() {
    let rig = Rig::new("[[device]]");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    let arguments = format!("--trace-mode per-session --otlp-file {}", file.display());
    around(&rig, &arguments, "sleep 0.3").env("TRACEPARENT", PARENT).output().unwrap();
    let spans = spans(&file);
    let [experiment] = named(&spans, "experiment")[..] else { panic!("{spans:#?}") };
    assert_eq!(experiment["parentSpanId"], "b7ad6b7169203331");
    let [session] = named(&spans, "gpu session")[..] else { panic!("{spans:#?}") };
    assert!(session.get("parentSpanId").is_none(), "{session:#}");
    assert_ne!(session["traceId"], experiment["traceId"]);
    let link = &session["links"][0];
    assert_eq!(link["traceId"], experiment["traceId"]);
    assert_eq!(link["spanId"], experiment["spanId"]);
}

#[test]
fn without_a_command_sessions_stand_under_the_parent() {
    let rig = Rig::new("[[device]]");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    let arguments = format!("--duration 0.4 --otlp-file {}", file.display());
    phasemeter(&rig, &arguments).env("TRACEPARENT", PARENT).output().unwrap();
    let spans = spans(&file);
    assert!(named(&spans, "experiment").is_empty(), "{spans:#?}");
    assert_eq!(named(&spans, "gpu session")[0]["parentSpanId"], "b7ad6b7169203331");
}
