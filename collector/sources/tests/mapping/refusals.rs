//! Points of one instant and one GPU that contradict each other are refused, those only, whatever their order.

use std::collections::BTreeMap;

use phasemeter_meter::reading::MissingReason;
use phasemeter_sources::mapping::RejectedPoint;
use proptest::prelude::*;

use super::*;
use crate::holders::{labeled, memory};

/// A value that a test chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Percent,
    Watts,
    Mebibytes,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    gpu: usize,
    at: u64,
    kind: Kind,
    number: u32,
    /// Distinguishes senders, requests and GPUs under one ID, but identifies none.
    index: u32,
}

const GPUS: [&str; 2] = ["GPU-a", "GPU-b"];

impl Sent {
    fn value(self) -> GpuValue {
        let Self { gpu, at: seconds, kind, number, index } = self;
        let uuid = GPUS[gpu];
        let value = match kind {
            Kind::Percent => utilization(uuid, seconds, Basis::DcgmGpu, number),
            Kind::Watts => power(uuid, at(seconds), number),
            Kind::Mebibytes => GpuValue { gpu: labels(uuid), ..memory(seconds, number.into()) },
        };
        let host = Some("node-1".to_owned());
        GpuValue { gpu: GpuLabels { index: Some(index), host, ..value.gpu }, ..value }
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let kind = prop::sample::select(vec![Kind::Percent, Kind::Watts, Kind::Mebibytes]);
    (0..2_usize, 0..4_u64, kind, 1..4_u32, 0..2_u32).prop_map(|(gpu, page, kind, number, index)| {
        Sent { gpu, at: page * 15, kind, number, index }
    })
}

type Row = (usize, u64, Result<u32, MissingReason>, Option<u32>, Option<u64>);

/// The readings of these points, and how many were refused.
fn metered(points: &[Sent]) -> (Vec<Row>, u64) {
    let mut buffer = ReadingBuffer::new(HOLD, None, Some(Nanos::from_secs(45)));
    let mut marked = 0;
    for point in points {
        let refusal = buffer.insert(point.value(), arrival(0)).refusal;
        marked += u64::from(refusal.is_some_and(|it| it.is_first));
    }
    assert_eq!(marked, buffer.refused().count() as u64, "the first of each sender");
    let names = buffer.identities().iter();
    let gpus: Vec<_> =
        names.map(|it| GPUS.iter().position(|uuid| *uuid == it.name).unwrap()).collect();
    let row = |held: HeldReading| {
        let reading = held.reading;
        let percent = reading.utilization.map(|it| it.ppm() / 10_000);
        let watts = reading.power.map(|power| power.get() / 1_000);
        let mebibytes = reading.memory_used.map(|bytes| bytes.get() >> 20);
        (gpus[held.buffer_index], reading.at.whole_second(), percent, watts, mebibytes)
    };
    let mut rows: Vec<Row> = buffer.release_all().into_iter().map(row).collect();
    rows.sort_unstable();
    (rows, buffer.refused().map(|(count, _)| count).sum())
}

/// The same by definition: a value counts if all of its points are equal.
fn expected(points: &[Sent]) -> (Vec<Row>, u64) {
    let mut instants: BTreeMap<(usize, u64), BTreeMap<Kind, Vec<u32>>> = BTreeMap::new();
    for Sent { gpu, at, kind, number, .. } in points {
        let instant = instants.entry((*gpu, *at)).or_default();
        instant.entry(*kind).or_default().push(*number);
    }
    let agreed = |numbers: &Vec<u32>| numbers.iter().all(|it| *it == numbers[0]);
    let row = |((gpu, at), kinds): (&(usize, u64), &BTreeMap<Kind, Vec<u32>>)| {
        let number = |kind| kinds.get(&kind).filter(|it| agreed(it)).map(|it| it[0]);
        let missing = match kinds.contains_key(&Kind::Percent) {
            true => MissingReason::Unreadable,
            false => MissingReason::NotCollected,
        };
        let mebibytes = number(Kind::Mebibytes).map(u64::from);
        (*gpu, *at, number(Kind::Percent).ok_or(missing), number(Kind::Watts), mebibytes)
    };
    let all = instants.values().flat_map(BTreeMap::values);
    let refused = all.filter(|numbers| !agreed(numbers)).map(|numbers| numbers.len() as u64).sum();
    // Between two utilizations of a GPU, an instant without any is that of another sender.
    let has_percent = |gpu, is_in: &dyn Fn(u64) -> bool| {
        let mut of = instants.iter().filter(|((it, at), _)| *it == gpu && is_in(*at));
        of.any(|(_, kinds)| kinds.contains_key(&Kind::Percent))
    };
    let is_between = |(gpu, at): &(usize, u64)| {
        has_percent(*gpu, &|it| it < *at)
            && !has_percent(*gpu, &|it| it == *at)
            && has_percent(*gpu, &|it| it > *at)
    };
    let rows = instants.iter().filter(|(key, _)| !is_between(key)).map(row);
    (rows.collect(), refused)
}

proptest! {
    /// Guarantee: whatever arrives when, a value counts if all points of its instant have it, and is missing if they
    /// differ; every other value, instant and GPU is as if they had not been sent.
    #[test]
    fn points_that_differ_are_refused_in_any_order(
        points in prop::collection::vec(sent(), 1..40),
        keys in prop::collection::vec(any::<u64>(), 40),
    ) {
        let found = metered(&points);
        prop_assert_eq!(&found, &expected(&points));
        let mut shuffled: Vec<_> = points.iter().copied().zip(keys).collect();
        shuffled.sort_by_key(|(_, key)| *key);
        let shuffled: Vec<Sent> = shuffled.into_iter().map(|(point, _)| point).collect();
        prop_assert_eq!(metered(&shuffled), found);
    }
}

/// Scenario: two GPUs under one UUID, each with a page of its own of the same time.
/// Guarantee: the points are counted by sender, and named with what distinguishes them.
#[test]
fn refused_points_are_named_with_what_distinguishes_them() {
    let of = |index, number| Sent { gpu: 0, at: 15, kind: Kind::Percent, number, index }.value();
    for order in [[0, 1], [1, 0]] {
        let mut buffer = ReadingBuffer::new(HOLD, None, None);
        let refusals: Vec<_> = order
            .into_iter()
            .chain(order)
            .filter_map(|index| buffer.insert(of(index, 40 + index), arrival(0)).refusal)
            .collect();
        assert_eq!(refusals.len(), 3, "all but the first, which nothing contradicted");
        let expected = RejectedPoint {
            sender: Some("node-1".to_owned()),
            gpu: "GPU-a".to_owned(),
            quantity: Quantity::Utilization,
            at: at(15),
            differing: vec!["index"],
            is_first: true,
        };
        assert_eq!(buffer.refused().collect::<Vec<_>>(), [(4, &expected)]);
    }
}

/// Guarantee: equal points that several Collectors send are one, even if one of them is a moment later.
#[test]
fn equal_and_later_points_of_other_collectors_are_harmless() {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    for repeat in 0..3 {
        for (seconds, percent) in [(0, 20), (15, 90)] {
            buffer.insert(utilization("GPU-a", seconds, Basis::DcgmGpu, percent), arrival(repeat));
            let later = Timestamp::from_millis(seconds * 1_000 + 200).unwrap();
            for at in [later, at(seconds)] {
                let watts = if at == later { 310 } else { 300 };
                buffer.insert(power("GPU-a", at, watts), arrival(repeat));
            }
        }
    }
    assert_eq!(buffer.refused().count(), 0);
    let released = buffer.release_all();
    assert_eq!(times(&released), [0, 15]);
    assert!(released.iter().all(|held| held.reading.power == Milliwatts::new(300_000)), "earliest");
}

/// Guarantee: of several metrics of one value, the one that is mapped first counts, in any order.
#[test]
fn first_metric_of_a_value_counts() {
    let of = |rank, watts| GpuValue { rank, ..power("GPU-a", at(0), watts) };
    for order in [[of(-1, 300), of(2, 310)], [of(2, 310), of(-1, 300)]] {
        let mut buffer = ReadingBuffer::new(HOLD, None, None);
        order.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
        assert_eq!(buffer.refused().count(), 0);
        assert_eq!(buffer.release_all()[0].reading.power, Milliwatts::new(300_000));
    }
}

/// Guarantee: of a shared GPU, points that contradict each other cost their share: the sum of shares is unknown, the
/// value of the whole GPU is not.
#[test]
fn share_that_is_refused_costs_the_sum_of_shares_only() {
    let util = |pod, percent| labeled(utilization("GPU-a", 0, Basis::DcgmGpu, percent), pod);
    let of_gpu = |values: &[GpuValue]| {
        let mut found = Vec::new();
        for rotation in 0..values.len() {
            let mut order = values.to_vec();
            order.rotate_left(rotation);
            let mut buffer = ReadingBuffer::new(HOLD, None, None);
            order.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
            found.push(buffer.release_all()[0].reading.utilization);
        }
        assert!(found.iter().all(|it| *it == found[0]), "{found:?}");
        found[0]
    };
    let missing = Err(MissingReason::Unreadable);
    assert_eq!(of_gpu(&[util("a", 30), util("b", 20), util("b", 20)]), Ok(percent(50)));
    assert_eq!(of_gpu(&[util("a", 30), util("b", 20), util("b", 21)]), missing);
    assert_eq!(of_gpu(&[util("a", 30), util("a", 31)]), missing);
    assert_eq!(
        of_gpu(&[util("a", 30), util("b", 20), util("b", 21), util("", 60)]),
        Ok(percent(60))
    );
    assert_eq!(of_gpu(&[util("a", 30), util("b", 20), util("", 60), util("", 61)]), missing);
}

/// Guarantee: a size of the memory that points contradict is unknown, not that of the last one.
#[test]
fn size_of_memory_is_refused_alone() {
    let total = |mebibytes| {
        let value = Ok(Value::MemoryTotal(Bytes::from_mebibytes(mebibytes).unwrap()));
        GpuValue { quantity: Some(Quantity::MemoryTotal), value, ..memory(0, 0) }
    };
    for sizes in [[40_960, 81_920], [81_920, 40_960], [81_920, 81_920]] {
        let mut buffer = ReadingBuffer::new(HOLD, None, None);
        buffer.insert(utilization("GPU-a", 0, Basis::DcgmGpu, 5), arrival(0));
        sizes.into_iter().for_each(|size| _ = buffer.insert(total(size), arrival(0)));
        buffer.release_all();
        let expected = Bytes::from_mebibytes(81_920).filter(|_| sizes[0] == sizes[1]);
        assert_eq!(buffer.identities()[0].memory_total, expected, "{sizes:?}");
    }
}
