//! The memory of this process's control groups: what they leave free is the upper bound for a compiling
//! child, so that the kernel does not kill the whole container for it.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory limit of this process's control groups; `None` if they have none.
#[must_use]
pub fn limit() -> Option<u64> {
    limit_at(Path::new("/"))
}

fn limit_at(root: &Path) -> Option<u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups(&root.join("sys/fs/cgroup"), &own).filter_map(|(group, files)| files.limit(&group)).min()
}

/// Bytes that this process's control groups leave free, by the files below `root`: `/`, except in
/// tests. `None` if there are no groups, or none has a limit. Page cache that the kernel can drop
/// counts as free.
pub(crate) fn free(root: &Path) -> Option<u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    free_below(&root.join("sys/fs/cgroup"), &own)
}

/// The same for a hierarchy mounted at `root` and the text of `/proc/self/cgroup`: the minimum over
/// the process's group and its ancestors.
fn free_below(root: &Path, own: &str) -> Option<u64> {
    groups(root, own).filter_map(|(group, files)| files.free(&group)).min()
}

/// The process's groups and their ancestors, each with the names of its files.
fn groups(root: &Path, own: &str) -> impl Iterator<Item = (PathBuf, &'static Files)> {
    let groups = own.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = path.trim_start_matches('/');
        match controllers {
            "" => Some((root.to_owned(), path, &V2)),
            _ if controllers.split(',').any(|name| name == "memory") => {
                Some((root.join("memory"), path, &V1))
            }
            _ => None,
        }
    });
    groups.flat_map(|(root, path, files)| {
        // In a container the path may be the host's and not exist here; the container's own
        // group is then at the root.
        Path::new(path).ancestors().map(move |path| (root.join(path), files))
    })
}

/// File names of a cgroup version.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// Key in `memory.stat` of page cache that the kernel can drop.
    droppable: &'static str,
}

const V2: Files =
    Files { limit: "memory.max", used: "memory.current", droppable: "inactive_file " };
const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    droppable: "total_inactive_file ",
};

impl Files {
    fn limit(&self, group: &Path) -> Option<u64> {
        // "max" does not parse: no limit.
        fs::read_to_string(group.join(self.limit)).ok()?.trim().parse().ok()
    }

    fn free(&self, group: &Path) -> Option<u64> {
        let read = |name| fs::read_to_string(group.join(name)).ok();
        let limit = self.limit(group)?;
        let used: u64 = read(self.used)?.trim().parse().ok()?;
        let stat = read("memory.stat").unwrap_or_default();
        let droppable = stat
            .lines()
            .find_map(|line| line.strip_prefix(self.droppable)?.trim().parse().ok())
            .unwrap_or(0_u64);
        Some(limit.saturating_sub(used.saturating_sub(droppable)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn free_reads_the_groups_of_this_process() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!((free(root.path()), limit_at(root.path())), (None, None));
        write(
            root.path(),
            &[
                ("proc/self/cgroup", "0::/pod\n"),
                ("sys/fs/cgroup/pod/memory.max", "100\n"),
                ("sys/fs/cgroup/pod/memory.current", "90\n"),
            ],
        );
        assert_eq!((free(root.path()), limit_at(root.path())), (Some(10), Some(100)));
    }

    #[test]
    fn free_is_minimum_over_ancestors() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[
                ("pods/memory.max", "100\n"),
                ("pods/memory.current", "90\n"),
                ("pods/memory.stat", "anon 1\ninactive_file 30\n"),
                ("pods/one/memory.max", "max\n"),
                ("pods/one/memory.current", "5\n"),
            ],
        );
        assert_eq!(free_below(root.path(), "0::/pods/one\n"), Some(40));
        assert_eq!(free_below(root.path(), "0::/\n"), None);
    }

    #[test]
    fn free_falls_back_to_root_for_host_path() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[
                ("memory/memory.limit_in_bytes", "64\n"),
                ("memory/memory.usage_in_bytes", "60\n"),
                ("memory/memory.stat", "total_inactive_file 4\n"),
            ],
        );
        let own = "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n";
        assert_eq!(free_below(root.path(), own), Some(8));
    }

    #[test]
    fn other_controllers_are_ignored() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[("memory/memory.limit_in_bytes", "64\n"), ("memory/memory.usage_in_bytes", "60\n")],
        );
        assert_eq!(free_below(root.path(), "5:cpu,cpuacct:/\n"), None);
        assert_eq!(free_below(root.path(), "4:cpu,memory:/\n"), Some(4));
    }
}
