//! Reads the OpenTelemetry environment variables, once.
//!
//! Invalid values are ignored with a warning: a variable meant for another program must not stop
//! metering. A variable of the specification that has no effect is reported too. Must not depend on
//! the process environment: values come from a function.

mod ignored;
mod unsupported;

pub use ignored::Ignored;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::encode::{
    Aggregation, AttributeLimits, ExemplarFilter, ExportSettings, Limits, TemporalityPreference,
};
use phasemeter_otlp::experiment::{
    ExperimentRequest, Propagators, Ratio, TraceSampler, parse_attributes,
};
use phasemeter_otlp::{ExporterList, Signal, excerpt};

use self::unsupported::UNSUPPORTED;

/// Configuration from the environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// The experiment.
    pub experiment: ExperimentRequest,
    /// The export settings.
    pub export: ExportSettings,
    /// Whether the exporter of every signal is `none`.
    pub exports_nothing: bool,
    /// Whether the SDK is disabled, and with it internal telemetry.
    pub sdk_disabled: bool,
    /// The ignored variables.
    pub warnings: Vec<Ignored>,
}

impl Environment {
    /// Reads the environment. `lookup` returns the value of a variable; an empty value counts as unset.
    #[must_use]
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let mut reader = Reader { lookup: &lookup, warnings: Vec::new() };
        let experiment = reader.experiment();
        let export = reader.export();
        let exports_nothing = reader.exports_nothing();
        let sdk_disabled = reader.value("OTEL_SDK_DISABLED", "true or false", "false", boolean);
        let is_set = |name: &&'static str| reader.text(name).is_some();
        let unsupported: Vec<_> = UNSUPPORTED.into_iter().filter(is_set).collect();
        reader.warnings.extend(unsupported.into_iter().map(Ignored::Unsupported));
        Self {
            experiment,
            export,
            exports_nothing,
            sdk_disabled: sdk_disabled.unwrap_or(false),
            warnings: reader.warnings,
        }
    }
}

struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    warnings: Vec<Ignored>,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// The parsed value; `None` if unset or invalid.
    fn value<T>(
        &mut self,
        variable: &'static str,
        expected: &'static str,
        default: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = self.text(variable)?;
        let parsed = parse(value.trim());
        if parsed.is_none() {
            let value = excerpt(&value);
            self.warnings.push(Ignored::Value { variable, value, expected, default });
        }
        parsed
    }

    /// Keeps a value, or records why it is ignored.
    fn keep<T>(&mut self, result: Result<T, Ignored>) -> Option<T> {
        result.map_err(|ignored| self.warnings.push(ignored)).ok()
    }

    fn experiment(&mut self) -> ExperimentRequest {
        let propagators = self.propagators();
        let text = self.text("TRACEPARENT").filter(|_| propagators.trace_context);
        let parent = text.map(|text| text.parse().map_err(Ignored::TraceParent));
        let parent = parent.and_then(|parent| self.keep(parent));
        // A trace state is meaningless without a parent.
        let text = self.text("TRACESTATE").filter(|_| parent.is_some());
        let state = text.map(|text| text.parse().map_err(Ignored::TraceState));
        let state = state.and_then(|state| self.keep(state));
        let list = self.text("OTEL_RESOURCE_ATTRIBUTES");
        let attributes =
            list.map(|list| parse_attributes(&list).map_err(Ignored::ResourceAttributes));
        let attributes = attributes.and_then(|attributes| self.keep(attributes));
        let mut attributes = attributes.unwrap_or_default();
        if let Some(name) = self.text("OTEL_SERVICE_NAME") {
            attributes.insert("service.name".to_owned(), name);
        }
        ExperimentRequest {
            parent,
            state,
            baggage: self.text("BAGGAGE").filter(|_| propagators.baggage),
            propagators,
            sampler: self.sampler(),
            attributes,
            ..ExperimentRequest::default()
        }
    }

    fn propagators(&mut self) -> Propagators {
        let variable = "OTEL_PROPAGATORS";
        let Some(list) = self.text(variable) else { return Propagators::default() };
        let mut propagators = Propagators { trace_context: false, baggage: false };
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name.to_ascii_lowercase().as_str() {
                "tracecontext" => propagators.trace_context = true,
                "baggage" => propagators.baggage = true,
                "none" => {}
                _ => self.ignore_element(variable, name, "tracecontext, baggage or none"),
            }
        }
        propagators
    }

    fn ignore_element(&mut self, variable: &str, name: &str, expected: &'static str) {
        let (variable, name) = (variable.to_owned(), excerpt(name));
        self.warnings.push(Ignored::Element { variable, name, expected });
    }

    fn sampler(&mut self) -> TraceSampler {
        let Some(name) = self.text("OTEL_TRACES_SAMPLER") else { return TraceSampler::default() };
        let name = name.trim().to_ascii_lowercase();
        let ratio = name.ends_with("traceidratio").then(|| {
            self.value("OTEL_TRACES_SAMPLER_ARG", "a number from 0 to 1", "1", |text| {
                Ratio::new(text.parse().ok()?)
            })
        });
        let ratio = ratio.flatten().unwrap_or(Ratio::ALL);
        let expected = "always_on, always_off or traceidratio, also with parentbased_ before it";
        let sampler = self.value("OTEL_TRACES_SAMPLER", expected, "parentbased_always_on", |_| {
            TraceSampler::named(&name, ratio)
        });
        sampler.unwrap_or_default()
    }

    fn export(&mut self) -> ExportSettings {
        let default = ExportSettings::default();
        let every = self.value("OTEL_METRIC_EXPORT_INTERVAL", "milliseconds", "60000", |text| {
            let millis = text.parse().ok().filter(|millis: &u64| *millis > 0)?;
            Some(Nanos::from_secs(millis.div_ceil(1_000)))
        });
        let aggregation = self.value(
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "explicit_bucket_histogram or base2_exponential_bucket_histogram",
            "explicit_bucket_histogram",
            Aggregation::named,
        );
        let temporality = self.value(
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "cumulative, delta or lowmemory",
            "cumulative",
            TemporalityPreference::named,
        );
        let exemplars = self.value(
            "OTEL_METRICS_EXEMPLAR_FILTER",
            "trace_based or always_off",
            "trace_based",
            ExemplarFilter::named,
        );
        ExportSettings {
            every: every.unwrap_or(default.every),
            aggregation: aggregation.unwrap_or(default.aggregation),
            temporality: temporality.unwrap_or(default.temporality),
            exemplars: exemplars.unwrap_or(default.exemplars),
            limits: self.limits(),
        }
    }

    fn limits(&mut self) -> Limits {
        let Limits { span, log_record, span_links } = Limits::default();
        let count = self.limit("OTEL_ATTRIBUTE_COUNT_LIMIT", "128");
        let length = self.limit("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "no limit");
        let general = "that of all attributes";
        let mut of = |names: [&'static str; 2], default: AttributeLimits| AttributeLimits {
            count: self.limit(names[0], general).or(count).unwrap_or(default.count),
            value_length: self.limit(names[1], general).or(length).or(default.value_length),
        };
        let span =
            of(["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"], span);
        let log_record = of(
            ["OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT"],
            log_record,
        );
        let span_links = self.limit("OTEL_SPAN_LINK_COUNT_LIMIT", "128").unwrap_or(span_links);
        Limits { span, log_record, span_links }
    }

    fn limit(&mut self, variable: &'static str, default: &'static str) -> Option<u32> {
        self.value(variable, "a number, 0 or more", default, |text| text.parse().ok())
    }

    /// Whether the exporter of every signal is `none`.
    fn exports_nothing(&mut self) -> bool {
        let exported = Signal::ALL.map(|signal| {
            let variable = ExporterList::variable(signal);
            let list = ExporterList::parse(&self.text(&variable).unwrap_or_default());
            for name in &list.unsupported {
                self.ignore_element(&variable, name, "otlp or none");
            }
            list.is_exported
        });
        exported == [false; 3]
    }
}

fn boolean(text: &str) -> Option<bool> {
    let is = |word| text.eq_ignore_ascii_case(word);
    (is("true") || is("false")).then(|| is("true"))
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
            ("OTEL_SPAN_LINK_COUNT_LIMIT", "-1", "expected a number, 0 or more; using 128"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "\"zipkin\" is ignored: not supported"),
            ("OTEL_CONFIG_FILE", "otel.yaml", "is ignored: not supported"),
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

        use phasemeter_otlp::delivery::{Config, Destination};

        use crate::cli::LogArgs;

        let list = include_str!("../../../tests/fixtures/otel-variables.txt");
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
        crate::log::level(LogArgs::default(), lookup);
        let looked_up = looked_up.into_inner();
        let unread: Vec<_> = all.iter().filter(|(name, _)| !looked_up.contains(*name)).collect();
        assert!(unread.is_empty(), "{unread:?}");
        let unsupported = |warning: &Ignored| match warning {
            Ignored::Unsupported(name) => *name,
            other => panic!("{other}"),
        };
        let reported: Vec<_> = warnings.iter().map(unsupported).collect();
        assert_eq!(reported, UNSUPPORTED);

        let documentation = include_str!("../../../docs/otlp.md");
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
        let warning = "OTEL_TRACES_SAMPLER_ARG is ignored: invalid value \"2\": expected a number \
                       from 0 to 1; using 1";
        assert_eq!(warnings, [warning]);
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
