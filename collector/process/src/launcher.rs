//! Launchers of distributed programs, by the variables of the processes that they start.

/// The longest ID of a job that is kept, in bytes.
const MAX_ID: usize = 128;

/// A launcher. A new one is a row of [`LAUNCHERS`].
#[derive(Debug, PartialEq, Eq)]
pub struct Launcher {
    /// Its name.
    pub name: &'static str,
    /// The attribute that the ID of a job becomes.
    pub attribute: &'static str,
    /// The variable with that ID, and its value if there is none.
    job: (&'static str, &'static str),
    /// The variable that counts how often the processes of a job were restarted, and the tag that it becomes.
    pub restarts: Option<(&'static str, &'static str)>,
}

/// The launchers that are known.
static LAUNCHERS: [Launcher; 2] = [
    Launcher {
        name: "torchrun",
        attribute: "torchelastic.run.id",
        job: ("TORCHELASTIC_RUN_ID", "none"),
        restarts: Some(("TORCHELASTIC_RESTART_COUNT", "restart")),
    },
    // Processes that Ray has started before there was a job keep the value of none.
    Launcher {
        name: "Ray",
        attribute: "ray.job.id",
        job: ("RAY_JOB_ID", "ffffffff"),
        restarts: None,
    },
];

/// What the variables of a process say about its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its launcher.
    pub launcher: &'static Launcher,
    /// The ID of its job, if it has one.
    pub job: Option<String>,
    /// How often the processes of the job were restarted before, if the launcher counts that.
    pub restarts: Option<u64>,
}

/// A process that a launcher has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchedProcess {
    /// Its ID.
    pub pid: u32,
    /// The ID of its parent: the launcher.
    pub parent: u32,
    /// What its variables say.
    pub launched: Launched,
}

impl Launched {
    /// The launcher of the process with these variables, and its job; `None` if it has neither an ID of a job nor a count
    /// of restarts. `lookup` returns the value of a variable.
    pub fn of(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        LAUNCHERS.iter().find_map(|launcher| {
            let (variable, none) = launcher.job;
            let id = lookup(variable)?;
            let is_id = (1..=MAX_ID).contains(&id.len()) && !id.contains(char::is_control);
            let job = (is_id && id != none).then_some(id);
            let restarts = launcher.restarts.and_then(|(name, _)| lookup(name)?.parse().ok());
            let is_known = job.is_some() || restarts.is_some();
            is_known.then_some(Self { launcher, job, restarts })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The launcher, the job and the restarts of a process with these variables.
    fn of(variables: &[(&str, &str)]) -> Option<(&'static str, Option<String>, Option<u64>)> {
        let value = |name: &str| variables.iter().find(|(it, _)| *it == name);
        let launched = Launched::of(|name| value(name).map(|(_, value)| (*value).to_owned()))?;
        Some((launched.launcher.name, launched.job, launched.restarts))
    }

    #[test]
    fn variables_name_launcher_and_job() {
        fn run(id: &str) -> (&str, &str) {
            ("TORCHELASTIC_RUN_ID", id)
        }
        let restart = ("TORCHELASTIC_RESTART_COUNT", "2");
        let job = |id: &str| Some(id.to_owned());
        assert_eq!(of(&[run("j-7"), restart]), Some(("torchrun", job("j-7"), Some(2))));
        assert_eq!(of(&[run("none"), restart]), Some(("torchrun", None, Some(2))));
        assert_eq!(of(&[run("a\nb")]), None);
        assert_eq!(of(&[("RAY_JOB_ID", "01000000")]), Some(("Ray", job("01000000"), None)));
        assert_eq!(of(&[("RAY_JOB_ID", "ffffffff"), ("PATH", "/bin")]), None);
        assert_eq!(of(&[run(&"x".repeat(MAX_ID + 1)), ("RAY_JOB_ID", "")]), None);
        // The innermost launcher: training by torchrun in a worker of Ray.
        assert_eq!(of(&[("RAY_JOB_ID", "01000000"), run("j")]), Some(("torchrun", job("j"), None)));
        assert_eq!(of(&[restart]), None);
    }
}
