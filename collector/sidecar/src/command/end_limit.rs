//! How long the end of a run may take at most, whatever its pipeline does.

use std::time::{Duration, Instant};

/// An end takes some tens of seconds at most: each of its steps has a limit of its own.
const LIMIT: Duration = Duration::from_secs(60);

/// One that is requested a second time stops waiting for all of them.
const CUT_LIMIT: Duration = Duration::from_secs(5);

/// The time left for an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndLimit {
    until: Instant,
    /// Requests of termination after which it is cut.
    requests: u32,
    is_cut: bool,
}

impl EndLimit {
    /// The end begins now, after so many requests of termination.
    pub(super) fn begin(now: Instant, requests: u32) -> Self {
        Self { until: now + LIMIT, requests: requests.max(1), is_cut: false }
    }

    /// Whether the end has taken too long, after so many requests of termination.
    pub(super) fn is_over(&mut self, now: Instant, requests: u32) -> bool {
        if !self.is_cut && requests > self.requests {
            self.is_cut = true;
            self.until = self.until.min(now + CUT_LIMIT);
        }
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_is_limited_and_shorter_if_it_is_requested_twice() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut limit = EndLimit::begin(start, 1);
        assert!(!limit.is_over(at(59), 1) && limit.is_over(at(60), 1));
        // Without a request, the first one is not a second one.
        let mut limit = EndLimit::begin(start, 0);
        assert!(!limit.is_over(at(9), 1));
        assert!(!limit.is_over(at(10), 2) && !limit.is_over(at(14), 3) && limit.is_over(at(15), 3));
        let mut limit = EndLimit::begin(start, 3);
        assert!(!limit.is_over(at(20), 3) && !limit.is_over(at(58), 4) && limit.is_over(at(60), 4));
    }
}
