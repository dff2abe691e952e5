//! The reorder buffer.

use super::*;

fn filled(allowed_lateness: Nanos, millis: &[u64]) -> ReorderBuffer {
    let mut buffer = ReorderBuffer::new(allowed_lateness);
    millis.iter().for_each(|millis| buffer.push(Reading::at(at(*millis))).unwrap());
    buffer
}

fn popped(buffer: &mut ReorderBuffer) -> Vec<Timestamp> {
    std::iter::from_fn(|| buffer.pop()).map(|reading| reading.at).collect()
}

#[test]
fn buffer_releases_readings_older_than_the_watermark() {
    let mut buffer = filled(Nanos::from_secs(2), &[0, 1_000, 2_500]);
    assert_eq!(popped(&mut buffer), [at(0)], "nothing before 0.5 s is accepted any more");
    assert_eq!(buffer.next_at(), Some(at(1_000)));
    buffer.push(Reading::at(at(3_000))).unwrap();
    assert_eq!(popped(&mut buffer), [], "another reading at 1 s would be accepted");
    buffer.push(Reading::at(at(3_001))).unwrap();
    assert_eq!(popped(&mut buffer), [at(1_000)]);
    assert_eq!(buffer.next_at(), Some(at(2_500)));
    let rest: Vec<_> = std::iter::from_fn(|| buffer.drain()).map(|reading| reading.at).collect();
    assert_eq!(rest, [at(2_500), at(3_000), at(3_001)]);
    assert_eq!(buffer.next_at(), None);
}

#[test]
fn buffer_releases_the_oldest_above_capacity() {
    let all: Vec<_> = (0..CAPACITY as u64).collect();
    let mut buffer = filled(Nanos::from_secs(86_400), &all);
    assert_eq!(buffer.pop(), None, "filled to capacity");
    for _ in 0..2 {
        buffer.push(Reading::at(at(CAPACITY as u64))).unwrap();
    }
    assert_eq!(popped(&mut buffer), [at(0), at(1)], "the oldest are released early");
    buffer.push(Reading::at(at(1))).unwrap();
    assert!(buffer.push(Reading::at(at(0))).is_err(), "older than a released one");
}

#[test]
fn early_release_keeps_the_newest() {
    let mut buffer = filled(Nanos::from_secs(86_400), &[0, 3, 1, 2]);
    assert_eq!(buffer.pop_beyond(4), None);
    let released: Vec<_> =
        std::iter::from_fn(|| buffer.pop_beyond(2)).map(|reading| reading.at).collect();
    assert_eq!((released, buffer.len()), (vec![at(0), at(1)], 2));
    assert!(buffer.push(Reading::at(at(0))).is_err(), "older than a released one");
}

proptest! {
    /// Released are exactly the readings older than the newest by more than the lateness.
    #[test]
    fn readings_wait_exactly_the_allowed_lateness(
        times in prop::collection::vec(0_u64..20_000, 1..200), lateness in 0_u64..3_000,
    ) {
        let mut buffer = ReorderBuffer::new(Nanos::from_millis(lateness));
        let (mut taken, mut out) = (Vec::new(), Vec::new());
        for millis in times {
            if buffer.push(Reading::at(at(millis))).is_ok() {
                taken.push(millis);
            }
            out.extend(std::iter::from_fn(|| buffer.pop()).map(|reading| reading.at));
            let newest = *taken.iter().max().unwrap();
            let mut due: Vec<_> =
                taken.iter().filter(|millis| **millis + lateness < newest).copied().collect();
            due.sort_unstable();
            prop_assert_eq!(&out, &due.into_iter().map(at).collect::<Vec<_>>());
        }
    }
}
