//! Groups of work, by labels: a model, an engine, a service.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of groups. Labels come from anywhere, and each group takes memory and series for good.
pub const MAX_GROUPS: usize = 256;

/// The labels that a group of work has in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum WorkGroup {
    /// These labels with their values. Without any, work is not grouped.
    Labels(
        #[cfg_attr(feature = "serde", serde(with = "crate::shared::list"))] Arc<[(String, String)]>,
    ),
    /// All groups beyond [`MAX_GROUPS`].
    Overflow,
}

impl Default for WorkGroup {
    fn default() -> Self {
        Self::Labels(Arc::default())
    }
}

impl WorkGroup {
    /// The values of these labels, of those that are there.
    pub fn by<'a>(names: &[String], label: impl Fn(&str) -> Option<&'a str>) -> Self {
        let value = |name: &String| Some((name.clone(), label(name)?.to_owned()));
        Self::Labels(names.iter().filter_map(value).collect())
    }

    /// Whether it is work of any kind: it has no labels.
    #[must_use]
    pub fn is_unlabeled(&self) -> bool {
        matches!(self, Self::Labels(labels) if labels.is_empty())
    }

    /// Its labels.
    #[must_use]
    pub fn labels(&self) -> &[(String, String)] {
        match self {
            Self::Labels(labels) => labels,
            Self::Overflow => &[],
        }
    }
}

/// The groups that are known, of a limited number.
#[derive(Clone, Debug, Default)]
pub struct WorkGroups(BTreeSet<WorkGroup>);

impl WorkGroups {
    /// The group, if it is known or not one too many; else the overflow.
    pub fn admit(&mut self, group: WorkGroup) -> WorkGroup {
        if group.is_unlabeled() {
            return group;
        }
        match self.0.get(&group) {
            // Equal groups share their labels.
            Some(known) => known.clone(),
            None if self.0.len() < MAX_GROUPS => {
                self.0.insert(group.clone());
                group
            }
            None => WorkGroup::Overflow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beyond_the_limit_are_one() {
        let mut groups = WorkGroups::default();
        let names = ["model".to_owned(), "engine".to_owned()];
        let of = |model: &'static str| {
            WorkGroup::by(&names, move |name| (name == "model").then_some(model))
        };
        assert_eq!(groups.admit(of("a")).labels(), [("model".to_owned(), "a".to_owned())]);
        for number in 1..MAX_GROUPS {
            let labels = [("model".to_owned(), number.to_string())];
            assert_ne!(groups.admit(WorkGroup::Labels(labels.into())), WorkGroup::Overflow);
        }
        assert_eq!(groups.admit(of("b")), WorkGroup::Overflow);
        assert_eq!(groups.admit(of("a")), of("a"), "known groups remain");
        let none = WorkGroup::by(&names, |_| None);
        assert!(none.is_unlabeled() && groups.admit(none.clone()) == none);
    }
}
