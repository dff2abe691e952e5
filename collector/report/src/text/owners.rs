//! Whose GPUs a finding is about.

use crate::holders::Holder;
use crate::model::Gpu;

/// ` (vision/train-0)`: the first of the pods and jobs that have these GPUs, or had them last, with its user if that
/// is known, and the number of the others; empty if none is known.
pub(super) fn owners(gpus: &[Gpu], ids: &[String]) -> String {
    let mut owners: Vec<String> = Vec::new();
    for gpu in gpus.iter().filter(|gpu| ids.contains(&gpu.id)) {
        let has_it = |it: &&Holder| it.end.is_none();
        let mut now: Vec<&Holder> = gpu.holders.iter().filter(has_it).collect();
        if now.is_empty() {
            now.extend(gpu.holders.last());
        }
        let names = now.into_iter().map(|it| match &it.details.user {
            Some(user) => format!("{} of {user}", it.name),
            None => it.name.clone(),
        });
        for name in names {
            if !owners.contains(&name) {
                owners.push(name);
            }
        }
    }
    match owners.as_slice() {
        [] => String::new(),
        [one] => format!(" ({one})"),
        [one, other] => format!(" ({one}, {other})"),
        [one, others @ ..] => format!(" ({one} and {} others)", others.len()),
    }
}
