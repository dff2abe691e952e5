//! Reads the OpenTelemetry environment variables, once.
//!
//! Invalid values are ignored with a warning: a variable meant for another program must not stop
//! metering. Must not depend on the process environment: values come from a function.

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::encode::{Aggregation, ExportSettings};
use phasemeter_otlp::experiment::{
    AttributesError, ExperimentRequest, Ratio, TraceParentError, TraceSampler, TraceStateError,
    parse_attributes,
};

/// Configuration from the environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// The experiment.
    pub experiment: ExperimentRequest,
    /// The export settings.
    pub export: ExportSettings,
    /// Whether the SDK is disabled, and with it internal telemetry.
    pub sdk_disabled: bool,
    /// The ignored variables.
    pub warnings: Vec<Ignored>,
}

/// A variable that is ignored, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Ignored {
    /// The trace has no parent.
    #[error("TRACEPARENT is ignored: {0}")]
    TraceParent(#[source] TraceParentError),
    /// Spans have no trace state.
    #[error("TRACESTATE is ignored: {0}")]
    TraceState(#[source] TraceStateError),
    /// The workload has no such attributes.
    #[error("OTEL_RESOURCE_ATTRIBUTES is ignored: {0}")]
    ResourceAttributes(#[source] AttributesError),
    /// The default is used.
    #[error("OTEL_TRACES_SAMPLER is ignored: unknown sampler {0:?}; using parentbased_always_on")]
    TraceSampler(String),
    /// Every trace is sampled.
    #[error(
        "OTEL_TRACES_SAMPLER_ARG is ignored: invalid ratio {0:?}: expected a number from 0 to 1; using 1"
    )]
    SamplerRatio(String),
    /// The default is used.
    #[error(
        "OTEL_METRIC_EXPORT_INTERVAL is ignored: invalid interval {0:?}: expected milliseconds; using 60000"
    )]
    ExportInterval(String),
    /// The default is used.
    #[error(
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION is ignored: unknown \
         aggregation {0:?}; using explicit_bucket_histogram"
    )]
    Aggregation(String),
    /// The default is used.
    #[error(
        "OTEL_SDK_DISABLED is ignored: invalid value {0:?}: expected true or false; using false"
    )]
    SdkDisabled(String),
}

impl Environment {
    /// Reads the environment. `lookup` returns the value of a variable; an empty value counts as unset.
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
    let mut ignore = |warning| warnings.push(warning);
    let parent = lookup("TRACEPARENT")
        .and_then(|text| text.parse().map_err(|error| ignore(Ignored::TraceParent(error))).ok());
    // A trace state is meaningless without a parent.
    let state = lookup("TRACESTATE")
        .filter(|_| parent.is_some())
        .and_then(|text| text.parse().map_err(|error| ignore(Ignored::TraceState(error))).ok());
    let attributes = lookup("OTEL_RESOURCE_ATTRIBUTES").and_then(|list| {
        parse_attributes(&list).map_err(|error| ignore(Ignored::ResourceAttributes(error))).ok()
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
    fn empty_environment_is_the_default() {
        assert_eq!(read(&[]), Environment::default());
        assert_eq!(read(&[("TRACEPARENT", ""), ("OTEL_TRACES_SAMPLER", "")]), read(&[]));
        assert_eq!(read(&[]).export.every, Nanos::from_secs(60));
    }

    #[test]
    fn all_variables_are_read() {
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
    fn invalid_variable_is_ignored_with_one_warning() {
        for (name, value, part) in [
            ("TRACEPARENT", "00-0AF7", "invalid traceparent"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team", "invalid attribute"),
            ("OTEL_TRACES_SAMPLER", "xray", "unknown sampler \"xray\""),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0", "milliseconds"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1m", "milliseconds"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
                "x",
                "unknown aggregation \"x\"",
            ),
            ("OTEL_SDK_DISABLED", "1", "expected true or false"),
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
    fn ratio_is_read_only_for_ratio_samplers() {
        let ratio =
            |sampler| read(&[("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", "2")]);
        assert_eq!(ratio("always_on").warnings, []);
        let wrong = ratio("traceidratio");
        assert_eq!(wrong.warnings, [Ignored::SamplerRatio("2".into())]);
        assert_eq!(wrong.experiment.sampler.root, Root::TraceIdRatio(Ratio::ALL));
    }

    #[test]
    fn trace_state_without_parent_is_dropped() {
        for parent in ["", "malformed"] {
            let environment = read(&[("TRACEPARENT", parent), ("TRACESTATE", "a=1")]);
            assert_eq!(environment.experiment.state, None);
        }
        let invalid = read(&[("TRACEPARENT", PARENT), ("TRACESTATE", "a")]);
        assert!(matches!(invalid.warnings.as_slice(), [Ignored::TraceState(_)]));
        assert!(invalid.experiment.parent.is_some());
    }
}
