//! Mappings: which counter of a workload counts which unit of work. They are data, in TOML.

use std::collections::BTreeMap;
use std::sync::Arc;

use phasemeter_meter::instrument::{Instrument, Temporality};
use phasemeter_meter::label_filter::LabelFilter;
use serde::Deserialize;

use phasemeter_meter::work_unit::WorkUnit;

/// The mappings of Phasemeter.
const BUILT_IN: [&str; 5] = [
    include_str!("../../../otel-config/mappings/work/vllm.toml"),
    include_str!("../../../otel-config/mappings/work/sglang.toml"),
    include_str!("../../../otel-config/mappings/work/triton.toml"),
    include_str!("../../../otel-config/mappings/work/tgi.toml"),
    include_str!("../../../otel-config/mappings/work/gen-ai.toml"),
];

/// Maximum number of labels by which work is grouped.
const MAX_LABELS: usize = 8;

/// The suffix of a counter, which depends on the receiver.
const TOTAL: &str = "_total";

/// What a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedCounter {
    /// The unit of work.
    pub unit: WorkUnit,
    /// Whether it is a histogram, whose sum counts.
    pub is_histogram: bool,
    /// Which side reports it.
    pub reported_by: Reporter,
}

impl MappedCounter {
    /// Over which time points sum that are declared as this; `None` if they cannot be counted.
    #[must_use]
    pub const fn temporality(&self, instrument: Instrument) -> Option<Temporality> {
        match (self.is_histogram, instrument) {
            (false, Instrument::Sum { is_monotonic: true, temporality })
            | (true, Instrument::Histogram { temporality }) => temporality,
            _ => None,
        }
    }

    /// What points should be declared as.
    #[must_use]
    pub const fn expected(&self) -> &'static str {
        if self.is_histogram {
            "a histogram, cumulative or delta"
        } else {
            "a monotonic sum, cumulative or delta"
        }
    }
}

/// Streams of one sender that may count the same work: each model of an ensemble counts its requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nesting {
    /// The label in which they differ. The value with the most work counts, in place of their sum.
    pub largest_of: String,
    /// If each stream has this label, none counts the work of another.
    pub unless_each_has: String,
}

/// A counter of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterRule {
    /// What it counts.
    pub counter: MappedCounter,
    /// Whether its streams may count the same work.
    pub nesting: Option<Nesting>,
    /// The labels by which its work is grouped.
    pub by: Arc<[String]>,
    filter: LabelFilter,
}

/// Which side reports work. What a client requests is what a server does, so one of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reporter {
    /// The one that does it.
    Server,
    /// The one that requests it.
    Client,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InstrumentName {
    #[default]
    Counter,
    Histogram,
}

/// Why a mapping file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkMappingError {
    /// It is not the TOML of a mapping.
    #[error("invalid mapping: {0}")]
    Syntax(String),
    /// A counter has an unknown unit.
    #[error("{counter}: unknown unit; expected samples, requests, tokens, epochs or steps")]
    Unit {
        /// The counter.
        counter: String,
    },
    /// Work cannot be grouped by these labels.
    #[error(
        "by: expected at most {MAX_LABELS} different labels, like [\"model_name\", \"engine\"]"
    )]
    By,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    reported_by: Reporter,
    #[serde(default)]
    by: Vec<String>,
    #[serde(default)]
    counter: Vec<CounterTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CounterTable {
    name: String,
    unit: String,
    #[serde(default)]
    instrument: InstrumentName,
    #[serde(default, rename = "where")]
    required: BTreeMap<String, String>,
    #[serde(default)]
    without: Vec<String>,
    nesting: Option<Nesting>,
}

/// Mappings by the name of the metric, without the suffix of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkMappings(BTreeMap<String, Vec<CounterRule>>);

impl WorkMappings {
    /// The mappings of Phasemeter.
    ///
    /// # Errors
    /// Never returns an error: a test parses them.
    pub fn built_in() -> Result<Self, WorkMappingError> {
        let mut mappings = Self::default();
        for text in BUILT_IN {
            mappings.replace(Self::parse(text)?);
        }
        Ok(mappings)
    }

    /// Parses a file.
    ///
    /// # Errors
    /// Returns an error if anything in it is unknown.
    pub fn parse(text: &str) -> Result<Self, WorkMappingError> {
        let one_line = |error: toml::de::Error| {
            let text = error.to_string();
            WorkMappingError::Syntax(text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let File { reported_by, by, counter } = toml::from_str(text).map_err(one_line)?;
        let is_repeated = |(index, label): (usize, &String)| by[..index].contains(label);
        if by.len() > MAX_LABELS
            || by.iter().any(String::is_empty)
            || by.iter().enumerate().any(is_repeated)
        {
            return Err(WorkMappingError::By);
        }
        let by: Arc<[String]> = by.into();
        let mut mappings = Self::default();
        for CounterTable { name, unit, instrument, required, without, nesting } in counter {
            let Some(unit) = WorkUnit::from_name(&unit) else {
                return Err(WorkMappingError::Unit { counter: name });
            };
            let is_histogram = instrument == InstrumentName::Histogram;
            let counter = MappedCounter { unit, is_histogram, reported_by };
            let filter = LabelFilter::new(required, &without);
            let rules = mappings.0.entry(base(&name).to_owned()).or_default();
            rules.push(CounterRule { counter, nesting, by: Arc::clone(&by), filter });
        }
        Ok(mappings)
    }

    /// Adds mappings, which replace those of the same metrics.
    pub fn replace(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether any point of this metric counts.
    #[must_use]
    pub fn has(&self, metric: &str) -> bool {
        self.0.contains_key(base(metric))
    }

    /// What a point of this metric with these labels counts: the first rule that is about it.
    pub fn find<'a>(
        &self,
        metric: &str,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<&CounterRule> {
        self.0.get(base(metric))?.iter().find(|rule| rule.filter.passes(&label))
    }
}

fn base(name: &str) -> &str {
    name.strip_suffix(TOTAL).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a point without labels counts.
    fn find(mappings: &WorkMappings, metric: &str) -> Option<MappedCounter> {
        mappings.find(metric, |_| None).map(|rule| rule.counter)
    }

    /// Guarantee: only what sums over a declared time is counted, as what its mapping declares.
    #[test]
    fn instrument_is_counted_or_refused() {
        let counter = |is_histogram| MappedCounter {
            unit: WorkUnit::Tokens,
            is_histogram,
            reported_by: Reporter::Server,
        };
        let counted = |is_histogram| {
            let all = Instrument::all();
            let all = all.filter(|it| counter(is_histogram).temporality(*it).is_some());
            all.map(|it| it.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(counted(false), ["a delta monotonic sum", "a cumulative monotonic sum"]);
        assert_eq!(counted(true), ["a delta histogram", "a cumulative histogram"]);
    }

    #[test]
    fn known_counters_have_units() {
        let mappings = WorkMappings::built_in().unwrap();
        for (name, unit, reported_by) in [
            ("vllm:generation_tokens_total", WorkUnit::Tokens, Reporter::Server),
            ("vllm:generation_tokens", WorkUnit::Tokens, Reporter::Server),
            ("sglang:num_requests_total", WorkUnit::Requests, Reporter::Server),
            ("nv_inference_request_success", WorkUnit::Requests, Reporter::Server),
            ("nv_inference_count", WorkUnit::Samples, Reporter::Server),
            ("gen_ai.client.token.usage", WorkUnit::Tokens, Reporter::Client),
            ("gen_ai.client.inference.usage.input_tokens", WorkUnit::Tokens, Reporter::Client),
        ] {
            let found = find(&mappings, name).unwrap();
            assert_eq!((found.unit, found.reported_by), (unit, reported_by), "{name}");
        }
        assert_eq!(find(&mappings, "vllm:num_requests_running"), None);
        assert!(find(&mappings, "tgi_request_generated_tokens").is_some_and(|it| it.is_histogram));
        assert!(find(&mappings, "tgi_request_success").is_some_and(|it| !it.is_histogram));
    }

    #[test]
    fn mapping_of_user_replaces_that_of_the_same_metric() {
        let mut mappings = WorkMappings::built_in().unwrap();
        let own = "reported_by = \"server\"\n[[counter]]\nname = \"vllm:prompt_tokens_total\"\n\
                   unit = \"samples\"\n";
        mappings.replace(WorkMappings::parse(own).unwrap());
        assert_eq!(
            find(&mappings, "vllm:prompt_tokens").map(|it| it.unit),
            Some(WorkUnit::Samples)
        );
        assert_eq!(
            find(&mappings, "vllm:generation_tokens").map(|it| it.unit),
            Some(WorkUnit::Tokens)
        );
    }

    #[test]
    fn labels_choose_the_points_that_count() {
        let mappings = WorkMappings::built_in().unwrap();
        let counts = |reason: &'static str| {
            let label = move |name: &str| (name == "finished_reason").then_some(reason);
            mappings.find("vllm:request_success_total", label).is_some()
        };
        assert!(counts("stop") && counts("length") && !counts("abort"));
        let own = "reported_by = \"server\"\n\
                   [[counter]]\nname = \"done\"\nunit = \"steps\"\nwhere = { kind = \"train\" }\n\
                   [[counter]]\nname = \"done\"\nunit = \"samples\"\nwithout = [\"kind\"]\n";
        let mappings = WorkMappings::parse(own).unwrap();
        let unit = |kind: Option<&'static str>| {
            mappings.find("done", move |_| kind).map(|rule| rule.counter.unit)
        };
        assert_eq!(unit(Some("train")), Some(WorkUnit::Steps));
        assert_eq!(unit(None), Some(WorkUnit::Samples));
        assert_eq!(unit(Some("eval")), None);
        assert!(mappings.has("done_total") && !mappings.has("other"));
    }

    #[test]
    fn invalid_file_is_rejected_in_one_line() {
        let error = |text: &str| WorkMappings::parse(text).unwrap_err().to_string();
        for text in ["", "reported_by = \"someone\"", "reported_by = \"server\"\nx = 1"] {
            let error = error(text);
            assert!(error.starts_with("invalid mapping: ") && !error.contains('\n'), "{error}");
        }
        for by in ["[\"a\", \"a\"]", "[\"\"]"] {
            let error = error(&format!("reported_by = \"server\"\nby = {by}\n"));
            assert!(error.starts_with("by: expected at most 8 different labels"), "{error}");
        }
        let error = error("reported_by = \"server\"\n[[counter]]\nname = \"a\"\nunit = \"cats\"\n");
        assert!(error.starts_with("a: unknown unit; expected samples"), "{error}");
    }
}
