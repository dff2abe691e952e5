//! All variables together, against the specification.

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::encode::{
    Aggregation, AttributeLimits, ExemplarFilter, Limits, MetricSelection, MetricSet,
    TemporalityPreference,
};
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
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "phasemeter.workload=trainin",
            "phasemeter.workload: invalid value \"trainin\": expected training, serving, interactive or batch",
        ),
        ("OTEL_RESOURCE_ATTRIBUTES", "phasemeter.precision=int3", "expected fp64, fp32, tf32"),
        ("OTEL_TRACES_SAMPLER", "xray", "invalid value \"xray\": expected always_on"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", "milliseconds"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1m", "milliseconds"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "x",
            "invalid value \"x\": expected explicit_bucket_histogram",
        ),
        (
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "gamma",
            "invalid value \"gamma\": expected cumulative, delta or lowmemory",
        ),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "always_on", "expected trace_based or always_off"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "-1", "expected a number, 0 or more"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "\"zipkin\" is not supported"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1", ": not supported"),
        ("OTEL_SDK_DISABLED", "1", "expected true or false"),
        ("PHASEMETER_METRICS", "most", "expected minimal, default or all"),
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
fn keywords_are_read_in_any_case() {
    let environment = read(&[
        ("OTEL_TRACES_SAMPLER", "ParentBased_TraceIdRatio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "Base2_Exponential_Bucket_Histogram",
        ),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "LowMemory"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "Always_Off"),
        ("PHASEMETER_METRICS", "All"),
        ("OTEL_PROPAGATORS", "TraceContext"),
        ("TRACEPARENT", PARENT),
        ("BAGGAGE", "user=ada"),
        ("OTEL_TRACES_EXPORTER", "None"),
        ("OTEL_METRICS_EXPORTER", "NONE"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ]);
    assert_eq!(environment.warnings, []);
    let request = environment.experiment;
    assert_eq!(request.sampler.root, Root::TraceIdRatio(Ratio::new(0.5).unwrap()));
    assert_eq!(environment.export.metrics, MetricSelection::of(MetricSet::All));
    assert_eq!(environment.export.aggregation, Aggregation::Exponential);
    assert_eq!(environment.export.temporality, TemporalityPreference::LowMemory);
    assert_eq!(environment.export.exemplars, ExemplarFilter::AlwaysOff);
    assert_eq!(request.propagators, Propagators { trace_context: true, baggage: false });
    assert!(request.parent.is_some() && request.baggage.is_none());
    assert!(environment.exports_nothing);
}

#[test]
fn specific_limits_precede_general_ones() {
    let general =
        [("OTEL_ATTRIBUTE_COUNT_LIMIT", "9"), ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "20")];
    let limits = |more: &[_]| read(&[&general, more].concat()).export.limits;
    let both = AttributeLimits { count: 9, value_length: Some(20) };
    assert_eq!(limits(&[]), Limits { span: both, log_record: both, ..Limits::default() });
    let own = limits(&[
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "0"),
        ("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "7"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "1"),
    ]);
    assert_eq!(own.span, AttributeLimits { count: 0, ..both });
    assert_eq!(own.log_record, AttributeLimits { value_length: Some(7), ..both });
    assert_eq!(own.span_links, 1);
}

#[test]
fn ratio_is_read_only_for_ratio_samplers() {
    let ratio =
        |sampler| read(&[("OTEL_TRACES_SAMPLER", sampler), ("OTEL_TRACES_SAMPLER_ARG", "2")]);
    assert_eq!(ratio("always_on").warnings, []);
    let wrong = ratio("traceidratio");
    let warnings: Vec<_> = wrong.warnings.iter().map(ToString::to_string).collect();
    let warning = "OTEL_TRACES_SAMPLER_ARG: invalid value \"2\": expected a number from 0 to 1";
    assert_eq!(warnings, [warning]);
    assert_eq!(wrong.warnings[0].consequence(), "1 is used");
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
