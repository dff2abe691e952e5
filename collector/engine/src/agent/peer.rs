//! In which pod the process at the other end of a connection is.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use phasemeter_meter::holder::Container;
use rustix::net::sockopt::socket_peercred;

use super::protocol::PodName;

/// The pod of a process, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its UID, by the control group of the process. Without the PID namespace of the host no process is visible.
    uid: Option<String>,
    /// Its name, as the process states it.
    stated: Option<PodName>,
}

impl Peer {
    /// The pod of the process at the other end, which states this one.
    pub(super) fn of(stream: &UnixStream, procfs: &Path, stated: Option<PodName>) -> Self {
        let pid = socket_peercred(stream).ok().map(|peer| peer.pid.as_raw_nonzero());
        let cgroup = pid.map(|pid| procfs.join(pid.to_string()).join("cgroup"));
        let text = cgroup.and_then(|path| fs::read_to_string(path).ok());
        Self { uid: text.as_deref().and_then(pod_uid), stated }
    }

    /// Whether nothing is known.
    pub(super) const fn is_unknown(&self) -> bool {
        self.uid.is_none() && self.stated.is_none()
    }

    /// Whether a container is in this pod. What the kernel reports counts, if both UIDs are known.
    pub(super) fn has(&self, container: &Container) -> bool {
        match (&self.uid, &container.uid, &self.stated) {
            (Some(own), Some(other), _) => own == other,
            (_, _, Some(PodName { namespace, name })) => {
                *namespace == container.namespace && *name == container.pod
            }
            (_, _, None) => false,
        }
    }
}

/// The UID of the pod of a control group, by a line of `/proc/PID/cgroup`: `…/pod<UID>/…`, or with systemd
/// `…-pod<UID>.slice/…`, whose dashes are underscores.
fn pod_uid(cgroup: &str) -> Option<String> {
    cgroup.split(['/', '\n']).find_map(|part| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        let (before, uid) = part.rsplit_once("pod")?;
        let is_uid =
            uid.len() == 36 && uid.bytes().all(|it| it.is_ascii_hexdigit() || b"-_".contains(&it));
        (is_uid && (before.is_empty() || before.ends_with('-'))).then(|| uid.replace('_', "-"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_read_from_control_groups_of_both_versions() {
        let uid = "0b2f1c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        let v1 = format!("12:memory:/kubepods/burstable/pod{uid}/7b1e\n1:name=systemd:/x\n");
        assert_eq!(pod_uid(&v1).as_deref(), Some(uid));
        let underscores = uid.replace('-', "_");
        let v2 = format!(
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{underscores}.slice/cri-containerd-7b1e.scope\n"
        );
        assert_eq!(pod_uid(&v2).as_deref(), Some(uid));
        assert_eq!(pod_uid("0::/system.slice/podman-1.scope\n"), None);
    }

    /// A pod that states the name of another gets nothing of it.
    #[test]
    fn kernel_counts_more_than_the_stated_name() {
        let stated = PodName { namespace: "ml".to_owned(), name: "train-0".to_owned() };
        let container = |uid: Option<&str>| Container {
            namespace: "ml".to_owned(),
            pod: "train-0".to_owned(),
            uid: uid.map(str::to_owned),
            container: "server".to_owned(),
        };
        let known = Peer { uid: Some("a".to_owned()), stated: Some(stated.clone()) };
        assert!(known.has(&container(Some("a"))));
        assert!(!known.has(&container(Some("b"))));
        assert!(known.has(&container(None)));
        let unseen = Peer { uid: None, stated: Some(stated) };
        assert!(unseen.has(&container(Some("b"))));
        assert!(!Peer { uid: Some("a".to_owned()), stated: None }.has(&container(None)));
    }
}
