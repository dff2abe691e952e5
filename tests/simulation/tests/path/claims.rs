//! What a process does with claims, and `flush` with the notes of others.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use phasemeter_claims::{Claims, Writing, keep_notes};
use phasemeter_engine::pipeline::{Finished, Pipeline};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::delivery::{DataDirectory, RequestSender, Storage};
use phasemeter_outbox::Directories;
use phasemeter_simulation::{Machine, Rng, SimulatedDirectories};
use tokio::time::{Instant, sleep};

use crate::Bug;
use crate::clocks::{self, wall_nanos};
use crate::process::{Made, send};
use crate::world::World;

/// How long the end of a run waits for the disk.
const PATIENCE: Duration = Duration::from_secs(2);

/// The claims of a process, and what writes their file.
pub(crate) struct Kept {
    pub(crate) claims: Claims,
    writing: Rc<RefCell<Option<Writing>>>,
    bug: Option<Bug>,
}

impl World {
    /// Reads what earlier runs have claimed; `None` if the disk refuses.
    pub(crate) fn open_claims(&self) -> Option<Kept> {
        let mut data = self.data();
        if self.bug == Some(Bug::NotesUnread) {
            // One without outboxes.
            let [_, journals, own] = SimulatedDirectories::of(&self.machine);
            let [outboxes, ..] = SimulatedDirectories::of(&Machine::new(Rng(0), None));
            let all = [outboxes, journals, own].map(|one| Arc::new(one) as Arc<dyn Directories>);
            data = Arc::new(DataDirectory::new(Path::new("data"), all, self.limits, wall_nanos));
        }
        let writing = Rc::new(RefCell::new(None));
        let keep = |started| {
            *writing.borrow_mut() = Some(started);
            Ok(())
        };
        let claims = Claims::open(&data, clocks::clock(), self.boot.id(), keep).ok()?;
        Some(Kept { claims, writing, bug: self.bug })
    }

    /// Keeps what notes claim, before what earlier runs have left is taken over.
    pub(crate) fn keep_notes(&self) {
        if self.bug != Some(Bug::NotesNotKept) {
            keep_notes(&self.data(), clocks::clock(), self.boot.id());
        }
    }

    /// Another process delivers what is left, until it is all, its time is up or the power fails.
    pub(crate) async fn flush(&mut self) {
        self.machine.set_faults(false, 0);
        self.backend.lock().unwrap().health = [100, 90, 60, 0][self.rng.index(4)];
        self.keep_notes();
        if let Ok(storage) = Storage::left(&self.data(), &self.config) {
            self.is_start_cut |= self.machine.is_off();
            let (delivery, handle) = self.delivery(Some(storage));
            let task = tokio::spawn(delivery.run());
            handle.close(Duration::from_secs(self.rng.below(60)));
            sleep(Duration::from_secs(self.rng.below(70))).await;
            let outcome = handle.stats().read();
            task.abort();
            let _ = task.await;
            self.count(&outcome);
        }
        self.is_start_cut |= self.machine.is_off();
        self.crashes += u64::from(self.machine.is_off());
        self.end_of_process();
    }
}

impl Kept {
    /// Sends what claims time. After each change of the pipeline.
    pub(crate) fn step(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        (made, sender): (&Made, &RequestSender),
    ) {
        let passed = self.pass(made, sender);
        self.claims.step(pipeline, passed);
    }

    /// Notes what is to leave. Returns what it leaves by.
    fn pass<'a>(&self, made: &Made, sender: &'a RequestSender) -> Option<&'a RequestSender> {
        // What is claimed counts as stored, and is not.
        let is_early = self.bug == Some(Bug::ClaimedEarly);
        let past = Some(sender).filter(|_| is_early);
        self.claims.held().borrow().iter().for_each(|outgoing| send(outgoing, made, past));
        Some(sender).filter(|_| !is_early)
    }

    /// What writes the file has some turns.
    pub(crate) fn turn(&self, turns: u64) {
        let mut writing = self.writing.borrow_mut();
        for _ in 0..turns {
            if writing.as_mut().is_some_and(|writing| !writing.turn(Duration::ZERO)) {
                *writing = None;
            }
        }
    }

    /// Sends the last claims of a run, and keeps them.
    pub(crate) async fn finish(
        &mut self,
        run: &Finished,
        world: &World,
        (made, sender): (&Made, &RequestSender),
    ) {
        let passed = self.pass(made, sender);
        self.claims.finish(run, &world.gpus, passed);
        self.wait_until(world, Claims::have_settled).await;
        self.write(world, run.wall).await;
    }

    /// Keeps the claims of a run that has ended.
    pub(crate) async fn conclude(mut self, world: &World, wall: WallOffset) {
        self.claims.have_settled();
        self.write(world, wall).await;
    }

    async fn write(&mut self, world: &World, wall: WallOffset) {
        self.wait_until(world, |claims| claims.write(wall)).await;
        self.wait_until(world, |claims| claims.are_written()).await;
    }

    async fn wait_until(&mut self, world: &World, mut is_done: impl FnMut(&mut Claims) -> bool) {
        let began = Instant::now();
        while !world.machine.is_off() && !is_done(&mut self.claims) && began.elapsed() < PATIENCE {
            self.turn(1);
            sleep(Duration::from_millis(5)).await;
        }
    }
}
