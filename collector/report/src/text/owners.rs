//! Whose GPUs a finding is about, and where they are.

use phasemeter_terminal::wrap::shortened;

use crate::holders::Holder;
use crate::model::Gpu;

use super::gpus::{LONGEST_NODE, names_of};

/// ` (vision/train-0 of ana, on node17)`: the first of the pods and jobs that have these GPUs, or had them last, with its
/// user if that is known, and the number of the others; then the same of their hosts. Empty if nothing is known that
/// their names lack.
pub(super) fn owners(gpus: &[Gpu], ids: &[String]) -> String {
    let own = || gpus.iter().filter(|gpu| ids.contains(&gpu.id));
    let names = names_of(gpus, ids);
    let is_in_name = |text: &String| {
        let place = shortened(text, LONGEST_NODE);
        names.iter().any(|name| begins_with(name, &place))
    };
    let owners = unique(own().flat_map(owners_of).filter(|owner| !is_in_name(owner)));
    let hosts = unique(own().filter_map(|gpu| gpu.host.clone()).filter(|host| !is_in_name(host)));
    let hosts = first_of(&hosts).map(|hosts| format!("on {hosts}"));
    let facts: Vec<String> = first_of(&owners).into_iter().chain(hosts).collect();
    if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) }
}

/// Whether the name of a GPU begins with this host, pod or job, and not with a longer one.
fn begins_with(name: &str, place: &str) -> bool {
    name.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// What has a GPU or had it last, else the pod that its metrics name.
fn owners_of(gpu: &Gpu) -> Vec<String> {
    let has_it = |it: &&Holder| it.end.is_none();
    let mut now: Vec<&Holder> = gpu.holders.iter().filter(has_it).collect();
    if now.is_empty() {
        now.extend(gpu.holders.last());
    }
    if now.is_empty() {
        return gpu.pod.iter().cloned().collect();
    }
    let named = now.into_iter().map(|it| match &it.details.user {
        Some(user) => format!("{} of {user}", it.name),
        None => it.name.clone(),
    });
    named.collect()
}

fn unique(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut unique = Vec::new();
    for it in all {
        if !unique.contains(&it) {
            unique.push(it);
        }
    }
    unique
}

fn first_of(all: &[String]) -> Option<String> {
    Some(match all {
        [] => return None,
        [one] => one.clone(),
        [one, other] => format!("{one}, {other}"),
        [one, others @ ..] => format!("{one} and {} others", others.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::begins_with;

    #[test]
    fn place_that_another_name_begins_with_is_not_in_it() {
        assert!(begins_with("node17 GPU 3", "node17") && begins_with("node17", "node17"));
        assert!(!begins_with("node17-train GPU 3", "node17") && !begins_with("GPU 3", "node17"));
    }
}
