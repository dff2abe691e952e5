//! Requests to an LLM server, the same each time. Shared by path.

use std::ops::Range;

/// A request: when it is served, in nanoseconds, and how many tokens it returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LlmRequest {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) tokens: u32,
}

/// Requests of `concurrent` clients that send one after another until `end`. `durations`: how long a
/// request takes.
pub(crate) fn llm_requests(concurrent: u64, durations: &Range<u64>, end: u64) -> Vec<LlmRequest> {
    let mut state = 99_u64;
    // xorshift
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    let mut requests = Vec::new();
    for _ in 0..concurrent {
        let mut from = below(durations.start);
        loop {
            let to = from + durations.start + below(durations.end - durations.start);
            if to > end {
                break;
            }
            let tokens = 16 + u32::try_from(below(2_000)).unwrap_or_default();
            requests.push(LlmRequest { from, to, tokens });
            // The pause before the next one.
            from = to + below(durations.start / 200);
        }
    }
    requests
}
