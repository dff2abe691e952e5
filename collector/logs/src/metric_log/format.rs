//! Recognizes the format of a log by its first line that is not blank.

use phasemeter_meter::instant::Instant;

use super::documents::first_key;
use super::prometheus;

/// The format of a log of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Samples of Prometheus, as an exporter prints them.
    Prometheus,
    /// The output of `dcgmi dmon`.
    Dmon,
    /// OTLP requests in JSON.
    OtlpJson,
    /// Series in JSON: answers of Prometheus to queries, or exports of VictoriaMetrics.
    Series,
}

impl Format {
    /// A log of this format, in messages.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Prometheus => "a Prometheus page",
            Self::Dmon => "output of dcgmi dmon",
            Self::OtlpJson => "OTLP in JSON",
            Self::Series => "JSON of Prometheus or VictoriaMetrics",
        }
    }
}

/// The format of a log that begins with this text; `None` if it is none of these.
pub(super) fn recognize(head: &str) -> Option<Format> {
    let line = head.lines().map(str::trim).find(|line| !line.is_empty())?;
    if is_dmon_header(after_time(line).1) {
        return Some(Format::Dmon);
    }
    if let Some(comment) = line.strip_prefix('#') {
        let mut words = comment.split_whitespace();
        let first = words.next()?;
        let is_page =
            ["HELP", "TYPE", "UNIT", "EOF"].contains(&first) || first.parse::<Instant>().is_ok();
        return is_page.then_some(Format::Prometheus);
    }
    match first_key(head) {
        Some(key) if key.starts_with("resource") => return Some(Format::OtlpJson),
        Some("metric") => return Some(Format::Series),
        // The answer to a query that failed is one, too: it is named as what it is.
        Some("status" | "data" | "resultType")
            if ["\"result", "\"errorType\""].iter().any(|key| head.contains(key)) =>
        {
            return Some(Format::Series);
        }
        Some(_) => return None,
        None => {}
    }
    let is_sample = line.contains('{') && prometheus::sample(line).is_ok();
    is_sample.then_some(Format::Prometheus)
}

/// Whether a line is the header of `dcgmi dmon`, without its time.
pub(super) fn is_dmon_header(line: &str) -> bool {
    let name = line.strip_prefix('#').and_then(|line| line.split_whitespace().next());
    name == Some("Entity")
}

/// The time before the first blank, if there is one, and the rest of the line.
pub(super) fn after_time(line: &str) -> (Option<Instant>, &str) {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    match first.parse() {
        Ok(at) => (Some(at), rest),
        Err(_) => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_recognized_by_its_first_line() {
        let sample = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\"} 37 1785110400000";
        for (head, expected) in [
            ("# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n", Some(Format::Prometheus)),
            ("\n# 2026-07-27T00:22:27Z\n", Some(Format::Prometheus)),
            (sample, Some(Format::Prometheus)),
            (
                "{__name__=\"DCGM_FI_DEV_GPU_UTIL\",gpu=\"0\"} 37 1785110400000",
                Some(Format::Prometheus),
            ),
            ("#Entity   GPUTL       POWER       \nID                    W\n", Some(Format::Dmon)),
            ("# Entity  GPUTL\n      Id\n", Some(Format::Dmon)),
            ("2026-07-27T00:22:27.5Z #Entity   GPUTL\n", Some(Format::Dmon)),
            ("{\"resourceMetrics\":[]}\n", Some(Format::OtlpJson)),
            ("\n{\n  \"resourceMetrics\": [\n", Some(Format::OtlpJson)),
            (
                "{\"hw.gpu.utilization\",\"hw.id\"=\"GPU-a\"} 0.8 1785110400000\n",
                Some(Format::Prometheus),
            ),
            ("{\"resource.x\",\"hw.id\"=\"GPU-a\"} 0.8\n", Some(Format::Prometheus)),
            (
                "{\"metric\":{\"__name__\":\"up\"},\"values\":[1],\"timestamps\":[1]}\n",
                Some(Format::Series),
            ),
            (
                "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[]}}",
                Some(Format::Series),
            ),
            (
                "{\"status\":\"error\",\"errorType\":\"timeout\",\"error\":\"\"}\n",
                Some(Format::Series),
            ),
            ("{\"status\": \"ok\"}\n", None),
            ("{\"timestamp\": 1}\n", None),
            ("timestamp, uuid, utilization.gpu [%]\n", None),
            ("2026/07/27 00:00:00.000, GPU-a, 5\n", None),
            ("# a comment\n", None),
            ("", None),
        ] {
            assert_eq!(recognize(head), expected, "{head}");
        }
    }
}
