//! What happens to the GPUs of a run: readings late and out of order, gaps, changes of phase and price.

use phasemeter_meter::money::Rate;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};
use phasemeter_simulation::Rng;

/// Something that arrives at the pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input {
    Reading(usize, Reading),
    Price(Rate),
}

/// Of which a GPU has less than a hundredth in use, or more.
const MEMORY: [u64; 3] = [0, 4, 600];

/// The GPUs have this much memory.
pub(crate) fn memory_total() -> Option<Bytes> {
    Bytes::from_mebibytes(1_000)
}

/// A price of up to 10 dollars an hour.
pub(crate) fn any_price(rng: &mut Rng) -> Rate {
    Rate::new(rng.below(10_000_000_000)).unwrap()
}

/// What arrives from `start` on, for `seconds`, by time of arrival.
pub(crate) fn any_input(
    rng: &mut Rng,
    gpus: usize,
    start: Timestamp,
    seconds: u64,
) -> Vec<(Timestamp, Input)> {
    let end = start + Nanos::from_secs(seconds);
    let mut input = Vec::new();
    for gpu in 0..gpus {
        let (mut at, mut segment_end) = (start, start);
        let (mut percent, mut memory) = (0, None);
        while at < end {
            if at >= segment_end {
                segment_end = at + Nanos::from_millis(500 + rng.below(15_000));
                percent = [0, 3, 30, 60, 75, 95, 100][rng.index(7)];
                memory = Some(MEMORY[rng.index(3)]).filter(|_| rng.percent(80));
            }
            let is_readable = !rng.percent(4);
            let ppm = u32::try_from(percent * 10_000 + rng.below(9_999)).unwrap();
            let utilization = Utilization::from_ppm(ppm.min(1_000_000)).filter(|_| is_readable);
            let reading = Reading {
                utilization: utilization.ok_or(MissingReason::Unreadable),
                memory_used: memory.and_then(Bytes::from_mebibytes),
                ..Reading::at(at)
            };
            let delay = match rng.below(20) {
                0..=13 => rng.below(50),
                14..=18 => rng.below(7_000),
                _ => rng.below(25_000),
            };
            input.push((at + Nanos::from_millis(delay), Input::Reading(gpu, reading)));
            at = at
                + Nanos::from_millis(match rng.below(40) {
                    0 => 3_000 + rng.below(30_000),
                    1..=6 => 1 + rng.below(3_000),
                    _ => 1_000,
                });
        }
    }
    for _ in 0..rng.below(4) {
        let at = start + Nanos::from_millis(1 + rng.below(seconds * 1_000));
        input.push((at, Input::Price(any_price(rng))));
    }
    input.sort_by_key(|(at, _)| *at);
    input
}
