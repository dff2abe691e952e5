//! Command lines of processes, in a mounted `/proc`.
//!
//! Reads names and command lines only, a bounded part of each, never an environment.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The first PID namespace of every Linux kernel (`PROC_PID_INIT_INO`).
const HOST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Maximum number of bytes of a file that are read: a command line, and fields of `stat` up to the parent.
const MAX_BYTES: u64 = 4_096;

/// Maximum number of processes of a lineage: a worker, its server, shells, and what started them.
const MAX_LINEAGE: usize = 8;

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
        let stat = self.read(pid, "stat")?;
        let stat = String::from_utf8_lossy(&stat);
        // The name, in parentheses, can contain anything.
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(1)?.parse().ok()
    }

    fn read(&self, pid: u32, name: &str) -> Option<Vec<u8>> {
        let file = File::open(self.root.join(pid.to_string()).join(name)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
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
}
