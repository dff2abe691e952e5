//! How long attempts took, by how they ended.

use phasemeter_meter::units::Nanos;

use super::response::ExportResponse;
use crate::duration_histogram::{Counts, Durations};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The backend has the request, whole or in part.
    Accepted,
    /// The backend will never take it.
    Refused,
    /// It is made again: the backend was not reached, or asked for that.
    Failed,
}

impl AttemptEnd {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Accepted, Self::Refused, Self::Failed];
}

/// The attempts of one signal. Connecting is part of an attempt.
#[derive(Debug, Default)]
pub(super) struct Attempts([Durations; AttemptEnd::ALL.len()]);

impl Attempts {
    pub(super) fn count(&self, answer: &ExportResponse, took: Nanos) {
        let end = match answer {
            ExportResponse::Accepted { .. } => AttemptEnd::Accepted,
            ExportResponse::Refused { .. } => AttemptEnd::Refused,
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
