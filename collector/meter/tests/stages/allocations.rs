//! GPUs that a scheduler has allocated, touched or not.

use super::*;

/// A reading each 10 s: allocation, utilization, MiB of 1,000 in use, processes.
type Row = (Allocation, u32, Option<u64>, Option<u32>);

fn meter(rows: &[Row]) -> GpuMeter {
    let total = Bytes::from_mebibytes(1_000);
    let mut meter = GpuMeter::new(MeterConfig::default(), Rate::new(3_600_000_000_000), total);
    for (index, (allocation, utilization, memory, processes)) in (0..).zip(rows) {
        let reading = Reading {
            utilization: Ok(percent(*utilization)),
            memory_used: memory.and_then(Bytes::from_mebibytes),
            compute_processes: *processes,
            allocation: *allocation,
            ..Reading::at(at(index * 10_000))
        };
        meter.push(reading, &mut ()).unwrap();
    }
    meter.finish(&mut ());
    meter
}

/// Seconds held, free, unknown and never touched.
fn seconds(rows: &[Row]) -> [u64; 4] {
    let meter = meter(rows);
    let summary = meter.summary();
    let idle = [Account::IdleHeld, Account::IdleFree, Account::IdleUnknown];
    let [held, free, unknown] = idle.map(|account| summary.accounts[account].time);
    let untouched = summary.untouched;
    assert_eq!(untouched.time, meter.untouched().values().map(|it| it.time).sum());
    assert_eq!(untouched.cost, NanoUsd(i128::from(untouched.time.0)), "a dollar per second");
    [held, free, unknown, untouched.time].map(|time| time.0 / 1_000_000_000)
}

const FREE: Row = (Allocation::None, 0, Some(0), None);

const fn held(number: u32, utilization: u32) -> Row {
    (Allocation::Held(number), utilization, Some(0), None)
}

/// Guarantee: an allocated GPU is held while the allocation lasts, before it and after it is free.
#[test]
fn gpu_is_held_as_long_as_it_is_allocated() {
    let unknown = (Allocation::Unknown, 0, Some(0), None);
    let rows = [unknown, unknown, held(1, 0), held(1, 0), held(1, 0), FREE, FREE, FREE];
    assert_eq!(seconds(&rows), [30, 40, 0, 30]);
    // Without memory or processes, nothing is known before the first allocation.
    let rows = rows.map(|(allocation, utilization, ..)| (allocation, utilization, None, None));
    assert_eq!(seconds(&rows), [30, 20, 20, 30]);
}

/// Guarantee: what an allocation held is never touched as long as it has no reading at the idle threshold or above,
/// no compute process and at most 1% of the memory in use; each allocation by itself.
#[test]
fn allocation_is_touched_by_work_a_process_or_memory() {
    let ends = |last: Row| {
        let mut rows = vec![held(1, 9); 10];
        rows.extend([last, FREE]);
        rows
    };
    assert_eq!(seconds(&ends(held(1, 9))), [110, 0, 0, 110]);
    assert_eq!(seconds(&ends(held(1, 10))), [100, 0, 0, 0]);
    assert_eq!(seconds(&ends((Allocation::Held(1), 0, Some(10), None))), [110, 0, 0, 110]);
    assert_eq!(seconds(&ends((Allocation::Held(1), 0, Some(11), None))), [110, 0, 0, 0]);
    assert_eq!(seconds(&ends((Allocation::Held(1), 0, Some(0), Some(1)))), [110, 0, 0, 0]);
    let touched_first = [held(1, 50), held(1, 0), held(1, 0), FREE, FREE];
    assert_eq!(seconds(&touched_first), [20, 10, 0, 0]);
    let next = [held(1, 50), held(1, 0), held(2, 0), held(2, 0), FREE, FREE];
    assert_eq!(seconds(&next), [30, 10, 0, 20], "another allocation");
    let pause = [held(1, 50), FREE, held(1, 0), held(1, 0), FREE, FREE];
    assert_eq!(seconds(&pause), [20, 20, 0, 0], "the same allocation after a pause");
    assert_eq!(seconds(&[FREE, FREE, FREE]), [0, 20, 0, 0]);
}

/// Guarantee: a late price gives untouched time its cost, and more allocations than are kept apart are in the sum.
#[test]
fn untouched_time_is_priced_and_bounded() {
    let rows: Vec<Row> = (0..200).map(|number| held(number, 0)).collect();
    let meter = meter(&rows);
    assert!(meter.untouched().len() <= 64);
    assert_eq!(meter.summary().untouched.time, Nanos::from_secs(1_990));
    let mut late = GpuMeter::new(MeterConfig::default(), None, None);
    for second in 0..=60 {
        let allocation = Allocation::Held(1);
        let reading =
            Reading { utilization: Ok(percent(0)), allocation, ..Reading::at(at(second * 1_000)) };
        late.push(reading, &mut ()).unwrap();
    }
    late.finish(&mut ());
    assert_eq!(late.summary().untouched.cost, NanoUsd::ZERO);
    late.price_from_start(Rate::new(3_600_000_000_000).unwrap()).unwrap();
    assert_eq!(late.summary().untouched.cost, NanoUsd(60_000_000_000));
}
