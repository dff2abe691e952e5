//! Whose values are: identities, attributes and instances of hosts.

use std::collections::BTreeMap;

use super::*;

/// Guarantee: a point that only describes a GPU completes its identity, whenever it arrives, and adds no reading.
#[test]
fn info_completes_the_identity_only() {
    let model = Some("NVIDIA-L4".to_owned());
    let gpu = GpuLabels { model, ..labels("GPU-a") };
    let info = GpuValue {
        gpu,
        at: at(0),
        quantity: None,
        rank: 0,
        basis: None,
        value: Err(MissingReason::NotCollected),
    };
    for first in [true, false] {
        let mut buffer = ReadingBuffer::new(HOLD, None, None);
        if first {
            buffer.insert(info.clone(), arrival(0));
        }
        buffer.insert(utilization("GPU-a", 15, Basis::NvmlGpu, 50), arrival(15));
        let mut times_of_readings = times(&buffer.release_all());
        buffer.insert(info.clone(), arrival(20));
        times_of_readings.extend(times(&buffer.release_all()));
        assert_eq!(times_of_readings, [15]);
        assert_eq!(buffer.identities()[0].model.as_deref(), Some("NVIDIA L4"));
        assert_eq!(buffer.dropped(), 0);
    }
}

#[test]
fn pod_of_gpu_is_an_attribute_unless_there_are_several() {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    let mut insert = |uid: &str, namespace: &str, name: &str| {
        let mut value = utilization("GPU-a", 15, Basis::DcgmGpu, 90);
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let pod = PodLabels { uid: known(uid), namespace: known(namespace), name: known(name) };
        value.gpu.pod = Some(pod);
        buffer.insert(value, arrival(0));
        buffer.identities()[0].attributes.clone()
    };
    let attributes = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        pairs.collect::<BTreeMap<_, _>>()
    };
    let namespace = ("k8s.namespace.name", "ml");
    let first = attributes(&[namespace, ("k8s.pod.name", "train-0")]);
    assert_eq!(insert("", "ml", "train-0"), first);
    assert_eq!(insert("", "", ""), first);
    assert_eq!(insert("", "ml", "train-1"), attributes(&[namespace]));
    assert_eq!(insert("", "ml", "train-0"), attributes(&[namespace]), "it has had several");
    assert_eq!(insert("5f1d", "web", "train-0"), attributes(&[("k8s.pod.uid", "5f1d")]));
}

/// Guarantee: attributes are what all pods of a GPU have in common, in any order in which a pod's become known.
#[test]
fn attributes_are_common_to_all_pods_of_a_gpu() {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    let mut seconds = 0;
    let mut attributes = |pod: &str, details: &[(&str, &str)]| {
        seconds += 15;
        let mut value = utilization("GPU-a", seconds, Basis::DcgmGpu, 50);
        let name = Some(pod.to_owned());
        value.gpu.pod = Some(PodLabels { name, ..PodLabels::default() });
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        value.gpu.details = details.iter().map(owned).collect();
        buffer.insert(value, arrival(seconds));
        // Other values have none.
        let mut power = power("GPU-a", at(seconds), 100);
        power.gpu.pod = Some(PodLabels { name: Some(pod.to_owned()), ..PodLabels::default() });
        buffer.insert(power, arrival(seconds));
        let all = buffer.identities()[0].attributes.iter();
        let all = all.filter(|(key, _)| *key != "k8s.pod.name");
        all.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    let job = ("k8s.job.name", "nightly");
    let label = ("k8s.pod.label.notebook-name", "ana");
    assert_eq!(attributes("a", &[]), "");
    assert_eq!(attributes("a", &[job, ("host.id", "i-1")]), "host.id=i-1 k8s.job.name=nightly");
    let both = "host.id=i-1 k8s.job.name=nightly k8s.pod.label.notebook-name=ana";
    assert_eq!(attributes("a", &[job, label]), both);
    assert_eq!(attributes("b", &[job]), "host.id=i-1 k8s.job.name=nightly", "of the first only");
    assert_eq!(attributes("b", &[job, label]), "host.id=i-1 k8s.job.name=nightly");
    assert_eq!(attributes("c", &[("k8s.job.name", "hourly")]), "host.id=i-1");
    assert_eq!(attributes("c", &[("host.id", "i-2")]), "", "of two instances");
    assert_eq!(attributes("c", &[job, ("host.id", "i-1")]), "");
}

/// Scenario: a host is another instance from some time on; two senders name it differently, in turn.
/// Guarantee: its first reading, and no later one, begins another instance.
#[test]
fn another_instance_begins_once() {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    for (tick, instance) in
        ["", "i-1", "machine", "i-1", "", "i-2", "machine", "i-2"].iter().enumerate()
    {
        let seconds = 15 * tick as u64;
        let mut value = utilization("GPU-a", seconds, Basis::DcgmGpu, 50);
        let known = Some(*instance).filter(|instance| !instance.is_empty());
        value.gpu.details =
            known.map(|it| ("host.id".to_owned(), it.to_owned())).into_iter().collect();
        buffer.insert(value, arrival(seconds));
    }
    let released = buffer.release_all();
    let begins: Vec<_> = released.iter().map(|held| held.reading.begins_instance).collect();
    assert_eq!(begins, [false, false, true, false, false, true, false, false]);
}

/// Guarantee: the same ID on several hosts is a GPU on each; what another meter bills is of its host.
#[test]
fn id_without_uuid_is_one_gpu_per_host() {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    let hosts = ["node-1", "node-2", "node-3"];
    for (host, percent) in hosts.iter().zip([10, 20, 30]) {
        let id = GpuId::on_host("0".to_owned(), Some((*host).to_owned()));
        for seconds in [0, 15, 30] {
            let gpu = GpuLabels { id: id.clone(), host: Some((*host).to_owned()), ..labels("") };
            let value = utilization("", seconds, Basis::HwGpu, percent);
            buffer.insert(GpuValue { gpu, ..value }, arrival(seconds));
        }
    }
    let names: Vec<_> = buffer.identities().iter().map(|gpu| gpu.name.as_str()).collect();
    assert_eq!(names, ["node-1:0", "node-2:0", "node-3:0"]);
    assert!(buffer.identities().iter().all(|gpu| gpu.uuid.is_none() && gpu.index == Some(0)));
    buffer.cover("node-2:0", at(0), at(100), "agent", Nanos::ZERO);
    let released = buffer.release_all();
    let of = |gpu| released.iter().filter(|held| held.buffer_index == gpu).count();
    assert_eq!([0, 1, 2].map(of), [3, 0, 3]);
}
