//! Duration of export attempts by outcome.

use phasemeter_meter::units::Nanos;

use super::response::ExportResponse;
use crate::duration_histogram::{Counts, Durations};

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The backend accepted the request, at least in part.
    Accepted,
    /// The backend rejected the request for good.
    Rejected,
    /// The attempt is repeated: the backend was unreachable or asked for it.
    Failed,
}

impl AttemptEnd {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Accepted, Self::Rejected, Self::Failed];
}

/// The attempts of one signal. Connecting is part of an attempt.
#[derive(Debug, Default)]
pub(super) struct Attempts([Durations; AttemptEnd::ALL.len()]);

impl Attempts {
    pub(super) fn count(&self, response: &ExportResponse, took: Nanos) {
        let end = match response {
            ExportResponse::Accepted { .. } => AttemptEnd::Accepted,
            ExportResponse::Rejected { .. } => AttemptEnd::Rejected,
            ExportResponse::Retry { .. } => AttemptEnd::Failed,
        };
        self.ended(end).for_each(|durations| durations.add(took));
    }

    pub(super) fn counts(&self, end: AttemptEnd) -> Counts {
        Counts::of(self.ended(end))
    }

    fn ended(&self, end: AttemptEnd) -> impl Iterator<Item = &Durations> {
        self.0.get(end as usize).into_iter()
    }
}
