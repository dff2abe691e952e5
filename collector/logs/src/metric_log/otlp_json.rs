//! OTLP in JSON: a request per line, as a Collector's file exporter writes it.
//!
//! Only what names a number is read; lines of traces and logs have none.

use std::borrow::Cow;

use phasemeter_meter::instrument::{Instrument, Temporality};
use phasemeter_meter::units::Timestamp;
use serde::Deserialize;

use super::error::LineError;
use super::sample::Sample;

/// The beginning of the names of Phasemeter's scopes. What it measured is not metered again.
const OWN_SCOPE: &str = "phasemeter";

/// Set if a point has no value (`DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK`).
const NO_VALUE: u32 = 1;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    resource_metrics: Option<Vec<ResourceMetrics<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'a> {
    #[serde(borrow)]
    resource: Option<Resource<'a>>,
    scope_metrics: Option<Vec<ScopeMetrics<'a>>>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(borrow)]
    attributes: Option<Vec<KeyValue<'a>>>,
}

#[derive(Deserialize)]
struct ScopeMetrics<'a> {
    #[serde(borrow)]
    scope: Option<Scope<'a>>,
    metrics: Option<Vec<Metric<'a>>>,
}

#[derive(Deserialize)]
struct Scope<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Metric<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    gauge: Option<Points<'a>>,
    sum: Option<Points<'a>>,
    histogram: Option<Points<'a>>,
    exponential_histogram: Option<Points<'a>>,
    summary: Option<Points<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Points<'a> {
    #[serde(borrow)]
    data_points: Option<Vec<Point<'a>>>,
    is_monotonic: Option<bool>,
    aggregation_temporality: Option<TemporalityName<'a>>,
}

/// By its number, or by its name.
#[derive(Deserialize)]
#[serde(untagged)]
enum TemporalityName<'a> {
    Number(i32),
    #[serde(borrow)]
    Name(Cow<'a, str>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Point<'a> {
    #[serde(borrow)]
    attributes: Option<Vec<KeyValue<'a>>>,
    start_time_unix_nano: Option<Whole<'a>>,
    time_unix_nano: Option<Whole<'a>>,
    as_double: Option<Double<'a>>,
    as_int: Option<Whole<'a>>,
    flags: Option<u32>,
}

#[derive(Deserialize)]
struct KeyValue<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    value: Option<AnyValue<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyValue<'a> {
    #[serde(borrow)]
    string_value: Option<Cow<'a, str>>,
}

/// 64 bits: text, by the specification, or a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Whole<'a> {
    Unsigned(u64),
    Signed(i64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Double<'a> {
    Number(f64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

/// Reads a line.
pub(super) fn line(text: &str) -> Result<Vec<Sample<'_>>, LineError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let request: Request<'_> = serde_json::from_str(text).map_err(|_| LineError::Json)?;
    let mut samples = Vec::new();
    for group in request.resource_metrics.into_iter().flatten() {
        let resource = labels(group.resource.and_then(|it| it.attributes));
        for ScopeMetrics { scope, metrics } in group.scope_metrics.into_iter().flatten() {
            let scope = scope.and_then(|scope| scope.name).unwrap_or_default();
            if scope.starts_with(OWN_SCOPE) {
                continue;
            }
            for mut metric in metrics.into_iter().flatten() {
                let name = metric.name.take().unwrap_or_default();
                let Some((instrument, points)) = metric.points() else { continue };
                for point in points.data_points.into_iter().flatten() {
                    samples.extend(sample((&name, instrument), point, &resource)?);
                }
            }
        }
    }
    Ok(samples)
}

impl<'a> Metric<'a> {
    /// What it is declared as, with its points.
    fn points(self) -> Option<(Instrument, Points<'a>)> {
        let histogram = self.histogram.or(self.exponential_histogram);
        if let Some(points) = self.gauge {
            return Some((Instrument::Gauge, points));
        } else if let Some(points) = self.summary {
            return Some((Instrument::Summary, points));
        }
        let is_sum = self.sum.is_some();
        let points = self.sum.or(histogram)?;
        let temporality = points.aggregation_temporality.as_ref().and_then(|name| match name {
            TemporalityName::Number(number) => Temporality::from_otlp(*number),
            TemporalityName::Name(name) => match &**name {
                "AGGREGATION_TEMPORALITY_DELTA" => Some(Temporality::Delta),
                "AGGREGATION_TEMPORALITY_CUMULATIVE" => Some(Temporality::Cumulative),
                _ => None,
            },
        });
        let is_monotonic = points.is_monotonic == Some(true);
        let instrument = match is_sum {
            true => Instrument::Sum { is_monotonic, temporality },
            false => Instrument::Histogram { temporality },
        };
        Some((instrument, points))
    }
}

type Labels<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

fn labels(attributes: Option<Vec<KeyValue<'_>>>) -> Labels<'_> {
    let attributes = attributes.into_iter().flatten();
    let text = |KeyValue { key, value }| Some((key, value?.string_value?));
    attributes.filter_map(text).collect()
}

/// The sample of a point; `None` if it has no number. One without a recorded value is not a number: it ends the
/// value before it.
fn sample<'a>(
    (metric, instrument): (&Cow<'a, str>, Instrument),
    point: Point<'a>,
    resource: &Labels<'a>,
) -> Result<Option<Sample<'a>>, LineError> {
    let is_missing = point.flags.is_some_and(|flags| flags & NO_VALUE != 0);
    let number = match (point.as_double, point.as_int) {
        // Histograms and summaries have none.
        _ if is_missing || !has_numbers(instrument) => Some(f64::NAN),
        (Some(Double::Number(number)), _) => Some(number),
        (Some(Double::Text(text)), _) => Some(text.parse().map_err(|_| LineError::Json)?),
        (None, Some(whole)) => Some(whole.number()?),
        (None, None) => None,
    };
    let Some(number) = number else { return Ok(None) };
    let start = point.start_time_unix_nano.and_then(time);
    let at = point.time_unix_nano.and_then(time).ok_or(LineError::Time)?;
    let mut labels = labels(point.attributes);
    labels.extend(resource.iter().cloned());
    Ok(Some(Sample { metric: metric.clone(), labels, instrument, start, at: Some(at), number }))
}

const fn has_numbers(instrument: Instrument) -> bool {
    !matches!(instrument, Instrument::Histogram { .. } | Instrument::Summary)
}

/// A time; `None` if it is not set.
fn time(nanos: Whole<'_>) -> Option<Timestamp> {
    let nanos = match nanos {
        Whole::Unsigned(nanos) => Some(nanos),
        Whole::Text(text) => text.parse().ok(),
        Whole::Signed(_) => None,
    };
    nanos.filter(|nanos| *nanos > 0).and_then(Timestamp::from_nanos)
}

impl Whole<'_> {
    #[expect(clippy::cast_precision_loss, reason = "counters of 2^53 and more are sentinels")]
    fn number(&self) -> Result<f64, LineError> {
        match self {
            Self::Unsigned(number) => Ok(*number as f64),
            Self::Signed(number) => Ok(*number as f64),
            Self::Text(text) => {
                text.parse::<i64>().map(|number| number as f64).map_err(|_| LineError::Json)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(scope: &str, point: &str) -> String {
        format!(
            r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"dcgm"}}}},{{"key":"n","value":{{"intValue":"3"}}}}]}},"scopeMetrics":[{{"scope":{{"name":"{scope}"}},"metrics":[{{"name":"m","unit":"1","gauge":{{"dataPoints":[{point}]}}}}]}}]}}]}}"#
        )
    }

    #[test]
    fn points_have_their_labels_and_those_of_their_resource() {
        let point = r#"{"attributes":[{"key":"UUID","value":{"stringValue":"GPU-\u00e4"}}],"timeUnixNano":"1785110400000000000","asDouble":37.5}"#;
        let text = request("prometheusreceiver", point);
        let [sample] = &line(&text).unwrap()[..] else { panic!() };
        assert_eq!((&*sample.metric, sample.number), ("m", 37.5));
        assert_eq!(sample.label("UUID"), Some("GPU-ä"));
        assert_eq!(sample.label("service.name"), Some("dcgm"));
        assert_eq!(sample.label("n"), None);
        assert_eq!(sample.at, Timestamp::from_millis(1_785_110_400_000));
    }

    #[test]
    fn numbers_are_read_in_each_form() {
        let number = |value: &str| {
            let point = format!(r#"{{"timeUnixNano":1785110400000000000,{value}}}"#);
            let text = request("s", &point);
            line(&text).map(|samples| samples.first().map(|sample| sample.number))
        };
        assert_eq!(number(r#""asInt":"-7""#), Ok(Some(-7.0)));
        assert_eq!(number(r#""asInt":7"#), Ok(Some(7.0)));
        assert!(number(r#""asDouble":"NaN""#).unwrap().unwrap().is_nan());
        for missing in [r#""flags":1"#, r#""asDouble":3,"flags":1"#, r#""asInt":"3","flags":1"#] {
            assert!(number(missing).unwrap().unwrap().is_nan(), "{missing}");
        }
        assert_eq!(number(r#""flags":0"#), Ok(None));
        assert_eq!(number(r#""asDouble":"x""#), Err(LineError::Json));
    }

    #[test]
    fn own_metrics_and_other_signals_have_no_samples() {
        let point = r#"{"timeUnixNano":"1","asInt":"1"}"#;
        assert_eq!(line(&request("phasemeter", point)), Ok(Vec::new()));
        assert_eq!(line(r#"{"resourceSpans":[{"scopeSpans":[]}]}"#), Ok(Vec::new()));
        assert_eq!(line(""), Ok(Vec::new()));
        assert_eq!(line("{\"resourceMetrics\":[{]"), Err(LineError::Json));
        assert_eq!(line(&request("s", r#"{"asInt":"1"}"#)), Err(LineError::Time));
    }
}
