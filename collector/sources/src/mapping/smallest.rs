//! A table of bounded size that keeps the entries with the smallest keys, so that the order of arrival changes
//! nothing.

use std::collections::{BTreeMap, btree_map};

/// Maximum number of entries: holders and replicas of a GPU at an instant. Labels come from anywhere.
const MAX: usize = 1_024;

/// The entries with the smallest keys, up to [`MAX`].
#[derive(Clone, Debug)]
pub(super) struct Smallest<K, V> {
    entries: BTreeMap<K, V>,
    /// Whether any was left out.
    is_over: bool,
}

impl<K, V> Default for Smallest<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), is_over: false }
    }
}

impl<K: Clone + Ord, V> Smallest<K, V> {
    /// Updates an entry, or adds it if it is new and has a place. Returns what the update does.
    pub(super) fn upsert<T>(
        &mut self,
        key: &K,
        new: impl FnOnce() -> V,
        update: impl FnOnce(&mut V) -> T,
    ) -> Option<T> {
        if let Some(known) = self.entries.get_mut(key) {
            return Some(update(known));
        }
        let is_full = self.entries.len() >= MAX;
        self.is_over |= is_full;
        if is_full && self.entries.last_key_value().is_some_and(|(last, _)| last < key) {
            return None;
        }
        self.entries.insert(key.clone(), new());
        if is_full {
            self.entries.pop_last();
        }
        None
    }

    /// Renames keys; `merge` adds the value of one to that of the key which it is renamed to.
    pub(super) fn rename(&mut self, name: impl Fn(&K) -> Option<K>, merge: impl Fn(&mut V, V)) {
        let renamed = self.entries.keys().filter_map(|key| Some((key.clone(), name(key)?)));
        for (old, new) in renamed.collect::<Vec<_>>() {
            let Some(value) = self.entries.remove(&old) else { continue };
            match self.entries.entry(new) {
                btree_map::Entry::Occupied(mut known) => merge(known.get_mut(), value),
                btree_map::Entry::Vacant(free) => _ = free.insert(value),
            }
        }
    }

    /// Removes the entries with these keys, and returns the values.
    pub(super) fn take(&mut self, is_taken: impl Fn(&K) -> bool) -> Vec<V> {
        let taken = self.entries.extract_if(.., |key, _| is_taken(key));
        taken.map(|(_, value)| value).collect()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there were more entries than it has.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn iter(&self) -> btree_map::Iter<'_, K, V> {
        self.entries.iter()
    }

    pub(super) fn keys(&self) -> btree_map::Keys<'_, K, V> {
        self.entries.keys()
    }

    pub(super) fn values(&self) -> btree_map::Values<'_, K, V> {
        self.entries.values()
    }
}

impl<K: Clone + Ord> Smallest<K, ()> {
    /// Adds a key.
    pub(super) fn insert(&mut self, key: &K) {
        self.upsert(key, || (), |()| ());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In any order, it has the smallest keys with all of their updates, and tells if any was left out.
        #[test]
        fn order_changes_nothing(
            updates in prop::collection::vec((0_u32..2_000, 1_u64..9), 0..4_000),
            seed in any::<u32>(),
        ) {
            let table = |updates: &[(u32, u64)]| {
                let mut table = Smallest::default();
                for (key, value) in updates {
                    table.upsert(key, || *value, |sum| *sum += value);
                }
                (table.entries, table.is_over)
            };
            let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
            for (key, value) in &updates {
                *sums.entry(*key).or_default() += value;
            }
            let is_over = sums.len() > MAX;
            let expected: BTreeMap<_, _> = sums.into_iter().take(MAX).collect();
            let mut shuffled = updates.clone();
            shuffled.sort_by_key(|(key, value)| ((key ^ seed).wrapping_mul(0x9E37_79B9), *value));
            for updates in [&updates, &shuffled] {
                prop_assert_eq!(table(updates), (expected.clone(), is_over));
            }
        }
    }
}
