//! Tags as a cloud accepts them: attributes of OpenTelemetry have names that clouds do not.
//!
//! So a row can be joined with the cloud's own bill by the tags of its resources.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Whose rules tags follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TagFormat {
    /// As the attributes are.
    #[default]
    Otel,
    /// Keys of 128 characters and values of 256: letters, digits, spaces and `_.:/=+-@`. The prefix
    /// `aws:` is reserved.
    Aws,
    /// Names of 512 characters without `<>%&\?/` and control characters, and values of 256.
    Azure,
    /// Labels: keys and values of 63 characters, lowercase letters, digits, `_` and `-`; keys begin
    /// with a letter.
    Gcp,
}

/// Tags, and the keys of attributes that became equal to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// By key.
    pub tags: BTreeMap<String, String>,
    /// Attributes that were left out, since another has their key.
    pub dropped: Vec<String>,
}

impl Tags {
    /// The attributes as tags. Of several with one key, the first counts.
    #[must_use]
    pub fn of(attributes: &BTreeMap<String, String>, format: TagFormat) -> Self {
        let mut all = Self::default();
        for (key, value) in attributes {
            match all.tags.entry(format.key(key)) {
                Entry::Occupied(_) => all.dropped.push(key.clone()),
                Entry::Vacant(entry) => _ = entry.insert(format.value(value)),
            }
        }
        all
    }
}

impl TagFormat {
    fn key(self, key: &str) -> String {
        match self {
            Self::Otel => key.to_owned(),
            Self::Aws => {
                let key = replaced(key, 128, is_aws);
                let is_reserved =
                    key.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("aws:"));
                if is_reserved { key.replacen(':', "_", 1) } else { key }
            }
            Self::Azure => replaced(key, 512, |c| !"<>%&\\?/".contains(c) && !c.is_control()),
            Self::Gcp => {
                let key = replaced(&key.to_lowercase(), 63, is_gcp);
                if key.starts_with(|first: char| first.is_lowercase()) {
                    key
                } else {
                    let shortened: String = key.chars().take(62).collect();
                    format!("x{shortened}")
                }
            }
        }
    }

    fn value(self, value: &str) -> String {
        match self {
            Self::Otel => value.to_owned(),
            Self::Aws => replaced(value, 256, is_aws),
            Self::Azure => replaced(value, 256, |c| !c.is_control()),
            Self::Gcp => replaced(&value.to_lowercase(), 63, is_gcp),
        }
    }
}

fn is_aws(c: char) -> bool {
    c.is_alphanumeric() || " _.:/=+-@".contains(c)
}

/// International letters are allowed, as long as they have no uppercase.
fn is_gcp(c: char) -> bool {
    (c.is_alphabetic() && !c.is_uppercase()) || c.is_ascii_digit() || matches!(c, '_' | '-')
}

/// The first characters, with `_` for those that are not allowed.
fn replaced(text: &str, most: usize, is_allowed: impl Fn(char) -> bool) -> String {
    text.chars().take(most).map(|c| if is_allowed(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tags(attributes: &[(&str, &str)], format: TagFormat) -> Vec<(String, String)> {
        let attributes = attributes.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        Tags::of(&attributes.collect(), format).tags.into_iter().collect()
    }

    fn one(key: &str, value: &str, format: TagFormat) -> (String, String) {
        tags(&[(key, value)], format).remove(0)
    }

    #[test]
    fn tags_follow_the_rules_of_each_cloud() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let (key, value) = ("k8s.namespace.name", "Research/Vision");
        assert_eq!(one(key, value, TagFormat::Otel), pair(key, value));
        assert_eq!(one(key, value, TagFormat::Aws), pair(key, value));
        assert_eq!(one(key, value, TagFormat::Azure), pair(key, value));
        let label = pair("k8s_namespace_name", "research_vision");
        assert_eq!(one(key, value, TagFormat::Gcp), label);
        assert_eq!(one("aws:team", "a&b", TagFormat::Aws), pair("aws_team", "a_b"));
        assert_eq!(one("cost/center", "a&b", TagFormat::Azure), pair("cost_center", "a&b"));
        assert_eq!(one("7.team", "A B", TagFormat::Gcp), pair("x7_team", "a_b"));
    }

    #[test]
    fn attributes_whose_keys_become_equal_are_reported() {
        let attributes = [("team.a", "1"), ("team_a", "2"), ("Team.A", "3")];
        let attributes: BTreeMap<String, String> =
            attributes.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let all = Tags::of(&attributes, TagFormat::Gcp);
        assert_eq!(all.tags, BTreeMap::from([("team_a".to_owned(), "3".to_owned())]));
        assert_eq!(all.dropped, ["team.a", "team_a"]);
        assert_eq!(Tags::of(&attributes, TagFormat::Otel).dropped, [""; 0]);
    }

    proptest! {
        #[test]
        fn tags_are_within_limits(key in ".{0,600}", value in ".{0,600}") {
            for (format, keys, values) in
                [(TagFormat::Aws, 128, 256), (TagFormat::Azure, 512, 256), (TagFormat::Gcp, 63, 63)]
            {
                let (key, value) = one(&key, &value, format);
                prop_assert!(key.chars().count() <= keys && value.chars().count() <= values);
                prop_assert!(!key.chars().chain(value.chars()).any(char::is_control));
                if format == TagFormat::Gcp {
                    let is_label = |c: char| !c.is_uppercase() && (c.is_alphanumeric() || "_-".contains(c));
                    prop_assert!(key.chars().chain(value.chars()).all(is_label), "{key} {value}");
                }
            }
        }
    }
}
