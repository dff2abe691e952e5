//! The UIDs of pods, by the names of the directories that the kubelet keeps their logs in: `<namespace>_<pod>_<UID>`.
//!
//! The kubelet creates one before the containers of a pod start, and keeps it for a while after a pod is gone. So a pod
//! that is recreated under its name has two: the newest is the present pod's.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use crate::cgroup::is_pod_uid;
use crate::options::PodName;

/// Directories that are read. A node has at most some hundred pods.
const MAX_ENTRIES: usize = 8_192;

/// Names and UIDs of pods that are or were on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodLogs {
    /// The UID of the newest pod of each name.
    pub(crate) uids: BTreeMap<PodName, String>,
    /// The name of each pod, by UID.
    pub(crate) names: BTreeMap<String, PodName>,
}

impl PodLogs {
    /// Reads the names in a directory.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub(crate) fn read(dir: &Path) -> io::Result<Self> {
        let entries = fs::read_dir(dir)?.take(MAX_ENTRIES).flatten();
        let names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        Ok(Self::of(&names, |name| created(&dir.join(name))))
    }

    /// Names of other forms are ignored.
    pub(crate) fn of(names: &[String], created: impl Fn(&str) -> Option<SystemTime>) -> Self {
        let mut all: BTreeMap<PodName, Vec<(&str, &str)>> = BTreeMap::new();
        for name in names {
            if let Some((pod, uid)) = parse(name) {
                all.entry(pod).or_default().push((name, uid));
            }
        }
        let mut logs = Self::default();
        for (pod, mut directories) in all {
            logs.names.extend(directories.iter().map(|(_, uid)| ((*uid).to_owned(), pod.clone())));
            if directories.len() > 1 {
                directories.sort_by_key(|(name, uid)| (created(name), *uid));
            }
            if let Some((_, uid)) = directories.last() {
                logs.uids.insert(pod, (*uid).to_owned());
            }
        }
        logs
    }
}

/// The pod and UID in `<namespace>_<pod>_<UID>`.
fn parse(name: &str) -> Option<(PodName, &str)> {
    let (pod, uid) = name.rsplit_once('_')?;
    let (namespace, name) = pod.split_once('_')?;
    let is_name = |text: &str| !text.is_empty() && !text.contains('_');
    let pod = PodName { namespace: namespace.to_owned(), name: name.to_owned() };
    (is_name(namespace) && is_name(name) && is_pod_uid(uid)).then_some((pod, uid))
}

/// When a directory was created; without that, when its entries last changed.
fn created(path: &Path) -> Option<SystemTime> {
    let metadata = fs::symlink_metadata(path).ok()?;
    metadata.created().or_else(|_| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const OLD: &str = "00000000-0000-4000-8000-00000000000b";
    const NEW: &str = "00000000-0000-4000-8000-00000000000a";

    #[test]
    fn newest_directory_names_the_pod() {
        let names = [format!("ml_train-0_{OLD}"), format!("ml_train-0_{NEW}")];
        let age = |name: &str| Duration::from_secs(if name.ends_with(OLD) { 1 } else { 2 });
        let logs = PodLogs::of(&names, |name| Some(SystemTime::UNIX_EPOCH + age(name)));
        let pod = PodName { namespace: "ml".to_owned(), name: "train-0".to_owned() };
        assert_eq!(logs.uids[&pod], NEW);
        assert_eq!(logs.names[OLD], pod);
    }

    #[test]
    fn other_names_are_ignored() {
        for name in ["", "a_b", "a_b_c", "__", &format!("_{OLD}"), &format!("a__{OLD}")] {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(parse(&format!("a_b_{OLD}")).unwrap().1, OLD);
    }
}
