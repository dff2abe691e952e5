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
        ("OTEL_CONFIG_FILE", "otel.yaml", ": not supported"),
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

/// Every variable of the specification is read, by the meter, by delivery or for the log, or
/// reported as ignored, once; and the documentation lists it as the one or the other.
#[cfg(feature = "live")]
#[test]
fn every_variable_of_the_specification_is_read_or_reported() {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use phasemeter_otlp::Signal;
    use phasemeter_otlp::delivery::{Config, Destination};

    use crate::cli::LogArgs;

    let list = include_str!("../../../../tests/fixtures/otel-variables.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let all: Vec<_> = lines.filter_map(|line| line.split_once('=')).collect();
    let looked_up = RefCell::new(BTreeSet::new());
    let lookup = |name: &str| {
        looked_up.borrow_mut().insert(name.to_owned());
        let found = all.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let warnings = Environment::read(lookup).warnings;
    // A variable of one signal precedes the general one, which is then not read. The certificates
    // do not exist.
    let is_general = |name: &str| {
        Signal::ALL.iter().all(|it| !name.contains(&format!("_{}_", it.in_variable())))
    };
    let general = |name: &str| lookup(name).filter(|_| is_general(name));
    let _ = Config::read(Destination::Environment, lookup);
    let _ = Config::read(Destination::Environment, general);
    crate::log::invalid(LogArgs::default(), lookup);
    let looked_up = looked_up.into_inner();
    let unread: Vec<_> = all.iter().filter(|(name, _)| !looked_up.contains(*name)).collect();
    assert!(unread.is_empty(), "{unread:?}");
    let unsupported = |warning: &Ignored| match warning {
        Ignored::Unsupported(name) => *name,
        other => panic!("{other}"),
    };
    let reported: Vec<_> = warnings.iter().map(unsupported).collect();
    assert_eq!(reported, UNSUPPORTED);

    let documentation = include_str!("../../../../docs/otlp.md");
    let (supported, rest) = documentation.split_once("The other variables of").unwrap();
    let (ignored, _) = rest.split_once("\n## ").unwrap();
    for (name, _) in all {
        let per_signal = Signal::ALL.map(|signal| format!("_{}_", signal.in_variable()));
        let general = per_signal.iter().fold(name.to_owned(), |name, part| {
            if name.starts_with("OTEL_EXPORTER_OTLP") { name.replace(part, "_") } else { name }
        });
        let is_in = |text: &str| {
            text.contains(&format!("`{name}`")) || text.contains(&format!("`{general}`"))
        };
        assert_eq!(
            (is_in(supported), is_in(ignored)),
            {
                let is_ignored = UNSUPPORTED.contains(&name);
                (!is_ignored, is_ignored)
            },
            "{name}"
        );
    }
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
