//! Formats a number with its unit in UCUM, as people write it.

use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos};

use super::format::{duration, gib, number};

/// `3 h 5 min`, `30.0 GiB`, `51%`, `312 W`, `3 GPU`, `$6.88/h`; another unit as it is.
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "s" if value >= 0.0 => duration(Nanos(whole(value * NANOS_PER_SECOND as f64))),
        "By" if value >= 0.0 => format!("{} GiB", gib(whole(value))),
        "1" if (0.0..=1.0).contains(&value) => format!("{}%", number(value * 100.0)),
        "1" => number(value),
        "%" => format!("{}%", number(value)),
        "Cel" => format!("{} °C", number(value)),
        _ => match unit.strip_prefix("{USD}") {
            Some(rest) => format!("${}{rest}", number(value)),
            None => format!("{} {}", number(value), unit.replace(['{', '}'], "")),
        },
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
const fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_is_written_with_its_unit() {
        for (value, unit, expected) in [
            (11_100.0, "s", "3 h 5 min"),
            (32_212_254_720.0, "By", "30.0 GiB"),
            (0.513, "1", "51.3%"),
            (16.0, "1", "16"),
            (87.0, "%", "87%"),
            (312.4, "W", "312 W"),
            (61.0, "Cel", "61 °C"),
            (3.0, "{GPU}", "3 GPU"),
            (6.88, "{USD}/h", "$6.88/h"),
            (12.0, "h/wk", "12 h/wk"),
        ] {
            assert_eq!(quantity(value, unit), expected);
        }
    }
}
