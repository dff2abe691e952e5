//! Cycles and patterns.

use super::*;

const LOW: u32 = 100_000;

fn observe(
    detector: &mut CycleDetector,
    from: u64,
    low: u32,
    high: u32,
    rises: u64,
) -> Vec<CycleChange> {
    let ppm = |ppm| Utilization::from_ppm(ppm).unwrap();
    let cycles = (0..rises).flat_map(|rise| {
        let start = from + rise * 10_000;
        [(at(start), ppm(low)), (at(start + 5_000), ppm(high))]
    });
    cycles.filter_map(|(at, utilization)| detector.observe(at, utilization)).collect()
}

#[test]
fn cycles_need_both_thresholds() {
    for (low, high, bouncing) in
        [(LOW - 1, 700_000, true), (LOW, 700_000, false), (LOW - 1, 699_999, false)]
    {
        let mut detector = CycleDetector::default();
        observe(&mut detector, 0, low, high, 11);
        assert_eq!(
            detector.bouncing_since(&Snapshot::default()).is_some(),
            bouncing,
            "{low}–{high}"
        );
    }
}

#[test]
fn pattern_since_a_snapshot_ignores_earlier_cycles() {
    let mut detector = CycleDetector::default();
    observe(&mut detector, 0, 0, 1_000_000, 21);
    let earlier = detector.snapshot();
    assert_eq!(detector.bouncing_since(&earlier), None);
    detector.interrupt();
    detector.observe(at(299_000), percent(0));
    // A fifth of each of these ten cycles is high.
    for cycle in 0..=10_u64 {
        let start = 300_000 + cycle * 20_000;
        detector.observe(at(start), percent(100));
        detector.observe(at(start + 4_000), percent(0));
    }
    let since = detector.bouncing_since(&earlier).unwrap();
    assert_eq!(since.period, Some(Nanos::from_secs(20)));
    assert_eq!(since.duty_cycle, Some(200_000));
    let all = detector.bouncing_since(&Snapshot::default()).unwrap();
    assert_eq!(all.period, Some(Nanos::from_secs(10)));
    assert_eq!(all.duty_cycle, Some((100 + 40) * 1_000_000 / (200 + 200)));
}

#[test]
fn rise_after_an_interruption_begins_a_stretch_without_cycles() {
    let mut detector = CycleDetector::default();
    assert_eq!(
        observe(&mut detector, 0, 0, 1_000_000, 1),
        [CycleChange::StretchStarted(at(5_000))]
    );
    detector.interrupt();
    let changes = observe(&mut detector, 20_000, 0, 1_000_000, 2);
    assert_eq!(
        changes,
        [CycleChange::StretchStarted(at(25_000)), CycleChange::StretchExtended(at(35_000))]
    );
    detector.interrupt();
    assert_eq!(
        observe(&mut detector, 50_000, 0, 1_000_000, 1),
        [],
        "it may still continue the stretch"
    );
}

#[test]
fn pattern_needs_ten_readings_and_30_seconds() {
    // From the 5th to the 95th percentile.
    let steady = |of: u32| Some(percent(if of == 5 { 40 } else { of - 25 }));
    let calm = |readings, seconds| {
        Pattern::without_bouncing(steady, readings, Nanos::from_secs(seconds))
            .map(|pattern| pattern.kind)
    };
    assert_eq!(calm(10, 30), Some(PatternKind::Steady), "40–70 %");
    assert_eq!(calm(9, 30), None);
    assert_eq!(calm(10, 29), None);
    assert_eq!(calm(1_000, 3_600), Some(PatternKind::Steady));
    let flat = |ppm| {
        let utilization = Utilization::from_ppm(ppm);
        Pattern::without_bouncing(|_| utilization, 10, Nanos::from_secs(30))
            .map(|pattern| pattern.kind)
    };
    assert_eq!(flat(LOW - 1), Some(PatternKind::Idle));
    assert_eq!(flat(LOW), Some(PatternKind::Steady));
    let kinds = [PatternKind::Idle, PatternKind::Steady, PatternKind::Bouncing, PatternKind::Mixed];
    assert_eq!(kinds.map(PatternKind::name), ["idle", "steady", "bouncing", "mixed"]);
}
