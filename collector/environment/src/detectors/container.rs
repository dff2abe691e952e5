//! The container that this process is in: by its control group, else by the mounts of Docker and Podman.

use std::collections::BTreeMap;

use super::System;
use super::mounts::Mounts;

/// The control groups of this process.
pub(super) const CGROUP: &str = "/proc/self/cgroup";

/// A file that Docker and Podman mount from a directory named by the container's ID.
const HOST_NAME: &str = "/etc/hostname";

/// Directories of containers by ID.
const DIRECTORIES: [&str; 2] = ["containers", "overlay-containers"];

/// Detects the container's ID. In a pod, the mounts are those of another container, which has the network.
pub(super) fn detect(
    system: &System<'_>,
    mounts: &Mounts,
    is_kubernetes: bool,
) -> BTreeMap<&'static str, String> {
    let groups = (system.file)(CGROUP).unwrap_or_default();
    let mut ids = groups.lines().filter_map(|line| id_in_group(line.splitn(3, ':').nth(2)?));
    let common = match ids.next() {
        Some(first) if ids.all(|id| id == first) => Some(first),
        _ => None,
    };
    let id = common.or_else(|| id_in_mount(mounts.at(HOST_NAME)?).filter(|_| !is_kubernetes));
    id.map(|id| ("container.id", id.to_owned())).into_iter().collect()
}

/// The innermost container in the path of a control group, like `…/cri-containerd-ID.scope`.
fn id_in_group(path: &str) -> Option<&str> {
    path.rsplit('/').find_map(|part| {
        let part = part.strip_suffix(".scope").unwrap_or(part);
        let id = part.rsplit(['-', ':']).next()?;
        is_id(id).then_some(id)
    })
}

/// The container in the path of a mounted file, like `/var/lib/docker/containers/ID/hostname`.
fn id_in_mount(path: &str) -> Option<&str> {
    let mut parts = path.split('/').zip(path.split('/').skip(1));
    parts.find_map(|(directory, id)| (DIRECTORIES.contains(&directory) && is_id(id)).then_some(id))
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
