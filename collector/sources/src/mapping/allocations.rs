//! The allocations of one GPU by a scheduler, one after another: a new one begins once no holder of the last one
//! is left.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::{Container, Holder};
use phasemeter_meter::reading::{Allocation, MAX_ALLOCATIONS, MAX_HOLDER_NAMES};

/// The allocations of one GPU.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    /// The number of the last one, from one on.
    last: u32,
    /// Its holders at its last reading.
    holders: BTreeSet<Holder>,
    /// The names of its holders and of those of the ones before.
    names: BTreeMap<u32, Vec<String>>,
    has_changed: bool,
}

impl Allocations {
    /// The allocation of a reading, in time order, with these holders, of which the containers of a pod are one.
    pub(super) fn next<'a>(&mut self, holders: impl Iterator<Item = &'a Holder>) -> Allocation {
        self.has_changed = false;
        let holders: BTreeSet<Holder> = holders.map(without_container).collect();
        if holders.is_empty() {
            // Without any so far, the source may not report them.
            return if self.last == 0 { Allocation::Unknown } else { Allocation::None };
        }
        if self.holders == holders {
            return Allocation::Held(self.last);
        }
        if self.holders.is_disjoint(&holders) {
            self.last = self.last.saturating_add(1);
        }
        let names = self.names.entry(self.last).or_default();
        for name in holders.iter().map(ToString::to_string) {
            if names.len() < MAX_HOLDER_NAMES && !names.contains(&name) {
                names.push(name);
            }
        }
        if self.names.len() > MAX_ALLOCATIONS {
            self.names.pop_first();
        }
        self.has_changed = true;
        self.holders = holders;
        Allocation::Held(self.last)
    }

    /// Whether the last reading had other holders than the one before.
    pub(super) const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// The names of the holders of the newest, by number.
    pub(super) const fn names(&self) -> &BTreeMap<u32, Vec<String>> {
        &self.names
    }
}

fn without_container(holder: &Holder) -> Holder {
    match holder {
        Holder::Container(container) => {
            Holder::Container(Container { container: String::new(), ..container.clone() })
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(names: &[&str]) -> Vec<Holder> {
        names.iter().map(|name| Holder::Named((*name).to_owned())).collect()
    }

    #[test]
    fn allocation_lasts_as_long_as_one_of_its_holders() {
        let mut allocations = Allocations::default();
        let mut next = |names: &[&str]| allocations.next(holders(names).iter());
        assert_eq!(next(&[]), Allocation::Unknown);
        assert_eq!(next(&["a"]), Allocation::Held(1));
        assert_eq!(next(&["a", "b"]), Allocation::Held(1));
        assert_eq!(next(&["b"]), Allocation::Held(1));
        assert_eq!(next(&[]), Allocation::None);
        assert_eq!(next(&["b"]), Allocation::Held(1), "a scrape without labels");
        assert_eq!(next(&["c"]), Allocation::Held(2));
        assert_eq!(next(&["a"]), Allocation::Held(3), "a pod of the same name");
        let names = allocations.names().values().map(|names| names.join(", "));
        assert_eq!(names.collect::<Vec<_>>(), ["a, b", "c", "a"]);
    }

    #[test]
    fn pod_with_another_uid_is_another_allocation() {
        let pod = |uid: &str, container: &str| {
            let (uid, container) = (Some(uid.to_owned()), container.to_owned());
            [Holder::Container(Container {
                pod: "a-0".to_owned(),
                uid,
                container,
                ..Container::default()
            })]
        };
        let mut allocations = Allocations::default();
        assert_eq!(allocations.next(pod("1", "main").iter()), Allocation::Held(1));
        assert_eq!(allocations.next(pod("1", "sidecar").iter()), Allocation::Held(1));
        assert_eq!(allocations.next(pod("2", "main").iter()), Allocation::Held(2));
    }

    #[test]
    fn names_of_many_allocations_are_limited() {
        let mut allocations = Allocations::default();
        for number in 0..1_000 {
            allocations.next(holders(&[&number.to_string()]).iter());
        }
        let names = allocations.names();
        assert_eq!(names.len(), MAX_ALLOCATIONS);
        assert_eq!(names[&1_000], ["999"]);
    }
}
