//! GPUs and holders by attributes of resources.

use super::*;

fn pod(uid: &str) -> Pod {
    Pod { uid: Some(uid.to_owned()), ..Pod::default() }
}

fn second(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000).unwrap()
}

/// The pod as a holder.
fn holder(Pod { uid, namespace, name }: &Pod) -> Holder {
    let (namespace, uid) = (namespace.clone().unwrap_or_default(), uid.clone());
    let pod = name.clone().or_else(|| uid.clone()).unwrap_or_default();
    Holder::Container(Container { namespace, pod, uid, container: "main".to_owned() })
}

fn gpus(directory: &Directory, resource: &ResourceIdentity<'_>, from: u64) -> Vec<usize> {
    let found = directory.gpus_of(&directory.named(resource), &(second(from)..second(from + 1)));
    found.among(directory.gpus()).collect()
}

/// The GPUs of a resource in the second second.
fn found(directory: &Directory, resource: &ResourceIdentity<'_>) -> Vec<usize> {
    gpus(directory, resource, 1)
}

/// GPUs with a pod each, if it has a name.
fn directory(gpus: &[(&str, &str, &[u32], &str)]) -> Directory {
    let mut directory = Directory::default();
    for (gpu, (id, host, pids, uid)) in gpus.iter().enumerate() {
        directory.add_gpu(id, Some(host));
        pids.iter().for_each(|pid| directory.add_process(gpu, *pid));
        let pod = (!uid.is_empty()).then(|| pod(uid));
        directory.see_holder(gpu, (second(0), NamedBy::Labels), pod.as_ref().map(holder).as_ref());
    }
    directory
}

/// Guarantee: the most specific attribute counts, and what names nothing known pays for nothing.
#[test]
fn most_specific_attribute_counts() {
    let gpus = directory(&[
        ("A", "h1", &[7], "p"),
        ("B", "h1", &[7, 8], "q"),
        ("C", "h2", &[7], "q"),
        ("D", "h2", &[], ""),
        ("h2:0", "h2", &[], "r"),
    ]);
    let none = ResourceIdentity::default();
    let (q, x) = (pod("q"), pod("x"));
    for (resource, expected) in [
        (none, &[][..]),
        (ResourceIdentity { hw_id: Some("B"), pid: Some(7), ..none }, &[1]),
        (ResourceIdentity { hw_id: Some("0"), host: Some("h2"), ..none }, &[4]),
        (ResourceIdentity { hw_id: Some("Z"), host: Some("h1"), pod: Some(&q), ..none }, &[]),
        (ResourceIdentity { pid: Some(7), ..none }, &[0, 1, 2]),
        (ResourceIdentity { pid: Some(7), host: Some("h1"), ..none }, &[0, 1]),
        (ResourceIdentity { pid: Some(9), pod: Some(&q), ..none }, &[1, 2]),
        (ResourceIdentity { pid: Some(9), ..none }, &[]),
        (ResourceIdentity { pod: Some(&q), host: Some("h3"), ..none }, &[1, 2]),
        (ResourceIdentity { pod: Some(&x), host: Some("h2"), ..none }, &[3]),
        (ResourceIdentity { pod: Some(&x), host: Some("h1"), ..none }, &[]),
        (ResourceIdentity { pod: Some(&x), ..none }, &[]),
        (ResourceIdentity { host: Some("h1"), ..none }, &[0, 1]),
        (ResourceIdentity { host: Some("h3"), ..none }, &[]),
    ] {
        assert_eq!(found(&gpus, &resource), expected, "{resource:?}");
    }
}

/// Guarantee: a pod that moved, by name or with its UID, has the GPU that it has then.
#[test]
fn pod_has_the_gpus_of_its_time() {
    let mut gpus = directory(&[("A", "h1", &[], ""), ("B", "h2", &[], "")]);
    let stateful =
        Pod { namespace: Some("ml".to_owned()), name: Some("train-0".to_owned()), uid: None };
    for seconds in (15..=120).step_by(15) {
        let (is_first, other) = (seconds <= 60, pod("other"));
        let pods = if is_first { [Some(&stateful), None] } else { [Some(&other), Some(&stateful)] };
        for (gpu, pod) in pods.into_iter().enumerate() {
            gpus.see_holder(gpu, (second(seconds), NamedBy::Labels), pod.map(holder).as_ref());
        }
    }
    let with_uid = Pod { uid: Some("u".to_owned()), ..stateful.clone() };
    for pod in [&stateful, &with_uid] {
        let resource = ResourceIdentity { pod: Some(pod), ..Default::default() };
        let at = |from| self::gpus(&gpus, &resource, from);
        assert_eq!([at(30), at(80), at(115)], [vec![0], vec![1], vec![1]]);
    }
}

/// Guarantee: a pod or a job that has a part of a GPU is charged for its part, even if the GPU is named, too; a GPU
/// that a job has is not free for others. What other exporters do not name ends nothing.
#[test]
fn holder_is_charged_for_its_part() {
    let mut directory = directory(&[("A", "h1", &[], "p"), ("B", "h1", &[], "")]);
    let job = Holder::Job("4711".to_owned());
    for at in [0, 1] {
        let by = |by| (second(at), by);
        directory.see_holder(0, by(NamedBy::Labels), Some(&holder(&pod("q"))));
        directory.see_holder(1, by(NamedBy::Metrics), Some(&job));
        directory.see_holder(1, by(NamedBy::Labels), None);
    }
    let (p, q, x) = (pod("p"), pod("q"), pod("x"));
    let keys = |holder| Some(directory.keys_of(holder));
    let of = ResourceIdentity { host: Some("h1"), ..Default::default() };
    for (resource, expected) in [
        (ResourceIdentity { pod: Some(&q), ..of }, (vec![0], keys(&holder(&q)))),
        (ResourceIdentity { job: Some("4711"), ..of }, (vec![1], keys(&job))),
        (ResourceIdentity { hw_id: Some("A"), pod: Some(&q), ..of }, (vec![0], keys(&holder(&q)))),
        (ResourceIdentity { hw_id: Some("B"), pod: Some(&q), ..of }, (vec![1], None)),
        (ResourceIdentity { pod: Some(&x), ..of }, (vec![], None)),
        (ResourceIdentity { job: Some("4712"), ..of }, (vec![], None)),
        (of, (vec![0, 1], None)),
    ] {
        let found = directory.gpus_of(&directory.named(&resource), &(second(1)..second(2)));
        let gpus = found.among(2).collect();
        assert_eq!((gpus, found.holder().copied()), expected, "{resource:?}");
    }
    let ended = ResourceIdentity { pod: Some(&p), ..of };
    assert_eq!(gpus(&directory, &ended, 2), [], "it had the GPU");
}

#[test]
fn pod_is_identified_by_uid_or_else_by_namespace_and_name() {
    let of = |[uid, namespace, name]: [&str; 3]| {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Pod { uid: known(uid), namespace: known(namespace), name: known(name) }
    };
    for (left, right, expected) in [
        (["u", "ml", "train-0"], ["u", "", ""], true),
        (["u", "ml", "train-0"], ["v", "ml", "train-0"], false),
        (["u", "ml", "train-0"], ["", "ml", "train-0"], true),
        (["", "ml", "train-0"], ["", "web", "train-0"], false),
        (["", "", "train-0"], ["", "", "train-0"], false),
        (["", "", ""], ["", "", ""], false),
    ] {
        for (known, asked) in [(left, right), (right, left)] {
            let mut directory = Directory::default();
            directory.add_gpu("A", None);
            directory.see_holder(0, (second(0), NamedBy::Labels), Some(&holder(&of(known))));
            let pod = of(asked);
            let resource = ResourceIdentity { pod: Some(&pod), ..Default::default() };
            let is_found = !found(&directory, &resource).is_empty();
            assert_eq!(is_found, expected, "{known:?} {asked:?}");
        }
    }
}

/// Guarantee: however many pods a sender names, their number is limited, the newest are known, and a GPU
/// that others have, too, remains theirs.
#[test]
fn owners_are_limited_and_the_oldest_forgotten() {
    let mut directory = Directory::default();
    let gpus = 1_000;
    (0..gpus).for_each(|gpu| directory.add_gpu(&gpu.to_string(), None));
    directory.see_holder(1, (second(0), NamedBy::Labels), Some(&holder(&pod("kept"))));
    for n in 0..MAX_OWNERS {
        directory.see_holder(0, (second(0), NamedBy::Labels), Some(&holder(&pod(&n.to_string()))));
        directory.see_holder(0, (second(0), NamedBy::Labels), Some(&holder(&pod(&n.to_string()))));
    }
    directory.see_holder(0, (second(0), NamedBy::Labels), Some(&holder(&pod("kept"))));
    let owners: usize = directory.gpus.iter().map(|gpu| gpu.owners.order.len()).sum();
    assert_eq!(owners, MAX_OWNERS / gpus + 1);
    assert_eq!(directory.members.len(), gpus + MAX_OWNERS / gpus);
    let find = |uid: &str| {
        found(&directory, &ResourceIdentity { pod: Some(&pod(uid)), ..Default::default() })
    };
    assert_eq!(find("kept"), [0, 1]);
    assert!(find("0").is_empty());
    assert_eq!(find(&(MAX_OWNERS - 1).to_string()), [0]);
}
