//! The beginning of a value in messages.

/// Characters of a value that are shown.
const LENGTH: usize = 16;

/// The first 16 characters of the value of a variable, which may be a misplaced secret.
#[must_use]
pub fn excerpt(value: &str) -> String {
    match value.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_value_is_cut() {
        assert_eq!(excerpt("always_on"), "always_on");
        assert_eq!(excerpt(&"é".repeat(16)), "é".repeat(16));
        assert_eq!(excerpt(&"é".repeat(17)), "é".repeat(16) + "…");
    }
}
