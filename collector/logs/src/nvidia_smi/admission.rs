//! Admits the rows of a log as readings of its GPUs: finds steps of local time, the instants of rows
//! without fractions of seconds, the GPUs of rows without IDs, GPUs that share an ID, and jumps of the
//! clock.

use std::collections::VecDeque;
use std::fmt::Display;

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, Timestamp};

use super::LogOptions;
use super::columns::GpuIdentification;
use super::decoder::LogDecoder;
use super::entry::Entry;
use super::error::LogErrorKind;
use super::instants::{Different, Instants};
use super::local_clock::{Before, LocalClock, LocalSteps};
use super::reject_reason::RejectReason;
use super::row_order::{RowOrder, TickSummary};
use super::spread::Spread;
use crate::log::clock_jump::Clocks;

/// A row further from those before it may follow a step of local time.
const MIN_STEP: Nanos = Nanos::from_secs(1_200);

/// Successive rows after a header that overlap those before it, after which they are of another log.
const MAX_OVERLAPPING: u32 = 8;

/// The kinds of lines of a log, other than blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Reading,
    Header,
    Rejected,
    End,
}

/// An unusable log: the line, and why.
pub(super) type Unusable = (u64, LogErrorKind);

/// The state of a log that affects whether its next row is admitted.
pub(super) struct Admission {
    local: LocalClock,
    spread: Option<Spread>,
    row_order: Option<RowOrder>,
    instants: Instants,
    clocks: Clocks<Entry>,
    /// The first time of the log, and the newest one if its rows have no IDs.
    start: Option<Timestamp>,
    newest: Option<Timestamp>,
    /// Rows since a header that overlap those before it, if all do.
    overlapping: Option<u32>,
    /// Whether rows that are later than those before are readings as they are.
    is_plain: bool,
    /// Whether the user has given the number of GPUs.
    is_count_given: bool,
}

impl Admission {
    /// The state before the first row.
    pub(super) fn new(options: &LogOptions) -> Self {
        Self {
            local: LocalClock::default(),
            spread: None,
            row_order: None,
            instants: Instants::default(),
            clocks: Clocks::new(options.stale_after, MeterConfig::LOG_ALLOWED_LATENESS),
            start: None,
            newest: None,
            overlapping: None,
            is_plain: false,
            is_count_given: options.gpus.is_some(),
        }
    }

    /// Divides rows into ticks from now on.
    pub(super) fn set_row_order(&mut self, row_order: Option<RowOrder>) {
        self.row_order = row_order;
    }

    /// Spreads rows over whole seconds from now on, if they are as the first ones.
    pub(super) fn detect_fast_log(&mut self, first: &[Entry]) {
        self.spread = Spread::detect(first, self.is_count_given);
    }

    /// Whether the order of rows identifies several GPUs.
    #[inline]
    pub(super) const fn is_by_order(&self) -> bool {
        self.row_order.is_some()
    }

    /// The ticks so far.
    pub(super) fn ticks(&self) -> TickSummary {
        self.row_order.as_ref().map(RowOrder::summary).unwrap_or_default()
    }

    /// Rows of a GPU in each second, if they are spread over it.
    pub(super) fn rows_per_second(&self) -> Option<usize> {
        self.spread.as_ref().map(Spread::rows_per_second)
    }

    /// The steps of local time so far.
    pub(super) const fn local_steps(&self) -> LocalSteps {
        self.local.steps()
    }

    /// Whether rows that are later than those before are readings as they are.
    #[inline]
    pub(super) const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether a row of a plain log is later than those before, without a jump.
    #[inline]
    pub(super) fn admits(&mut self, entry: &Entry) -> bool {
        self.clocks.admits(entry.gpu, entry.reading.at)
    }

    /// Records that the row after a header was admitted at once.
    pub(super) const fn follow(&mut self) {
        self.overlapping = None;
        _ = self.local.follow();
    }

    /// Takes a line. Appends the readings that are complete by now to `ready`; returns the seconds to add
    /// to rows that were decoded, but not taken.
    ///
    /// # Errors
    /// Returns an error if the log is unusable.
    #[cold]
    pub(super) fn push(
        &mut self,
        step: Step,
        entry: Entry,
        decoder: &mut LogDecoder,
        ready: &mut VecDeque<Entry>,
        mut reject: impl FnMut(u64, &dyn Display),
    ) -> Result<i64, Unusable> {
        let (mut rows, mut shift) = (Vec::new(), 0);
        match step {
            Step::Reading if self.is_next_by_order(&entry) => {
                self.newest = self.newest.max(Some(entry.reading.at));
                let Some(row_order) = &mut self.row_order else { return Ok(0) };
                row_order.push(entry);
                if !row_order.has_ticks() {
                    return Ok(0);
                }
            }
            Step::Reading => shift = self.follow_local(entry, decoder, &mut rows)?,
            Step::Header => {
                self.local.give_up(&mut rows);
                self.local.header();
            }
            Step::End => self.local.give_up(&mut rows),
            Step::Rejected => {}
        }
        if let Some(spread) = &mut self.spread {
            let second = std::mem::take(&mut rows);
            second.into_iter().for_each(|row| spread.push(row, &mut rows));
            if step == Step::End {
                spread.flush(false, &mut rows);
            }
        }
        for entry in self.assign(step, rows, &mut reject) {
            self.admit(entry, decoder, ready, &mut reject)?;
        }
        if step == Step::End {
            for (row, jump) in self.clocks.finish(ready) {
                reject(row.line, &jump);
            }
            if let Some((gpu, line, first)) = self.instants.usually_different()
                && !self.is_count_given
            {
                return Err((line, shared_id(gpu, first, decoder)));
            }
        }
        let is_compared =
            decoder.gpu_identification != GpuIdentification::RowOrder && self.instants.is_active();
        self.is_plain = self.row_order.is_none() && self.spread.is_none() && !is_compared;
        Ok(shift)
    }

    /// Appends the rows that are not in doubt to `rows`, with local time that has stepped continued.
    fn follow_local(
        &mut self,
        entry: Entry,
        decoder: &mut LogDecoder,
        rows: &mut Vec<Entry>,
    ) -> Result<i64, Unusable> {
        let follows_header = self.local.follow();
        let is_by_order = self.is_by_order();
        let own = if is_by_order { self.newest } else { self.clocks.newest(entry.gpu) };
        self.check_overlap(&entry, own, follows_header)?;
        let is_settled = !self.local.is_pending() && own.is_some_and(|own| is_near(own, &entry));
        let is_local = decoder.timestamps.is_local() && !follows_header;
        let newest = || if is_by_order { self.newest } else { self.clocks.newest_of_all() };
        let in_doubt = if is_local && !is_settled { newest() } else { None };
        let shift = match in_doubt {
            Some(newest) => {
                let reach = self.clocks.stale_after(entry.gpu);
                let tick = self.row_order.as_ref().map(RowOrder::gpus);
                let before =
                    Before { newest, reach, offset: decoder.timestamps.local_offset(), tick };
                self.local.push(entry, before, rows)
            }
            None => {
                rows.push(entry);
                0
            }
        };
        decoder.timestamps.shift_local(shift);
        if is_by_order {
            self.newest = rows.iter().map(|row| row.reading.at).chain(self.newest).max();
        }
        Ok(shift)
    }

    /// Whether a row is one of the next in its tick, and nothing else is to be found out about it.
    fn is_next_by_order(&self, entry: &Entry) -> bool {
        let is_in_order = self.is_by_order() && self.spread.is_none() && self.overlapping.is_none();
        is_in_order
            && !self.local.is_pending()
            && !self.local.follows_header()
            && self.newest.is_some_and(|newest| is_near(newest, entry))
    }

    /// Checks that the rows after a header do not begin again in the first half of those before it. `own`: the newest time
    /// of the row's GPU.
    fn check_overlap(
        &mut self,
        entry: &Entry,
        own: Option<Timestamp>,
        follows_header: bool,
    ) -> Result<(), Unusable> {
        let at = entry.reading.at;
        let start = *self.start.get_or_insert(at);
        let behind = own.map_or(Nanos::ZERO, |own| own.since(at));
        let before = own.map_or(Nanos::ZERO, |own| own.since(start));
        let is_late = behind > MeterConfig::LOG_ALLOWED_LATENESS;
        let begins_again = is_late && behind.saturating_mul(2) > before;
        let overlaps = if follows_header { begins_again } else { is_late };
        let counted = if follows_header { Some(0) } else { self.overlapping };
        self.overlapping = counted.filter(|_| overlaps).map(|rows| rows + 1);
        if self.overlapping == Some(MAX_OVERLAPPING) {
            let seconds = behind.0 / NANOS_PER_SECOND;
            return Err((entry.line, LogErrorKind::Overlap { seconds }));
        }
        Ok(())
    }

    /// The rows whose GPUs are known by now. Rows of interleaved GPUs are kept until their tick is
    /// complete.
    fn assign(
        &mut self,
        step: Step,
        rows: Vec<Entry>,
        reject: &mut impl FnMut(u64, &dyn Display),
    ) -> VecDeque<Entry> {
        let Some(row_order) = &mut self.row_order else { return rows.into() };
        rows.into_iter().for_each(|row| row_order.push(row));
        match step {
            Step::Reading => {}
            Step::Rejected => row_order.push_torn(),
            Step::Header | Step::End => row_order.restart(),
        }
        let mut assigned = VecDeque::new();
        row_order.assign(&mut assigned, |line, reason| reject(line, &reason));
        assigned
    }

    /// Appends a row to `ready` if it is the only one of its GPU and instant, and its clock is plausible.
    fn admit(
        &mut self,
        entry: Entry,
        decoder: &mut LogDecoder,
        ready: &mut VecDeque<Entry>,
        reject: &mut impl FnMut(u64, &dyn Display),
    ) -> Result<(), Unusable> {
        if decoder.gpu_identification == GpuIdentification::RowOrder {
            decoder.record_assigned(&entry);
        }
        // Rows without IDs at one instant may be of several GPUs that are counted as one.
        let is_compared = decoder.gpu_identification != GpuIdentification::RowOrder;
        if is_compared && let Err(Different { first, is_usual }) = self.instants.record(&entry) {
            if is_usual && !self.is_count_given {
                return Err((entry.line, shared_id(entry.gpu, first, decoder)));
            }
            reject(entry.line, &RejectReason::Different { first });
            return Ok(());
        }
        if self.clocks.admits(entry.gpu, entry.reading.at) {
            ready.push_back(entry);
        } else {
            let rejected = self.clocks.resolve(entry.gpu, entry, ready);
            rejected.iter().for_each(|(row, jump)| reject(row.line, jump));
        }
        Ok(())
    }
}

/// Whether a row can't follow a step of local time.
fn is_near(newest: Timestamp, entry: &Entry) -> bool {
    let at = entry.reading.at;
    newest.since(at).max(at.since(newest)) <= MIN_STEP
}

/// The refusal of a log whose GPUs share an ID.
fn shared_id(gpu: usize, first: u64, decoder: &LogDecoder) -> LogErrorKind {
    let gpus = decoder.registry.gpus();
    let found = gpus.len();
    let id = |gpu: &GpuIdentity| {
        let index = || gpu.index.map(|index| index.to_string());
        gpu.uuid.clone().or_else(|| gpu.bus_id.clone()).or_else(index)
    };
    let gpu = decoder.registry.gpus().nth(gpu).and_then(id).unwrap_or_default();
    LogErrorKind::SharedId { gpu, first, found }
}
