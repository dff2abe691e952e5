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
    /// The variable that the launcher itself reads the ID from.
    given: Option<&'static str>,
    /// The variable that counts how often the processes of a job were restarted, and the tag that it becomes.
    pub restarts: Option<(&'static str, &'static str)>,
}

/// The launchers that are known.
static LAUNCHERS: [Launcher; 2] = [
    Launcher {
        name: "torchrun",
        attribute: "torchelastic.run.id",
        job: ("TORCHELASTIC_RUN_ID", "none"),
        given: Some("PET_RDZV_ID"),
        restarts: Some(("TORCHELASTIC_RESTART_COUNT", "restart")),
    },
    // Processes that Ray has started before there was a job keep the value of none.
    Launcher {
        name: "Ray",
        attribute: "ray.job.id",
        job: ("RAY_JOB_ID", "ffffffff"),
        given: None,
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

impl Launcher {
    /// The ID of a job, from the value of a variable that has it.
    fn id(&self, value: String) -> Option<String> {
        let is_id = (1..=MAX_ID).contains(&value.len()) && !value.contains(char::is_control);
        (is_id && value != self.job.1).then_some(value)
    }

    /// The attributes of the jobs that launchers will run which are started with these variables.
    pub fn given_jobs(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> impl Iterator<Item = (&'static str, String)> {
        LAUNCHERS.iter().filter_map(move |launcher| {
            Some((launcher.attribute, launcher.id(lookup(launcher.given?)?)?))
        })
    }
}

impl Launched {
    /// The launcher of the process with these variables, and its job; `None` if it has neither an ID of a job nor a count
    /// of restarts. `lookup` returns the value of a variable.
    pub fn of(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        LAUNCHERS.iter().find_map(|launcher| {
            let job = launcher.id(lookup(launcher.job.0)?);
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
    #[test]
    fn given_ids_follow_the_rule_of_those_of_processes() {
        let given = |id: &str| {
            let id = id.to_owned();
            let lookup = move |name: &str| (name == "PET_RDZV_ID").then(|| id.clone());
            assert_eq!(Launched::of(&lookup), None, "no launcher has started it");
            Launcher::given_jobs(lookup).collect::<Vec<_>>()
        };
        assert_eq!(given("ffffffff"), [("torchelastic.run.id", "ffffffff".to_owned())]);
        for id in ["", "none", "a\u{1b}[2J", &"é".repeat(MAX_ID)] {
            assert!(given(id).is_empty(), "{id:?}");
        }
    }
}
