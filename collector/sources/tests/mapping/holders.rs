//! Values of pods, claims and jobs: shares of a GPU, and its allocations.

use super::*;

/// The same value with the labels of a pod, none if its name is empty.
pub(crate) fn labeled(value: GpuValue, pod: &str) -> GpuValue {
    if pod.is_empty() {
        return value;
    }
    let name = Some(pod.to_owned());
    let (namespace, of) = ("ml".to_owned(), pod.to_owned());
    let container = Container { namespace, pod: of, ..Container::default() };
    let holder = Some(LabeledHolder::of(Holder::Container(container)));
    let pod = Some(PodLabels { name, ..PodLabels::default() });
    GpuValue { gpu: GpuLabels { pod, holder, ..value.gpu }, ..value }
}

/// The memory of `GPU-a` in use.
pub(crate) fn memory(seconds: u64, mebibytes: u64) -> GpuValue {
    let value = Ok(Value::MemoryUsed(Bytes::from_mebibytes(mebibytes).unwrap()));
    GpuValue {
        gpu: labels("GPU-a"),
        at: at(seconds),
        quantity: Some(Quantity::MemoryUsed),
        rank: 0,
        basis: None,
        value,
    }
}

/// The readings of these values, in percent and MiB, in each order of arrival; they are the same.
fn readings(values: &[GpuValue]) -> Vec<(u32, Option<u64>)> {
    let mut all = None;
    for rotation in 0..2 * values.len() {
        let mut order = values.to_vec();
        order.rotate_left(rotation % values.len());
        if rotation >= values.len() {
            order.reverse();
        }
        let mut buffer = ReadingBuffer::new(HOLD, None, None);
        order.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
        let released = buffer.release_all();
        let reading = |held: &HeldReading| {
            let used = held.reading.memory_used.map(|bytes| bytes.get() >> 20);
            (held.reading.utilization.unwrap().ppm() / 10_000, used)
        };
        let found: Vec<_> = released.iter().map(reading).collect();
        assert_eq!(*all.get_or_insert(found.clone()), found, "in any order");
    }
    all.unwrap()
}

/// Guarantee: the series without a pod is the GPU, those with one are shares of it, in any order of arrival. Shares
/// alone add up, and a single one is the GPU.
#[test]
fn series_with_a_pod_is_a_share_of_the_gpu() {
    let util = |seconds: u64, pod: &str, percent: u32| {
        labeled(utilization("GPU-a", seconds, Basis::DcgmGpu, percent), pod)
    };
    let used = |seconds: u64, pod: &str, mebibytes: u64| labeled(memory(seconds, mebibytes), pod);
    let whole =
        [util(0, "a", 3), util(0, "", 92), util(0, "b", 89), used(0, "a", 10), used(0, "", 700)];
    assert_eq!(readings(&whole), [(92, Some(700))]);
    let shares =
        [util(0, "a", 30), util(0, "b", 45), util(0, "c", 0), used(0, "a", 10), used(0, "b", 20)];
    assert_eq!(readings(&shares), [(75, Some(30))]);
    assert_eq!(readings(&[util(0, "a", 70), util(0, "b", 60)]), [(100, None)]);
    assert_eq!(readings(&[util(0, "a", 40), used(0, "a", 5)]), [(40, Some(5))], "exclusive");
    let equal = [util(0, "a", 40), util(0, "b", 40), util(15, "a", 40), util(15, "b", 40)];
    assert_eq!(readings(&equal), [(80, None), (80, None)]);
    let some =
        [util(0, "", 92), util(0, "a", 3), util(15, "a", 40), util(30, "a", 40), util(30, "b", 1)];
    assert_eq!(readings(&some), [(92, None), (40, None), (41, None)]);
    // Series of one instant that are some milliseconds apart.
    let near = |pod: &str, millis: u64, percent| {
        let at = Timestamp::from_millis(15_000 + millis).unwrap();
        GpuValue { at, ..util(15, pod, percent) }
    };
    assert_eq!(readings(&[near("a", 0, 30), near("b", 120, 45), near("", 240, 80)]), [(80, None)]);
}

/// Guarantee: shares without one that cannot be read are not the GPU, unless the GPU has a series of its own.
#[test]
fn share_that_cannot_be_read_is_not_left_out() {
    let util =
        |pod: &str, percent: u32| labeled(utilization("GPU-a", 0, Basis::DcgmGpu, percent), pod);
    let unreadable = |pod| GpuValue { value: Err(MissingReason::Unreadable), ..util(pod, 0) };
    let of_gpu = |values: &[GpuValue]| {
        let mut buffer = ReadingBuffer::new(HOLD, None, None);
        values.iter().for_each(|value| _ = buffer.insert(value.clone(), arrival(0)));
        buffer.release_all()[0].reading.utilization
    };
    let missing = Err(MissingReason::Unreadable);
    assert_eq!(of_gpu(&[util("a", 30), unreadable("b"), util("c", 20)]), missing);
    assert_eq!(of_gpu(&[unreadable("b"), util("a", 30)]), missing);
    assert_eq!(of_gpu(&[util("a", 30), unreadable("b"), util("", 60)]), Ok(percent(60)));
    // Another metric of the same pod, of which the first one can be read.
    assert_eq!(of_gpu(&[util("a", 30), util("b", 20), unreadable("b")]), Ok(percent(50)));
}

/// Guarantee: what hardware counts for the GPU is copied to its pods, not divided; neither are values of jobs.
#[test]
fn copies_are_not_added_up() {
    let copies = |basis, of: fn(GpuValue, &str) -> GpuValue| {
        let value = |pod| of(utilization("GPU-a", 0, basis, 40), pod);
        readings(&[value("a"), value("b"), value("c")])
    };
    assert_eq!(copies(Basis::DcgmGrEngine, labeled), [(40, None)]);
    assert_eq!(copies(Basis::DcgmSm, labeled), [(40, None)]);
    let of_job = |value, job: &str| {
        let value = labeled(value, job);
        GpuValue { gpu: GpuLabels { pod: None, ..value.gpu }, ..value }
    };
    assert_eq!(copies(Basis::DcgmGpu, of_job), [(40, None)]);
    // An exporter that repeats the value of the GPU for each pod: they never differ.
    let mut repeated = Vec::new();
    for (seconds, percent) in [(0, 20), (15, 30), (30, 0), (45, 40), (60, 40)] {
        for pod in ["a", "b", "c"] {
            let value = utilization("GPU-a", seconds, Basis::DcgmGpu, percent);
            repeated.extend([labeled(value, pod), labeled(memory(seconds, 1_000), pod)]);
        }
    }
    let expected = [20, 30, 0, 40, 40].map(|percent| (percent, Some(1_000)));
    assert_eq!(readings(&repeated), expected);
}

/// Guarantee: shares have a sum of at most the memory, and its size does not depend on which series arrives first.
#[test]
fn sum_of_shares_is_at_most_the_memory() {
    let free = Ok(Value::MemoryFree(Bytes::from_mebibytes(60).unwrap()));
    let free = GpuValue { quantity: Some(Quantity::MemoryFree), value: free, ..memory(0, 0) };
    let values = [labeled(memory(0, 15), "a"), labeled(free, "a"), labeled(memory(0, 25), "b")];
    for rotation in 0..3 {
        let mut order = values.to_vec();
        order.rotate_left(rotation);
        let mut buffer = ReadingBuffer::new(HOLD, None, None);
        order.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
        let value = Ok(Value::MemoryTotal(Bytes::from_mebibytes(100).unwrap()));
        assert_eq!(buffer.release_all()[0].reading.memory_used, Bytes::from_mebibytes(40));
        assert_eq!(buffer.identities()[0].memory_total, Bytes::from_mebibytes(100));
        let total = GpuValue { quantity: Some(Quantity::MemoryTotal), value, ..memory(15, 0) };
        [labeled(memory(15, 70), "a"), labeled(memory(15, 71), "b"), total]
            .into_iter()
            .for_each(|value| _ = buffer.insert(value, arrival(15)));
        assert_eq!(buffer.release_all()[0].reading.memory_used, Bytes::from_mebibytes(100));
        assert_eq!(buffer.added_up().count(), 1);
    }
}
