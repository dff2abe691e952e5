//! What would be known of the workload.

use phasemeter_environment::variables::Environment;
use phasemeter_otlp::experiment::Experiment;

use super::findings::{Findings, Topic};

const SERVICE_NAME: &str = "service.name";

/// Describes the experiment of a run, and the variables that are ignored. `is_given`: whether its trace is.
pub fn describe(
    environment: &Environment,
    experiment: &Experiment,
    is_given: bool,
    findings: &mut Findings,
) {
    let name = experiment.attributes.get(SERVICE_NAME).map_or("unknown", String::as_str);
    findings.fact(Topic::Workload, format!("{SERVICE_NAME}: {name}"));
    let trace = experiment.context().map(|context| context.trace_id.to_string());
    if is_given {
        let trace = trace.unwrap_or_default();
        findings.fact(Topic::Workload, format!("experiment {}, in trace {trace}", experiment.id));
    } else {
        findings.fact(
            Topic::Workload,
            "no trace context and no experiment: each run is an experiment of its own",
        );
    }
    for warning in &environment.warnings {
        findings.note(format!("{warning}; {}", warning.consequence()));
    }
}
