//! Jobs of launchers among the processes of the command. From when its processes start until the last of them has
//! ended, a job is an experiment of the run; if they start again, that is another one.
//!
//! Processes are looked for on a thread of its own, since reading their environment can block.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_process::{LaunchedProcess, Launcher, ProcessTable};

use super::WorkIntake;
use crate::pipeline::Pipeline;

/// How often processes are looked for: what happens is known as exactly as that.
const EVERY: Duration = Duration::from_secs(1);

/// How often they are looked for below all processes of the command in the beginning; later, every [`THOROUGH`]th time.
/// Otherwise only the launchers that were found are looked at.
const BEGINNING: u64 = 60;

/// See [`BEGINNING`].
const THOROUGH: u64 = 10;

/// Jobs of a run that are followed.
const MAX_JOBS: usize = 64;

/// Writers of experiments have numbers. Those of connections count from 0 upwards.
const FIRST_WRITER: u64 = u64::MAX;

/// Jobs of launchers among the processes of the command.
#[derive(Debug, Default)]
pub struct Attempts {
    /// `None` if nothing is looked for.
    found: Option<Receiver<Vec<LaunchedProcess>>>,
    jobs: Vec<Job>,
    /// The attribute that was added to the workload, as long as all jobs have one ID.
    identified: Option<&'static str>,
}

/// A job, with its newest attempt.
#[derive(Debug)]
struct Job {
    launcher: &'static Launcher,
    /// The process that starts those of the job: another one, with the same ID or none, runs another job.
    parent: u32,
    id: Option<String>,
    processes: BTreeSet<u32>,
    began: Timestamp,
    /// When the first of its processes had ended.
    failed: Option<Timestamp>,
    /// Whether one of them still runs.
    is_open: bool,
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

impl Attempts {
    /// Looks for processes of launchers below this one. `is_launched`: whether this is such a process itself, whose
    /// variables the command inherits: then there is nothing to find.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(is_launched: bool) -> io::Result<Self> {
        if is_launched {
            return Ok(Self::default());
        }
        let (sender, found) = sync_channel(1);
        thread::Builder::new().name("launchers".to_owned()).spawn(move || look(&sender))?;
        Ok(Self { found: Some(found), ..Self::default() })
    }

    /// Follows what was found since the last call. Experiments that the workload reports itself precede those of its
    /// launcher. Returns the restarts.
    pub fn step(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        work: &WorkIntake,
        now: Timestamp,
    ) -> Vec<Restart> {
        let newest = self.found.iter().flat_map(Receiver::try_iter).last();
        let Some(found) = newest else { return Vec::new() };
        for process in &found {
            let is_known = self.jobs.iter().any(|job| job.has(process));
            if !is_known && self.jobs.len() < MAX_JOBS {
                self.jobs.push(Job::of(process, now));
            }
        }
        self.identify(pipeline);
        let mut restarts = Vec::new();
        for (job, writer) in self.jobs.iter_mut().zip((0..=FIRST_WRITER).rev()) {
            let own = || found.iter().filter(|process| job.has(process));
            let processes = own().map(|process| process.pid).collect();
            let count = own().find_map(|process| process.launched.restarts);
            let change = job.follow(processes, now);
            if change.ends || work.has_experiments() {
                pipeline.end_experiment(writer, now);
            }
            if change.begins && !work.has_experiments() {
                let id = job.id.clone().unwrap_or_else(|| job.launcher.name.to_owned());
                pipeline.begin_experiment(writer, now, id, None);
                let mut tag = |key: &str, value: String| {
                    pipeline.tag_experiment(writer, key.to_owned(), value);
                };
                job.id.iter().for_each(|id| tag(job.launcher.attribute, id.clone()));
                let count = job.launcher.restarts.zip(count);
                count.into_iter().for_each(|((_, key), count)| tag(key, count.to_string()));
            }
            restarts.extend(change.restart.map(|ended| job.restart(ended, work, now)));
        }
        restarts
    }

    /// The workload has the ID of its job, if that is one.
    fn identify(&mut self, pipeline: &mut Pipeline<'_>) {
        let ids: BTreeSet<_> =
            self.jobs.iter().map(|job| (job.launcher.attribute, &job.id)).collect();
        match (ids.first(), ids.len(), self.identified) {
            (Some((attribute, Some(id))), 1, None) if pipeline.identify(attribute, id) => {
                self.identified = Some(attribute);
            }
            (_, 2.., Some(attribute)) => {
                pipeline.forget(attribute);
                self.identified = None;
            }
            _ => {}
        }
    }
}

/// What has happened to a job.
#[derive(Debug, Default, PartialEq, Eq)]
struct Change {
    ends: bool,
    begins: bool,
    /// The attempt that is replaced: when it began, and when the first of its processes had ended.
    restart: Option<(Timestamp, Timestamp)>,
}

impl Job {
    fn of(process: &LaunchedProcess, now: Timestamp) -> Self {
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

    fn has(&self, process: &LaunchedProcess) -> bool {
        let LaunchedProcess { parent, launched, .. } = process;
        self.parent == *parent && self.launcher == launched.launcher && self.id == launched.job
    }

    /// Follows the processes that run now. A launcher that counts restarts starts all processes at once, and again after
    /// all have ended. The count itself tells less: on other nodes than that of the failure it stays.
    fn follow(&mut self, running: BTreeSet<u32>, now: Timestamp) -> Change {
        let mut change = Change::default();
        let is_alive = !self.processes.is_disjoint(&running);
        let is_whole = self.processes.is_subset(&running);
        if self.is_open && self.launcher.restarts.is_some() {
            if !is_whole {
                self.failed.get_or_insert(now);
            } else if self.failed.is_none() {
                self.processes = running;
                return change;
            }
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

    fn restart(
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

/// Looks for processes until the run ends. Programs can have many threads, all of which are read to find a launcher.
fn look(found: &SyncSender<Vec<LaunchedProcess>>) {
    let table = ProcessTable::at(Path::new(ProcessTable::OWN));
    let mut launchers = BTreeSet::new();
    for round in 0_u64.. {
        let is_thorough = round < BEGINNING || round % THOROUGH == 0;
        let processes: Vec<_> = if is_thorough {
            table.launched_below(process::id())
        } else {
            launchers.iter().flat_map(|launcher| table.launched_by(*launcher)).collect()
        };
        launchers.extend(processes.iter().map(|process| process.parent).take(MAX_JOBS));
        if found.send(processes).is_err() {
            return;
        }
        thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_process::Launched;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_785_000_000_000 + seconds * 1_000).unwrap()
    }

    fn job(variables: &[(&str, &str)]) -> Job {
        let value = |name: &str| variables.iter().find(|(it, _)| *it == name);
        let launched = Launched::of(|name| value(name).map(|(_, value)| (*value).to_owned()));
        Job::of(&LaunchedProcess { pid: 1, parent: 9, launched: launched.unwrap() }, at(0))
    }

    /// What happens in each second in which these processes run.
    fn changes(job: &mut Job, running: &[&[u32]]) -> Vec<&'static str> {
        let mut seconds = 0..;
        let mut change = |running: &&[u32]| {
            let change = job.follow(running.iter().copied().collect(), at(seconds.next().unwrap()));
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
}
