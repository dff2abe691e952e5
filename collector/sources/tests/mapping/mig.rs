//! Points of MIG instances: they make up the GPU by their slices, and each has a holder.

use super::holding::{found, pages};
use super::*;

const ACTIVE: &str = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";
const MEMORY: &str = "DCGM_FI_DEV_FB_USED";
const POWER: &str = "DCGM_FI_DEV_POWER_USAGE";
const MODEL: &str = "modelName=NVIDIA A100-SXM4-80GB";

fn instance(id: u32, profile: &str, further: &str) -> String {
    format!("{MODEL},GPU_I_ID={id},GPU_I_PROFILE={profile},{further}")
}

fn readings(page: &[(&str, &str, f64)]) -> Vec<(Option<u32>, Option<u64>)> {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    pages(&[page]).into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
    let released = buffer.release_all();
    let reading = |held: &HeldReading| {
        let used = held.reading.memory_used.map(|bytes| bytes.get() >> 20);
        (held.reading.utilization.ok().map(Utilization::ppm), used)
    };
    released.iter().map(reading).collect()
}

/// Guarantee: the GPU is its instances in proportion to their slices, its memory what they use, its power what each
/// has a copy of. An instance that nobody is known to have is a holder by name.
#[test]
fn instances_make_up_the_gpu_by_their_slices() {
    let [a, b] = [(1, "pod=a,namespace=ml"), (0, "")].map(|(id, pod)| instance(id, "3g.40gb", pod));
    let page = [
        (ACTIVE, a.as_str(), 1.0),
        (MEMORY, a.as_str(), 700.0),
        (POWER, a.as_str(), 300.0),
        (ACTIVE, b.as_str(), 0.0),
        (MEMORY, b.as_str(), 12.0),
        (POWER, b.as_str(), 300.0),
    ];
    assert_eq!(readings(&page), [(Some(500_000), Some(712))], "an idle instance is half a GPU");
    let expected = [
        "0: ml/a 1/2, MIG 3g.40gb 0 1/2",
        "0-45: ml/a uses 50%, 100% of its own",
        "0-45: MIG 3g.40gb 0 uses 0%",
        "45: ",
    ];
    assert_eq!(found(&pages(&[&page])), expected);
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    pages(&[&page]).into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
    assert_eq!(buffer.release_all()[0].reading.power, Milliwatts::new(300_000));
}

/// Guarantee: slices that no instance has are nobody's; instances that are more than the GPU by the larger of their
/// slices are scaled to it.
#[test]
fn slices_left_over_are_nobodys() {
    let [a, b] = [(1, "1g.10gb"), (2, "2g.20gb")].map(|(id, profile)| instance(id, profile, ""));
    let page = [(ACTIVE, a.as_str(), 1.0), (ACTIVE, b.as_str(), 0.5)];
    assert_eq!(readings(&page), [(Some(285_714), None)], "a seventh, and half of two");
    assert_eq!(found(&pages(&[&page]))[0], "0: MIG 1g.10gb 1 1/7, MIG 2g.20gb 2 2/7");
    let [a, b] = [(1, "4g.40gb"), (2, "3g.40gb")].map(|(id, profile)| instance(id, profile, ""));
    let page = [(ACTIVE, a.as_str(), 1.0), (ACTIVE, b.as_str(), 1.0)];
    assert_eq!(readings(&page), [(Some(1_000_000), None)]);
    assert_eq!(found(&pages(&[&page]))[0], "0: MIG 3g.40gb 2 7/15, MIG 4g.40gb 1 8/15");
}

/// Guarantee: a pod with two instances has both; pods that share one have equal parts of it; an instance of unknown
/// size makes parts unknown, and the GPU unobserved.
#[test]
fn holders_of_instances_have_their_parts() {
    let of = |id: u32, pod: &str| instance(id, "1g.10gb", &format!("pod={pod}"));
    let all = [(1, "a"), (2, "a"), (3, "b"), (3, "c")].map(|(id, pod)| of(id, pod));
    let page = all.each_ref().map(|labels| (ACTIVE, labels.as_str(), 0.7));
    let changes = found(&pages(&[&page]));
    assert_eq!(changes[0], "0: a 2/7, b 1/14, c 1/14");
    assert!(changes.contains(&"0-45: a uses 20%, 70% of its own".to_owned()), "{changes:?}");
    assert!(changes.contains(&"0-45: b uses 5%, 70% of its own".to_owned()), "{changes:?}");
    let unknown = format!("{MODEL},GPU_I_ID=5,pod=d");
    let page = [(ACTIVE, all[0].as_str(), 0.7), (ACTIVE, unknown.as_str(), 0.7)];
    assert_eq!(readings(&page), [(None, None)]);
    assert_eq!(found(&pages(&[&page]))[0], "0: a ?, d ?");
}

/// Guarantee: memory of an instance is its own, or that of the pods on it, and memory of its own touches; copies for
/// each pod are one value.
#[test]
fn memory_of_pods_is_a_share_of_their_instance() {
    let of = |id: u32, pod: &str| instance(id, "3g.40gb", pod);
    let [first, second] = [1, 2].map(|id| of(id, ""));
    let [a, b, c] = [(1, "pod=a"), (2, "pod=b"), (2, "pod=c")].map(|(id, pod)| of(id, pod));
    let active = [(ACTIVE, a.as_str(), 0.0), (ACTIVE, b.as_str(), 0.0), (ACTIVE, c.as_str(), 0.0)];
    let own = [
        (MEMORY, first.as_str(), 900.0),
        (MEMORY, a.as_str(), 0.0),
        (MEMORY, second.as_str(), 5_000.0),
        (MEMORY, b.as_str(), 4_700.0),
        (MEMORY, c.as_str(), 0.0),
    ];
    let touched = |page: &[(&str, &str, f64)]| {
        let changes = found(&pages(&[page]));
        changes.into_iter().filter(|change| change.ends_with("touched")).collect::<Vec<_>>()
    };
    let page = [&active[..], &own].concat();
    assert_eq!(readings(&page), [(Some(0), Some(5_900))]);
    assert_eq!(touched(&page), ["0: b touched"]);
    let shares = [&active[..], &own[1..2], &own[3..]].concat();
    assert_eq!(readings(&shares), [(Some(0), Some(4_700))]);
    assert_eq!(touched(&shares), ["0: b touched"]);
    let copies = [(MEMORY, b.as_str(), 5_000.0), (MEMORY, c.as_str(), 5_000.0)];
    let copies = [&active[..], &copies].concat();
    assert_eq!(readings(&copies), [(Some(0), Some(5_000))]);
    assert_eq!(touched(&copies), [""; 0]);
}

/// Scenario: a GPU enters or leaves MIG mode, with a pod on an instance or on the GPU.
/// Guarantee: each time is read as the mode is, whatever the other one was.
#[test]
fn mode_may_change() {
    let a = instance(1, "7g.80gb", "pod=a");
    let mig: &[_] = &[(ACTIVE, a.as_str(), 0.5)];
    let plain: &[_] = &[("DCGM_FI_DEV_GPU_UTIL", "pod=b", 30.0)];
    let used = |all: &[&[(&str, &str, f64)]]| {
        let mut buffer = ReadingBuffer::new(HOLD, None, None);
        pages(all).into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
        let used = |held: &HeldReading| held.reading.utilization.unwrap().ppm() / 10_000;
        buffer.release_all().iter().map(used).collect::<Vec<_>>()
    };
    let leaves = [mig, mig, plain, plain];
    assert_eq!(used(&leaves), [50, 50, 30, 30]);
    let expected = ["0: a 1/1", "0-15: a uses 50%", "15-30: a uses 50%", "30: b 1/1", "90: "];
    assert_eq!(found(&pages(&leaves)), expected);
    let enters = [plain, plain, mig, mig];
    assert_eq!(used(&enters), [30, 30, 50, 50]);
    let expected = ["0: b 1/1", "30: a 1/1", "30-45: a uses 50%", "45-90: a uses 50%", "90: "];
    assert_eq!(found(&pages(&enters)), expected);
}

/// Scenario: an exporter repeats the power of a GPU in MIG mode for each claim, by the UUID of its instance, and has
/// points of the instances without pods.
/// Guarantee: the pod of a claim has the instance of its profile. If several have it, each pod has one of them, and it
/// is unknown which; what was not allocated is nobody's. Values of the GPU are not shares of it.
#[test]
fn claims_have_instances_of_their_profile() {
    let of = |id: u32, profile: &str| instance(id, profile, "");
    let claim = |pod: &str, uuid: &str, profile: &str| {
        format!(
            "{MODEL},pod={pod},dra_claim_name={pod},dra_mig_device_uuid=MIG-{uuid},dra_mig_profile={profile}"
        )
    };
    let [a, b] = [claim("a", "1", "3g.40gb"), claim("b", "2", "1g.10gb")];
    let instances = [of(1, "3g.40gb"), of(7, "1g.10gb"), of(8, "2g.20gb")];
    let mut page = vec![(POWER, a.as_str(), 300.0), (POWER, b.as_str(), 300.0)];
    page.extend(instances.each_ref().map(|labels| (ACTIVE, labels.as_str(), 0.7)));
    let changes = found(&pages(&[&page]));
    assert_eq!(changes[0], "0: a 1/2, b 1/7, MIG 2g.20gb 8 2/7", "{changes:?}");
    assert!(changes.contains(&"0-45: a uses 35%, 70% of its own".to_owned()), "{changes:?}");
    assert_eq!(readings(&page), [(Some(650_000), None)]);
    // Two of three instances of a profile.
    let [a, b] = [claim("a", "1", "1g.10gb"), claim("b", "2", "1g.10gb")];
    let shared = claim("c", "2", "1g.10gb");
    let instances = [1, 2, 3].map(|id| of(id, "1g.10gb"));
    let mut page = vec![(POWER, a.as_str(), 300.0), (POWER, b.as_str(), 300.0)];
    page.push((POWER, shared.as_str(), 300.0));
    page.extend(instances.each_ref().map(|labels| (ACTIVE, labels.as_str(), 0.7)));
    let changes = found(&pages(&[&page]));
    assert_eq!(changes[0], "0: a 1/7, b 1/14, c 1/14", "{changes:?}");
    assert!(
        !changes.iter().any(|it| it.contains("uses")),
        "whose use it is, is unknown: {changes:?}"
    );
    // More claims than points of instances: the GPU is unobserved.
    let page =
        [(POWER, a.as_str(), 300.0), (POWER, b.as_str(), 300.0), (ACTIVE, &of(1, "1g.10gb"), 0.7)];
    assert_eq!(found(&pages(&[&page]))[0], "0: a 1/7, b 1/7");
    assert_eq!(readings(&page), [(None, None)]);
}

/// Scenario: of three instances one has a value out of range, one that is not a number, or none for once.
/// Guarantee: only that one is left out. The GPU is the mean of the rest, in which the others use what they do without
/// it; its holder is charged for its grant, which that use does not touch.
#[test]
fn value_of_an_instance_that_cannot_be_read_costs_that_instance_only() {
    let [a, b, c] =
        [(1, "2g.12gb", "a"), (2, "1g.6gb", "b"), (3, "1g.6gb", "c")].map(|(id, profile, pod)| {
            format!("modelName=NVIDIA A30,GPU_I_ID={id},GPU_I_PROFILE={profile},pod={pod}")
        });
    let page = |of_b: &[f64]| {
        let of_b = of_b.iter().map(|number| (ACTIVE, b.as_str(), *number));
        let others =
            [(ACTIVE, a.as_str(), 1.0), (ACTIVE, c.as_str(), 0.25), (MEMORY, b.as_str(), 0.0)];
        others.into_iter().chain(of_b).collect::<Vec<_>>()
    };
    let all = page(&[0.5]);
    let whole = readings(&all);
    for bad in [&[1.5][..], &[-3.0], &[f64::NAN], &[0.2, 0.3], &[]] {
        let bad_page = page(bad);
        let values = pages(&[&all, &bad_page, &all]);
        let changes = found(&values);
        let used = |from: u32, pod: &str, of: &str| {
            let end = if from == 30 { 75 } else { from + 15 };
            changes.contains(&format!("{from}-{end}: {pod} uses {of}"))
        };
        for from in [0, 15, 30] {
            assert!(used(from, "a", "50%, 100% of its own"), "{bad:?} {changes:#?}");
            assert!(used(from, "c", "6.25%, 25% of its own"), "{bad:?} {changes:#?}");
        }
        // Of three quarters, two are busy, and one to a quarter.
        assert!(used(15, "b", "18.75%, estimated"), "{bad:?} {changes:#?}");
        let mut buffer = ReadingBuffer::new(HOLD, None, Some(Nanos::from_secs(45)));
        values.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
        let used: Vec<_> = buffer
            .release_all()
            .iter()
            .map(|held| held.reading.utilization.ok().map(Utilization::ppm))
            .collect();
        assert_eq!(used, [whole[0].0, Some(750_000), whole[0].0], "{bad:?}");
        assert_eq!(buffer.unreadable_shares().map(|(_, count)| count).sum::<usize>(), 1);
    }
    let none = [(ACTIVE, a.as_str(), f64::NAN), (ACTIVE, b.as_str(), 7.0)];
    assert_eq!(readings(&none), [(None, None)], "nothing is known of it");
}
