//! What the environment says: the standard variables of OpenTelemetry, read once, here.
//!
//! What cannot be used is ignored with a warning that says so: a variable meant for someone else
//! must not stop a meter. This room must not know the process it runs in: it asks a function.

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::encode::{Aggregation, ExportSettings};
use phasemeter_otlp::experiment::{
    AttributesError, ExperimentRequest, Ratio, TraceParentError, TraceSampler, TraceStateError,
    parse_attributes,
};

/// What the environment says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// Of the experiment.
    pub experiment: ExperimentRequest,
    /// Of how it is exported.
    pub export: ExportSettings,
    /// Whether the SDK is switched off, which carries what the sidecar tells of itself.
    pub sdk_disabled: bool,
    /// What could not be used.
    pub warnings: Vec<Ignored>,
}

/// A variable that is not used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Ignored {
    /// The trace goes on without its parent.
    #[error("TRACEPARENT is ignored: {0}")]
    TraceParent(#[source] TraceParentError),
    /// Spans go without it.
    #[error("TRACESTATE is ignored: {0}")]
    TraceState(#[source] TraceStateError),
    /// The workload goes without them.
    #[error("OTEL_RESOURCE_ATTRIBUTES is ignored: {0}")]
    ResourceAttributes(#[source] AttributesError),
    /// The default is taken.
    #[error(
        "OTEL_TRACES_SAMPLER is ignored: there is no sampler {0:?}, taking parentbased_always_on"
    )]
    TraceSampler(String),
    /// Every trace is taken.
    #[error("OTEL_TRACES_SAMPLER_ARG is ignored: {0:?} is no number from 0 to 1, taking 1")]
    SamplerRatio(String),
    /// The default is taken.
    #[error(
        "OTEL_METRIC_EXPORT_INTERVAL is ignored: {0:?} is no number of milliseconds, taking 60000"
    )]
    ExportInterval(String),
    /// The default is taken.
    #[error(
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION is ignored: there is no {0:?}, \
         taking explicit_bucket_histogram"
    )]
    Aggregation(String),
    /// The default is taken.
    #[error("OTEL_SDK_DISABLED is ignored: {0:?} is neither true nor false, taking false")]
    SdkDisabled(String),
}

impl Environment {
    /// Reads it. `lookup` gives the value of a variable; an empty one is as good as none.
    #[must_use]
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let mut warnings = Vec::new();
        let experiment = experiment(&lookup, &mut warnings);
        let export = export(&lookup, &mut warnings);
        let sdk_disabled = sdk_disabled(&lookup, &mut warnings);
        Self { experiment, export, sdk_disabled, warnings }
    }
}

fn experiment(
    lookup: &impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<Ignored>,
) -> ExperimentRequest {
    let mut take = |warning| warnings.push(warning);
    let parent = lookup("TRACEPARENT")
        .and_then(|text| text.parse().map_err(|error| take(Ignored::TraceParent(error))).ok());
    // Without its parent a state means nothing.
    let state = lookup("TRACESTATE")
        .filter(|_| parent.is_some())
        .and_then(|text| text.parse().map_err(|error| take(Ignored::TraceState(error))).ok());
    let attributes = lookup("OTEL_RESOURCE_ATTRIBUTES").and_then(|list| {
        parse_attributes(&list).map_err(|error| take(Ignored::ResourceAttributes(error))).ok()
    });
    let mut attributes = attributes.unwrap_or_default();
    if let Some(name) = lookup("OTEL_SERVICE_NAME") {
        attributes.insert("service.name".to_owned(), name);
    }
    ExperimentRequest {
        parent,
        state,
        baggage: lookup("BAGGAGE"),
        sampler: sampler(lookup, warnings),
        attributes,
        ..ExperimentRequest::default()
    }
}

fn sampler(lookup: &impl Fn(&str) -> Option<String>, warnings: &mut Vec<Ignored>) -> TraceSampler {
    let Some(name) = lookup("OTEL_TRACES_SAMPLER") else { return TraceSampler::default() };
    let ratio = lookup("OTEL_TRACES_SAMPLER_ARG").filter(|_| name.ends_with("traceidratio"));
    let ratio = ratio.and_then(|text| {
        let ratio = text.parse().ok().and_then(Ratio::new);
        if ratio.is_none() {
            warnings.push(Ignored::SamplerRatio(text));
        }
        ratio
    });
    TraceSampler::named(&name, ratio.unwrap_or(Ratio::ALL)).unwrap_or_else(|| {
        warnings.push(Ignored::TraceSampler(name));
        TraceSampler::default()
    })
}

fn export(lookup: &impl Fn(&str) -> Option<String>, warnings: &mut Vec<Ignored>) -> ExportSettings {
    let default = ExportSettings::default();
    let every = lookup("OTEL_METRIC_EXPORT_INTERVAL").and_then(|text| {
        let millis = text.parse().ok().filter(|millis: &u64| *millis > 0);
        if millis.is_none() {
            warnings.push(Ignored::ExportInterval(text));
        }
        millis.map(|millis| Nanos::from_secs(millis.div_ceil(1_000)))
    });
    let name = lookup("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION");
    let aggregation = name.and_then(|name| {
        let aggregation = Aggregation::named(&name);
        if aggregation.is_none() {
            warnings.push(Ignored::Aggregation(name));
        }
        aggregation
    });
    ExportSettings {
        every: every.unwrap_or(default.every),
        aggregation: aggregation.unwrap_or(default.aggregation),
    }
}

fn sdk_disabled(lookup: &impl Fn(&str) -> Option<String>, warnings: &mut Vec<Ignored>) -> bool {
    let Some(text) = lookup("OTEL_SDK_DISABLED") else { return false };
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if !is("true") && !is("false") {
        warnings.push(Ignored::SdkDisabled(text));
        return false;
    }
    is("true")
}

#[cfg(test)]
mod tests {
    use phasemeter_otlp::experiment::Root;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(variables: &[(&str, &str)]) -> Environment {
        Environment::read(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_said_is_the_default_without_a_warning() {
        assert_eq!(read(&[]), Environment::default());
        assert_eq!(read(&[("TRACEPARENT", ""), ("OTEL_TRACES_SAMPLER", "")]), read(&[]));
        assert_eq!(read(&[]).export.every, Nanos::from_secs(60));
    }

    #[test]
    fn everything_said_is_taken() {
        let environment = read(&[
            ("TRACEPARENT", PARENT),
            ("TRACESTATE", "a=1"),
            ("BAGGAGE", "user=ada;x=1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=ml"),
            ("OTEL_SERVICE_NAME", "trainer"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "10001"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
                "base2_exponential_bucket_histogram",
            ),
            ("OTEL_SDK_DISABLED", "True"),
        ]);
        assert_eq!(environment.warnings, []);
        let request = environment.experiment;
        assert_eq!(request.parent.unwrap().to_string(), PARENT);
        assert_eq!(request.state.unwrap().as_str(), "a=1");
        assert_eq!(request.baggage.unwrap(), "user=ada;x=1");
        assert_eq!(request.attributes["service.name"], "trainer");
        assert_eq!(request.attributes["team"], "ml");
        assert_eq!(request.sampler.root, Root::TraceIdRatio(Ratio::new(0.5).unwrap()));
        assert_eq!(environment.export.every, Nanos::from_secs(11));
        assert_eq!(environment.export.aggregation, Aggregation::Exponential);
        assert!(environment.sdk_disabled);
    }

    #[test]
    fn each_thing_that_is_malformed_is_ignored_with_one_warning() {
        for (name, value, part) in [
            ("TRACEPARENT", "00-0AF7", "invalid traceparent"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team", "invalid attribute"),
            ("OTEL_TRACES_SAMPLER", "xray", "there is no sampler \"xray\""),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0", "milliseconds"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1m", "milliseconds"),
            ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "x", "there is no \"x\""),
            ("OTEL_SDK_DISABLED", "1", "neither true nor false"),
        ] {
            let mut environment = read(&[(name, value)]);
            let warnings = std::mem::take(&mut environment.warnings);
            assert_eq!(environment, read(&[]), "{name}");
            let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
            let [warning] = warnings.as_slice() else { panic!("{name}: {warnings:?}") };
            assert!(warning.starts_with(name) && warning.contains(part), "{warning}");
        }
    }

    #[test]
    fn a_ratio_counts_only_where_it_is_asked_for() {
        let ratio =
            |sampler| read(&[("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", "2")]);
        assert_eq!(ratio("always_on").warnings, []);
        let wrong = ratio("traceidratio");
        assert_eq!(wrong.warnings, [Ignored::SamplerRatio("2".into())]);
        assert_eq!(wrong.experiment.sampler.root, Root::TraceIdRatio(Ratio::ALL));
    }

    #[test]
    fn a_state_without_its_parent_is_not_kept() {
        for parent in ["", "malformed"] {
            let environment = read(&[("TRACEPARENT", parent), ("TRACESTATE", "a=1")]);
            assert_eq!(environment.experiment.state, None);
        }
        let spoiled = read(&[("TRACEPARENT", PARENT), ("TRACESTATE", "a")]);
        assert!(matches!(spoiled.warnings.as_slice(), [Ignored::TraceState(_)]));
        assert!(spoiled.experiment.parent.is_some());
    }
}
