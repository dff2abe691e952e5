//! Names of containers that lack a UID or the container, as labels of some metrics do: they are of the same holder as
//! the complete name of their pod, if there is only one.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::{Container, Holder};

/// Complete names of holders by those that lack something.
#[derive(Debug, Default)]
pub(super) struct Names {
    complete: BTreeMap<Holder, Holder>,
    /// Names of which it is unknown which container of their pod they are.
    of_any: BTreeSet<Holder>,
}

impl Names {
    /// Finds the complete names of holders among all that are named `now`, else among those that were `before`.
    pub(super) fn find<'h>(
        now: impl Iterator<Item = &'h Holder> + Clone,
        before: impl Iterator<Item = &'h Holder> + Clone,
        further: impl Iterator<Item = &'h Holder>,
    ) -> Self {
        let (by_pod, earlier) = (by_pod(now.clone()), by_pod(before));
        let mut names = Self::default();
        for holder in now.chain(further) {
            let Holder::Container(container) = holder else { continue };
            let mut found = complete(&by_pod, container);
            if found.is_empty() {
                found = complete(&earlier, container);
            }
            match found[..] {
                [] => {}
                [only] => {
                    let only = Holder::Container(only.clone());
                    names.complete.insert(holder.clone(), only);
                }
                _ => _ = names.of_any.insert(holder.clone()),
            }
        }
        names
    }

    /// Whether all names are as complete as can be.
    pub(super) fn is_empty(&self) -> bool {
        self.complete.is_empty() && self.of_any.is_empty()
    }

    /// The complete name of a holder, if it has another one.
    pub(super) fn complete(&self, holder: &Holder) -> Option<&Holder> {
        self.complete.get(holder)
    }

    /// Whether it is unknown which container of its pod a holder is.
    pub(super) fn is_of_any(&self, holder: &Holder) -> bool {
        self.of_any.contains(holder)
    }
}

/// Containers by namespace and pod.
type ByPod<'h> = BTreeMap<(&'h str, &'h str), BTreeSet<&'h Container>>;

fn by_pod<'h>(holders: impl Iterator<Item = &'h Holder>) -> ByPod<'h> {
    let mut by_pod = ByPod::new();
    for holder in holders {
        if let Holder::Container(it) = holder {
            by_pod.entry((&it.namespace, &it.pod)).or_default().insert(it);
        }
    }
    by_pod
}

/// The names of this pod that say more, and are as complete as can be.
fn complete<'h>(by_pod: &ByPod<'h>, container: &Container) -> Vec<&'h Container> {
    if container.uid.is_some() && !container.container.is_empty() {
        return Vec::new();
    }
    let key = (container.namespace.as_str(), container.pod.as_str());
    let all = by_pod.get(&key).into_iter().flatten().copied();
    let more: Vec<_> = all.filter(|it| says_more(it, container)).collect();
    let is_last = |it: &&&Container| !more.iter().any(|other| says_more(other, it));
    more.iter().filter(is_last).copied().collect()
}

/// Whether the name of a container of the same pod says the same as another one, and more.
fn says_more(it: &Container, than: &Container) -> bool {
    let is_uid = than.uid.is_none() || it.uid == than.uid;
    let is_container = than.container.is_empty() || it.container == than.container;
    is_uid && is_container && it != than
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pod: &str, uid: &str, container: &str) -> Holder {
        Holder::Container(Container {
            namespace: "ml".to_owned(),
            pod: pod.to_owned(),
            uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
            container: container.to_owned(),
        })
    }

    #[test]
    fn name_is_completed_by_the_only_one_of_its_pod() {
        let now = [
            holder("a", "", ""),
            holder("a", "1", ""),
            holder("a", "1", "main"),
            holder("b", "", "main"),
            holder("c", "", ""),
            holder("c", "3", "main"),
            holder("c", "3", "proxy"),
        ];
        let before = [holder("a", "0", "main"), holder("b", "2", "main"), holder("d", "4", "")];
        let further = [holder("d", "", "")];
        let names = Names::find(now.iter(), before.iter(), further.iter());
        let complete = |holder: Holder| names.complete(&holder).cloned();
        for less in [holder("a", "", ""), holder("a", "1", "")] {
            assert_eq!(complete(less), Some(holder("a", "1", "main")));
        }
        assert_eq!(complete(holder("b", "", "main")), Some(holder("b", "2", "main")));
        assert_eq!(complete(holder("d", "", "")), Some(holder("d", "4", "")));
        assert_eq!(complete(holder("c", "", "")), None);
        assert!(names.is_of_any(&holder("c", "", "")) && !names.is_of_any(&holder("d", "", "")));
    }
}
