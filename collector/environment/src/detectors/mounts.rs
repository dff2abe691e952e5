//! The mounts of this process, which name the pod and container that they were made for.

/// The file that lists them.
pub(super) const PATH: &str = "/proc/self/mountinfo";

/// The kubelet's directory of the files of pods.
const PODS: &str = "/pods/";

/// Each mount: the path in its file system, and where it is mounted.
#[derive(Debug, Default)]
pub(super) struct Mounts(Vec<(String, String)>);

impl Mounts {
    /// Parses `/proc/PID/mountinfo`: the fourth field is the path in the file system, the fifth the mount
    /// point.
    pub(super) fn parse(text: &str) -> Self {
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(3);
            Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
        };
        Self(text.lines().filter_map(mount).collect())
    }

    /// The path in its file system of what is mounted there last.
    pub(super) fn at(&self, point: &str) -> Option<&str> {
        let mount = self.0.iter().rfind(|(_, mounted)| mounted == point);
        mount.map(|(root, _)| root.as_str())
    }

    /// The parts of the kubelet's path below the directory of all pods: the pod's UID first.
    pub(super) fn pod_path(&self, point: &str) -> Option<Vec<&str>> {
        let (_, path) = self.at(point)?.rsplit_once(PODS)?;
        Some(path.split('/').collect())
    }
}
