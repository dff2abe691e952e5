//! A situation: what some GPUs do, what their log contains, and what is expected.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::column;
use crate::expectation::{Accepted, Expected, Forbidden, Length, Need, Workload};
use crate::model::Model;
use crate::prng::Prng;
use crate::track::{Millis, Timeline, Track};

/// The utilization of a reading that the log lacks.
pub(crate) const UNLOGGED: &str = "unlogged";

/// One file of `tests/situations`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    /// The directory and the name of its file, without extension.
    #[serde(skip)]
    pub(crate) kind: &'static str,
    #[serde(skip)]
    pub(crate) name: String,
    /// One sentence.
    pub(crate) title: String,
    /// The incident report, paper or guide that it is taken from: its title and its address.
    #[serde(default)]
    pub(crate) source: String,
    pub(crate) workload: Workload,
    /// Length of the log, and time between its readings.
    pub(crate) length: Length,
    pub(crate) every: Length,
    /// Local time of the first reading, on a Monday, like `09:00`.
    #[serde(default)]
    pub(crate) start: String,
    /// Attributes of the experiment; if absent, `phasemeter.workload`.
    pub(crate) attributes: Option<BTreeMap<String, String>>,
    /// Options of the command line, without dashes.
    #[serde(default)]
    pub(crate) options: BTreeMap<String, String>,
    /// Usual columns that the log lacks.
    #[serde(default)]
    pub(crate) without: Vec<String>,
    pub(crate) gpus: Vec<Group>,
    #[serde(default)]
    pub(crate) expected: Vec<Expected>,
    #[serde(default)]
    pub(crate) accepted: Vec<Accepted>,
    #[serde(default)]
    pub(crate) forbidden: Vec<Forbidden>,
    #[serde(default)]
    pub(crate) needs: Vec<Need>,
}

/// GPUs that do the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    pub(crate) name: String,
    #[serde(default = "one")]
    pub(crate) count: u32,
    pub(crate) model: String,
    /// Each node has a log of its own.
    #[serde(default)]
    pub(crate) node: String,
    /// Whether random durations differ between the GPUs.
    #[serde(default)]
    pub(crate) independent: bool,
    pub(crate) load: Track,
    pub(crate) memory: Track,
    /// If absent, it follows from the load; so do temperature and clock.
    pub(crate) power: Option<Track>,
    /// Values of further columns.
    #[serde(default)]
    pub(crate) columns: BTreeMap<String, Track>,
}

const fn one() -> u32 {
    1
}

/// One GPU of a group.
#[derive(Clone, Debug)]
pub(crate) struct Gpu<'a> {
    pub(crate) group: &'a Group,
    pub(crate) model: Model,
    /// Position among all GPUs of the situation, and on its node.
    pub(crate) ordinal: usize,
    pub(crate) index: usize,
    pub(crate) uuid: String,
    /// The situation, which determines random values.
    seed: &'a str,
    schedule: u64,
    length: Millis,
}

impl Situation {
    /// Its directory and its name, like `training/steady-half`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }

    /// All GPUs, in the order of their rows.
    pub(crate) fn gpus(&self) -> Vec<Gpu<'_>> {
        let mut gpus: Vec<Gpu<'_>> = Vec::new();
        for (number, group) in (1..).zip(&self.gpus) {
            let Some(model) = Model::find(&group.model) else { continue };
            for member in 0..u64::from(group.count) {
                let ordinal = gpus.len();
                gpus.push(Gpu {
                    group,
                    model,
                    ordinal,
                    index: gpus.iter().filter(|gpu| gpu.group.node == group.node).count(),
                    uuid: format!("GPU-{ordinal:08x}-0000-4000-8000-000000000000"),
                    seed: &self.name,
                    schedule: number * 1_000 + if group.independent { member } else { 0 },
                    length: self.length.0,
                });
            }
        }
        gpus
    }

    /// The nodes, in order. There is at least one.
    pub(crate) fn nodes(&self) -> Vec<&str> {
        let mut nodes: Vec<&str> = Vec::new();
        for group in &self.gpus {
            if !nodes.contains(&group.node.as_str()) {
                nodes.push(&group.node);
            }
        }
        nodes
    }

    /// Time from the start of the log to each tick.
    pub(crate) fn ticks(&self) -> impl Iterator<Item = Millis> {
        let every = self.every.0.max(1);
        (0..=self.length.0 / every).map(move |tick| tick * every)
    }

    /// Milliseconds from midnight to the first reading.
    pub(crate) fn start_of_day(&self) -> Option<Millis> {
        if self.start.is_empty() {
            return Some(0);
        }
        let (hour, minute) = self.start.split_once(':')?;
        let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60).then_some((hour * 60 + minute) * 60_000)
    }

    /// Attributes of the experiment.
    pub(crate) fn attributes(&self) -> BTreeMap<String, String> {
        self.attributes.clone().unwrap_or_else(|| {
            let kind = self.workload.attribute();
            kind.map(|kind| ("phasemeter.workload".to_owned(), kind.to_owned()))
                .into_iter()
                .collect()
        })
    }

    /// The columns of the log, in order.
    pub(crate) fn columns(&self) -> Vec<&str> {
        let usual = column::USUAL.into_iter();
        let mut columns: Vec<&str> =
            usual.filter(|name| !self.without.iter().any(|without| without == name)).collect();
        let further: BTreeSet<&str> = self
            .gpus
            .iter()
            .flat_map(|group| group.columns.keys())
            .map(String::as_str)
            .filter(|name| !column::USUAL.contains(name))
            .collect();
        columns.extend(further);
        columns
    }

    /// What is inconsistent, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let names: Vec<_> = self.gpus.iter().map(|group| group.name.as_str()).collect();
        let expected = self.expected.iter().map(|entry| (&entry.gpus, &entry.why));
        let accepted = self.accepted.iter().map(|entry| (&entry.gpus, &entry.why));
        let forbidden = self.forbidden.iter().map(|entry| (&entry.gpus, &entry.why));
        let needs = self.needs.iter().map(|entry| (&entry.gpus, &entry.why));
        for (gpus, why) in expected.chain(accepted).chain(forbidden).chain(needs) {
            if let Some(unknown) = gpus.iter().find(|gpu| !names.contains(&gpu.as_str())) {
                return Some(format!("no GPUs named `{unknown}`"));
            }
            if why.split_whitespace().count() < 5 {
                return Some(format!("`{why}`: expected a sentence with the reason"));
            }
        }
        if self.expected.is_empty() && self.forbidden.is_empty() && self.needs.is_empty() {
            return Some("expects, forbids and needs nothing".to_owned());
        }
        if self.title.is_empty() || self.start_of_day().is_none() {
            return Some("invalid title or start: expected a start like 09:00".to_owned());
        }
        if !self.source.is_empty()
            && ![", https://", ", http://"].iter().any(|it| self.source.contains(it))
        {
            return Some("invalid source: expected a title and an address".to_owned());
        }
        let every = self.every.0;
        if !every.is_multiple_of(1_000) && !1_000_u64.is_multiple_of(every) {
            return Some("invalid interval: expected whole seconds or a part of one".to_owned());
        }
        let unknown = self
            .without
            .iter()
            .find(|name| !column::USUAL.contains(&name.as_str()))
            .or_else(|| {
                let further = self.gpus.iter().flat_map(|group| group.columns.keys());
                let known =
                    |name: &str| column::OPTIONAL.contains(&name) || column::USUAL.contains(&name);
                further.into_iter().find(|name| !known(name))
            });
        if let Some(unknown) = unknown {
            return Some(format!("unknown column `{unknown}`"));
        }
        let unknown = self.gpus.iter().find(|group| Model::find(&group.model).is_none());
        unknown.map(|group| format!("unknown model `{}`", group.model))
    }
}

impl<'a> Gpu<'a> {
    /// The values of one of its tracks.
    pub(crate) fn timeline(&self, track: &'a Track) -> Timeline<'a> {
        track.timeline(self.length, Prng::of(self.seed, self.schedule))
    }

    /// Noise of its values, a sequence of its own.
    pub(crate) fn noise(&self) -> Prng {
        Prng::of(self.seed, 1_000_000 + self.ordinal as u64)
    }
}
