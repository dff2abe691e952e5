//! Reads the OpenTelemetry environment variables, once.
//!
//! Invalid values are ignored with a warning: a variable meant for another program must not stop
//! metering. A variable of the specification that has no effect is reported too.

mod export;
mod ignored;
mod unsupported;

pub use ignored::Ignored;
use phasemeter_otlp::encode::ExportSettings;
use phasemeter_otlp::excerpt;
use phasemeter_otlp::experiment::{
    Attributes, ExperimentRequest, Propagators, Ratio, TraceSampler, parse_attributes,
};
use phasemeter_rules::workload::{PRECISION, PRECISIONS, WORKLOAD, Workload};
pub use unsupported::UNSUPPORTED;

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
        self.check_declared(&mut attributes);
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

    /// Removes declared kinds and formats that do not exist: they would be taken as unknown in silence.
    fn check_declared(&mut self, attributes: &mut Attributes) {
        let kinds = Workload::DECLARED.map(Workload::name);
        let known: [(_, &[&str], _, _); 2] = [
            (
                WORKLOAD,
                &kinds,
                "OTEL_RESOURCE_ATTRIBUTES: phasemeter.workload",
                "training, serving, interactive or batch",
            ),
            (
                PRECISION,
                &PRECISIONS,
                "OTEL_RESOURCE_ATTRIBUTES: phasemeter.precision",
                "fp64, fp32, tf32, bf16, fp16 or fp8",
            ),
        ];
        for (name, values, variable, expected) in known {
            let is_invalid = |value: &String| !values.contains(&value.as_str());
            if let Some(value) = attributes.get(name).filter(|value| is_invalid(value)) {
                let value = excerpt(value);
                self.warnings.push(Ignored::Value {
                    variable,
                    value,
                    expected,
                    default: "unknown",
                });
                attributes.remove(name);
            }
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
}

fn boolean(text: &str) -> Option<bool> {
    let is = |word| text.eq_ignore_ascii_case(word);
    (is("true") || is("false")).then(|| is("true"))
}

#[cfg(test)]
mod tests;
