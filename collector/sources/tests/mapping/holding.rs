//! What mapped points tell of the holders of a GPU: grants, use and processes, from when to when.

use phasemeter_meter::holder::{HolderChange, HolderUse, Share};
use phasemeter_meter::instrument::Instrument;
use phasemeter_sources::mapping::{Mappings, Point, UnitChecks};

use super::*;

/// The points of a page, each 15 s: a sample per line, without braces around its name.
pub(crate) fn pages(pages: &[&[(&str, &str, f64)]]) -> Vec<GpuValue> {
    let mappings = Mappings::built_in().unwrap();
    let pages = (0..).step_by(15).zip(pages);
    let lines = pages.flat_map(|(seconds, page)| page.iter().map(move |line| (seconds, *line)));
    let read = |(seconds, line)| read(&mappings, seconds, line);
    lines.filter_map(read).collect()
}

/// The value of a sample of `GPU-a`; `None` if it has none.
pub(crate) fn read(
    mappings: &Mappings,
    seconds: u64,
    (metric, labels, number): (&str, &str, f64),
) -> Option<GpuValue> {
    let pairs: Vec<_> = labels.split(',').filter_map(|pair| pair.split_once('=')).collect();
    let label = |name: &str| {
        let mut values = pairs.iter().filter(|(key, _)| *key == name).map(|it| it.1);
        values.next().or((name == "UUID" || name == "device_uuid").then_some("GPU-a"))
    };
    let (instrument, at) = (Instrument::Gauge, at(seconds));
    let point = Point { metric, label: &label, instrument, start: None, at, number };
    mappings.read(&point, &mut UnitChecks::default()).map(|mapped| mapped.value)
}

/// What is found out about holders by these points, in words, in each order of arrival alike.
pub(crate) fn found(values: &[GpuValue]) -> Vec<String> {
    let mut all = None;
    for rotation in 0..values.len() {
        let mut order = values.to_vec();
        order.rotate_left(rotation);
        let mut buffer = ReadingBuffer::new(HOLD, None, Some(Nanos::from_secs(45)));
        order.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
        let released = buffer.release_all();
        let mut words: Vec<String> =
            released.iter().flat_map(|held| held.holder_changes.iter().map(word)).collect();
        words.extend(buffer.end_holding(0, at(1_000)).iter().map(word));
        assert_eq!(*all.get_or_insert(words.clone()), words, "in any order");
    }
    all.unwrap()
}

fn word(change: &HolderChange) -> String {
    let second = |at: &Timestamp| at.whole_second();
    match change {
        HolderChange::Assigned { at, grants } => {
            let grant = |grant: &phasemeter_meter::holder::Grant| {
                let share = grant.share.map(Share::ratio);
                let share = share.map_or("?".to_owned(), |(parts, of)| format!("{parts}/{of}"));
                format!("{} {share}", grant.holder)
            };
            let grants: Vec<_> = grants.iter().map(grant).collect();
            format!("{}: {}", second(at), grants.join(", "))
        }
        HolderChange::Used(HolderUse { holder, from, to, utilization, own }) => {
            let used = format!("{}-{}: {holder} uses {utilization}", second(from), second(to));
            match own {
                Some(own) if own == utilization => used,
                Some(own) => format!("{used}, {own} of its own"),
                None => format!("{used}, estimated"),
            }
        }
        HolderChange::Touched { at, holder } => format!("{}: {holder} touched", second(at)),
        HolderChange::Described { holder, details } => {
            let labels = details.labels.iter().map(|(key, value)| format!("{key}={value}"));
            let workload = details.workload.iter().map(|it| format!("{}={}", it.kind, it.name));
            let queue = details.queue.iter().map(|queue| format!("queue {queue}"));
            let all: Vec<_> = queue.chain(workload).chain(labels).collect();
            format!("{holder} is {}", all.join(" "))
        }
    }
}

const UTIL: &str = "DCGM_FI_DEV_GPU_UTIL";
const MEMORY: &str = "DCGM_FI_DEV_FB_USED";

/// Guarantee: a single holder has the whole GPU, from its first reading to the first without it; the same name with
/// another UID is another holder; without readings it ends with the last one's validity.
#[test]
fn only_holder_has_the_whole_gpu_as_long_as_it_is_seen() {
    let pod = |uid: &'static str| match uid {
        "" => "",
        "1" => "pod=a-0,namespace=ml,container=main,pod_uid=1",
        _ => "pod=a-0,namespace=ml,container=main,pod_uid=2",
    };
    let page = |uid| [(UTIL, pod(uid), 50.0)];
    let uids = ["", "1", "1", "", "1", "2"].map(page);
    let pages_of = pages(&uids.each_ref().map(|page| &page[..]));
    let expected = ["15: ml/a-0 1/1", "45: ", "60: ml/a-0 1/1", "75: ml/a-0 1/1", "120: "];
    assert_eq!(found(&pages_of), expected);
    let job = [(UTIL, "hpc_job=4711", 50.0)];
    assert_eq!(found(&pages(&[&job])), ["0: job 4711 1/1", "45: "]);
    // A value of any kind names it.
    let of_power = [(UTIL, "", 0.0), ("DCGM_FI_DEV_POWER_USAGE", "pod=a,namespace=ml", 70.0)];
    assert_eq!(found(&pages(&[&of_power])), ["0: ml/a 1/1", "45: "]);
}

/// Guarantee: series of pods beside that of the GPU are what each uses, until the next reading; memory of its own
/// touches. The part of a replica is known if their number is.
#[test]
fn series_of_pods_are_what_they_use() {
    let page = |a: f64, b: f64| {
        [
            (UTIL, "", 80.0),
            (UTIL, "pod=a,vgpu=0", a),
            (UTIL, "pod=b,vgpu=1", b),
            (MEMORY, "", 900.0),
            (MEMORY, "pod=a,vgpu=0", 500.0),
            (MEMORY, "pod=b,vgpu=1", 0.0),
            ("DCGM_FI_DEV_POWER_USAGE", "pod=a,vgpu=0", 70.0),
        ]
    };
    let (first, second) = (page(60.0, 0.0), page(0.0, 30.0));
    let expected = [
        "0: a ?, b ?",
        "0: a touched",
        "0-15: a uses 60%",
        "0-15: b uses 0%",
        "15-60: a uses 0%",
        "15-60: b uses 30%",
        "60: ",
    ];
    assert_eq!(found(&pages(&[&first, &second])), expected);
    let known = [
        (UTIL, "", 80.0),
        (UTIL, "pod=a,vgpu=0,nvidia.com/gpu.replicas=4", 50.0),
        (UTIL, "pod=a,vgpu=3,nvidia.com/gpu.replicas=4", 10.0),
        (UTIL, "pod=b,vgpu=1,nvidia.com/gpu.replicas=4", 20.0),
    ];
    let changes = found(&pages(&[&known, &[(UTIL, "", 0.0)]]));
    assert_eq!(changes, ["0: a 1/2, b 1/4", "0-15: a uses 60%", "0-15: b uses 20%", "15: "]);
}

/// Guarantee: copies of one value are no use of anybody. A share that cannot be read is left out alone.
#[test]
fn copies_and_unreadable_shares_are_no_use() {
    let copies = |percent: f64| [(UTIL, "pod=a", percent), (UTIL, "pod=b", percent)];
    let equal = [20.0, 30.0, 40.0, 50.0].map(copies);
    let changes = found(&pages(&equal.each_ref().map(|page| &page[..])));
    assert_eq!(changes, ["0: a ?, b ?", "90: "]);
    let unreadable =
        [(UTIL, "", 80.0), (UTIL, "pod=a", 60.0), (UTIL, "pod=b", 140_737_488_355_328.0)];
    assert_eq!(found(&pages(&[&unreadable])), ["0: a ?, b ?", "0-45: a uses 60%", "45: "]);
    let shared = [(UTIL, "pod=a,modelName=NVIDIA-L4-SHARED", 50.0)];
    assert_eq!(found(&pages(&[&shared])), ["0: a ?", "45: "], "its neighbor is hidden");
}

/// Scenario: pages lose the line of one of two pods.
/// Guarantee: the other one has not got the whole GPU before its neighbor has been gone for as long as a reading is
/// valid.
#[test]
fn pod_whose_neighbor_vanishes_has_not_got_the_gpu_at_once() {
    let both = [(UTIL, "", 80.0), (UTIL, "pod=a", 20.0), (UTIL, "pod=b", 60.0)];
    let one = [(UTIL, "", 80.0), (UTIL, "pod=a", 20.0)];
    let changes = found(&pages(&[&both, &one, &both, &one, &one, &one, &one]));
    let assigned = changes.iter().filter(|change| !change.contains("uses"));
    let assigned: Vec<_> = assigned.map(String::as_str).collect();
    let expected = ["0: a ?, b ?", "15: a ?", "30: a ?, b ?", "45: a ?", "90: a 1/1", "135: "];
    assert_eq!(assigned, expected);
    assert!(changes.contains(&"15-30: a uses 20%".to_owned()), "{changes:?}");
    let moved = [(UTIL, "pod=b", 60.0)];
    let alone = [(UTIL, "pod=a", 20.0)];
    assert_eq!(found(&pages(&[&alone, &moved])), ["0: a 1/1", "15: b 1/1", "60: "]);
}

/// Guarantee: the older names of labels of pods are read, and count before those of a target of Prometheus.
#[test]
fn older_names_of_labels_are_read() {
    let of = |pod: &str| format!("pod_name={pod},pod_namespace=vision,container_name=main");
    let [a, b] = ["detect-0", "detect-1"].map(of);
    let b = format!("{b},pod=prometheus-target-0,namespace=monitoring,container=exporter");
    let page = [(UTIL, "", 70.0), (UTIL, a.as_str(), 40.0), (UTIL, b.as_str(), 30.0)];
    let expected = [
        "0: vision/detect-0 ?, vision/detect-1 ?",
        "0-45: vision/detect-0 uses 40%",
        "0-45: vision/detect-1 uses 30%",
        "45: ",
    ];
    assert_eq!(found(&pages(&[&page])), expected);
}

/// Scenario: labels of a pod lack its UID, its container or its replica on some metrics, and HAMi's always do.
/// Guarantee: it is one holder, with its part and its use.
#[test]
fn pod_whose_labels_differ_between_metrics_is_one_holder() {
    const POWER: &str = "DCGM_FI_DEV_POWER_USAGE";
    let complete = "namespace=ml,pod=a,container=main,pod_uid=1,vgpu=0,nvidia.com/gpu.replicas=4";
    let b = "namespace=ml,pod=b,container=main,pod_uid=2,vgpu=1,nvidia.com/gpu.replicas=4";
    for less in ["vgpu=0,container=main", "vgpu=0,pod_uid=1", "vgpu=0", "container=main"] {
        let less = format!("namespace=ml,pod=a,{less}");
        let page = [
            (UTIL, "", 80.0),
            (UTIL, complete, 50.0),
            (UTIL, b, 10.0),
            (POWER, less.as_str(), 70.0),
            (MEMORY, "", 900.0),
            (MEMORY, less.as_str(), 800.0),
        ];
        let expected = [
            "0: ml/a 1/4, ml/b 1/4",
            "0: ml/a touched",
            "0-45: ml/a uses 50%",
            "0-45: ml/b uses 10%",
            "45: ",
        ];
        assert_eq!(found(&pages(&[&page])), expected, "{less}");
    }
    let named = [(UTIL, complete, 60.0)];
    let of_hami = [
        ("hami_vgpu_core_allocated_ratio", "namespace=ml,pod=a", 25.0),
        ("hami_container_device_utilization_ratio", "namespace=ml,pod=a", 20.0),
        ("hami_vgpu_memory_used_bytes", "namespace=ml,pod=a", 1e9),
    ];
    let mut values = pages(&[&named, &named]);
    let later = |value: GpuValue| GpuValue { at: value.at + Nanos::from_secs(5), ..value };
    values.extend(pages(&[&of_hami, &of_hami]).into_iter().map(later));
    let quarter = "250000/1000000";
    let expected = ["0: ml/a 1/4", &format!("5: ml/a {quarter}"), "5: ml/a touched"];
    let changes = found(&values);
    assert_eq!(changes[..3], expected, "{changes:?}");
    assert!(changes.contains(&"5-15: ml/a uses 20%".to_owned()), "{changes:?}");
}

/// Scenario: Prometheus adds the pod of the exporter, of any name, to what it scrapes, and renames those of the
/// exporter.
/// Guarantee: that pod holds nothing, in any order; a pod of a user holds what it has, whatever its name.
#[test]
fn pod_of_the_exporter_holds_nothing() {
    let own = "pod=gpu-metrics-node-1,namespace=monitoring,container=metrics";
    let of = |pod: &str| format!("{own},exported_pod={pod},exported_namespace=ml");
    let [a, b] = ["a", "dcgm-exporter-x7k2p"].map(of);
    let page = [(UTIL, own, 90.0), (UTIL, a.as_str(), 30.0), (UTIL, b.as_str(), 50.0)];
    let none = [(UTIL, own, 5.0)];
    let expected = [
        "15: ml/a ?, ml/dcgm-exporter-x7k2p ?",
        "15-30: ml/a uses 30%",
        "15-30: ml/dcgm-exporter-x7k2p uses 50%",
        "30: ",
    ];
    assert_eq!(found(&pages(&[&none, &page, &none])), expected);
    let named = [(UTIL, "pod=nvidia-dcgm-exporter-x7k2p", 5.0)];
    assert_eq!(found(&pages(&[&named])), [""; 0]);
    let copied = [(UTIL, "exported_pod=a,exported_namespace=ml,pod=a,namespace=ml", 40.0)];
    assert_eq!(found(&pages(&[&copied])), ["0: ml/a 1/1", "45: "], "a rule has copied the labels");
    let of_user = [(UTIL, "pod=dcgm-exporter-bench", 5.0)];
    assert_eq!(found(&pages(&[&of_user])), ["0: dcgm-exporter-bench 1/1", "45: "]);
}

/// Guarantee: fractions that labels state are granted; together they are the GPU at most.
#[test]
fn fractions_of_labels_are_granted() {
    let quarter =
        |pod: &str, part: &str| format!("pod={pod},k8s.pod.annotation.gpu-fraction={part}");
    let [a, b, c] =
        [("a", "0.25"), ("b", "0.5"), ("c", "0.75")].map(|(pod, part)| quarter(pod, part));
    let page = [(UTIL, a.as_str(), 50.0), (UTIL, b.as_str(), 50.0)];
    assert_eq!(found(&pages(&[&page]))[0], "0: a 1/4, b 1/2");
    let page = [(UTIL, b.as_str(), 50.0), (UTIL, c.as_str(), 50.0)];
    assert_eq!(found(&pages(&[&page]))[0], "0: b 1/2, c 3/4");
    let memory = [
        (UTIL, "pod=a,gpu_memory=5760,modelName=NVIDIA L4", 50.0),
        ("DCGM_FI_DEV_FB_TOTAL", "", 23_040.0),
    ];
    assert_eq!(found(&pages(&[&memory]))[0], "0: a 1/4");
}

/// Scenario: HAMi divides a GPU of dcgm-exporter among four pods by cores, and one is measured.
/// Guarantee: four quarters are one GPU, and count before the label of the one pod that dcgm-exporter names.
#[test]
fn metrics_of_holders_are_grants_and_use() {
    let core = "hami_vgpu_core_allocated_ratio";
    let page = [
        (UTIL, "pod=d,container=main", 60.0),
        (core, "namespace=ml,pod=a,container_index=0", 25.0),
        (core, "namespace=ml,pod=b,container_index=0", 25.0),
        (core, "namespace=ml,pod=c,container_index=0", 25.0),
        (core, "namespace=ml,pod=d,container_index=0", 25.0),
        ("hami_container_device_utilization_ratio", "namespace=ml,pod=a,container=x", 40.0),
        ("hami_vgpu_memory_used_bytes", "namespace=ml,pod=a,container=x", 1e9),
    ];
    let quarter = "250000/1000000";
    let all = format!("0: ml/a {quarter}, ml/b {quarter}, ml/c {quarter}, ml/d {quarter}");
    let expected = [all.as_str(), "0: ml/a touched", "0-15: ml/a uses 40%"];
    assert_eq!(found(&pages(&[&page, &page]))[..3], expected);
    let (memory, limit) = ("hami_vgpu_memory_allocated_bytes", "hami_vgpu_memory_limit_bytes");
    let page = [
        ("hami_host_gpu_utilization_ratio", "device_type=NVIDIA-NVIDIA L4", 60.0),
        ("DCGM_FI_DEV_FB_TOTAL", "", 20_480.0),
        (core, "pod=a,container_index=0", 0.0),
        (memory, "pod=a,container_index=0", 5_368_709_120.0),
        (memory, "pod=a,container_index=1", 5_368_709_120.0),
        (limit, "pod=a,container=x", 5_368_709_120.0),
        (limit, "pod=a,container=y", 5_368_709_120.0),
        (core, "pod=b,container_index=0", 50.0),
        (memory, "pod=b,container_index=0", 5_368_709_120.0),
    ];
    let expected = ["0: a 500000/1000000, b 500000/1000000", "45: "];
    assert_eq!(found(&pages(&[&page])), expected);
}

/// Guarantee: labels are those of the holder that its points name, once until they change or it holds the GPU again.
/// One that no mapping names is not kept, nor an attribute of another pod.
#[test]
fn holders_are_described_by_the_labels_of_their_own_points() {
    let page = |of_a: &'static str| [(UTIL, of_a, 20.0), (UTIL, "pod=b,vgpu=1,team=search", 10.0)];
    let (first, changed) = (
        page("pod=a,vgpu=0,notebook_name=ana,runai_queue=gold"),
        page("pod=a,vgpu=0,notebook_name=ben,runai_queue=gold"),
    );
    let pages_of = pages(&[&first, &first, &changed, &[(UTIL, "", 5.0)], &changed]);
    let described = |it: &String| it.contains(" is ");
    let found: Vec<_> = found(&pages_of).into_iter().filter(described).collect();
    let ben = "a is queue gold notebook-name=ben runai/queue=gold";
    assert_eq!(found, ["a is queue gold notebook-name=ana runai/queue=gold", ben, ben]);
    let of_pod = "pod=a,namespace=ml,k8s.pod.name=a,k8s.namespace.name=ml,k8s.deployment.name=web";
    let of_collector = "pod=b,namespace=ml,k8s.pod.name=otel,k8s.deployment.name=otel";
    let changes = self::found(&pages(&[&[(UTIL, of_pod, 20.0), (UTIL, of_collector, 10.0)]]));
    let described: Vec<_> = changes.iter().filter(|it| described(it)).collect();
    assert_eq!(described, ["ml/a is Deployment=web"]);
}
