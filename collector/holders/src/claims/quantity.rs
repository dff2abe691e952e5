//! Quantities of Kubernetes, like `81559Mi`.

/// The factors of suffixes, in thousandths.
const SUFFIXES: [(&str, u128); 13] = [
    ("Ki", 1_000 << 10),
    ("Mi", 1_000 << 20),
    ("Gi", 1_000 << 30),
    ("Ti", 1_000 << 40),
    ("Pi", 1_000 << 50),
    ("Ei", 1_000 << 60),
    ("m", 1),
    ("k", 1_000_000),
    ("M", 1_000_000_000),
    ("G", 1_000_000_000_000),
    ("T", 1_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000_000),
];

/// A quantity in thousandths; `None` if it is not a whole number with or without a suffix.
pub(super) fn thousandths(text: &str) -> Option<u128> {
    let found = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|number| (number, *factor)));
    let (number, factor) = found.unwrap_or((text, 1_000));
    let is_number =
        (1..=20).contains(&number.len()) && number.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| number.parse::<u128>().ok()?.checked_mul(factor)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_suffixes() {
        let cases = [
            ("0", Some(0)),
            ("3", Some(3_000)),
            ("250m", Some(250)),
            ("1k", Some(1_000_000)),
            ("1Ki", Some(1_024_000)),
            ("40G", Some(40_000_000_000_000)),
            ("81559Mi", Some(81_559_u128 * 1_048_576 * 1_000)),
            ("", None),
            ("Mi", None),
            ("1.5Gi", None),
            ("-1", None),
            ("1e3", None),
            ("999999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(thousandths(text), expected, "{text}");
        }
    }
}
