//! A process: it goes on with the run that the one before has left, or begins another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use phasemeter_claims::Claims;
use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{EarlierRuns, Pipeline, RequestSink, Settings};
use phasemeter_engine::policies::Quotes;
use phasemeter_engine::pricing::{PriceOptions, Pricing};
use phasemeter_journal::{Begin, Gate, Left, RunJournal, VERSION, Writing};
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::delivery::{DataDirectory, DeliveryHandle, RequestSender};
use phasemeter_otlp::encode::Outgoing;
use phasemeter_otlp::experiment::{
    Attributes, Experiment, ExperimentKind, ExperimentRequest, TraceId,
};
use phasemeter_otlp::{Request, Signal};
use phasemeter_outbox::Directories;
use phasemeter_simulation::SimulatedDirectories;
use phasemeter_sources::clock::Step;
use tokio::time::Instant;

use crate::Bug;
use crate::claims::Kept;
use crate::clocks::{self, CLOCKS, wall_nanos};
use crate::oracle::History;
use crate::run::Run;
use crate::world::World;

const LABEL: &str = "a run";

/// Requests that have left.
pub(crate) type Made = Rc<RefCell<Vec<(Signal, Bytes)>>>;

/// What meters and exports.
pub(crate) struct Process {
    /// The number of its run.
    pub(crate) run: usize,
    pub(crate) pipeline: Pipeline<'static>,
    pub(crate) journal: Option<RunJournal>,
    pub(crate) writing: Rc<RefCell<Option<Writing>>>,
    pub(crate) made: Made,
    pub(crate) claims: Option<Kept>,
    pub(crate) sender: RequestSender,
    /// When it began to meter, also in the time of its run: as it is, and as the process takes it for.
    pub(crate) began: Instant,
    pub(crate) start: Timestamp,
    pub(crate) taken_for: Timestamp,
    /// Whether something has changed the run that its journal does not keep.
    pub(crate) is_given_up: bool,
}

impl Process {
    /// The time of its run.
    pub(crate) fn now(&self) -> Timestamp {
        self.start + self.began.elapsed().into()
    }

    /// What the process takes this time of its run for.
    pub(crate) fn taken_for(&self, at: Timestamp) -> Timestamp {
        self.taken_for + at.since(self.start)
    }
}

impl World {
    pub(crate) fn data(&self) -> Arc<DataDirectory> {
        let all = SimulatedDirectories::of(&self.machine);
        let all = all.map(|one| Arc::new(one) as Arc<dyn Directories>);
        Arc::new(DataDirectory::new(Path::new("data"), all, self.limits, wall_nanos))
    }

    /// Goes on with the run that an earlier process has left; `None` if there is none.
    pub(crate) fn go_on(
        &mut self,
        handle: &DeliveryHandle,
        claims: &mut Option<Kept>,
    ) -> Result<Option<Process>, String> {
        let mut clock = self.boot.clock();
        if self.bug == Some(Bug::RebootUnseen) {
            clock.boot_id = Some("a boot".to_owned());
        }
        // Without one, or if the disk refuses, a new run begins.
        let found = Left::find(&self.data(), LABEL, clock.clone());
        let Ok(Some(left)) = found else { return Ok(None) };
        let (begin, until, (boot, at)) = (left.begin.clone(), left.until, left.clock().origin());
        let number = self.runs.iter().position(|run| run.trace == begin.trace);
        let number = number.ok_or("a run goes on that did not begin")?;
        let mut taken_for = at + (clock.boot - boot);
        if self.bug == Some(Bug::ClockAnew) {
            taken_for = clock.at;
        }
        let start = self.runs[number].time_after(until, taken_for, self.boot)?;
        let gate = Gate::new(left.left + u64::from(self.bug == Some(Bug::LeftTooMany)));
        let time = left.clock().by(CLOCKS);
        let (mut pipeline, made) = self.pipeline(&begin, &gate, (handle, claims.as_ref()));
        let writing = Rc::default();
        let again = left.make_again(&mut pipeline, gate.clone(), keep(&writing));
        let Ok((journal, gpus)) = again else { return Ok(None) };
        self.runs[number].go_on(until, self.price)?;
        self.runs[number].moments.push(self.boot.moment(start));
        match claims {
            Some(kept) if self.bug == Some(Bug::ClaimsAnew) => {
                kept.claims.begin(time);
                pipeline.take_joined();
            }
            Some(kept) => drop(kept.claims.go_on(time, &mut pipeline, until)),
            None => {}
        }
        if gpus != self.gpus {
            return Err("it goes on with other GPUs".to_owned());
        }
        pipeline.keep_changes();
        let before = pipeline.wall().wall(taken_for);
        if clock.at.since(before) >= Nanos::SECOND {
            let step = Step { at: taken_for, before, after: clock.at };
            pipeline.step_wall_clock(&step).map_err(|error| error.to_string())?;
            let offset = WallOffset::between(start, clock.at);
            let histories = self.runs[number].histories.iter_mut();
            histories.for_each(|history| history.clock_steps.push((start, offset)));
        }
        if self.bug == Some(Bug::LeavesEarly) {
            gate.open().unwrap();
        }
        Ok(Some(Process {
            run: number,
            pipeline,
            journal: Some(journal),
            writing,
            made,
            claims: claims.take(),
            sender: handle.sender(),
            began: Instant::now(),
            start,
            taken_for,
            is_given_up: false,
        }))
    }

    /// Begins a run.
    pub(crate) fn begin(&mut self, handle: &DeliveryHandle, mut claims: Option<Kept>) -> Process {
        let mut clock = self.boot.clock();
        let mut start = clock.at;
        let before = self.runs.last().and_then(|run| run.histories.first()?.end);
        if let Some(end) = before.filter(|_| self.bug == Some(Bug::SecondTwice)) {
            start = end.saturating_sub(Nanos::SECOND);
        }
        if self.bug == Some(Bug::RebootUnseen) {
            clock.boot_id = Some("a boot".to_owned());
        }
        claims.iter_mut().for_each(|kept| drop(kept.claims.begin(clocks::clock())));
        let claimed = claims.as_ref().map(|kept| &kept.claims);
        let mut trace = [0; 16];
        trace[..8].copy_from_slice(&self.rng.number().to_le_bytes());
        let begin = Begin {
            version: VERSION.to_owned(),
            clock: clock.clone(),
            trace,
            first: start,
            billed_from: start,
            named: start,
            process: 1,
            earlier: claimed.map_or(EarlierRuns::None, Claims::earlier),
        };
        let gate = Gate::new(0);
        let (mut pipeline, made) = self.pipeline(&begin, &gate, (handle, claims.as_ref()));
        let writing = Rc::default();
        let created = RunJournal::create(&self.data(), LABEL, begin.clone(), keep(&writing));
        let journal = created.ok().map(|writer| RunJournal::new(writer, gate.clone(), clock));
        if journal.is_some() {
            pipeline.keep_changes();
        }
        if journal.is_none() || self.bug == Some(Bug::LeavesEarly) {
            gate.open().unwrap();
        }
        self.gpus.iter().for_each(|gpu| pipeline.add(gpu, start));
        let history = History {
            config: self.meter,
            start,
            prices: vec![(start, self.price)],
            readings: Vec::new(),
            clock_steps: Vec::new(),
            end: None,
        };
        let histories = vec![history; self.gpus.len()];
        let run = Run::new(trace, experiment(&begin).id, histories, self.boot.moment(start));
        self.begun.push(self.boot.moment(start));
        self.runs.push(run);
        Process {
            run: self.runs.len() - 1,
            pipeline,
            journal,
            writing,
            made,
            claims,
            sender: handle.sender(),
            began: Instant::now(),
            start,
            taken_for: start,
            is_given_up: false,
        }
    }

    /// A pipeline, and the requests that leave it.
    fn pipeline(
        &self,
        begin: &Begin,
        gate: &Gate,
        (handle, claims): (&DeliveryHandle, Option<&Kept>),
    ) -> (Pipeline<'static>, Made) {
        let made = Made::default();
        let sink: RequestSink<'static> = {
            let (made, sender, bug) = (Rc::clone(&made), handle.sender(), self.bug);
            let machine = self.machine.clone();
            let held = claims.map(|kept| kept.claims.held());
            Box::new(move |outgoing| {
                let outgoing =
                    if bug == Some(Bug::BoundaryTwice) { twice(outgoing) } else { outgoing };
                if let Some(held) = held.as_ref().filter(|_| outgoing.claims.is_some()) {
                    held.borrow_mut().push(outgoing);
                    return Ok(());
                }
                // Nothing leaves a process that has ended.
                if !machine.is_off() {
                    send(&outgoing, &made, Some(&sender));
                }
                Ok(())
            })
        };
        let settings = Settings {
            meter: self.meter,
            pricing: Pricing::new(given(self.price), Quotes::default(), PriceBook::of(Vec::new())),
            alerts: AlertRules::default(),
            work: BTreeMap::new(),
            export: Some((self.export, gate.before(sink))),
        };
        let mut pipeline = Pipeline::live(settings, experiment(begin), &Attributes::new());
        pipeline.resume(begin.earlier.clone());
        (pipeline, made)
    }
}

/// What keeps what writes a journal, so that it has its turns.
fn keep(writing: &Rc<RefCell<Option<Writing>>>) -> impl FnOnce(Writing) -> io::Result<()> {
    let writing = Rc::clone(writing);
    move |started| {
        *writing.borrow_mut() = Some(started);
        Ok(())
    }
}

pub(crate) fn given(rate: Rate) -> PriceOptions {
    PriceOptions { given: Some(rate), ..PriceOptions::default() }
}

/// The experiment of a run that began like this.
fn experiment(begin: &Begin) -> Experiment {
    let trace = TraceId::new(begin.trace).unwrap();
    ExperimentRequest::default().open(begin.first, ExperimentKind::Sidecar { trace })
}

/// The same points, in other requests, too.
fn twice(mut outgoing: Outgoing) -> Outgoing {
    let first = outgoing.requests.iter().find(|it| matches!(it, Request::Metrics(_)));
    let again = first.cloned().into_iter().flat_map(|again| again.split(500));
    outgoing.requests.extend(again.collect::<Vec<_>>());
    outgoing
}

/// Notes that requests leave, and passes them to delivery, unless another does.
pub(crate) fn send(outgoing: &Outgoing, made: &Made, sender: Option<&RequestSender>) {
    for request in &outgoing.requests {
        let encoded = request.encode();
        made.borrow_mut().push((encoded.signal(), encoded.body().clone()));
        sender.into_iter().for_each(|sender| sender.enqueue(encoded.clone()));
    }
}
