//! Spans of an hour, whose cost is divided on 16 GPUs with a reading per second.

use phasemeter_attribution::{
    Attribution, ChosenSpan, CostSlice, GpuSet, HolderKeys, Limits, SpanKey,
};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};

const GPUS: usize = 16;

const SECONDS: u64 = 3_600;

const NANOS: u64 = 1_000_000_000;

/// Bytes of such a span in a request.
const SPAN_BYTES: usize = 64;

/// Divides the cost of the spans of a request of this size.
pub(super) fn divide(size: usize) {
    let at = |nanos: u64| Timestamp::from_nanos(1_785_110_400 * NANOS + nanos).unwrap_or_default();
    let limits = Limits { max_bytes: 256 << 20, ..Limits::default() };
    let mut attribution = Attribution::new(limits);
    for gpu in 0..GPUS {
        attribution.add_gpu();
        for second in 0..SECONDS {
            let slice = CostSlice {
                from: at(second * NANOS),
                to: at((second + 1) * NANOS),
                time: Nanos(NANOS),
                cost: NanoUsd(1_111_111),
                weighted: 600_000 * u128::from(NANOS),
                is_observed: true,
                energy: 500_000_000,
            };
            attribution.charge(gpu, HolderKeys::NOBODY, slice);
        }
    }
    let now = at(SECONDS * NANOS);
    for number in 0..size as u64 / SPAN_BYTES as u64 {
        let mut trace = [7; 16];
        trace[..8].copy_from_slice(&number.to_be_bytes());
        let span = ChosenSpan {
            key: SpanKey { trace, span: [1; 8] },
            parent: None,
            from: at(1 + number),
            to: Some(at(SECONDS * NANOS - 1 - number)),
            weight: None,
            adjusted_count: None,
            gpus: GpuSet::All,
        };
        let _ = attribution.offer(span, (), SPAN_BYTES, now, &mut drop);
    }
    attribution.advance(now + Nanos::from_secs(60), &mut drop);
}
