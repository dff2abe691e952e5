//! Kinds of the work of GPUs: by the processes on them, else by the command.
//!
//! Command lines are matched and forgotten. They are read on a thread of their own, since that can block if a
//! process hangs in the driver.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use phasemeter_process::ProcessTable;
use phasemeter_rules::workload::{Workload, is_infrastructure, kind_of_process};

use crate::pipeline::Pipeline;

/// Maximum number of processes that wait to be looked up. Others are looked up when they are listed again.
const QUEUE: usize = 256;

/// Processes are listed every ten seconds, so that a GPU with one of them forgets in about a day.
const MAX_SIGHTINGS: u32 = 2 * 8_640;

/// Share of the sightings from which a kind is sure: 19 of 20. An assumption: a check of health may run for
/// a moment, and another job may not.
const SURE: (u32, u32) = (19, 20);

/// Kinds of work.
#[derive(Default)]
pub struct WorkKinds {
    command: Workload,
    /// `None` if process IDs of the driver are not those seen here.
    processes: Option<Processes>,
}

impl WorkKinds {
    /// Tells kinds apart by the arguments of the command, and by the processes in the `/proc` of the host: the
    /// given one, else that of this process.
    pub fn start(command: &[OsString], procfs: Option<&Path>) -> io::Result<Self> {
        let args: Vec<_> = command.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let own = || Some(ProcessTable::at(Path::new(ProcessTable::OWN)));
        let own = || own().filter(ProcessTable::is_of_host);
        let processes =
            procfs.map(ProcessTable::at).or_else(own).map(Processes::start).transpose()?;
        Ok(Self { command: kind_of_process([&args[..]]), processes })
    }

    /// Notes a process on a GPU.
    pub fn note(&self, gpu: usize, pid: u32) {
        self.processes.iter().for_each(|processes| processes.note(gpu, pid));
    }

    /// Sets the kinds of the first GPUs of a pipeline.
    pub fn set(&mut self, pipeline: &mut Pipeline<'_>, gpus: usize) {
        for gpu in 0..gpus {
            let kind = self.processes.as_mut().map(|processes| processes.kind(gpu));
            pipeline.set_processes(gpu, kind.unwrap_or_default().or(|| self.command));
        }
    }
}

/// Looks up processes.
struct Processes {
    requests: SyncSender<(usize, u32)>,
    found: Receiver<(usize, Workload)>,
    gpus: Vec<Sightings>,
}

impl Processes {
    /// Looks up processes in this table, whose IDs are those of the driver.
    fn start(table: ProcessTable) -> io::Result<Self> {
        let (requests, received) = sync_channel(QUEUE);
        let (sender, found) = channel();
        let look_up = move || look_up_all(&table, &received, &sender);
        thread::Builder::new().name("processes".to_owned()).spawn(look_up)?;
        Ok(Self { requests, found, gpus: Vec::new() })
    }

    fn note(&self, gpu: usize, pid: u32) {
        // It will be listed again.
        let _ = self.requests.try_send((gpu, pid));
    }

    /// The kind of the work of a GPU, by the processes that were looked up so far.
    fn kind(&mut self, gpu: usize) -> Workload {
        for (gpu, kind) in self.found.try_iter() {
            if self.gpus.len() <= gpu {
                self.gpus.resize_with(gpu + 1, Sightings::default);
            }
            self.gpus.iter_mut().skip(gpu).take(1).for_each(|gpu| gpu.count(kind));
        }
        self.gpus.get(gpu).map(Sightings::kind).unwrap_or_default()
    }
}

/// Looks up processes until the run ends.
fn look_up_all(
    table: &ProcessTable,
    requests: &Receiver<(usize, u32)>,
    found: &Sender<(usize, Workload)>,
) {
    for (gpu, pid) in requests {
        let lineage = table.lineage(pid);
        if lineage.first().is_none_or(|args| is_infrastructure(args)) {
            continue;
        }
        let kind = kind_of_process(lineage.iter().map(Vec::as_slice));
        if found.send((gpu, kind)).is_err() {
            return;
        }
    }
}

/// How often processes of each kind were seen on a GPU, the unknown kind included.
#[derive(Clone, Copy, Debug, Default)]
struct Sightings([u32; Workload::ALL.len()]);

impl Sightings {
    fn count(&mut self, kind: Workload) {
        if self.total() >= MAX_SIGHTINGS {
            self.0.iter_mut().for_each(|count| *count /= 2);
        }
        let of = Workload::ALL.into_iter().zip(&mut self.0).filter(|(of, _)| *of == kind);
        of.for_each(|(_, count)| *count += 1);
    }

    /// The kind of nearly all processes; unknown if they differ.
    fn kind(&self) -> Workload {
        let is_sure = |count: u32| count > 0 && count * SURE.1 >= self.total() * SURE.0;
        let mut kinds = Workload::ALL.into_iter().zip(self.0);
        kinds.find(|(_, count)| is_sure(*count)).map(|(kind, _)| kind).unwrap_or_default()
    }

    fn total(&self) -> u32 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::*;

    /// A server, a training of two ranks, and a program of no known kind.
    fn fixture() -> ProcessTable {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../process/tests/proc");
        ProcessTable::at(&root)
    }

    /// The kind once all that was noted was looked up.
    fn looked_up(kinds: &mut Processes, gpu: usize, sightings: u32) -> Workload {
        let began = Instant::now();
        loop {
            let kind = kinds.kind(gpu);
            if kinds.gpus.get(gpu).map_or(0, Sightings::total) >= sightings {
                return kind;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "not looked up");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn kind_is_that_of_nearly_all_processes() {
        let mut kinds = Processes::start(fixture()).unwrap();
        assert_eq!(kinds.kind(0), Workload::Unknown);
        (0..40).for_each(|_| kinds.note(1, 4_102));
        kinds.note(0, 5_001);
        // It has ended.
        kinds.note(0, 9_999);
        assert_eq!(looked_up(&mut kinds, 1, 40), Workload::Serving);
        assert_eq!(looked_up(&mut kinds, 0, 1), Workload::Training);
        kinds.note(1, 6_000);
        assert_eq!(looked_up(&mut kinds, 1, 41), Workload::Serving, "for a moment");
        (0..5).for_each(|_| kinds.note(1, 5_001));
        assert_eq!(looked_up(&mut kinds, 1, 46), Workload::Unknown, "of two kinds");
    }

    #[test]
    fn kind_follows_what_was_seen_last() {
        let mut sightings = Sightings::default();
        (0..MAX_SIGHTINGS).for_each(|_| sightings.count(Workload::Training));
        (0..MAX_SIGHTINGS * 3).for_each(|_| sightings.count(Workload::Serving));
        assert_eq!(sightings.kind(), Workload::Serving);
        assert!(sightings.total() <= MAX_SIGHTINGS);
    }

    #[test]
    fn more_processes_than_fit_are_left_for_the_next_list() {
        let kinds = Processes::start(ProcessTable::at(Path::new("/nowhere"))).unwrap();
        (0..10_000).for_each(|pid| kinds.note(0, pid));
    }
}
