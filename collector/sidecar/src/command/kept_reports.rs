//! The reports in the data directory: one per run, so that `bill` has it whatever ends the process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::delivery::DataDirectory;
use tracing::info;

use super::error::CommandError;
use super::files::{ReplacedFile, in_name};
use super::today;

/// The first report is written when the run is this old, the next ones each time its age has doubled.
const FIRST: Duration = Duration::from_secs(10);

/// The most time between two reports.
const LONGEST: Duration = Duration::from_secs(60);

/// Bytes of reports per second, on average, of runs that are older than that: 44 MB per day.
const BYTES_PER_SECOND: usize = 1 << 9;

/// Reports that are kept, and their bytes. Beyond either, the oldest are removed when a run begins.
const MAX_REPORTS: usize = 4_096;
const MAX_BYTES: u64 = 256 << 20;

/// What is in the names of the files of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    /// When it began.
    pub(super) began: Timestamp,
    /// The process in which it did.
    pub(super) process: u32,
}

impl Named {
    /// Those of a run that begins now.
    pub(super) fn now() -> Self {
        Self { began: today::now(), process: process::id() }
    }

    /// The name of its report. Each container may have a process 1, and those of a pod begin at once.
    fn file(self) -> String {
        let nanos = self.began.since(self.began.floor_second()).0;
        format!("{}-{nanos:09}-{}.json", in_name(self.began), self.process)
    }
}

/// How long after the last report the next one is due, of a run of this age whose last report had so many bytes.
pub(super) fn interval(age: Duration, bytes: usize) -> Duration {
    let by_bytes = u64::try_from(bytes / BYTES_PER_SECOND).unwrap_or(u64::MAX);
    if age < LONGEST { age.max(FIRST) } else { LONGEST.max(Duration::from_secs(by_bytes)) }
}

/// The report of a run. Makes space for it.
pub(super) fn begin(data: &DataDirectory, named: Named) -> Result<ReplacedFile, CommandError> {
    let directory = data.reports().map_err(CommandError::write(data.path()))?;
    match prune(&directory, MAX_REPORTS - 1, MAX_BYTES) {
        Ok(0) | Err(_) => {}
        Ok(removed) => info!("{}: {removed} old reports were removed", directory.display()),
    }
    ReplacedFile::unchecked(&directory.join(named.file()))
}

/// Removes the reports that were not written for longest, until so many are left at most. Returns their number.
fn prune(directory: &Path, reports: usize, bytes: u64) -> io::Result<usize> {
    let mut found: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let file = entry.metadata()?;
            found.push((file.modified()?, file.len(), path));
        }
    }
    // Newest first.
    found.sort_by(|one, other| other.cmp(one));
    let mut sum = 0;
    let is_kept = |(_, length, _): &&(SystemTime, u64, PathBuf)| {
        sum += length;
        sum <= bytes
    };
    let kept = found.iter().take(reports).take_while(is_kept).count();
    let old = found.split_off(kept);
    old.iter().try_for_each(|(_, _, path)| fs::remove_file(path))?;
    Ok(old.len())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn reports_are_written_often_at_first_and_large_ones_rarely() {
        let seconds = |age, bytes| interval(Duration::from_secs(age), bytes).as_secs();
        let small = [0, 10, 25, 60, 86_400].map(|age| seconds(age, 20_000));
        assert_eq!(small, [10, 10, 25, 60, 60]);
        assert_eq!(seconds(86_400, 51_200), 100);
        assert_eq!(seconds(86_400, 10 << 20), 20_480);
    }

    #[test]
    fn runs_of_one_second_have_reports_of_their_own() {
        let began = Timestamp::from_nanos(1_795_767_625_000_000_007).unwrap();
        assert_eq!(Named { began, process: 1 }.file(), "20261127T082025Z-000000007-1.json");
    }

    /// Guarantee: a report that is written again and again stays, however long ago its run began.
    #[test]
    fn oldest_reports_are_removed_by_number_and_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: u64, at: u64| {
            let file = File::create(dir.path().join(name)).unwrap();
            file.set_len(bytes).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(at)).unwrap();
        };
        let left = || {
            let entries = fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> =
                entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names.join(" ")
        };
        write("a.json", 10, 90);
        write("b.json", 20, 20);
        write("c.json", 30, 30);
        write("d.txt", 40, 1);
        assert_eq!(prune(dir.path(), 3, 60).unwrap(), 0);
        assert_eq!(prune(dir.path(), 2, 60).unwrap(), 1);
        assert_eq!(left(), "a.json c.json d.txt");
        assert_eq!(prune(dir.path(), 2, 39).unwrap(), 1);
        assert_eq!(left(), "a.json d.txt");
        assert!(prune(&dir.path().join("none"), 2, 39).is_err());
    }
}
