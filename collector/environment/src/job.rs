//! The Slurm job that a run belongs to, by the variables that Slurm sets for its processes.

use phasemeter_otlp::experiment::Attributes;

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
        let variables =
            [("SLURM_JOB_ID", "4711"), ("SLURM_JOB_NAME", ""), ("SLURM_JOB_USER", "ada")];
        let lookup = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut attributes = Attributes::from([("slurm.job.user".to_owned(), "bob".to_owned())]);
        add_job(&mut attributes, lookup);
        let expected = [("slurm.job.id", "4711"), ("slurm.job.user", "bob")];
        assert_eq!(
            attributes,
            expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
        );
    }
}
