//! Counts by sender.

use std::collections::BTreeMap;

/// Maximum number of senders that are counted by name, which may be any: those of others are counted together.
const MAX_SENDERS: usize = 256;

/// How often something happened, by the name of the sender that caused it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts(BTreeMap<String, u64>);

impl SenderCounts {
    /// Counts one of this sender.
    pub fn add(&mut self, sender: &str) {
        self.add_many(sender, 1);
    }

    /// Adds other counts.
    pub fn merge(&mut self, others: &Self) {
        others.iter().for_each(|(sender, count)| self.add_many(sender, count));
    }

    fn add_many(&mut self, sender: &str, more: u64) {
        let is_counted = self.0.contains_key(sender) || self.0.len() < MAX_SENDERS;
        let counted = if is_counted { sender } else { "" };
        match self.0.get_mut(counted) {
            Some(count) => *count = count.saturating_add(more),
            None => drop(self.0.insert(counted.to_owned(), more)),
        }
    }

    /// The count of all senders.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The senders with their counts; without a name, those that have none and all others.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(sender, count)| (sender.as_str(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_limited_and_all_are_counted() {
        let mut counts = SenderCounts::default();
        for n in 0..3 * MAX_SENDERS {
            counts.add(&n.to_string());
            counts.add("0");
        }
        assert_eq!(counts.total(), 6 * MAX_SENDERS as u64);
        assert_eq!(counts.iter().count(), MAX_SENDERS + 1);
        assert!(counts.iter().any(|it| it == ("0", 3 * MAX_SENDERS as u64 + 1)));
        assert!(counts.iter().any(|it| it == ("", 2 * MAX_SENDERS as u64)));
    }
}
