//! Labels of pods that are kept.

/// Maximum number of labels of a pod that are kept.
pub const MAX_LABELS: usize = 16;

/// A key of a label in Kubernetes: a name of 63 characters at most, perhaps after a domain and a slash.
pub(super) fn label_key(text: &str) -> Result<String, String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_part =
        |part: &str, most: usize| (1..=most).contains(&part.len()) && part.chars().all(is_part);
    let is_key = match text.split_once('/') {
        Some((domain, name)) => is_part(domain, 253) && is_part(name, 63),
        None => is_part(text, 63),
    };
    let expected = "expected the key of a label, like team or app.kubernetes.io/part-of";
    is_key.then(|| text.to_owned()).ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_are_those_of_kubernetes() {
        let long = "x".repeat(64);
        for key in ["team", "app.kubernetes.io/part-of", "A_b.c-1"] {
            assert_eq!(label_key(key).as_deref(), Ok(key));
        }
        for key in ["", "/", "a/", "/a", "a/b/c", "team=vision", "team ", &long] {
            assert!(label_key(key).is_err(), "{key}");
        }
    }
}
