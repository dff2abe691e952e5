//! Closes boundaries, at which the state of a GPU is emitted, and the sessions that end there.

use super::rolling::Snapshot;
use super::{GpuMeter, Observer, post_to};
use crate::units::Timestamp;

impl GpuMeter {
    /// The first boundary after `at`, or the next step of the wall clock if that is earlier.
    pub(super) fn plan_boundary(&mut self, at: Timestamp) {
        let boundary = self.config.boundary_after(at, self.wall);
        let step = self.steps.first_until(boundary);
        self.next_boundary = step.map_or(boundary, |(step, _)| step);
    }

    /// Finalizes everything before `boundary` and emits the boundary, and the session's end if it
    /// is one: at a step of the wall clock, or at its hour.
    pub(super) fn close_boundary(
        &mut self,
        boundary: Timestamp,
        is_step: bool,
        observer: &mut impl Observer,
    ) {
        self.timeline.finalize(boundary, &mut post_to(&mut self.ledger, observer));
        let is_hour = self.config.ends_session(boundary, self.wall);
        let ends_session = is_step || is_hour;
        if ends_session {
            self.ledger.spans.finish(&mut |span| observer.span(span));
        }
        self.watermark = boundary;
        // A clock that steps all the time must not fill the window.
        if is_hour {
            self.push_snapshot();
        }
        observer.boundary(boundary, self);
        if ends_session {
            observer.session(boundary);
        }
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
