//! What checks find: facts by topic, problems and notes.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a fact is about, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// The driver and its library.
    Driver,
    /// Which calls answer.
    Calls,
    /// How often values change.
    Cadences,
    /// Hardware counters.
    Gpm,
    /// Processes on GPUs.
    Processes,
    /// Which GPUs are metered.
    Gpus,
    /// Who holds them.
    Holders,
    /// Their prices.
    Price,
    /// The configuration file.
    Configuration,
    /// The name, experiment and trace.
    Workload,
    /// The answers of the backend.
    Endpoint,
    /// The data directory.
    Data,
    /// The wall clock.
    Clock,
    /// Limits of the process.
    Limits,
    /// Limits of its control group.
    ControlGroup,
    /// What would be billed.
    Billed,
}

impl Topic {
    /// Its label on the page.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Driver => "Driver",
            Self::Calls => "Calls",
            Self::Cadences => "Cadences",
            Self::Gpm => "GPM",
            Self::Processes => "Processes",
            Self::Gpus => "Whose GPUs",
            Self::Holders => "Holders",
            Self::Price => "Price",
            Self::Configuration => "File",
            Self::Workload => "Workload",
            Self::Endpoint => "Endpoint",
            Self::Data => "Data",
            Self::Clock => "Clock",
            Self::Limits => "Limits",
            Self::ControlGroup => "Cgroup",
            Self::Billed => "Billed",
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Sentences without their full stop.
    pub facts: BTreeMap<Topic, Vec<String>>,
    /// Why metering or delivery would not work, and what to do; a line each.
    pub problems: Vec<String>,
    /// What would be missing or in doubt; a line each.
    pub notes: Vec<String>,
}

impl Findings {
    /// Adds a fact.
    pub fn fact(&mut self, topic: Topic, fact: impl Into<String>) {
        self.facts.entry(topic).or_default().push(fact.into());
    }

    /// Adds a problem.
    pub fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds all that another check has found.
    pub fn add(&mut self, other: Self) {
        for (topic, facts) in other.facts {
            self.facts.entry(topic).or_default().extend(facts);
        }
        self.problems.extend(other.problems);
        self.notes.extend(other.notes);
    }

    /// Whether metering and delivery would work.
    #[must_use]
    pub const fn works(&self) -> bool {
        self.problems.is_empty()
    }
}
