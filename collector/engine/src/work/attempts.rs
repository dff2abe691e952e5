//! Jobs of launchers among the processes of the command. From when its processes start until the last of them has
//! ended, a job is an experiment of the run; if they start again, that is another one.
//!
//! Processes are looked for on a thread of its own, since reading their environment can block.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use phasemeter_meter::units::Timestamp;
use phasemeter_process::{LaunchedProcess, LauncherSearch, ProcessTable};

use super::WorkIntake;
use super::job::{Job, Restart};
use crate::pipeline::Pipeline;

/// How often processes are looked for: what happens is known as exactly as that.
const EVERY: Duration = Duration::from_secs(1);

/// How often they are looked for below all processes of the command in the beginning; later, every [`THOROUGH`]th time.
/// Otherwise only the launchers that were found are looked at.
const BEGINNING: u64 = 60;

/// See [`BEGINNING`].
const THOROUGH: u64 = 10;

/// Jobs that are followed at the same time. One that has ended can be replaced.
const MAX_JOBS: usize = 64;

/// Writers of experiments have numbers. Those of connections count from 0 upwards.
const FIRST_WRITER: u64 = u64::MAX;

/// Jobs of launchers among the processes of the command.
#[derive(Debug, Default)]
pub struct Attempts {
    /// `None` if nothing is looked for.
    found: Option<Receiver<Vec<LaunchedProcess>>>,
    jobs: Vec<Job>,
    /// How many more there were at once at most.
    unfollowed: usize,
    /// Attributes and IDs of all jobs so far; two of them if there are more.
    ids: BTreeSet<(&'static str, Option<String>)>,
    /// The attribute that was added to the workload, as long as all jobs have one ID.
    identified: Option<&'static str>,
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
        self.admit(&found, now);
        self.identify(&found, pipeline);
        let mut restarts = Vec::new();
        for (job, writer) in self.jobs.iter_mut().zip((0..=FIRST_WRITER).rev()) {
            let own = || found.iter().filter(|process| job.has(process));
            let processes = own().map(|found| found.process).collect();
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

    /// What has not been followed, as a sentence without its full stop.
    #[must_use]
    pub fn unfollowed(&self) -> Option<String> {
        let more = self.unfollowed;
        let sentence = || format!("up to {more} jobs at once were not followed: {MAX_JOBS} are");
        (more > 0).then(sentence)
    }

    /// Adds jobs that are new, in place of ended ones if there are many: first of those that will not restart, then of those
    /// that have not for the longest time.
    fn admit(&mut self, found: &[LaunchedProcess], now: Timestamp) {
        let has_ended = |job: &Job| !job.is_open && !found.iter().any(|it| job.has(it));
        let mut replaceable: Vec<_> =
            (0..self.jobs.len()).filter(|it| has_ended(&self.jobs[*it])).collect();
        replaceable.sort_by_key(|it| Reverse(self.jobs[*it].failed));
        let mut unfollowed = BTreeSet::new();
        for process in found {
            if self.jobs.iter().any(|job| job.has(process)) {
                continue;
            }
            if self.jobs.len() < MAX_JOBS {
                self.jobs.push(Job::of(process, now));
            } else if let Some(ended) = replaceable.pop() {
                self.jobs[ended] = Job::of(process, now);
            } else {
                let LaunchedProcess { parent, launched, .. } = process;
                unfollowed.insert((parent, launched.launcher.name, &launched.job));
            }
        }
        self.unfollowed = self.unfollowed.max(unfollowed.len());
    }

    /// The workload has the ID of its job, if that is one.
    fn identify(&mut self, found: &[LaunchedProcess], pipeline: &mut Pipeline<'_>) {
        for LaunchedProcess { launched, .. } in found {
            if self.ids.len() < 2 {
                self.ids.insert((launched.launcher.attribute, launched.job.clone()));
            }
        }
        match (self.ids.first(), self.ids.len(), self.identified) {
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

/// Looks for processes until the run ends. Programs can have many threads, all of which are read to find a launcher.
fn look(found: &SyncSender<Vec<LaunchedProcess>>) {
    let table = ProcessTable::at(Path::new(ProcessTable::OWN));
    let mut search = LauncherSearch::below(table, process::id());
    for round in 0_u64.. {
        let is_thorough = round < BEGINNING || round % THOROUGH == 0;
        if found.send(search.step(is_thorough)).is_err() {
            return;
        }
        thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::{at, launched};
    use super::*;

    /// Follows what runs in a second; returns which jobs are followed, by their number.
    fn follow(attempts: &mut Attempts, seconds: u64, running: &[LaunchedProcess]) -> Vec<u32> {
        attempts.admit(running, at(seconds));
        for job in &mut attempts.jobs {
            let own = running.iter().filter(|process| job.has(process));
            job.follow(own.map(|found| found.process).collect(), at(seconds));
        }
        let ids = attempts.jobs.iter().filter(|job| job.is_open).filter_map(|job| job.id.as_ref());
        let mut ids: Vec<_> = ids.map(|id| id.parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    }

    /// Two processes of each of these jobs of Ray.
    fn ray(jobs: impl Iterator<Item = u32>) -> Vec<LaunchedProcess> {
        let processes = jobs.flat_map(|job| {
            let id = job.to_string();
            [2, 3].map(|pid| launched(job * 2 + pid, 1, &[("RAY_JOB_ID", id.as_str())]))
        });
        processes.collect()
    }

    #[test]
    fn ended_jobs_make_room_and_others_are_counted() {
        let mut attempts = Attempts::default();
        for job in 0..200 {
            assert_eq!(follow(&mut attempts, u64::from(job), &ray(job..=job)), [job]);
        }
        assert_eq!((attempts.jobs.len(), attempts.unfollowed()), (MAX_JOBS, None));
        // 67 at once: none is replaced while it runs.
        for seconds in 200..203 {
            let expected: Vec<u32> = (199..199 + 64).collect();
            assert_eq!(follow(&mut attempts, seconds, &ray(199..266)), expected);
        }
        let sentence = "up to 3 jobs at once were not followed: 64 are";
        assert_eq!(attempts.unfollowed().as_deref(), Some(sentence));
        // The others are followed in place of jobs that have ended.
        follow(&mut attempts, 203, &ray(265..266));
        assert_eq!(follow(&mut attempts, 204, &ray(265..266)), [265]);
        assert_eq!(attempts.unfollowed().as_deref(), Some(sentence));
    }

    #[test]
    fn job_that_may_restart_makes_room_last() {
        let mut attempts = Attempts::default();
        let torchrun = |pid| {
            let variables = [("TORCHELASTIC_RUN_ID", "7000"), ("TORCHELASTIC_RESTART_COUNT", "0")];
            launched(pid, 5, &variables)
        };
        let with = |jobs, pid| [ray(jobs), vec![torchrun(pid)]].concat();
        follow(&mut attempts, 0, &with(0..63, 900));
        follow(&mut attempts, 1, &[]);
        assert_eq!(follow(&mut attempts, 2, &ray(100..163)), (100..163).collect::<Vec<_>>());
        // It starts again in the same second in which there is one job too many.
        let running = with(100..164, 901);
        assert_eq!(follow(&mut attempts, 3, &running).last(), Some(&7_000));
        assert_eq!((attempts.jobs.len(), attempts.unfollowed), (MAX_JOBS, 1));
    }
}
