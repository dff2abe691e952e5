//! Processes that ended when memory ran out, as the meter counts them.

use phasemeter_policy::{Gpu, Workload};

use crate::time;

/// Ends of processes by a lack of memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfMemory {
    /// How many.
    pub count: f64,
    /// Memory that stays in use after the last of them, in bytes.
    pub kept: f64,
    /// From the first work of the last of them to its end, in seconds.
    pub seconds: f64,
}

/// Returns how often memory ran out; `None` if it did not, or once soon after a start, which may be the end of work that
/// needed it. A person ends a session.
pub fn out_of_memory(gpu: &Gpu) -> Option<OutOfMemory> {
    let of = |name| gpu.metric(name);
    let (count, kept, seconds) = (of("ends.full")?, of("ends.full.kept")?, of("ends.full.life")?);
    let is_shown = count > 1.0 || seconds >= time::USUAL;
    (is_shown && gpu.workload != Workload::Interactive).then_some(OutOfMemory {
        count,
        kept,
        seconds,
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::steady;

    use super::*;

    #[test]
    fn single_end_soon_after_a_start_may_be_that_of_the_work() {
        let ends = |workload, count: f64, life: f64| {
            let metrics = [("ends.full", count), ("ends.full.kept", 0.0), ("ends.full.life", life)];
            let metrics = metrics.map(|(name, value)| (name.to_owned(), value)).to_vec();
            out_of_memory(&Gpu { workload, metrics, ..steady(36_000, 0.9) }).is_some()
        };
        assert!(ends(Workload::Training, 1.0, 9_600.0));
        assert!(ends(Workload::Training, 2.0, 60.0));
        assert!(!ends(Workload::Training, 1.0, 60.0));
        assert!(!ends(Workload::Interactive, 2.0, 9_600.0));
        assert!(out_of_memory(&steady(36_000, 0.9)).is_none());
    }
}
