//! Settings of a meter and their defaults.

use crate::phase::Thresholds;
use crate::presence::MissingTime;
use crate::reading::Basis;
use crate::staleness::StaleAfter;
use crate::units::{Nanos, Timestamp};
use crate::wall_time::WallOffset;

/// Settings of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Utilization bounds between phases.
    pub thresholds: Thresholds,
    /// How far a reading may trail the newest one.
    pub allowed_lateness: Nanos,
    /// How long a reading represents the present.
    pub stale_after: StaleAfter,
    /// Minimum length of a phase span.
    pub min_span: Nanos,
    /// The utilization source used for billing; polled values fill its gaps.
    pub basis: Basis,
    /// The source of polled values.
    pub polled_basis: Basis,
    /// Interval of boundaries, in whole seconds; zero for none. At each multiple of it in wall time
    /// the observer receives the meter's state.
    pub boundary_every: Nanos,
    /// Interval of session ends, in whole seconds; zero for none. A session ends at each multiple of
    /// it in wall time, and whenever the wall clock steps; that end is also a boundary.
    pub session_every: Nanos,
    /// With session ends: length of the recent window before the session in progress.
    pub window: Nanos,
    /// Local time in seconds east of UTC, for hours of the week; `None` if unknown.
    pub utc_offset: Option<i32>,
    /// What time without readings is.
    pub missing: MissingTime,
    /// Maximum number of holders of a GPU that have ended and are kept apart.
    pub ended_holders: usize,
    /// Whether spans, and the charges that observers receive, are what holders pay only, as in a pod that has a part of
    /// a GPU. Without any holder they are of the whole GPU.
    pub charges_holders: bool,
}

impl MeterConfig {
    /// Allowed lateness for logs.
    pub const LOG_ALLOWED_LATENESS: Nanos = Nanos::from_secs(2);

    /// Allowed lateness for live runs: the driver's sample buffer is drained every 10 s.
    pub const LIVE_ALLOWED_LATENESS: Nanos = Nanos::from_secs(15);

    /// Default minimum length of a phase span.
    pub const MIN_SPAN: Nanos = Nanos::from_secs(5);

    /// Session length if the end of the run is unknown. Sessions end at whole UTC hours, so that
    /// each is one hour's bill and the sessions of all GPUs align.
    pub const SESSION: Nanos = Nanos::from_secs(3_600);

    /// Recent window if the end of the run is unknown: the 24 hours before the hour in progress, so
    /// that it contains each hour of the day.
    pub const WINDOW: Nanos = Nanos::from_secs(24 * 3_600);

    /// Default number of ended holders of a GPU that are kept apart: 1.5 MiB.
    pub const ENDED_HOLDERS: usize = 1_024;

    /// Start of the recent window at `end`; the epoch if there are no session ends.
    pub(crate) fn recent_from(&self, end: Timestamp, wall: WallOffset) -> Timestamp {
        match self.session_every {
            Nanos::ZERO => Timestamp::EPOCH,
            every => wall.floor(end, every).saturating_sub(self.window),
        }
    }

    /// The first boundary after `at`.
    pub(crate) fn boundary_after(&self, at: Timestamp, wall: WallOffset) -> Timestamp {
        after(self.boundary_every, at, wall).min(after(self.session_every, at, wall))
    }

    /// Whether `boundary` is the end of a session.
    pub(crate) fn ends_session(&self, boundary: Timestamp, wall: WallOffset) -> bool {
        self.session_every > Nanos::ZERO && wall.floor(boundary, self.session_every) == boundary
    }

    /// The boundaries in (`reading`, `next`], at most three however long the gap: the first session
    /// end, the last session end, and the last boundary.
    pub(crate) fn boundaries(
        &self,
        reading: Timestamp,
        next: Timestamp,
        wall: WallOffset,
    ) -> impl Iterator<Item = Timestamp> + use<> {
        let ends = [
            after(self.session_every, reading, wall),
            before(self.session_every, next, wall),
            before(self.boundary_every, next, wall),
        ];
        let mut emitted = reading;
        ends.into_iter().filter(move |end| {
            let is_new = emitted < *end && *end <= next;
            emitted = if is_new { *end } else { emitted };
            is_new
        })
    }
}

/// The first multiple of `every` in wall time after `at`.
fn after(every: Nanos, at: Timestamp, wall: WallOffset) -> Timestamp {
    match every {
        Nanos::ZERO => Timestamp::LAST,
        every => wall.floor(at, every) + every,
    }
}

/// The last multiple of `every` in wall time at or before `at`.
fn before(every: Nanos, at: Timestamp, wall: WallOffset) -> Timestamp {
    match every {
        Nanos::ZERO => Timestamp::EPOCH,
        every => wall.floor(at, every),
    }
}

/// Settings for logs: one session, no boundaries.
impl Default for MeterConfig {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            allowed_lateness: Self::LOG_ALLOWED_LATENESS,
            stale_after: StaleAfter::Estimated,
            min_span: Self::MIN_SPAN,
            basis: Basis::NvmlGpu,
            polled_basis: Basis::NvmlGpu,
            boundary_every: Nanos::ZERO,
            session_every: Nanos::ZERO,
            window: Self::WINDOW,
            utc_offset: None,
            missing: MissingTime::default(),
            ended_holders: Self::ENDED_HOLDERS,
            charges_holders: false,
        }
    }
}
