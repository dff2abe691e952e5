//! Names of metrics and labels, as Prometheus translates those of OTLP by default (`UnderscoreEscapingWithSuffixes`).

use std::borrow::Cow;

/// What the suffix of a name depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A monotonic sum.
    Counter,
    /// A gauge.
    Gauge,
    /// A sum that is not monotonic: a gauge to Prometheus, but its unit 1 is not a ratio.
    UpDown,
    /// A histogram with explicit buckets.
    Histogram,
}

/// The words for units. Other units are used as they are.
const UNITS: [(&str, &str); 27] = [
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("s", "seconds"),
    ("ms", "milliseconds"),
    ("us", "microseconds"),
    ("ns", "nanoseconds"),
    ("By", "bytes"),
    ("KiBy", "kibibytes"),
    ("MiBy", "mebibytes"),
    ("GiBy", "gibibytes"),
    ("TiBy", "tibibytes"),
    ("KBy", "kilobytes"),
    ("MBy", "megabytes"),
    ("GBy", "gigabytes"),
    ("TBy", "terabytes"),
    ("m", "meters"),
    ("V", "volts"),
    ("A", "amperes"),
    ("J", "joules"),
    ("W", "watts"),
    ("g", "grams"),
    ("Cel", "celsius"),
    ("Hz", "hertz"),
    ("1", ""),
    ("%", "percent"),
    ("", ""),
];

/// The words for units after a slash.
const PER_UNITS: [(&str, &str); 7] = [
    ("s", "second"),
    ("m", "minute"),
    ("h", "hour"),
    ("d", "day"),
    ("w", "week"),
    ("mo", "month"),
    ("y", "year"),
];

/// The name of a metric, with its unit and, of a counter, `_total`. Empty if nothing is left of it.
pub(super) fn metric_name(name: &str, unit: &str, kind: Kind) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == ':';
    let words = name.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    let mut words: Vec<Cow<'_, str>> = words.map(Cow::Borrowed).collect();
    let (of, per) = unit.split_once('/').unwrap_or((unit, ""));
    let (of, per) = (word_for(&UNITS, of), word_for(&PER_UNITS, per));
    let per = if per.is_empty() { per } else { format!("per_{per}") };
    for suffix in [of, per] {
        if !suffix.is_empty() && !words.iter().any(|word| *word == suffix) {
            words.push(Cow::Owned(suffix));
        }
    }
    let last = match kind {
        Kind::Counter => Some("total"),
        Kind::Gauge if unit == "1" => Some("ratio"),
        Kind::Gauge | Kind::UpDown | Kind::Histogram => None,
    };
    if let Some(last) = last {
        words.retain(|word| word != last);
        words.push(Cow::Borrowed(last));
    }
    let name = words.join("_");
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// The word for a unit; empty for an annotation in braces.
fn word_for(words: &[(&str, &str)], unit: &str) -> String {
    let unit = unit.trim();
    if unit.contains(['{', '}']) {
        return String::new();
    }
    let word = words.iter().find(|(known, _)| *known == unit).map_or(unit, |(_, word)| word);
    underscored(word).trim_matches('_').to_owned()
}

/// The name of a label, with an underscore in place of each other character. Empty if nothing is left of it.
pub(super) fn label_name(key: &str) -> String {
    let name: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.bytes().all(|byte| byte == b'_') {
        return String::new();
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("key_{name}")
    } else if name.starts_with('_') && !name.starts_with("__") {
        format!("key{name}")
    } else {
        name
    }
}

/// With an underscore in place of each run of other characters.
fn underscored(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected names are those of a Prometheus 3.16 that has received such metrics.
    #[test]
    fn metric_names_are_those_of_prometheus() {
        for (name, unit, kind, expected) in [
            ("phasemeter.gpu.cost", "{USD}", Kind::Counter, "phasemeter_gpu_cost_total"),
            ("phasemeter.gpu.time", "s", Kind::Counter, "phasemeter_gpu_time_seconds_total"),
            ("phasemeter.gpu.price", "{USD}/h", Kind::Gauge, "phasemeter_gpu_price_per_hour"),
            ("hw.gpu.utilization", "1", Kind::Gauge, "hw_gpu_utilization_ratio"),
            ("hw.gpu.memory.usage", "By", Kind::UpDown, "hw_gpu_memory_usage_bytes"),
            ("hw.status", "1", Kind::UpDown, "hw_status"),
            ("hw.temperature", "Cel", Kind::Gauge, "hw_temperature_celsius"),
            ("hw.energy", "J", Kind::Counter, "hw_energy_joules_total"),
            ("phasemeter.gpu.utilization", "1", Kind::Histogram, "phasemeter_gpu_utilization"),
            ("total.time.seconds", "s", Kind::Counter, "time_seconds_total"),
            ("3.a..b", "x/y", Kind::Gauge, "_3_a_b_x_per_year"),
            ("é", "", Kind::Gauge, ""),
        ] {
            assert_eq!(metric_name(name, unit, kind), expected);
        }
    }

    #[test]
    fn label_names_are_those_of_prometheus() {
        for (key, expected) in [
            ("hw.id", "hw_id"),
            ("a..b-c", "a__b_c"),
            ("_x", "key_x"),
            ("__x", "__x"),
            ("9lives", "key_9lives"),
            ("..", ""),
            ("", ""),
        ] {
            assert_eq!(label_name(key), expected);
        }
    }
}
