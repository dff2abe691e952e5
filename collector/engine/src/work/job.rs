//! A job of a launcher: when an attempt to run it begins, ends, and replaces another one.

use std::collections::BTreeSet;

use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_process::{LaunchedProcess, Launcher, ProcessId};

use super::WorkIntake;

/// A job, with its newest attempt.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) launcher: &'static Launcher,
    /// The process that starts those of the job: another one, with the same ID or none, runs another job.
    parent: ProcessId,
    pub(super) id: Option<String>,
    processes: BTreeSet<ProcessId>,
    began: Timestamp,
    /// When the first of its processes had ended.
    pub(super) failed: Option<Timestamp>,
    /// Whether one of them still runs.
    pub(super) is_open: bool,
}

/// The processes of a job that were started again after one of them had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The launcher, and the ID of the job if it has one.
    pub job: String,
    /// The time without all processes, to a second.
    pub without: Nanos,
    /// The time of work before that which may be repeated: since the last checkpoint, else the start.
    pub repeated: Nanos,
    /// Whether a checkpoint was reported.
    pub has_checkpoint: bool,
}

/// What has happened to a job.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) ends: bool,
    pub(super) begins: bool,
    /// The attempt that is replaced: when it began, and when the first of its processes had ended.
    pub(super) restart: Option<(Timestamp, Timestamp)>,
}

impl Job {
    pub(super) fn of(process: &LaunchedProcess, now: Timestamp) -> Self {
        Self {
            launcher: process.launched.launcher,
            parent: process.parent,
            id: process.launched.job.clone(),
            processes: BTreeSet::new(),
            began: now,
            failed: None,
            is_open: false,
        }
    }

    pub(super) fn has(&self, process: &LaunchedProcess) -> bool {
        let LaunchedProcess { parent, launched, .. } = process;
        self.parent == *parent && self.launcher == launched.launcher && self.id == launched.job
    }

    /// Follows the processes that run now. A launcher that counts restarts starts all processes at once, and again after
    /// all have ended. The count itself tells less: on other nodes than that of the failure it stays.
    pub(super) fn follow(&mut self, running: BTreeSet<ProcessId>, now: Timestamp) -> Change {
        let mut change = Change::default();
        let is_alive = !self.processes.is_disjoint(&running);
        let is_whole = self.processes.is_subset(&running);
        if self.is_open && self.launcher.restarts.is_some() {
            if is_whole {
                self.failed = None;
                self.processes = running;
                return change;
            }
            self.failed.get_or_insert(now);
            if is_alive {
                return change;
            }
            change.ends = true;
        } else {
            change.ends = self.is_open && running.is_empty();
        }
        if change.ends {
            self.is_open = false;
        }
        if !self.is_open && !running.is_empty() {
            change.begins = true;
            change.restart = self.failed.take().map(|failed| (self.began, failed));
            (self.began, self.is_open) = (now, true);
        }
        self.processes = running;
        change
    }

    pub(super) fn restart(
        &self,
        (began, failed): (Timestamp, Timestamp),
        work: &WorkIntake,
        now: Timestamp,
    ) -> Restart {
        let checkpoint = work.last_checkpoint();
        let name = self.launcher.name;
        Restart {
            job: self.id.as_ref().map_or_else(|| name.to_owned(), |id| format!("{name} job {id}")),
            without: now.since(failed),
            repeated: failed.since(checkpoint.unwrap_or(began).max(began)),
            has_checkpoint: checkpoint.is_some(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use phasemeter_process::Launched;

    use super::*;

    pub(in super::super) fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_785_000_000_000 + seconds * 1_000).unwrap()
    }

    fn id(pid: u32) -> ProcessId {
        ProcessId { pid, started: 1 }
    }

    /// A process that the launcher `parent` has started with these variables.
    pub(in super::super) fn launched(
        pid: u32,
        parent: u32,
        variables: &[(&str, &str)],
    ) -> LaunchedProcess {
        let value = |name: &str| variables.iter().find(|(it, _)| *it == name);
        let launched = Launched::of(|name| value(name).map(|(_, value)| (*value).to_owned()));
        LaunchedProcess { process: id(pid), parent: id(parent), launched: launched.unwrap() }
    }

    fn job(variables: &[(&str, &str)]) -> Job {
        Job::of(&launched(1, 9, variables), at(0))
    }

    /// What happens in each second in which these processes run.
    fn changes(job: &mut Job, running: &[&[u32]]) -> Vec<&'static str> {
        let mut seconds = 0..;
        let mut change = |running: &&[u32]| {
            let processes = running.iter().map(|pid| id(*pid)).collect();
            let change = job.follow(processes, at(seconds.next().unwrap()));
            match (change.ends, change.begins, change.restart) {
                (false, false, None) => "",
                (false, true, None) => "begins",
                (true, false, None) => "ends",
                (true, true, None) => "begins again",
                (_, true, Some(_)) => "restarts",
                _ => "invalid",
            }
        };
        running.iter().map(&mut change).collect()
    }

    #[test]
    fn attempts_of_torchrun_follow_its_processes() {
        let variables = [("TORCHELASTIC_RUN_ID", "j"), ("TORCHELASTIC_RESTART_COUNT", "0")];
        let follow = |running: &[&[u32]]| changes(&mut job(&variables), running);
        // Workers that start late are of the same attempt.
        assert_eq!(follow(&[&[], &[1], &[1, 2], &[1, 2], &[]]), ["", "begins", "", "", "ends"]);
        // One ends first; others are ended; then all start again.
        assert_eq!(
            follow(&[&[1, 2], &[2], &[], &[], &[3, 4], &[]]),
            ["begins", "", "ends", "", "restarts", "ends"]
        );
        // Between two looks.
        assert_eq!(follow(&[&[1, 2], &[3, 4]]), ["begins", "restarts"]);
        // New ones beside an old one that has not ended yet.
        assert_eq!(follow(&[&[1, 2], &[2, 3], &[3, 4], &[3, 4]]), ["begins", "", "restarts", ""]);
        // One could not be read for a second: it has not failed.
        let mut job = job(&variables);
        changes(&mut job, &[&[1, 2], &[2], &[1, 2]]);
        assert_eq!(job.failed, None);
        assert_eq!(changes(&mut job, &[&[1, 2, 3], &[3], &[]]), ["", "", "ends"]);
    }

    #[test]
    fn workers_of_ray_come_and_go() {
        let follow = |running: &[&[u32]]| changes(&mut job(&[("RAY_JOB_ID", "01000000")]), running);
        assert_eq!(follow(&[&[1], &[2, 3], &[3], &[], &[4]]), ["begins", "", "", "ends", "begins"]);
    }

    #[test]
    fn work_since_checkpoint_or_start_may_be_repeated() {
        let torchrun = job(&[("TORCHELASTIC_RUN_ID", "none"), ("TORCHELASTIC_RESTART_COUNT", "0")]);
        let restart = torchrun.restart((at(10), at(40)), &WorkIntake::default(), at(43));
        let expected = Restart {
            job: "torchrun".to_owned(),
            without: Nanos::from_secs(3),
            repeated: Nanos::from_secs(30),
            has_checkpoint: false,
        };
        assert_eq!(restart, expected);
    }

    /// A process ID that is used again names neither the worker nor the launcher from before.
    #[test]
    fn start_of_a_process_tells_whose_its_id_is() {
        let variables = [("TORCHELASTIC_RUN_ID", "j"), ("TORCHELASTIC_RESTART_COUNT", "0")];
        let mut job = job(&variables);
        job.follow(BTreeSet::from([id(1)]), at(0));
        let later = ProcessId { pid: 1, started: 2 };
        assert!(job.follow(BTreeSet::from([later]), at(1)).restart.is_some());
        let process = launched(1, 9, &variables);
        assert!(job.has(&process));
        assert!(!job.has(&LaunchedProcess { parent: ProcessId { pid: 9, started: 2 }, ..process }));
    }
}
