//! Processes, in a mounted `/proc`: their command lines, and which are in the pod of this process.
//!
//! Reads names and command lines, a bounded part of each, and control groups. Of an environment it returns one named
//! variable, or what launchers set, and keeps nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::launcher::Launched;

/// The first PID namespace of every Linux kernel (`PROC_PID_INIT_INO`).
const HOST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Maximum number of bytes of a file that are read: a command line, and `stat`.
const MAX_BYTES: u64 = 4_096;

/// Maximum number of processes of a lineage: a worker, its server, shells, and what started them.
const MAX_LINEAGE: usize = 8;

/// Maximum size of an environment. Larger ones are not read.
const MAX_ENVIRONMENT: u64 = 1 << 18;

/// Maximum number of processes that are looked at.
pub(crate) const MAX_PROCESSES: usize = 16_384;

/// A process. The kernel uses an ID again, so the start is part of what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId {
    /// Its ID.
    pub pid: u32,
    /// When it was started, in clock ticks since the machine was.
    pub started: u64,
}

/// Processes of a `/proc`.
#[derive(Clone, Debug)]
pub struct ProcessTable {
    root: PathBuf,
}

impl ProcessTable {
    /// The `/proc` of this process.
    pub const OWN: &str = "/proc";

    /// The processes of the `/proc` at this path.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Whether this process has the process IDs of the host, which drivers report. In a container it usually
    /// has not.
    #[must_use]
    pub fn is_of_host(&self) -> bool {
        let namespace = fs::read_link(self.root.join("self/ns/pid"));
        namespace.is_ok_and(|namespace| namespace.as_os_str() == HOST_PID_NAMESPACE)
    }

    /// The command lines of a process and of its ancestors, itself first; empty if it has ended or cannot
    /// be read. May block if a process hangs in the kernel.
    #[must_use]
    pub fn lineage(&self, pid: u32) -> Vec<Vec<String>> {
        let mut lineage = Vec::new();
        let mut next = Some(pid);
        while let Some(pid) = next.filter(|pid| *pid > 0 && lineage.len() < MAX_LINEAGE) {
            let Some(args) = self.command_line(pid) else { break };
            lineage.push(args);
            next = self.parent(pid);
        }
        lineage
    }

    /// The processes of other containers of the pod that this process is in, as far as they are visible: with a
    /// shared PID namespace. Control groups distinguish pods and containers.
    #[must_use]
    pub fn others_in_pod(&self) -> BTreeSet<u32> {
        let Some(own) = self.text("self/cgroup") else { return BTreeSet::new() };
        let processes = fs::read_dir(&self.root).into_iter().flatten().take(MAX_PROCESSES);
        let pid = |name: OsString| name.to_str()?.parse::<u32>().ok();
        let is_other = |pid: &u32| {
            let groups = self.text(&format!("{pid}/cgroup"));
            groups.is_some_and(|groups| is_beside(&own, &groups))
        };
        let pids = processes.filter_map(|entry| pid(entry.ok()?.file_name()));
        pids.filter(is_other).collect()
    }

    /// The value of a variable in the environment of a process; `None` if it has none, or the environment cannot be
    /// read. That needs the same user and group, or privileges. May block if a process hangs in the kernel.
    #[must_use]
    pub fn variable(&self, pid: u32, name: &str) -> Option<String> {
        value(&self.environment(pid)?, name)
    }

    /// What the environment of a process says about its launcher; `None` if it has none, or cannot be read, as
    /// [`Self::variable`].
    #[must_use]
    pub fn launched(&self, pid: u32) -> Option<Launched> {
        let environment = self.environment(pid)?;
        Launched::of(|name| value(&environment, name))
    }

    /// The children of a process, by all its threads.
    pub(crate) fn children(&self, pid: u32) -> Vec<u32> {
        let threads = fs::read_dir(self.root.join(format!("{pid}/task"))).into_iter().flatten();
        let children = |thread: fs::DirEntry| {
            let mut text = String::new();
            let file = File::open(thread.path().join("children")).ok()?;
            file.take(MAX_ENVIRONMENT).read_to_string(&mut text).ok()?;
            Some(text)
        };
        let texts = threads.take(MAX_PROCESSES).filter_map(|thread| children(thread.ok()?));
        let ids = |text: String| -> Vec<u32> {
            text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
        };
        texts.flat_map(ids).collect()
    }

    fn environment(&self, pid: u32) -> Option<Vec<u8>> {
        let environment = File::open(self.root.join(pid.to_string()).join("environ")).ok()?;
        let mut bytes = Vec::new();
        environment.take(MAX_ENVIRONMENT + 1).read_to_end(&mut bytes).ok()?;
        (u64::try_from(bytes.len()).ok()? <= MAX_ENVIRONMENT).then_some(bytes)
    }

    /// The directory that is the root of a process.
    #[must_use]
    pub fn root_of(&self, pid: u32) -> PathBuf {
        self.root.join(pid.to_string()).join("root")
    }

    fn text(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        File::open(self.root.join(path)).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// The command line; the name if there is none, as of a process that is ending.
    fn command_line(&self, pid: u32) -> Option<Vec<String>> {
        let bytes = self.read(pid, "cmdline")?;
        let text = String::from_utf8_lossy(&bytes);
        let args: Vec<_> = text.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
        if args.iter().any(|arg| !arg.is_empty()) {
            return Some(args);
        }
        let name = self.read(pid, "comm")?;
        Some(vec![String::from_utf8_lossy(&name).trim().to_owned()])
    }

    fn parent(&self, pid: u32) -> Option<u32> {
        self.stat(pid)?.get(1)?.parse().ok()
    }

    /// The process with this ID that runs now; `None` if there is none, or it has ended and only its parent has not
    /// noticed that yet.
    pub(crate) fn running(&self, pid: u32) -> Option<ProcessId> {
        let stat = self.stat(pid)?;
        let has_ended = matches!(stat.first()?.as_str(), "Z" | "X" | "x");
        let started = stat.get(19)?.parse().ok()?;
        (!has_ended).then_some(ProcessId { pid, started })
    }

    /// The fields of `stat` behind the name: state, parent, …, at 19 the start.
    fn stat(&self, pid: u32) -> Option<Vec<String>> {
        let stat = self.read(pid, "stat")?;
        let stat = String::from_utf8_lossy(&stat);
        // The name, in parentheses, can contain anything.
        let (_, fields) = stat.rsplit_once(')')?;
        Some(fields.split_whitespace().map(str::to_owned).collect())
    }

    fn read(&self, pid: u32, name: &str) -> Option<Vec<u8>> {
        let file = File::open(self.root.join(pid.to_string()).join(name)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// The value of a variable in an environment.
fn value(environment: &[u8], name: &str) -> Option<String> {
    let value = |entry: &[u8]| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    environment.split(|byte| *byte == 0).find_map(value)
}

/// Whether the process with the control groups `other` is in another container of the pod of that with `own`:
/// `…/podUID/CONTAINER`, or `/../CONTAINER` as seen from a container with a namespace of control groups.
fn is_beside(own: &str, other: &str) -> bool {
    let path = |line: &str| Some(line.splitn(3, ':').nth(2)?.trim_end_matches('/').to_owned());
    let hierarchy = |line: &str| line.split(':').take(2).map(str::to_owned).collect::<Vec<_>>();
    other.lines().any(|line| {
        let own = own.lines().find(|own| hierarchy(own) == hierarchy(line));
        let (Some(own), Some(other)) = (own.and_then(path), path(line)) else { return false };
        let Some((pod, _)) = own.rsplit_once('/') else {
            // The root of a namespace.
            return other.strip_prefix("/../").is_some_and(|other| !other.starts_with(".."));
        };
        let is_pod = pod.rsplit('/').next().is_some_and(|name| name.contains("pod"));
        let is_own =
            other.strip_prefix(&own).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'/', ..]));
        is_pod && !is_own && other.strip_prefix(pod).is_some_and(|rest| rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]

    use std::os::unix::fs::symlink;

    use super::*;

    /// A `/proc` as the kernel writes it, of a server that was started by a shell.
    fn fixture() -> ProcessTable {
        ProcessTable::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proc"))
    }

    fn lines(table: &ProcessTable, pid: u32) -> Vec<String> {
        table.lineage(pid).iter().map(|args| args.join(" ")).collect()
    }

    #[test]
    fn lineage_is_the_process_and_its_ancestors() {
        let table = fixture();
        let server = "/usr/bin/python3 /usr/local/bin/vllm serve m";
        assert_eq!(
            lines(&table, 4_102),
            ["VLLM::EngineCore", server, "bash -c exec vllm serve m", "(sd-pam)", "/sbin/init"]
        );
        assert!(lines(&table, 9_999).is_empty(), "it has ended");
        assert!(lines(&ProcessTable::at(Path::new("/nowhere")), 1).is_empty());
        assert!(lines(&table, 0).is_empty());
    }

    #[test]
    fn reads_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        for pid in 1..=20_u32 {
            let process = dir.path().join(pid.to_string());
            fs::create_dir(&process).unwrap();
            fs::write(process.join("cmdline"), "a\0".repeat(100_000)).unwrap();
            fs::write(process.join("stat"), format!("{pid} (a) S {} 1 1", pid + 1)).unwrap();
        }
        let lineage = ProcessTable::at(dir.path()).lineage(1);
        assert_eq!(lineage.len(), MAX_LINEAGE);
        assert_eq!(lineage[0].len(), 2_048);
        // A loop ends, too.
        fs::write(dir.path().join("1/stat"), "1 (a) S 1 1 1").unwrap();
        assert_eq!(ProcessTable::at(dir.path()).lineage(1).len(), MAX_LINEAGE);
    }

    #[test]
    fn namespace_of_the_host_is_recognized() {
        let dir = tempfile::tempdir().unwrap();
        let table = ProcessTable::at(dir.path());
        assert!(!table.is_of_host(), "no /proc");
        let namespace = dir.path().join("self/ns");
        fs::create_dir_all(&namespace).unwrap();
        symlink("pid:[4026532281]", namespace.join("pid")).unwrap();
        assert!(!table.is_of_host(), "of a container");
        fs::remove_file(namespace.join("pid")).unwrap();
        symlink(HOST_PID_NAMESPACE, namespace.join("pid")).unwrap();
        assert!(table.is_of_host());
    }

    /// Control groups of both versions, with and without a namespace of their own.
    #[test]
    fn containers_of_a_pod_are_told_apart_by_control_groups() {
        let v1 =
            |pod: &str, id: &str| format!("9:cpu:/kubepods/besteffort/pod{pod}/{id}\n8:pids:/\n");
        let own = v1("a1", "c1");
        assert!(is_beside(&own, &v1("a1", "c2")));
        assert!(!is_beside(&own, &own) && !is_beside(&own, &v1("b2", "c3")));
        assert!(!is_beside(&own, "9:cpu:/\n8:pids:/\n"));
        let v2 = |id: &str| {
            format!("0::/kubepods.slice/kubepods-poda1.slice/cri-containerd-{id}.scope\n")
        };
        assert!(is_beside(&v2("c1"), &v2("c10")) && !is_beside(&v2("c1"), &v2("c1")));
        assert!(!is_beside(&v2("c1"), &v2("c1").replace("scope", "scope/child")));
        // As seen from the root of a namespace.
        assert!(is_beside("0::/\n", "0::/../cri-containerd-c2.scope\n"));
        assert!(!is_beside("0::/\n", "0::/../../kubepods-podb2.slice/cri-containerd-c3.scope\n"));
        assert!(!is_beside("0::/\n", "0::/child\n") && !is_beside("0::/\n", "0::/\n"));
        // Not a pod.
        assert!(!is_beside("1:cpu:/docker/c1\n", "1:cpu:/docker/c2\n"));
        assert!(!is_beside("", "0::/a\n") && !is_beside("\n::", "\u{1}:"));
    }

    #[test]
    fn one_variable_of_an_environment_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let table = ProcessTable::at(dir.path());
        let process = |pid: &str, group: &str, environment: &str| {
            let process = dir.path().join(pid);
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("cgroup"), format!("0::/kubepods/pod1/{group}\n")).unwrap();
            fs::write(process.join("environ"), environment).unwrap();
        };
        assert!(table.others_in_pod().is_empty());
        process("self", "c1", "");
        process("7", "c1", "A=1\0");
        process("12", "c2", "AB=0\0A=1=2\0");
        process("13", "c2", &"A".repeat(1 << 19));
        assert_eq!(table.others_in_pod(), BTreeSet::from([12, 13]));
        assert_eq!(table.variable(12, "A").as_deref(), Some("1=2"));
        assert_eq!(
            [table.variable(12, "B"), table.variable(13, "A"), table.variable(14, "A")],
            [const { None }; 3]
        );
    }
}
