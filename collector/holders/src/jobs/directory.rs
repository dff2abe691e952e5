//! Reads the directories of job files: of Slurm's prolog, and of job mappings as for dcgm-exporter.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use phasemeter_files::{read_file, read_text};

use super::prolog::{self, Job, SlurmGpu};
use crate::device_id::number;

/// Files of a directory that are read.
const MAX_FILES: usize = 4_096;

/// The largest file that is read.
const MAX_FILE: u64 = 64 << 10;

/// The longest ID of a job that is kept, in bytes.
const MAX_ID: usize = 128;

/// Jobs per GPU that are kept.
const MAX_JOBS: usize = 64;

/// The files of a directory of Slurm's prolog.
#[derive(Debug, Default)]
pub(crate) struct PrologFiles {
    /// Jobs and their GPUs on this node.
    pub(crate) jobs: Vec<(Job, Vec<SlurmGpu>)>,
    /// Names of files that are not in the format.
    pub(crate) malformed: Vec<String>,
}

/// Reads the files in a directory of Slurm's prolog.
///
/// # Errors
/// Returns an error if the directory cannot be read. One that does not exist is empty: no job has run yet.
pub(crate) fn prolog_files(dir: &Path) -> io::Result<PrologFiles> {
    let mut files = PrologFiles::default();
    for name in names(dir)? {
        // An epilog may remove it meanwhile.
        let Ok(text) = read_text(&dir.join(&name), MAX_FILE) else { continue };
        match prolog::parse(&text) {
            Some(job) => files.jobs.push(job),
            // Being written.
            None if text.is_empty() => {}
            None => files.malformed.push(name),
        }
    }
    Ok(files)
}

/// The IDs of jobs by index of their GPU: one file per GPU, named by its index, with a job per line.
///
/// # Errors
/// Returns an error if the directory cannot be read. One that does not exist is empty.
pub(crate) fn job_mapping(dir: &Path) -> io::Result<BTreeMap<u32, Vec<String>>> {
    let mut mapping = BTreeMap::new();
    for name in names(dir)? {
        let Some(index) = number(&name) else { continue };
        let Ok(bytes) = read_file(&dir.join(&name), MAX_FILE) else { continue };
        let jobs = jobs_of(&bytes);
        if !jobs.is_empty() {
            mapping.insert(index, jobs);
        }
    }
    Ok(mapping)
}

/// The jobs in a job-mapping file, in order, each once.
pub(crate) fn jobs_of(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::trim);
    let is_id =
        |line: &&str| (1..=MAX_ID).contains(&line.len()) && !line.contains(char::is_control);
    let mut jobs: Vec<String> = lines.filter(is_id).map(ToOwned::to_owned).collect();
    jobs.sort();
    jobs.dedup();
    jobs.truncate(MAX_JOBS);
    jobs
}

/// The names of the files in a directory, in order.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let named = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    // Files that are being written begin with a dot.
    let is_complete = |name: &String| !name.starts_with('.');
    let mut names: Vec<_> = entries.filter_map(named).filter(is_complete).take(MAX_FILES).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs a script of `otel-config/slurm` as Slurm does, with nothing but these variables.
    fn run(script: &str, dir: &Path, variables: &[(&str, &str)]) -> String {
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../otel-config/slurm");
        let mut command = Command::new(format!("{scripts}/{script}"));
        command.env_clear().env("PHASEMETER_JOBS", dir).envs(variables.iter().copied());
        let output = command.output().unwrap();
        // A node whose prolog fails gets no more jobs.
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn scripts_of_slurm_write_what_is_read_and_remove_it() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = dir.path().join("jobs");
        let variables = [
            ("SLURM_JOB_ID", "4711"),
            ("SLURM_JOB_GPUS", "0,2-3"),
            ("SLURM_JOB_USER", "ada"),
            // Chosen by the user: no other variable.
            ("SLURM_JOB_COMMENT", "a\nSLURM_JOB_USER=eve\nSLURM_JOB_GPUS=7"),
            ("OTHER", "b"),
        ];
        assert_eq!(run("prolog", &jobs, &variables), "");
        let files = prolog_files(&jobs).unwrap();
        let (job, gpus) = &files.jobs[0];
        assert_eq!((job.id.as_str(), job.user.as_deref()), ("4711", Some("ada")));
        assert_eq!(gpus, &[0, 2, 3].map(SlurmGpu::Minor));
        assert_eq!((files.jobs.len(), files.malformed.len()), (1, 0));
        // Of the whole node.
        run("prolog", &jobs, &[("SLURM_JOB_ID", "4712")]);
        assert_eq!(prolog_files(&jobs).unwrap().jobs.len(), 2);
        run("epilog", &jobs, &variables[..1]);
        let left = prolog_files(&jobs).unwrap();
        assert_eq!(left.jobs.iter().map(|(job, _)| job.id.as_str()).collect::<Vec<_>>(), ["4712"]);
        assert_eq!(fs::read_dir(&jobs).unwrap().count(), 1);
        // Without a job, or a directory that can be written, nothing happens, and nothing fails.
        for script in ["prolog", "epilog"] {
            run(script, &jobs, &[]);
            run(script, Path::new("/dev/null/jobs"), &variables);
        }
        assert_eq!(fs::read_dir(&jobs).unwrap().count(), 1);
    }

    #[test]
    fn task_prolog_adds_the_job_to_the_resource() {
        let export = |variables: &[(&str, &str)]| run("task-prolog", Path::new("/"), variables);
        let of = |attributes: &str| format!("export OTEL_RESOURCE_ATTRIBUTES={attributes}\n");
        let job = ("SLURM_JOB_ID", "4711");
        fn given(attributes: &str) -> (&str, &str) {
            ("OTEL_RESOURCE_ATTRIBUTES", attributes)
        }
        assert_eq!(export(&[job]), of("slurm.job.id=4711"));
        assert_eq!(export(&[job, given("team=nlp")]), of("team=nlp,slurm.job.id=4711"));
        assert_eq!(export(&[given("team=nlp")]), "");
        let whole = [job, ("SLURM_JOB_USER", "ada"), ("SLURM_JOB_ACCOUNT", "a,b=c")];
        assert_eq!(export(&whole), of("slurm.job.id=4711,slurm.job.user=ada"));
        // A step of a batch script, and a job that a job submitted.
        for other in ["4711", "12"] {
            let other = format!("slurm.job.id={other},slurm.job.user=eve,team=nlp,slurm.job.id=12");
            assert_eq!(export(&[job, given(&other)]), of("team=nlp,slurm.job.id=4711"));
        }
        // A line of output is a variable.
        let lines = "a=b\nexport PATH=/tmp";
        assert_eq!(export(&[job, given(lines)]), of("a=bexport PATH=/tmp,slurm.job.id=4711"));
    }
}
