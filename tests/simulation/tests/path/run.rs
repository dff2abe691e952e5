//! A run: of one process, or of several, of which each went on with what the one before had left.

use std::collections::BTreeMap;

use bytes::Bytes;
use phasemeter_meter::money::Rate;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::Signal;

use crate::clocks::{Boot, Moment};
use crate::oracle::History;

/// A run.
pub(crate) struct Run {
    /// The ID of its experiment, and its trace.
    pub(crate) experiment: String,
    pub(crate) trace: [u8; 16],
    pub(crate) start: Timestamp,
    /// What the clocks showed when each of its processes began.
    pub(crate) moments: Vec<Moment>,
    /// Of each GPU.
    pub(crate) histories: Vec<History>,
    /// What its journal has, and may have lost.
    steps: Vec<Step>,
    pub(crate) lives: Vec<Life>,
}

/// One process, from its start to its end.
#[derive(Default)]
pub(crate) struct Life {
    /// The requests that left it, in order.
    pub(crate) made: Vec<(Signal, Bytes)>,
    /// The number of those before its last step.
    pub(crate) made_before: usize,
    /// How many of each signal were in memory alone at its end.
    pub(crate) in_memory: BTreeMap<Signal, u64>,
    /// Whether its disk refused, so that those need not be the last ones.
    pub(crate) is_disk_faulty: bool,
    /// Whether it has ended in order, and all that it made has left it.
    pub(crate) is_over: bool,
}

/// A step of the journal.
struct Step {
    /// Its time, as the process took it for.
    at: Timestamp,
    /// What the clocks showed then, and at each attempt to go on from it, which is a step, too.
    moments: Vec<Moment>,
    /// How many readings each GPU had, and how often the wall clock was set.
    readings: Vec<usize>,
    clock_steps: usize,
    /// Whether it outlives the process.
    is_written: bool,
}

impl Run {
    pub(crate) fn new(
        trace: [u8; 16],
        experiment: String,
        histories: Vec<History>,
        began: Moment,
    ) -> Self {
        let (start, moments) = (histories[0].start, vec![began]);
        Self { experiment, trace, start, moments, histories, steps: Vec::new(), lives: Vec::new() }
    }

    /// Those whose requests may be lost if they were in memory alone: from any other one the next process has made them again.
    pub(crate) fn lives_that_may_lose(&self) -> impl Iterator<Item = &Life> {
        let (continued, lives) = (self.continued(), self.lives.iter().enumerate());
        let lives = lives.filter(move |(number, life)| life.is_disk_faulty || *number == continued);
        lives.map(|(_, life)| life)
    }

    /// How many processes went on with it.
    pub(crate) fn continued(&self) -> usize {
        self.lives.len().saturating_sub(1)
    }

    /// Whether a step at this time would be another one than the last.
    pub(crate) fn is_after_last_step(&self, at: Timestamp) -> bool {
        self.steps.last().is_none_or(|last| last.at < at)
    }

    /// Its journal gets a step.
    pub(crate) fn step(&mut self, at: Timestamp, moment: Moment) {
        let readings = self.histories.iter().map(|history| history.readings.len()).collect();
        let clock_steps = self.histories[0].clock_steps.len();
        self.steps.push(Step {
            at,
            moments: vec![moment],
            readings,
            clock_steps,
            is_written: false,
        });
    }

    /// All steps outlive the process from now on.
    pub(crate) fn steps_are_written(&mut self) {
        self.steps
            .iter_mut()
            .rev()
            .take_while(|it| !it.is_written)
            .for_each(|it| it.is_written = true);
    }

    /// The power fails: any steps may be lost, except what a backend shows.
    pub(crate) fn lose_power(&mut self) {
        self.steps.iter_mut().for_each(|step| step.is_written = false);
    }

    /// A process tries to go on with it from its step at this time on, and takes its time for this one. Returns the true one:
    /// if the last attempt is lost, that by the one before.
    pub(crate) fn time_after(
        &mut self,
        until: Timestamp,
        taken_for: Timestamp,
        boot: Boot,
    ) -> Result<Timestamp, String> {
        let step = self.steps.iter_mut().find(|step| step.at == until);
        let step = step.ok_or_else(|| format!("no step was made at {until:?}"))?;
        let times = step.moments.iter().rev().map(|moment| moment.now(boot));
        let time = times.reduce(|last, time| if time == taken_for { time } else { last });
        let time = time.unwrap_or(taken_for);
        step.moments.push(boot.moment(time));
        Ok(time)
    }

    /// A process has made it again until its step at this time, with this price.
    pub(crate) fn go_on(&mut self, until: Timestamp, price: Rate) -> Result<(), String> {
        let after = self.steps.partition_point(|step| step.at <= until);
        if self.steps.drain(after..).any(|step| step.is_written) {
            return Err(format!("a step after {until:?} was written, and is missing"));
        }
        let Some(step) = self.steps.last() else { return Err("no step".to_owned()) };
        for (history, readings) in self.histories.iter_mut().zip(&step.readings) {
            history.readings.truncate(*readings);
            history.clock_steps.truncate(step.clock_steps);
            history.prices = vec![(self.start, price)];
            history.end = None;
        }
        Ok(())
    }
}
