//! Closes boundaries, at which the state of a GPU is emitted, and the sessions that end there.

use super::rolling::Snapshot;
use super::{GpuMeter, Observer, post_to};
use crate::units::Timestamp;
use crate::wall_time::WallOffset;

/// Maximum number of boundaries that are requested and not reached: an agent's next export, and the start and end of its
/// accounts, with as many to spare.
const MAX_REQUESTED: usize = 8;

/// An instant that is a boundary beside the regular ones.
pub(super) struct Stop {
    pub(super) at: Timestamp,
    /// The wall time from then on, if the wall clock steps there.
    pub(super) step: Option<WallOffset>,
}

impl GpuMeter {
    /// The first boundary after `at`, or the next step of the wall clock or requested boundary if that is earlier.
    pub(super) fn plan_boundary(&mut self, at: Timestamp) {
        let boundary = self.config.boundary_after(at, self.wall);
        let boundary = self.planned_end(at).map_or(boundary, |end| end.min(boundary));
        self.next_boundary = self.stop_until(boundary).map_or(boundary, |stop| stop.at);
    }

    /// The first step of the wall clock or requested boundary at or before `until`.
    pub(super) fn stop_until(&self, until: Timestamp) -> Option<Stop> {
        let step = self.steps.first_until(until);
        let requested = self.requested.first().copied().filter(|at| *at <= until);
        match (step, requested) {
            (Some((at, _)), Some(requested)) if requested < at => {
                Some(Stop { at: requested, step: None })
            }
            (Some((at, wall)), _) => Some(Stop { at, step: Some(wall) }),
            (None, requested) => requested.map(|at| Stop { at, step: None }),
        }
    }

    /// Emits one more boundary at `at`, a whole second, which shows the state at that instant.
    /// Returns whether it will be: the time before `at` must not be metered yet.
    pub fn request_boundary(&mut self, at: Timestamp) -> bool {
        let metered = self.last.map(|last| last.at).max(self.silent_until).max(self.start);
        let is_whole = at == at.floor_second();
        if !is_whole || metered.is_none_or(|metered| at <= metered) {
            return false;
        }
        if let Err(place) = self.requested.binary_search(&at) {
            if self.requested.len() >= MAX_REQUESTED {
                return false;
            }
            self.requested.insert(place, at);
        }
        self.plan_boundary(self.watermark);
        true
    }

    /// The next boundary of exports; [`Timestamp::LAST`] if there are none.
    #[must_use]
    pub fn next_export(&self) -> Timestamp {
        let metered = self.last.map(|last| last.at).max(self.start).unwrap_or_default();
        self.config.boundary_after(metered.max(self.watermark), self.wall)
    }

    /// Finalizes everything before `boundary` and emits the boundary, and the session's end if it
    /// is one: at a step of the wall clock, or at its hour.
    pub(super) fn close_boundary(
        &mut self,
        boundary: Timestamp,
        is_step: bool,
        observer: &mut impl Observer,
    ) {
        self.finalize_until(boundary, observer);
        let is_hour = self.config.ends_session(boundary, self.wall);
        let ends_session = is_step || is_hour;
        if ends_session {
            self.ledger.spans.finish(&mut |span| observer.span(span));
        }
        self.requested.retain(|at| *at > boundary);
        // A clock that steps all the time must not fill the window.
        if is_hour {
            self.push_snapshot();
        }
        observer.boundary(boundary, self);
        if ends_session {
            observer.session(boundary);
        }
    }

    /// Finalizes everything before `at`.
    pub(super) fn finalize_until(&mut self, at: Timestamp, observer: &mut impl Observer) {
        self.timeline.finalize(at, &mut post_to(&mut self.ledger, observer));
        self.watermark = at;
    }

    /// Adds a snapshot at the end of a session to the recent window.
    fn push_snapshot(&mut self) {
        let from = self.watermark.saturating_sub(self.config.window);
        let activity = self.ledger.activity.end_session();
        let snapshot = Snapshot { activity, ..self.snapshot() };
        if let Some(window) = &mut self.window {
            window.push(snapshot, from);
        }
    }
}
