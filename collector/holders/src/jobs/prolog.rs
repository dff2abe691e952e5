//! Files that Slurm's prolog writes: one per job, with the variables of the prolog as it got them, one per line. The
//! scripts are in `otel-config/slurm`.

use std::fmt;

use phasemeter_meter::holder_details::HolderDetails;

use crate::cgroup::is_job_id;
use crate::device_id::{is_uuid, number};

/// GPUs of one job on a node that are read.
pub(crate) const MAX_GPUS: usize = 64;

/// The longest value that is kept, in bytes.
const MAX_VALUE: usize = 256;

/// What a scheduler says about a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    /// Its ID.
    pub id: String,
    /// Who submitted it: `SLURM_JOB_USER`.
    pub user: Option<String>,
    /// The account that it is charged to: `SLURM_JOB_ACCOUNT`.
    pub account: Option<String>,
    /// Its queue: `SLURM_JOB_PARTITION`.
    pub partition: Option<String>,
}

impl From<Job> for HolderDetails {
    fn from(Job { user, account, partition, .. }: Job) -> Self {
        Self { user, project: account, queue: partition, ..Self::default() }
    }
}

/// A GPU as Slurm names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SlurmGpu {
    /// The number of its device file.
    Minor(u32),
    /// A UUID, if the prolog writes one.
    Uuid(String),
}

impl fmt::Display for SlurmGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "nvidia{minor}"),
            Self::Uuid(uuid) => f.write_str(uuid),
        }
    }
}

/// A job and its GPUs on this node, in the text of its file; `None` if it names no job. Lines of other variables are
/// ignored.
pub(crate) fn parse(text: &str) -> Option<(Job, Vec<SlurmGpu>)> {
    let mut job = Job::default();
    let mut gpus = Vec::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let value = value.trim().trim_matches('"');
        let text = || {
            let is_text = (1..=MAX_VALUE).contains(&value.len());
            (is_text && !value.contains(char::is_control)).then(|| value.to_owned())
        };
        match key.trim() {
            "SLURM_JOB_ID" if is_job_id(value) => job.id = value.to_owned(),
            "SLURM_JOB_USER" => job.user = text(),
            "SLURM_JOB_ACCOUNT" => job.account = text(),
            "SLURM_JOB_PARTITION" => job.partition = text(),
            "SLURM_JOB_GPUS" => gpus = list(value)?,
            _ => {}
        }
    }
    (!job.id.is_empty()).then_some((job, gpus))
}

/// Reads `0,2`, `0-3` and UUIDs; `None` if an entry is something else.
fn list(value: &str) -> Option<Vec<SlurmGpu>> {
    let mut gpus = Vec::new();
    for entry in value.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        if is_uuid(entry) {
            gpus.push(SlurmGpu::Uuid(entry.to_owned()));
        } else {
            let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
            let numbers = number(first)?..=number(last)?;
            gpus.extend(numbers.take(MAX_GPUS + 1).map(SlurmGpu::Minor));
        }
        if gpus.len() > MAX_GPUS {
            return None;
        }
    }
    Some(gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_gpus_are_read() {
        let minors = |text: &str| {
            list(text).map(|gpus| {
                let number = |gpu: &SlurmGpu| match gpu {
                    SlurmGpu::Minor(minor) => minor.to_string(),
                    SlurmGpu::Uuid(uuid) => uuid.clone(),
                };
                gpus.iter().map(number).collect::<Vec<_>>().join(" ")
            })
        };
        assert_eq!(minors("").unwrap(), "");
        assert_eq!(minors("0").unwrap(), "0");
        assert_eq!(minors("0,2").unwrap(), "0 2");
        assert_eq!(minors("0-2,5").unwrap(), "0 1 2 5");
        assert_eq!(minors("GPU-a,MIG-b").unwrap(), "GPU-a MIG-b");
        for text in ["x", "0-", "-1", "0-4294967295", "0:1", "4294967296"] {
            assert_eq!(minors(text), None, "{text}");
        }
    }

    #[test]
    fn file_without_a_job_is_none() {
        assert_eq!(parse("SLURM_JOB_GPUS=0\n"), None);
        assert_eq!(parse("SLURM_JOB_ID=4; rm -rf /\nSLURM_JOB_GPUS=0\n"), None);
        assert_eq!(parse(""), None);
    }
}
