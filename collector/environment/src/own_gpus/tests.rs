//! What is found in a pod, by its files.

use std::fs;

use tempfile::TempDir;

use super::*;

/// A machine with four GPUs, and a pod of two containers on it: this one and that of process 12.
struct Pod {
    dir: TempDir,
}

impl Pod {
    fn new() -> Self {
        let pod = Self { dir: tempfile::tempdir().unwrap() };
        pod.write("own/proc/self/cgroup", "0::/kubepods/pod1/sidecar\n");
        pod.write("own/proc/12/cgroup", "0::/kubepods/pod1/server\n");
        pod.write("own/proc/15/cgroup", "0::/kubepods/pod2/server\n");
        pod
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The driver shows all GPUs of the machine to this container.
    fn show_gpus(&self) {
        for minor in 0..4 {
            let text = format!("GPU UUID: \t GPU-{minor}\nDevice Minor: \t {minor}\n");
            self.write(
                &format!("own/proc/driver/nvidia/gpus/0000:{minor}:00.0/information"),
                &text,
            );
        }
    }

    fn devices(&self, root: &str, minors: &[u32]) {
        minors.iter().for_each(|minor| self.write(&format!("{root}/dev/nvidia{minor}"), ""));
    }

    fn place(&self, nvidia: Option<&str>) -> Place {
        let own = self.dir.path().join("own");
        Place {
            own: ContainerFiles::at(&own),
            processes: ProcessTable::at(&own.join("proc")),
            nvidia: nvidia.and_then(|value| Visible::parse(value, Vec::new)),
            is_workload: false,
            can_compute: true,
            is_privileged: false,
        }
    }
}

fn gpus(minors: &[u32]) -> Vec<GpuName> {
    minors.iter().map(|minor| GpuName::Uuid(format!("GPU-{minor}"))).collect()
}

/// What other containers were given is in their environment, in files, in claims or in devices; what cannot be read is
/// left to other evidence.
#[test]
fn gpus_of_other_containers_are_found() {
    let pod = Pod::new();
    let named = || pod.place(Some("all")).collect().named;
    pod.show_gpus();
    pod.devices("own", &[0, 1, 2, 3]);
    assert_eq!(named(), None, "unreadable: as that of root is for another user");
    pod.devices("own/proc/12/root", &[0, 1, 2, 3]);
    assert_eq!(named(), None, "all of the machine");
    pod.write("own/proc/15/environ", "NVIDIA_VISIBLE_DEVICES=GPU-0\0");
    assert_eq!(named(), None, "of another pod");
    let by_containers = |minors: &[u32]| Some((SelectedBy::Containers, gpus(minors)));
    fs::remove_file(pod.dir.path().join("own/proc/12/root/dev/nvidia0")).unwrap();
    assert_eq!(named(), by_containers(&[1, 2, 3]));
    let metadata = "own/proc/12/root/run/kubernetes.io/dra-device-attributes";
    let metadata = |text: &str| {
        pod.write(
            &metadata.replace("root/run", "root/var/run").replace(
                "attributes",
                "attributes/resourceclaims/shared/gpu/gpu.nvidia.com-metadata.json",
            ),
            text,
        );
    };
    metadata("{\"requests\":[{\"devices\":[{\"attributes\":{\"uuid\":{\"string\":\"GPU-3\"}}}]}]}");
    assert_eq!(named(), by_containers(&[3]));
    pod.write("own/proc/12/environ", "HOME=/\0NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-0\0");
    assert_eq!(named(), by_containers(&[2, 0]));
    pod.write("own/proc/12/environ", "NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices\0");
    pod.write("own/proc/12/root/var/run/nvidia-container-devices/GPU-1", "");
    assert_eq!(named(), by_containers(&[1]));
    pod.write("own/proc/13/cgroup", "0::/kubepods/pod1/second\n");
    pod.write("own/proc/13/environ", "NVIDIA_VISIBLE_DEVICES=GPU-0\0");
    assert_eq!(named(), by_containers(&[1, 0]), "the pod has the GPUs of all its containers");
}

/// A claim of this container counts before anything else.
#[test]
fn metadata_of_own_claims_counts_first() {
    let pod = Pod::new();
    pod.write("own/proc/12/environ", "NVIDIA_VISIBLE_DEVICES=GPU-2\0");
    let directory = "own/var/run/kubernetes.io/dra-device-attributes/resourceclaims/gpu/gpu";
    let text = include_str!("../../tests/fixtures/dra-metadata.json");
    pod.write(&format!("{directory}/gpu.nvidia.com-metadata.json"), text);
    let claimed = ["GPU-aa11", "GPU-bb33"].map(|uuid| GpuName::Uuid(uuid.to_owned()));
    let named = pod.place(Some("void")).collect().named;
    assert_eq!(named, Some((SelectedBy::Metadata, claimed.to_vec())));
}

/// Scenario: the image of a container has variables for NVIDIA's runtime, as those of CUDA have (`all`,
/// `compute,utility`) and those of tools (`utility`); a claim adds devices, with `void` or without.
/// Guarantee: devices that are some of the machine's are those of the claim, whatever the image states. All of the
/// machine's are those of a sidecar only beside `void`, unless it may only look; a privileged container has none of its
/// own.
#[test]
fn devices_of_a_claim_count_whatever_the_image_states() {
    let pod = Pod::new();
    let devices = |nvidia, capabilities| {
        let can_compute = can_compute(capabilities);
        Place { can_compute, ..pod.place(nvidia) }.devices(&OnceCell::new())
    };
    let images = [None, Some(""), Some("utility"), Some("compute,utility"), Some("all")];
    let visible = [None, Some("all"), Some("void")];
    assert_eq!(devices(Some("void"), None), None, "no devices");
    pod.devices("own", &[1, 2]);
    pod.show_gpus();
    let some = || Some(Devices::Named(gpus(&[1, 2])));
    for (nvidia, image) in visible.iter().flat_map(|it| images.iter().map(move |image| (it, image)))
    {
        assert_eq!(devices(*nvidia, *image), some(), "{nvidia:?} {image:?}");
    }
    pod.devices("own", &[0, 3]);
    for (nvidia, image) in visible.iter().flat_map(|it| images.iter().map(move |image| (it, image)))
    {
        let is_claim = *nvidia == Some("void") && *image != Some("utility");
        let expected = is_claim.then_some(Devices::Shown);
        assert_eq!(devices(*nvidia, *image), expected, "{nvidia:?} {image:?}");
    }
    let workload = |can_compute| {
        let place = Place { is_workload: true, can_compute, ..pod.place(Some("all")) };
        place.devices(&OnceCell::new())
    };
    assert_eq!([workload(true), workload(false)], [Some(Devices::Shown), None]);
    for nvidia in visible {
        let place = Place { is_privileged: true, is_workload: true, ..pod.place(nvidia) };
        assert_eq!(place.devices(&OnceCell::new()), None, "privileged: {nvidia:?}");
    }
}

/// The GPUs of the machine are not known without its driver's files: then all devices may be all of them.
#[test]
fn devices_without_the_list_of_the_machine_are_own_beside_void_only() {
    let pod = Pod::new();
    pod.devices("own", &[1, 2]);
    let devices = |nvidia| pod.place(nvidia).devices(&OnceCell::new());
    assert_eq!(devices(Some("void")), Some(Devices::Shown));
    assert_eq!([devices(Some("all")), devices(None)], [None, None]);
}

/// Old drivers return IDs of the host, which mean other processes in a container.
#[test]
fn processes_tell_only_if_their_ids_are_those_seen_here() {
    let found = |are_of_host| Found { processes: [12, 13].into(), are_of_host, ..Found::default() };
    let used = |are_of_host, gpus: &[&[u32]]| found(are_of_host).used(gpus.iter().copied());
    assert_eq!(used(false, &[&[], &[12], &[13, 12], &[]]), [1, 2]);
    assert_eq!(used(false, &[&[4_711], &[12]]), [0; 0], "of the host");
    assert_eq!(used(true, &[&[4_711], &[12]]), [1]);
    assert_eq!(used(false, &[]), [0; 0]);
}

#[test]
fn privileges_are_read_from_the_status() {
    assert!(is_administrator("Name:\tx\nCapEff:\t000001ffffffffff\n"));
    assert!(!is_administrator("CapEff:\t00000000a80425fb\n") && !is_administrator(""));
}

/// The thread ends with what it collects for.
#[test]
fn collection_ends_when_its_owner_is_dropped() {
    let pod = Pod::new();
    let (running, ended) = channel();
    let (sender, updates) = channel();
    let place = pod.place(None);
    let thread = thread::spawn(move || place.collect_all(&ended, &sender));
    assert_eq!(updates.recv().unwrap().processes, BTreeSet::from([12]));
    drop(running);
    thread.join().unwrap();
}
