//! What the answers of the backend mean.

use std::collections::BTreeMap;

use phasemeter_otlp::delivery::{Probe, ProbeAnswer, ResponseStatus};
use phasemeter_otlp::{BySignal, Signal};

use super::findings::{Findings, Topic};

/// A fact for each signal, and a problem for each answer that is not one of success.
pub fn describe(probes: &BySignal<Option<Probe>>, findings: &mut Findings) {
    let mut failed: BTreeMap<(String, String), Vec<Signal>> = BTreeMap::new();
    for (signal, probe) in probes.iter() {
        let name = signal.name();
        let Some(Probe { target, answer, status, took }) = probe else {
            findings.fact(Topic::Endpoint, format!("{name}: not exported"));
            continue;
        };
        let (what, reason) = match answer {
            ProbeAnswer::Accepted => {
                let took = took.as_secs_f64() * 1e3;
                findings
                    .fact(Topic::Endpoint, format!("{name}: {target}: accepted in {took:.0} ms"));
                continue;
            }
            ProbeAnswer::Retried(reason) => ("not accepted, and sent again", reason),
            ProbeAnswer::Dropped(reason) => ("rejected, and dropped", reason),
        };
        findings.fact(Topic::Endpoint, format!("{name}: {target}: {what}"));
        failed.entry((reason.clone(), advice(answer, *status))).or_default().push(signal);
    }
    for ((reason, advice), signals) in failed {
        let names: Vec<_> = signals.into_iter().map(Signal::name).collect();
        findings.problem(format!("endpoint ({}): {reason}; {advice}", names.join(", ")));
    }
}

/// What to do.
fn advice(answer: &ProbeAnswer, status: Option<ResponseStatus>) -> String {
    let advice = match status {
        None => "check that the backend listens there, and that this machine can reach it",
        Some(
            ResponseStatus::Http(401 | 403)
            | ResponseStatus::Grpc("UNAUTHENTICATED" | "PERMISSION_DENIED"),
        ) => "check the token in OTEL_EXPORTER_OTLP_HEADERS or --otlp-headers-file",
        Some(
            ResponseStatus::Http(200..=299 | 404 | 405 | 415)
            | ResponseStatus::Grpc("UNIMPLEMENTED"),
        ) => {
            "check the path and OTEL_EXPORTER_OTLP_PROTOCOL; of a signal that the backend does not take, set \
             OTEL_…_EXPORTER to none"
        }
        Some(_) if matches!(answer, ProbeAnswer::Retried(_)) => "check the state of the backend",
        Some(_) => "check the log of the backend",
    };
    advice.to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Each answer but success is one problem, for all of its signals.
    #[test]
    fn problems_are_named_once_with_what_to_do() {
        let of = |answer: &ProbeAnswer, status| {
            let probe = Probe {
                target: "grpc to http://backend:4317".to_owned(),
                answer: answer.clone(),
                status,
                took: Duration::from_millis(3),
            };
            let probes = BySignal { logs: None, ..BySignal::each(|_| Some(probe.clone())) };
            let mut findings = Findings::default();
            describe(&probes, &mut findings);
            assert_eq!(findings.facts[&Topic::Endpoint].len(), 3);
            findings.problems
        };
        assert!(of(&ProbeAnswer::Accepted, Some(ResponseStatus::Http(200))).is_empty());
        let reason = || "why".to_owned();
        let (retried, dropped) = (ProbeAnswer::Retried(reason()), ProbeAnswer::Dropped(reason()));
        for (answer, status, advice) in [
            (&retried, None, "check that the backend listens there"),
            (&retried, Some(ResponseStatus::Http(503)), "check the state of the backend"),
            (&dropped, Some(ResponseStatus::Http(401)), "check the token in"),
            (&dropped, Some(ResponseStatus::Grpc("UNIMPLEMENTED")), "check the path"),
            (&dropped, Some(ResponseStatus::Http(200)), "check the path"),
            (&dropped, Some(ResponseStatus::Http(400)), "check the log of the backend"),
        ] {
            let problems = of(answer, status);
            let [problem] = &problems[..] else { panic!("{problems:?}") };
            let expected = format!("endpoint (traces, metrics): why; {advice}");
            assert!(problem.starts_with(&expected), "{problem}");
        }
    }
}
