//! Which points of a metric count, by their labels: the keys `where` and `without` of mappings.

use std::collections::BTreeMap;

/// Maximum length of a label of a metric, in bytes. A longer one counts as absent: labels are kept, compared
/// and copied per point, and names of hosts, GPUs and pods are shorter.
pub const MAX_LABEL: usize = 256;

/// Labels that a point must have, and those that it must not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelFilter {
    required: BTreeMap<String, String>,
    /// With the value that is excluded; any if `None`.
    excluded: Vec<(String, Option<String>)>,
}

impl LabelFilter {
    /// From labels with the value that a point must have, and labels that it must not have: `gpu_uuid`, or
    /// `finished_reason=abort` if only that value is excluded.
    #[must_use]
    pub fn new(required: BTreeMap<String, String>, without: &[String]) -> Self {
        let excluded = |label: &String| match label.split_once('=') {
            Some((label, value)) => (label.to_owned(), Some(value.to_owned())),
            None => (label.clone(), None),
        };
        Self { required, excluded: without.iter().map(excluded).collect() }
    }

    /// Whether a point with these labels passes.
    pub fn passes<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let has = |(name, value): (&String, &String)| label(name) == Some(value.as_str());
        let is_excluded = |(name, value): &(String, Option<String>)| match (label(name), value) {
            (Some(found), Some(value)) => found == value,
            (found, None) => found.is_some(),
            (None, Some(_)) => false,
        };
        self.required.iter().all(has) && !self.excluded.iter().any(is_excluded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_passes_with_required_and_without_excluded_labels() {
        let required = BTreeMap::from([("model".to_owned(), "chat".to_owned())]);
        let without = ["gpu".to_owned(), "reason=abort".to_owned()];
        let filter = LabelFilter::new(required, &without);
        let passes = |labels: &[(&str, &'static str)]| {
            filter.passes(|name| labels.iter().find(|(key, _)| *key == name).map(|it| it.1))
        };
        assert!(passes(&[("model", "chat")]));
        assert!(passes(&[("model", "chat"), ("reason", "stop")]));
        assert!(!passes(&[("model", "chat"), ("reason", "abort")]));
        assert!(!passes(&[("model", "chat"), ("gpu", "")]));
        assert!(!passes(&[("model", "embed")]) && !passes(&[]));
        assert!(LabelFilter::default().passes(|_| None));
    }
}
