//! How a GPU is metered: what a user may decide, and what holds where they do not.

use crate::hold::MaxHold;
use crate::phase::Thresholds;
use crate::reading::Basis;
use crate::units::{Nanos, Timestamp};

/// How a GPU is metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Where one phase ends and the next begins.
    pub thresholds: Thresholds,
    /// How late a reading may come.
    pub lateness: Nanos,
    /// How long a reading holds.
    pub max_hold: MaxHold,
    /// The shortest phase span.
    pub min_span: Nanos,
    /// The measure that the bill is made from; what polling reads where it says nothing.
    pub basis: Basis,
    /// The observer is told of the state at multiples of this, whole seconds; zero for never.
    pub boundary_every: Nanos,
    /// A session ends at multiples of this, whole seconds, and the next begins; zero for never. Its
    /// end is a boundary.
    pub session_every: Nanos,
    /// Where sessions end, so much before the one in progress is recent.
    pub window: Nanos,
}

impl MeterConfig {
    /// How late a reading in a log may be.
    pub const LOG_LATENESS: Nanos = Nanos::from_secs(2);

    /// How late a live reading may be: a driver's ring of samples is drained every 10 s.
    pub const LIVE_LATENESS: Nanos = Nanos::from_secs(15);

    /// The shortest span a person wants to see.
    pub const MIN_SPAN: Nanos = Nanos::from_secs(5);

    /// How long a session lasts where nobody can say when the run will end: to the next whole hour
    /// of UTC, so that a session is an hour's bill, and the sessions of all GPUs stand side by side.
    pub const SESSION: Nanos = Nanos::from_secs(3_600);

    /// What is recent where nobody can say when the run will end: the hour in progress and the 24
    /// before it, so that each hour of a day is in it.
    pub const WINDOW: Nanos = Nanos::from_secs(24 * 3_600);

    /// What is recent at `end` began here; of a run without sessions all is.
    pub(crate) fn recent_from(&self, end: Timestamp) -> Timestamp {
        match self.session_every {
            Nanos::ZERO => Timestamp::EPOCH,
            every => end.floor(every).saturating_sub(self.window),
        }
    }

    /// The first boundary after `at`.
    pub(crate) fn boundary_after(&self, at: Timestamp) -> Timestamp {
        after(self.boundary_every, at).min(after(self.session_every, at))
    }

    /// Whether this boundary is the end of a session.
    pub(crate) fn ends_session(&self, boundary: Timestamp) -> bool {
        self.session_every > Nanos::ZERO && boundary.floor(self.session_every) == boundary
    }

    /// The boundaries after one reading, and not after the next. However many there are, three tell
    /// it all: where the session ended, where the one without a reading did, and the last of all.
    pub(crate) fn boundaries(
        &self,
        reading: Timestamp,
        next: Timestamp,
    ) -> impl Iterator<Item = Timestamp> + use<> {
        let ends = [
            after(self.session_every, reading),
            before(self.session_every, next),
            before(self.boundary_every, next),
        ];
        let mut told = reading;
        ends.into_iter().filter(move |end| {
            let is_news = told < *end && *end <= next;
            told = if is_news { *end } else { told };
            is_news
        })
    }
}

/// The first multiple of `every` after `at`.
fn after(every: Nanos, at: Timestamp) -> Timestamp {
    match every {
        Nanos::ZERO => Timestamp::LAST,
        every => at.floor(every) + every,
    }
}

/// The last multiple of `every` that is not after `at`.
fn before(every: Nanos, at: Timestamp) -> Timestamp {
    match every {
        Nanos::ZERO => Timestamp::EPOCH,
        every => at.floor(every),
    }
}

/// As for logs; no boundaries, one session.
impl Default for MeterConfig {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            lateness: Self::LOG_LATENESS,
            max_hold: MaxHold::Estimated,
            min_span: Self::MIN_SPAN,
            basis: Basis::NvmlGpu,
            boundary_every: Nanos::ZERO,
            session_every: Nanos::ZERO,
            window: Self::WINDOW,
        }
    }
}
