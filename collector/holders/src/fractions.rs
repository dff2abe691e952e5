//! GPUs that KAI or Run:ai divide: the kubelet gives each to a reservation pod, and the pods of its group hold it.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::{Container, Holder, Share};

use crate::assignments::{Problem, Source};
use crate::candidate::Candidate;
use crate::fraction_problem::FractionProblem;
use crate::gpus::NodeGpu;
use crate::options::PodName;
use crate::pods::{Grouped, GroupedPod, Part};

/// Replaces reservation pods by the pods of their groups. Those that have ended are not among the `active` ones, which
/// the kubelet lists.
pub(crate) fn divided(
    candidates: Vec<Candidate>,
    pods: &[GroupedPod],
    active: &BTreeSet<PodName>,
    gpus: &[NodeGpu],
    problems: &mut BTreeSet<Problem>,
) -> Vec<Candidate> {
    let mut add = |problem| _ = problems.insert(Problem::Fraction(problem));
    let mut reservations = BTreeMap::new();
    for GroupedPod { name, grouped, .. } in pods {
        if let Grouped::Reservation { group, gpu } = &**grouped {
            reservations.insert(name, (group, gpu));
        }
    }
    let (mut held, mut reserved) = (Vec::new(), BTreeSet::new());
    for candidate in candidates {
        let Some((pod, (group, named))) = candidate.holder.container().and_then(|it| {
            let pod = PodName { namespace: it.namespace.clone(), name: it.pod.clone() };
            let reservation = *reservations.get(&pod)?;
            Some((pod, reservation))
        }) else {
            held.push(candidate);
            continue;
        };
        reserved.insert(group);
        let gpu = &candidate.device;
        if let Some(named) = named.as_ref().filter(|named| *named != gpu) {
            let (named, gpu) = (named.clone(), gpu.clone());
            add(FractionProblem::OtherGpu { pod: pod.to_string(), named, gpu });
        }
        let mut parts = Vec::new();
        for (member, part, container) in members(group, pods, active) {
            let part = part.and_then(|part| part.share(gpu, gpus));
            if part.is_none() {
                let (pod, gpu) = (member.name.to_string(), gpu.clone());
                add(FractionProblem::UnknownPart { pod, gpu });
            }
            parts.extend(part);
            held.push(Candidate {
                device: gpu.clone(),
                holder: member.holder(container),
                share: candidate.share.zip(part).and_then(|(whole, part)| whole.part(part)),
                source: Source::Fraction,
            });
        }
        if Share::sum(parts).is_none() {
            add(FractionProblem::TooMuch { group: group.clone(), gpu: gpu.clone() });
        }
    }
    for member in pods.iter().filter(|pod| active.contains(&pod.name)) {
        let Grouped::Member { groups, .. } = &*member.grouped else { continue };
        for group in groups.iter().filter(|group| !reserved.contains(group)) {
            let (pod, group) = (member.name.to_string(), group.clone());
            add(FractionProblem::NotReserved { pod, group });
        }
    }
    held
}

/// The pods of a group, each with its part and the container that has it.
fn members<'p>(
    group: &'p String,
    pods: &'p [GroupedPod],
    active: &'p BTreeSet<PodName>,
) -> impl Iterator<Item = (&'p GroupedPod, Option<Part>, Option<&'p String>)> {
    pods.iter().filter(|pod| active.contains(&pod.name)).filter_map(move |pod| {
        match &*pod.grouped {
            Grouped::Member { groups, part, container } if groups.contains(group) => {
                Some((pod, *part, container.as_ref()))
            }
            _ => None,
        }
    })
}

impl GroupedPod {
    /// The pod as a holder. Which container is its first is unknown.
    fn holder(&self, container: Option<&String>) -> Holder {
        Holder::Container(Container {
            namespace: self.name.namespace.clone(),
            pod: self.name.name.clone(),
            uid: Some(self.uid.clone()),
            container: container.cloned().unwrap_or_default(),
        })
    }
}

impl Part {
    /// The part of a GPU with this UUID; `None` if it is unknown or too large.
    fn share(self, gpu: &str, gpus: &[NodeGpu]) -> Option<Share> {
        match self {
            Self::Fraction(share) => Some(share),
            Self::Memory(mebibytes) => {
                let total = gpus.iter().find(|it| it.uuid == gpu)?.memory?;
                Share::reduced(u128::from(mebibytes) << 20, total.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::collection::{btree_set, vec};
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::candidate::joined;

    const GPUS: u8 = 3;

    /// A pod of groups, with its part in tenths.
    #[derive(Clone, Debug)]
    struct Member {
        groups: BTreeSet<u8>,
        tenths: Option<u32>,
        is_active: bool,
    }

    fn name(namespace: &str, number: usize) -> PodName {
        PodName { namespace: namespace.to_owned(), name: format!("pod-{number}") }
    }

    fn grouped(name: PodName, grouped: Grouped) -> GroupedPod {
        GroupedPod { uid: name.to_string(), name, grouped: Arc::new(grouped) }
    }

    fn members() -> impl Strategy<Value = Vec<Member>> {
        let member = (btree_set(0..=GPUS, 1..3), option::of(1..=10_u32), any::<bool>());
        let member =
            member.prop_map(|(groups, tenths, is_active)| Member { groups, tenths, is_active });
        vec(member, 0..8)
    }

    /// GPU `n` is reserved for group `n` if so, else a pod has all of it.
    fn divide(reserved: &[bool], members: &[Member], backwards: bool) -> Vec<Candidate> {
        let gpu = |it: usize| NodeGpu { uuid: format!("GPU-{it}"), ..NodeGpu::default() };
        let gpus: Vec<NodeGpu> = (0..reserved.len()).map(gpu).collect();
        let reservation = |it: usize| Grouped::Reservation { group: it.to_string(), gpu: None };
        let mut pods: Vec<GroupedPod> = (0..reserved.len())
            .filter(|it| reserved[*it])
            .map(|it| grouped(name("kai", it), reservation(it)))
            .collect();
        for (number, it) in members.iter().enumerate() {
            let part = it.tenths.map(|tenths| Part::Fraction(Share::new(tenths, 10).unwrap()));
            let groups = it.groups.iter().map(ToString::to_string).collect();
            let member = Grouped::Member { groups, part, container: None };
            pods.push(grouped(name("ml", number), member));
        }
        if backwards {
            pods.reverse();
        }
        let candidate = |it: usize| Candidate {
            device: format!("GPU-{it}"),
            holder: grouped(name("kai", it), reservation(it)).holder(None),
            share: Some(Share::WHOLE),
            source: Source::DevicePlugin,
        };
        let active = (0..members.len()).filter(|it| members[*it].is_active);
        let active = active.map(|it| name("ml", it)).collect();
        let candidates = (0..reserved.len()).map(candidate).collect();
        divided(candidates, &pods, &active, &gpus, &mut BTreeSet::new())
    }

    proptest! {
        /// Guarantee: exactly the pods of its group that run hold a reserved GPU, each with its part; known parts are
        /// at most the whole; other GPUs are untouched; the order of pods changes nothing.
        #[test]
        fn running_pods_of_the_group_hold_a_reserved_gpu(
            reserved in vec(any::<bool>(), usize::from(GPUS)),
            members in members(),
        ) {
            let found = divide(&reserved, &members, false);
            for (number, is_reserved) in reserved.iter().enumerate() {
                let device = format!("GPU-{number}");
                let held = || found.iter().filter(|it| it.device == device).cloned();
                let holders = joined(held());
                let again = divide(&reserved, &members, true);
                prop_assert_eq!(&joined(again.into_iter().filter(|it| it.device == device)), &holders);
                let group = u8::try_from(number).unwrap();
                let is_in = |it: &&Member| it.is_active && it.groups.contains(&group);
                let own: Vec<&Member> = members.iter().filter(is_in).collect();
                prop_assert_eq!(holders.len(), if *is_reserved { own.len() } else { 1 });
                prop_assert!(Share::sum(holders.iter().filter_map(|it| it.share)).is_some());
                let tenths = own.iter().filter_map(|it| it.tenths).sum::<u32>();
                if *is_reserved && tenths <= 10 {
                    let parts = held().filter_map(|it| it.share);
                    prop_assert_eq!(Share::sum(parts), Share::reduced(tenths.into(), 10));
                }
                let namespace = if *is_reserved { "ml" } else { "kai" };
                let is_named = |it: &Candidate| it.holder.namespace() == Some(namespace);
                prop_assert!(holders.iter().all(is_named));
            }
        }
    }
}
