//! The page: series in the text format of Prometheus, or in OpenMetrics.

use std::fmt::Write;

use super::family::Family;
use super::names::Kind;
use super::value::{ExemplarValue, HistogramValue, SeriesValue};

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own. It has no exemplars.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format that a client prefers, by its header `Accept`.
    #[must_use]
    pub fn of(accept: &str) -> Self {
        let weight = |range: &str| {
            let quality = range.split(';').find_map(|it| it.trim().strip_prefix("q="));
            quality.map_or(1.0, |quality| quality.trim().parse::<f64>().unwrap_or(0.0))
        };
        let mut best = (0.0, Self::Text);
        for range in accept.split(',') {
            let is_open = range.trim_start().starts_with("application/openmetrics-text");
            let version = range.split(';').find_map(|it| it.trim().strip_prefix("version="));
            let format = if is_open { Self::OpenMetrics } else { Self::Text };
            let is_known = !is_open || version.is_none_or(|it| it.starts_with("1."));
            if is_known && weight(range) > best.0 {
                best = (weight(range), format);
            }
        }
        best.1
    }

    /// Its content type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page that is being written.
pub(super) struct Page {
    format: Format,
    text: String,
}

impl Page {
    pub(super) fn new(format: Format, bytes: usize) -> Self {
        Self { format, text: String::with_capacity(bytes) }
    }

    /// Adds a metric with all of its series.
    pub(super) fn add(&mut self, name: &str, family: &Family) {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::UpDown => "gauge",
            Kind::Histogram => "histogram",
        };
        self.head(name, kind, &family.help);
        for (labels, series) in &family.series {
            match &series.value {
                SeriesValue::Number(value) => self.sample(name, "", labels, *value, None),
                SeriesValue::Histogram(value) => self.histogram(name, labels, value),
            }
        }
    }

    /// Adds `target_info` of these resources.
    pub(super) fn add_targets<'a>(&mut self, targets: impl Iterator<Item = &'a String>) {
        let mut targets = targets.peekable();
        if targets.peek().is_some() {
            let kind = match self.format {
                Format::Text => "gauge",
                Format::OpenMetrics => "info",
            };
            self.head("target_info", kind, "Target metadata");
            targets.for_each(|labels| self.sample("target_info", "", labels, 1.0, None));
        }
    }

    /// The page as a whole.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let (name, help) = match self.format {
            Format::Text => (name, help),
            // There the suffix is that of a sample.
            Format::OpenMetrics => {
                let of_sample = match kind {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                (name.strip_suffix(of_sample).unwrap_or(name), help.replace('"', "\\\""))
            }
        };
        // Writing to a string does not fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn histogram(&mut self, name: &str, labels: &str, value: &HistogramValue) {
        let HistogramValue { bounds, counts, sum, count, exemplars } = value;
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (place, of_bucket) in counts.iter().enumerate() {
            below += of_bucket;
            let bound = bounds.get(place).copied().unwrap_or(f64::INFINITY);
            let labels = format!("{labels}{comma}le=\"{}\"", number(bound));
            let exemplar = exemplars.get(place).and_then(Option::as_ref);
            self.sample(name, "_bucket", &labels, below as f64, exemplar);
        }
        if let Some(sum) = sum {
            self.sample(name, "_sum", labels, *sum, None);
        }
        self.sample(name, "_count", labels, *count as f64, None);
    }

    fn sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &str,
        value: f64,
        exemplar: Option<&ExemplarValue>,
    ) {
        let braced = |labels: &str| match labels {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        let _ = write!(self.text, "{name}{suffix}{} {}", braced(labels), number(value));
        if let Some(exemplar) = exemplar.filter(|_| self.format == Format::OpenMetrics) {
            let ExemplarValue { trace, span, value, nanos } = exemplar;
            let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
            let _ = write!(
                self.text,
                " # {{span_id=\"{span}\",trace_id=\"{trace}\"}} {} {seconds}.{nanos:09}",
                number(*value)
            );
        }
        self.text.push('\n');
    }
}

/// A number that is read back the same.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_the_one_that_a_client_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;q=0.4,*/*;q=0.1";
        for (accept, expected) in [
            (prometheus, Format::OpenMetrics),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("text/plain, application/openmetrics-text; q=0.2", Format::Text),
            ("application/openmetrics-text;version=2.0.0", Format::Text),
            ("*/*", Format::Text),
            ("", Format::Text),
            (";;q=x,,", Format::Text),
        ] {
            assert_eq!(Format::of(accept), expected, "{accept}");
        }
    }
}
