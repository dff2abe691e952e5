//! Jobs that files name: of Slurm's prolog, and job mappings as for dcgm-exporter.

mod directory;
mod prolog;

pub(crate) use directory::{job_mapping, jobs_of, prolog_files};
pub(crate) use prolog::{Job, MAX_GPUS, SlurmGpu, parse as parse_prolog};
