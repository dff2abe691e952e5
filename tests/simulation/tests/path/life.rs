//! The life of a process: it meters what happens until it ends, is killed, or the power fails.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use phasemeter_engine::policies::PolicyResults;
use phasemeter_journal::{RunJournal, Writing};
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::Nanos;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::delivery::DeliveryHandle;
use tokio::task::yield_now;
use tokio::time::sleep_until;

use crate::Bug;
use crate::claims::Kept;
use crate::process::{Process, given};
use crate::readings::{Input, any_input};
use crate::run::Life;
use crate::world::World;

/// What a process has metered.
pub(crate) struct Metered {
    /// The number of its run.
    pub(crate) run: usize,
    pub(crate) life: Life,
    /// Of a run that has ended in order.
    pub(crate) claims: Option<(Kept, WallOffset)>,
}

impl World {
    /// Meters until the process ends. Returns what it has sent, with the number of its run; `None` if it has not begun to
    /// meter.
    pub(crate) async fn meter(
        &mut self,
        handle: &DeliveryHandle,
        mut claims: Option<Kept>,
    ) -> Result<Option<Metered>, String> {
        let begun = self.runs.len();
        let process = match self.go_on(handle, &mut claims)? {
            Some(process) => process,
            None => self.begin(handle, claims),
        };
        if self.machine.is_off() {
            // What has not begun to meter does not count as a run.
            self.runs.truncate(begun);
            return Ok(None);
        }
        let (run, made, mut life) = (process.run, Rc::clone(&process.made), Life::default());
        let claims = self.meter_until_the_end(process, &mut life).await?;
        life.made = made.take();
        Ok(Some(Metered { run, life, claims }))
    }

    async fn meter_until_the_end(
        &mut self,
        mut process: Process,
        life: &mut Life,
    ) -> Result<Option<(Kept, WallOffset)>, String> {
        let seconds = 10 + self.rng.below(120);
        let input = any_input(&mut self.rng, self.gpus.len(), process.start, seconds);
        // So many inputs the disk hangs.
        let mut hangs = 0;
        for (arrival, input) in input {
            // Delivery has its turn.
            yield_now().await;
            let due = Duration::from_nanos(arrival.since(process.start).0);
            sleep_until(process.began + due).await;
            if self.rng.below(2_000) == 0 {
                self.machine.set_faults(true, 0);
                life.is_disk_faulty = true;
            }
            match hangs {
                0 if self.rng.below(400) == 0 => hangs = self.rng.below(120),
                0 => write(&process.writing, [0, 1, 9, 99][self.rng.index(4)]),
                _ => hangs -= 1,
            }
            let turns = self.rng.below(3);
            process.claims.iter().for_each(|claims| claims.turn(turns));
            // The process is killed between two operations.
            if self.machine.is_off() || self.rng.below(2_000) == 0 {
                return Ok(None);
            }
            if process.journal.as_ref().is_some_and(RunJournal::is_written) {
                self.runs[process.run].steps_are_written();
            }
            life.made_before = process.made.borrow().len();
            self.take(&mut process, input)?;
            self.keep(&mut process)?;
            let Process { claims, pipeline, made, sender, .. } = &mut process;
            if let Some(claims) = claims.as_mut().filter(|_| !self.machine.is_off()) {
                claims.step(pipeline, (made, sender));
            }
        }
        yield_now().await;
        write(&process.writing, self.rng.below(3));
        if self.machine.is_off() {
            return Ok(None);
        }
        life.made_before = process.made.borrow().len();
        self.end(process, life).await
    }

    fn take(&mut self, process: &mut Process, input: Input) -> Result<(), String> {
        let histories = &mut self.runs[process.run].histories;
        match input {
            Input::Reading(gpu, reading) => {
                let read = Reading { at: process.taken_for(reading.at), ..reading };
                let taken = process.pipeline.ingest(gpu, &read, &self.gpus);
                if taken.map_err(|error| error.to_string())?.is_ok() {
                    histories[gpu].readings.push(reading);
                }
            }
            Input::Price(rate) => {
                // Often it is the one before, which ends the journal, too.
                let rate = if self.rng.percent(50) { self.price } else { rate };
                self.price = rate;
                let at = process.now();
                let late = self.bug == Some(Bug::LatePrice);
                let used = if late { at + Nanos::SECOND } else { at };
                process.pipeline.change_prices(&given(rate), None, process.taken_for(used));
                histories.iter_mut().for_each(|history| history.prices.push((at, rate)));
                process.is_given_up = true;
            }
        }
        Ok(())
    }

    /// Keeps what has happened in the journal, if there is one, and if that is due.
    fn keep(&mut self, process: &mut Process) -> Result<(), String> {
        let (now, run) = (process.now(), &mut self.runs[process.run]);
        let at = process.taken_for(now);
        if self.rng.percent(30) || !run.is_after_last_step(at) {
            return Ok(());
        }
        if let Some(journal) = process.journal.take() {
            if !process.is_given_up {
                run.step(at, self.boot.moment(now));
            }
            let kept = journal.step(&mut process.pipeline, at);
            process.journal = kept.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn end(
        &mut self,
        mut process: Process,
        life: &mut Life,
    ) -> Result<Option<(Kept, WallOffset)>, String> {
        let end = process.now();
        process.pipeline.end_at(process.taken_for(end));
        let journal = process.journal.take();
        let Process { run, pipeline, writing, claims, made, sender, .. } = process;
        let finished = pipeline.finish(&self.gpus, |_| PolicyResults::default());
        let finished = finished.map_err(|error| error.to_string())?;
        let ended = journal.map(|journal| journal.end(|_| write(&writing, 1)));
        ended.unwrap_or(Ok(())).map_err(|error| error.to_string())?;
        if !self.machine.is_off() {
            self.runs[run].histories.iter_mut().for_each(|history| history.end = Some(end));
            write(&writing, self.rng.below(3));
        }
        life.is_over = !self.machine.is_off();
        let Some(mut claims) = claims.filter(|_| life.is_over) else { return Ok(None) };
        claims.finish(&finished, self, (&made, &sender)).await;
        Ok(Some((claims, finished.wall)))
    }
}

/// What writes a journal has some turns.
fn write(writing: &RefCell<Option<Writing>>, turns: u64) {
    let mut writing = writing.borrow_mut();
    for _ in 0..turns {
        if writing.as_mut().is_some_and(|writing| writing.turn(Duration::ZERO).is_none()) {
            *writing = None;
        }
    }
}
