//! GPUs that a scheduler has allocated, touched or not.

use phasemeter_meter::holder::{Grant, Holder, Share};

use super::*;

/// A reading each 10 s: who holds the GPU, if that is known; utilization, MiB of 1,000 in use, processes.
type Row = (Option<&'static [&'static str]>, u32, Option<u64>, Option<u32>);

fn job(id: &str) -> Holder {
    Holder::Job(id.to_owned())
}

fn meter(rows: &[Row], holder: fn(&str) -> Holder) -> GpuMeter {
    let total = Bytes::from_mebibytes(1_000);
    let mut meter = GpuMeter::new(MeterConfig::default(), Rate::new(3_600_000_000_000), total);
    for (index, (holders, utilization, memory, processes)) in (0..).zip(rows) {
        let at = at(index * 10_000);
        if let Some(holders) = holders {
            let share = Share::new(1, u32::try_from(holders.len()).unwrap());
            let grant = |id: &&str| Grant { holder: holder(id), share };
            meter.assign(at, holders.iter().map(grant).collect());
        }
        let reading = Reading {
            utilization: Ok(percent(*utilization)),
            memory_used: memory.and_then(Bytes::from_mebibytes),
            compute_processes: *processes,
            ..Reading::at(at)
        };
        meter.push(reading, &mut ()).unwrap();
    }
    meter.finish(&mut ());
    meter
}

/// Seconds held, free, unknown and never touched.
fn seconds(rows: &[Row]) -> [u64; 4] {
    seconds_of(rows, job)
}

fn seconds_of(rows: &[Row], holder: fn(&str) -> Holder) -> [u64; 4] {
    let meter = meter(rows, holder);
    let summary = meter.summary();
    let idle = [Account::IdleHeld, Account::IdleFree, Account::IdleUnknown];
    let [held, free, unknown] = idle.map(|account| summary.accounts[account].time);
    let untouched = meter.holders().idle_never_touched().unwrap_or_default();
    assert_eq!(untouched.cost, NanoUsd(i128::from(untouched.time.0)), "a dollar per second");
    [held, free, unknown, untouched.time].map(|time| time.0 / 1_000_000_000)
}

const FREE: Row = (Some(&[]), 0, Some(0), None);

const fn held(job: &'static [&'static str], utilization: u32) -> Row {
    (Some(job), utilization, Some(0), None)
}

const A: &[&str] = &["a"];
const B: &[&str] = &["b"];

/// Guarantee: an allocated GPU is held while the allocation lasts, before it and after it is free. Only a scheduler
/// allocates: what processes or names hold is held if a reading shows it.
#[test]
fn gpu_is_held_as_long_as_it_is_allocated() {
    let unknown = (None, 0, Some(0), None);
    let rows = [unknown, unknown, held(A, 0), held(A, 0), held(A, 0), FREE, FREE, FREE];
    assert_eq!(seconds(&rows), [30, 40, 0, 30]);
    // Without memory or processes, nothing is known before the first allocation.
    let rows = rows.map(|(holders, utilization, ..)| (holders, utilization, None, None));
    assert_eq!(seconds(&rows), [30, 20, 20, 30]);
    let one = |holder: fn(&str) -> Holder| seconds_of(&rows[2..5], holder);
    assert_eq!(one(|name| Holder::Named(name.to_owned())), [0, 0, 20, 0]);
    assert_eq!(one(|_| Holder::ProcessGroup(7)), [0, 0, 20, 0]);
}

/// Guarantee: what an allocation holds is never touched until a reading at the idle threshold or above, a compute
/// process or more than 1% of the memory in use; each allocation by itself. What was never touched stays so.
#[test]
fn allocation_is_touched_by_work_a_process_or_memory() {
    let ends = |last: Row| {
        let mut rows = vec![held(A, 0); 10];
        rows.extend([last, FREE]);
        rows
    };
    assert_eq!(seconds(&ends(held(A, 9))), [110, 0, 0, 109], "what is used is not untouched");
    assert_eq!(seconds(&ends(held(A, 10))), [100, 0, 0, 100]);
    assert_eq!(seconds(&ends((Some(A), 0, Some(10), None))), [110, 0, 0, 110]);
    assert_eq!(seconds(&ends((Some(A), 0, Some(11), None))), [110, 0, 0, 100]);
    assert_eq!(seconds(&ends((Some(A), 0, Some(0), Some(1)))), [110, 0, 0, 100]);
    let touched_first = [held(A, 50), held(A, 0), held(A, 0), FREE, FREE];
    assert_eq!(seconds(&touched_first), [20, 10, 0, 0]);
    let next = [held(A, 50), held(A, 0), held(B, 0), held(B, 0), FREE, FREE];
    assert_eq!(seconds(&next), [30, 10, 0, 20], "another allocation");
    let pause = [held(A, 50), FREE, held(A, 0), held(A, 0), FREE, FREE];
    assert_eq!(seconds(&pause), [20, 20, 0, 0], "the same allocation after a pause");
    let shared = [held(A, 50), held(&["a", "b"], 0), held(&["a", "b"], 0), FREE];
    assert_eq!(seconds(&shared), [20, 0, 0, 10], "half of it");
    assert_eq!(seconds(&[FREE, FREE, FREE]), [0, 20, 0, 0]);
}

/// Guarantee: a late price gives untouched time its cost, and more allocations than are kept apart are in the sum.
#[test]
fn untouched_time_is_priced_and_bounded() {
    let config = MeterConfig { ended_holders: 16, ..MeterConfig::default() };
    let mut late = GpuMeter::new(config, None, None);
    for tick in 0..200 {
        let at = at(tick * 10_000);
        let grant = Grant { holder: job(&tick.to_string()), share: Some(Share::WHOLE) };
        late.assign(at, vec![grant]);
        let reading = Reading { utilization: Ok(percent(0)), ..Reading::at(at) };
        late.push(reading, &mut ()).unwrap();
    }
    late.finish(&mut ());
    assert!(late.holders().iter().count() <= 17);
    let untouched = |meter: &GpuMeter| meter.holders().idle_never_touched().unwrap();
    assert_eq!(untouched(&late).time, Nanos::from_secs(1_990));
    assert_eq!(untouched(&late).cost, NanoUsd::ZERO);
    late.price_from_start(Rate::new(3_600_000_000_000).unwrap()).unwrap();
    assert_eq!(untouched(&late).cost, NanoUsd(1_990_000_000_000));
}
