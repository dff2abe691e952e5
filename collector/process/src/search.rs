//! The search for processes that launchers have started, which remembers what it has found: a process can overwrite its
//! variables, as programs that set their title do.

use std::collections::{BTreeMap, BTreeSet};

use crate::launcher::Launched;
use crate::table::{MAX_PROCESSES, ProcessId, ProcessTable};

/// A process that a launcher has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchedProcess {
    /// The process.
    pub process: ProcessId,
    /// Its parent when it was found: the launcher.
    pub parent: ProcessId,
    /// What its variables were then.
    pub launched: Launched,
}

/// The search below one process.
#[derive(Debug)]
pub struct LauncherSearch {
    table: ProcessTable,
    root: u32,
    /// What was found and still runs, with the parent. It is neither read again, nor searched below: its own children
    /// inherit its variables.
    known: BTreeMap<ProcessId, (ProcessId, Launched)>,
    /// Parents of what was found, which still run.
    launchers: BTreeSet<ProcessId>,
}

impl LauncherSearch {
    /// A search below the process with the ID `root`.
    #[must_use]
    pub fn below(table: ProcessTable, root: u32) -> Self {
        Self { table, root, known: BTreeMap::new(), launchers: BTreeSet::new() }
    }

    /// The processes of launchers that run now, of each branch the first one. `is_thorough`: whether launchers are looked
    /// for, too. May block if a process hangs in the kernel.
    pub fn step(&mut self, is_thorough: bool) -> Vec<LaunchedProcess> {
        let Self { table, root, known, launchers } = self;
        let runs = |process: &ProcessId| table.running(process.pid) == Some(*process);
        known.retain(|process, _| runs(process));
        launchers.retain(|launcher| runs(launcher));
        let root = is_thorough.then(|| table.running(*root)).flatten();
        // A launcher that has become a daemon is below nothing.
        let mut parents: Vec<_> = launchers.iter().copied().chain(root).collect();
        let (mut searched, mut seen) = (BTreeSet::new(), 0);
        while let Some(parent) = parents.pop() {
            if !searched.insert(parent) {
                continue;
            }
            for pid in table.children(parent.pid) {
                seen += 1;
                if seen > MAX_PROCESSES || known.len() >= MAX_PROCESSES {
                    parents.clear();
                    break;
                }
                let Some(child) = table.running(pid).filter(|child| !known.contains_key(child))
                else {
                    continue;
                };
                if let Some(launched) = table.launched(pid) {
                    known.insert(child, (parent, launched));
                    launchers.insert(parent);
                } else if is_thorough {
                    parents.push(child);
                }
            }
        }
        let found = known.iter().map(|(process, (parent, launched))| LaunchedProcess {
            process: *process,
            parent: *parent,
            launched: launched.clone(),
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]

    use std::fs;
    use std::path::Path;

    use super::*;

    const WORKER: &str = "A=1\0TORCHELASTIC_RUN_ID=j\0TORCHELASTIC_RESTART_COUNT=1\0";

    /// A `/proc` that changes.
    struct Proc(tempfile::TempDir);

    impl Proc {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        /// A process with this start and these children of its threads.
        fn set(&self, pid: u32, started: u64, threads: &[(u32, &str)], environment: &[u8]) {
            self.end(pid);
            let process = self.0.path().join(pid.to_string());
            for (thread, children) in threads {
                let thread = process.join(format!("task/{thread}"));
                fs::create_dir_all(&thread).unwrap();
                fs::write(thread.join("children"), children).unwrap();
            }
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("environ"), environment).unwrap();
            self.state(pid, 'S', started);
        }

        fn state(&self, pid: u32, state: char, started: u64) {
            let unused = "0 ".repeat(17);
            let stat = format!("{pid} (a) Z 1) {state} 1 {unused}{started} 0 0");
            fs::write(self.0.path().join(format!("{pid}/stat")), stat).unwrap();
        }

        fn end(&self, pid: u32) {
            let _ = fs::remove_dir_all(self.0.path().join(pid.to_string()));
        }

        fn search(&self) -> LauncherSearch {
            LauncherSearch::below(ProcessTable::at(self.0.path()), 1)
        }
    }

    /// The processes and launchers that a step finds.
    fn step(search: &mut LauncherSearch, is_thorough: bool) -> Vec<(u32, u32)> {
        let found = search.step(is_thorough);
        found.iter().map(|found| (found.process.pid, found.parent.pid)).collect()
    }

    /// Below a shell, torchrun with two workers, one of them with a child, and another program.
    fn training() -> Proc {
        let proc = Proc::new();
        proc.set(1, 1, &[(1, "2 7 ")], b"");
        proc.set(2, 20, &[(2, ""), (3, "4 "), (5, "6 ")], b"A=1\0");
        proc.set(4, 40, &[(4, "8 ")], WORKER.as_bytes());
        proc.set(6, 60, &[(6, "")], WORKER.as_bytes());
        proc.set(7, 70, &[(7, "99 ")], b"RAY_JOB_ID=ffffffff\0");
        proc.set(8, 80, &[(8, "")], WORKER.as_bytes());
        proc
    }

    #[test]
    fn first_processes_of_branches_are_found_by_their_variables() {
        let proc = training();
        let mut search = proc.search();
        assert!(step(&mut search, false).is_empty(), "no launcher is known");
        let found = search.step(true);
        assert_eq!(found.iter().map(|it| it.launched.restarts).collect::<Vec<_>>(), [Some(1); 2]);
        for is_thorough in [true, false] {
            assert_eq!(step(&mut search, is_thorough), [(4, 2), (6, 2)]);
        }
        let nowhere = ProcessTable::at(Path::new("/nowhere"));
        assert!(LauncherSearch::below(nowhere, 1).step(true).is_empty());
    }

    #[test]
    fn process_that_overwrites_its_variables_stays_what_it_was() {
        let proc = training();
        let mut search = proc.search();
        search.step(true);
        // A title in place of the variables; a compiler inherits them; torchrun becomes an orphan.
        proc.set(4, 40, &[(4, "8 9 ")], &[0; 64]);
        proc.set(9, 90, &[(9, "")], WORKER.as_bytes());
        for is_thorough in [true, false, true] {
            assert_eq!(step(&mut search, is_thorough), [(4, 2), (6, 2)]);
        }
        // Its launcher is killed: it works on. Without the root, there is no search, but nothing is forgotten.
        proc.end(2);
        proc.end(1);
        assert_eq!(step(&mut search, true), [(4, 2), (6, 2)]);
        proc.end(4);
        assert_eq!(step(&mut search, false), [(6, 2)]);
    }

    #[test]
    fn process_has_ended_before_its_parent_notices_it() {
        let proc = training();
        let mut search = proc.search();
        search.step(true);
        proc.state(4, 'Z', 40);
        assert_eq!(step(&mut search, false), [(6, 2)]);
        proc.state(6, 'X', 60);
        assert!(step(&mut search, true).is_empty());
    }

    #[test]
    fn id_of_a_process_that_has_ended_can_be_anyones() {
        let proc = training();
        let mut search = proc.search();
        search.step(true);
        // A worker's by another worker, one's by a program without variables.
        proc.set(4, 400, &[(4, "")], WORKER.as_bytes());
        proc.set(6, 600, &[(6, "")], b"A=1\0");
        let found = search.step(false);
        assert_eq!(found.iter().map(|it| it.process.started).collect::<Vec<_>>(), [400]);
        // The launcher's by a worker, whose child inherits its variables; without workers it stays a launcher.
        proc.end(4);
        assert!(step(&mut search, false).is_empty());
        proc.set(4, 401, &[(4, "")], WORKER.as_bytes());
        assert_eq!(step(&mut search, false), [(4, 2)]);
        proc.end(4);
        proc.set(2, 200, &[(2, "8 ")], WORKER.as_bytes());
        assert!(step(&mut search, false).is_empty());
        assert_eq!(step(&mut search, true), [(2, 1)]);
    }

    #[test]
    fn daemon_stays_a_launcher() {
        let proc = training();
        let mut search = proc.search();
        search.step(true);
        proc.set(1, 1, &[(1, "7 ")], b"");
        proc.set(2, 20, &[(2, "4 6 10 ")], b"");
        proc.set(10, 100, &[(10, "")], WORKER.as_bytes());
        assert_eq!(step(&mut search, true), [(4, 2), (6, 2), (10, 2)]);
    }
}
