//! The job that a run belongs to, by the variables that schedulers and launchers set for their processes.

use phasemeter_otlp::experiment::Attributes;
use phasemeter_process::{Launched, Launcher};

/// Slurm's output environment variables, and the attributes that they become.
const VARIABLES: [(&str, &str); 5] = [
    ("SLURM_JOB_ID", "slurm.job.id"),
    ("SLURM_JOB_NAME", "slurm.job.name"),
    ("SLURM_JOB_ACCOUNT", "slurm.job.account"),
    ("SLURM_JOB_PARTITION", "slurm.job.partition"),
    ("SLURM_JOB_USER", "slurm.job.user"),
];

/// Adds the attributes of the job, unless they are set. `lookup` returns the value of a variable.
pub fn add_job(attributes: &mut Attributes, lookup: impl Fn(&str) -> Option<String>) {
    if let Some(Launched { launcher, job: Some(id), .. }) = Launched::of(&lookup) {
        attributes.entry(launcher.attribute.to_owned()).or_insert(id);
    }
    for (attribute, id) in Launcher::given_jobs(&lookup) {
        attributes.entry(attribute.to_owned()).or_insert(id);
    }
    for (variable, key) in VARIABLES {
        if let Some(value) = lookup(variable).filter(|value| !value.is_empty()) {
            attributes.entry(key.to_owned()).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_is_added_and_given_attributes_are_kept() {
        let variables = [
            ("SLURM_JOB_ID", "4711"),
            ("SLURM_JOB_NAME", ""),
            ("SLURM_JOB_USER", "ada"),
            ("TORCHELASTIC_RUN_ID", "j"),
            ("PET_RDZV_ID", "k"),
        ];
        let lookup = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut attributes = Attributes::from([("slurm.job.user".to_owned(), "bob".to_owned())]);
        add_job(&mut attributes, lookup);
        let expected =
            [("slurm.job.id", "4711"), ("slurm.job.user", "bob"), ("torchelastic.run.id", "j")];
        assert_eq!(
            attributes,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
        );
    }
}
