//! What the files of a container tell about its GPUs: files that name them, device metadata of claims, device files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use phasemeter_files::{read_file, read_text};
use phasemeter_sources::live::select::{GpuName, MOUNTED_DEVICES};
use serde_json::{Deserializer, Value};

/// Where the files with the devices of claims are, `…/NAME/REQUEST/DRIVER-metadata.json` below it
/// (`EnableDeviceMetadata` of DRA drivers).
const METADATA: &str = "/var/run/kubernetes.io/dra-device-attributes";

/// The end of the names of these files.
const METADATA_FILE: &str = "-metadata.json";

/// The directory of the driver with a directory for each GPU.
const DRIVER_GPUS: &str = "proc/driver/nvidia/gpus";

/// Device files of GPUs: `/dev/nvidia0`.
const DEVICE: &str = "nvidia";

/// Files and directories of a container are not read below this depth.
const MAX_DEPTH: usize = 4;

/// Maximum number of entries of directories that are read.
const MAX_ENTRIES: usize = 4_096;

/// Maximum size of a file.
const MAX_BYTES: u64 = 1 << 20;

/// A container, by the directory that is its root.
#[derive(Clone, Debug)]
pub(super) struct ContainerFiles {
    root: PathBuf,
}

impl ContainerFiles {
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The files that name GPUs if the value of their variable is their directory, by their path below it.
    pub(super) fn mounted(&self) -> Vec<String> {
        let directory = self.below_run(MOUNTED_DEVICES);
        let path = |file: &PathBuf| file.strip_prefix(&directory).ok()?.to_str().map(str::to_owned);
        files(&directory).iter().filter_map(path).collect()
    }

    /// The GPUs of its claims, if their driver writes their UUIDs into the container.
    pub(super) fn claimed(&self) -> Vec<GpuName> {
        let files = files(&self.below_run(METADATA));
        let is_metadata = |file: &&PathBuf| file.to_string_lossy().ends_with(METADATA_FILE);
        let mut uuids = BTreeSet::new();
        for file in files.iter().filter(is_metadata) {
            uuids.extend(uuids_of(&read_file(file, MAX_BYTES).unwrap_or_default()));
        }
        uuids.iter().map(|uuid| GpuName::parse(uuid)).collect()
    }

    /// The minor numbers of the GPUs whose device files it has.
    pub(super) fn minors(&self) -> BTreeSet<u32> {
        let names = entries(&self.root.join("dev"));
        let minor = |path: PathBuf| path.file_name()?.to_str()?.strip_prefix(DEVICE)?.parse().ok();
        names.into_iter().filter_map(minor).collect()
    }

    /// The UUIDs of the GPUs of the machine by their minor numbers, as far as its driver shows them.
    pub(super) fn gpus(&self) -> BTreeMap<u32, String> {
        let gpu = |directory: PathBuf| {
            let text = read_text(&directory.join("information"), MAX_BYTES).ok()?;
            let value = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key));
                line.map(|value| value.trim_start_matches(':').trim())
            };
            Some((value("Device Minor")?.parse().ok()?, value("GPU UUID")?.to_owned()))
        };
        entries(&self.root.join(DRIVER_GPUS)).into_iter().filter_map(gpu).collect()
    }

    /// A directory below `/var/run` in the container. That usually is a link to `/run`, which another process would
    /// follow to its own.
    fn below_run(&self, path: &str) -> PathBuf {
        let run = self.root.join("var/run");
        let is_link = fs::symlink_metadata(run).is_ok_and(|it| it.is_symlink());
        let path = path.trim_start_matches('/');
        let linked = path.strip_prefix("var/").filter(|_| is_link);
        self.root.join(linked.unwrap_or(path))
    }
}

/// The files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let (mut files, mut level) = (Vec::new(), vec![directory.to_owned()]);
    for _ in 0..MAX_DEPTH {
        let found = level.iter().flat_map(|directory| entries(directory)).take(MAX_ENTRIES);
        let (directories, others): (Vec<_>, Vec<_>) = found.partition(|path| path.is_dir());
        files.extend(others);
        level = directories;
    }
    files
}

/// What is in a directory, in the order of names.
fn entries(directory: &Path) -> BTreeSet<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().take(MAX_ENTRIES);
    found.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// The UUIDs in a file of device metadata: the same object once per version of its format.
fn uuids_of(bytes: &[u8]) -> Vec<String> {
    let objects = Deserializer::from_slice(bytes).into_iter::<Value>();
    let each = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let mut uuids = Vec::new();
    for object in objects.map_while(Result::ok) {
        for device in each(&object, "requests").iter().flat_map(|request| each(request, "devices"))
        {
            let attributes = device.get("attributes").and_then(Value::as_object);
            let uuid = |(key, value): (&String, &Value)| {
                let name = key.rsplit('/').next();
                let uuid = value.get("string").and_then(Value::as_str);
                uuid.filter(|uuid| name == Some("uuid") && is_gpu(uuid)).map(str::to_owned)
            };
            uuids.extend(attributes.into_iter().flatten().filter_map(uuid));
        }
    }
    uuids
}

/// Whether this is the UUID of a GPU or of an instance: other devices have UUIDs, too.
fn is_gpu(uuid: &str) -> bool {
    !matches!(GpuName::parse(uuid), GpuName::Index(_) | GpuName::Other(_))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn files_that_name_gpus_are_listed_with_those_of_cdi() {
        let root = tempfile::tempdir().unwrap();
        let container = ContainerFiles::at(root.path());
        assert!(container.mounted().is_empty());
        for name in ["GPU-aa11", "cdi/nvidia.com/gpu/0"] {
            write(root.path(), &format!("run/nvidia-container-devices/{name}"), "");
        }
        // As in most images: an absolute link, which must not lead to the files of this process.
        fs::create_dir(root.path().join("var")).unwrap();
        symlink("/run", root.path().join("var/run")).unwrap();
        assert_eq!(container.mounted(), ["GPU-aa11", "cdi/nvidia.com/gpu/0"]);
    }

    /// The file as the helper of DRA drivers writes it: the same object in two versions.
    #[test]
    fn gpus_of_claims_are_read_from_device_metadata() {
        let root = tempfile::tempdir().unwrap();
        let text = include_str!("../../tests/fixtures/dra-metadata.json");
        let directory = "var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpu";
        write(root.path(), &format!("{directory}/gpu/gpu.nvidia.com-metadata.json"), text);
        write(
            root.path(),
            &format!("{directory}/nic/nic.example.com-metadata.json"),
            "{\"requests\": 3}",
        );
        write(root.path(), &format!("{directory}/gpu/readme"), text);
        let gpus = ContainerFiles::at(root.path()).claimed();
        let uuid = |uuid: &str| GpuName::Uuid(uuid.to_owned());
        assert_eq!(gpus, [uuid("GPU-aa11"), uuid("GPU-bb33")]);
    }

    #[test]
    fn device_files_and_gpus_of_the_driver_are_listed() {
        let root = tempfile::tempdir().unwrap();
        for device in ["nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1"]
        {
            write(root.path(), &format!("dev/{device}"), "");
        }
        let information = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 147\nGPU UUID: \t GPU-aa11\n\
            Bus Location: \t 0000:17:00.0\nDevice Minor: \t 12\nGPU Firmware: \t 575.57.08\n";
        write(root.path(), "proc/driver/nvidia/gpus/0000:17:00.0/information", information);
        let container = ContainerFiles::at(root.path());
        assert_eq!(container.minors(), BTreeSet::from([0, 12]));
        assert_eq!(container.gpus(), BTreeMap::from([(12, "GPU-aa11".to_owned())]));
    }
}
