//! Parts of GPUs as KAI and Run:ai grant them. A reservation pod holds the GPU in the kubelet; the pods that share it
//! have the label of its group and annotations with their part.

use std::collections::BTreeSet;

use phasemeter_meter::holder::Share;

use super::metadata::{Metadata, is_text};

/// The label of a pod with the group of its GPU. A pod with parts of several GPUs has one label `runai-gpu-group/GROUP`
/// each.
const GROUP: &str = "runai-gpu-group";

/// The annotations with the part of a pod: of each of its GPUs, else of the memory of each in MiB.
const FRACTION: &str = "gpu-fraction";
const MEMORY: &str = "gpu-memory";

/// The annotation with the container that has the part. Without it, the first one has it.
const CONTAINER: &str = "gpu-fraction-container-name";

/// The namespaces of reservation pods, by default of KAI and Run:ai. A pod elsewhere that looks like one holds its GPU
/// itself: the right to create pods must not be enough to charge a GPU to others.
const NAMESPACES: [&str; 2] = ["kai-resource-reservation", "runai-reservation"];

/// The annotation of a reservation pod with the UUID of its GPU, as it saw it.
const RESERVED: &str = "run.ai/reserve_for_gpu_index";

/// Groups of a pod that are read: a node has at most 64 GPUs.
const MAX_GROUPS: usize = 64;

/// Digits of a part that are read.
const MAX_DIGITS: usize = 18;

/// What a pod has to do with groups of pods that share a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grouped {
    /// It holds a GPU for the pods of a group.
    Reservation {
        group: String,
        /// The GPU that it names.
        gpu: Option<String>,
    },
    /// It has a part of the GPU of each of these groups.
    Member { groups: BTreeSet<String>, part: Option<Part>, container: Option<String> },
}

/// A part of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Fraction(Share),
    /// Of its memory, in MiB.
    Memory(u64),
}

impl Grouped {
    /// The groups of a pod; `None` if it has none.
    pub(super) fn of(pod: &Metadata) -> Option<Self> {
        let present = |value: &&String| is_text(value);
        let group = pod.labels.get(GROUP).filter(present);
        if NAMESPACES.contains(&pod.namespace.as_str()) {
            let gpu = pod.annotations.get(RESERVED).filter(present).cloned();
            return group.map(|group| Self::Reservation { group: group.clone(), gpu });
        }
        let is_of_several =
            |key: &str| key.strip_prefix(GROUP).is_some_and(|rest| rest.starts_with('/'));
        let several = pod.labels.iter().filter(|(key, _)| is_of_several(key));
        let several = several.map(|(_, group)| group).filter(present);
        let groups: BTreeSet<String> = group.into_iter().chain(several).cloned().collect();
        let groups: BTreeSet<String> = groups.into_iter().take(MAX_GROUPS).collect();
        let container = pod.annotations.get(CONTAINER).filter(present).cloned();
        (!groups.is_empty()).then(|| Self::Member { groups, part: Part::of(pod), container })
    }
}

impl Part {
    fn of(pod: &Metadata) -> Option<Self> {
        match pod.annotations.get(FRACTION) {
            Some(text) => fraction(text).map(Self::Fraction),
            None => {
                let text = pod.annotations.get(MEMORY)?;
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|mebibytes| is_number && *mebibytes > 0).map(Self::Memory)
            }
        }
    }
}

/// A decimal number over 0 and up to 1, exactly.
fn fraction(text: &str) -> Option<Share> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{part}");
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u128 = digits.parse().ok().filter(|_| is_number && digits.len() <= MAX_DIGITS)?;
    let of = 10_u128.pow(u32::try_from(part.len()).ok()?);
    Share::reduced(number, of).filter(|share| share.ratio().0 > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_decimal_numbers_up_to_one() {
        let share = |parts, of| Share::new(parts, of);
        for (text, expected) in [
            ("0.5", share(1, 2)),
            (".25", share(1, 4)),
            ("0.30", share(3, 10)),
            ("1", share(1, 1)),
            ("1.", share(1, 1)),
            ("0.333333", share(333_333, 1_000_000)),
            ("1.5", None),
            ("0", None),
            ("0.0", None),
            ("", None),
            (".", None),
            ("-0.5", None),
            ("0.-5", None),
            ("5e-1", None),
            ("NaN", None),
            ("0.0000000000000000001", None),
        ] {
            assert_eq!(fraction(text), expected, "{text}");
        }
    }

    fn pod(namespace: &str, labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Metadata {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        Metadata {
            namespace: namespace.to_owned(),
            labels: map(labels),
            annotations: map(annotations),
            ..Metadata::default()
        }
    }

    #[test]
    fn pod_of_the_namespace_of_reservations_reserves_and_others_have_parts() {
        let member = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| match Grouped::of(
            &pod("ml", labels, annotations),
        ) {
            Some(Grouped::Member { groups, part, .. }) => Some((groups.len(), part)),
            None => None,
            other => panic!("{other:?}"),
        };
        let half = Some(Part::Fraction(Share::new(1, 2).unwrap()));
        let one = [("runai-gpu-group", "g")];
        assert_eq!(member(&one, &[("gpu-fraction", "0.5"), ("gpu-memory", "9")]), Some((1, half)));
        let memory = Some(Part::Memory(2_000));
        assert_eq!(member(&one, &[("gpu-memory", "2000")]), Some((1, memory)));
        assert_eq!(member(&one, &[("gpu-memory", "2Gi")]), Some((1, None)));
        assert_eq!(member(&one, &[]), Some((1, None)));
        let two =
            [("runai-gpu-group/a", "a"), ("runai-gpu-group/b", "b"), ("runai-gpu-groups", "c")];
        assert_eq!(member(&two, &[("gpu-fraction", "0.5")]), Some((2, half)));
        assert_eq!(member(&[("runai-gpu-group", "")], &[]), None);
        let reserves = |namespace| Grouped::of(&pod(namespace, &one, &[(RESERVED, "GPU-1")]));
        let gpu = Some("GPU-1".to_owned());
        let expected = Grouped::Reservation { group: "g".to_owned(), gpu };
        assert_eq!(reserves("kai-resource-reservation"), Some(expected.clone()));
        assert_eq!(reserves("runai-reservation"), Some(expected));
        assert!(matches!(reserves("ml"), Some(Grouped::Member { .. })));
        assert_eq!(Grouped::of(&pod("kai-resource-reservation", &[], &[])), None);
    }
}
