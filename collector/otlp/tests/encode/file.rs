//! Reads an OTLP file as plain JSON, independently of the encoder.

use std::collections::BTreeMap;

use serde_json::Value;

/// The points of a metric with the same attributes in file order.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) monotonic: bool,
    /// Whether points are increases.
    pub(crate) delta: bool,
    pub(crate) points: Vec<Value>,
}

impl Stream {
    pub(crate) fn last(&self) -> f64 {
        number(&self.points.last().unwrap()["asDouble"])
    }
}

#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) trace: String,
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Linked traces and spans.
    pub(crate) links: Vec<(String, String)>,
}

impl Span {
    /// Its cost in nano-dollars.
    pub(crate) fn cost(&self) -> i128 {
        let costs = self.attributes.iter().filter(|(key, _)| key.starts_with("phasemeter.cost."));
        costs.map(|(_, cost)| nanos(cost.parse().unwrap())).sum()
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A 64-bit number, encoded as a string.
pub(crate) fn long(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn attributes(value: &Value) -> BTreeMap<String, String> {
    let pairs = list(value).iter().map(|pair| {
        let choice = pair["value"].as_object().unwrap();
        assert_eq!(choice.len(), 1, "a value has one type");
        let value = choice.values().next().unwrap();
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (text(&pair["key"]), value)
    });
    pairs.collect()
}

pub(crate) fn streams(lines: &[Value]) -> Vec<Stream> {
    let mut streams: BTreeMap<_, Stream> = BTreeMap::new();
    let resources = lines.iter().flat_map(|line| list(&line["resourceMetrics"]));
    let scopes = resources.flat_map(|resource| list(&resource["scopeMetrics"]));
    for metric in scopes.flat_map(|scope| list(&scope["metrics"])) {
        let kinds = ["gauge", "sum", "histogram", "exponentialHistogram"];
        let data = kinds.iter().find_map(|kind| metric.get(kind)).unwrap();
        let temporality = data.get("aggregationTemporality").map_or(2, |it| it.as_i64().unwrap());
        for point in list(&data["dataPoints"]) {
            let (name, attributes) = (text(&metric["name"]), attributes(&point["attributes"]));
            let stream = streams.entry((name.clone(), attributes.clone())).or_insert(Stream {
                name,
                attributes,
                monotonic: data["isMonotonic"] == true,
                delta: temporality == 1,
                points: Vec::new(),
            });
            stream.points.push(point.clone());
        }
    }
    streams.into_values().collect()
}

pub(crate) fn spans(lines: &[Value]) -> Vec<Span> {
    let resources = lines.iter().flat_map(|line| list(&line["resourceSpans"]));
    let scopes = resources.flat_map(|resource| list(&resource["scopeSpans"]));
    let spans = scopes.flat_map(|scope| list(&scope["spans"]));
    spans
        .map(|span| Span {
            id: text(&span["spanId"]),
            parent: span.get("parentSpanId").map(text),
            trace: text(&span["traceId"]),
            name: text(&span["name"]),
            from: long(&span["startTimeUnixNano"]),
            to: long(&span["endTimeUnixNano"]),
            attributes: attributes(&span["attributes"]),
            links: list(&span["links"])
                .iter()
                .map(|link| (text(&link["traceId"]), text(&link["spanId"])))
                .collect(),
        })
        .collect()
}

/// Whole nano-units of a value that passed through a double.
#[expect(clippy::cast_possible_truncation, reason = "small in tests")]
pub(crate) fn nanos(value: f64) -> i128 {
    (value * 1e9).round() as i128
}

pub(crate) fn of<'a>(streams: &'a [Stream], name: &str) -> Vec<&'a Stream> {
    streams.iter().filter(|stream| stream.name == name).collect()
}
