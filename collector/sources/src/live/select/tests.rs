//! Which GPUs are selected, by a fixture and by doubtful cases.

use serde::Deserialize;

use super::evidence::CUDA_ORDER;
use super::*;

type Environment<'a> = &'a [(&'a str, &'a str)];

/// Four GPUs; the first two UUIDs have a common prefix.
fn gpus() -> Vec<GpuIdentity> {
    let uuids = ["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"];
    (0..)
        .zip(uuids)
        .map(|(index, uuid)| GpuIdentity {
            name: uuid.to_owned(),
            uuid: Some(uuid.to_owned()),
            index: Some(index),
            model: Some("NVIDIA H100".to_owned()),
            ..GpuIdentity::default()
        })
        .collect()
}

/// A case of the fixture: what is given, and what is selected or the error.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// `--gpu`.
    #[serde(default)]
    gpu: Vec<String>,
    /// `NVIDIA_VISIBLE_DEVICES`.
    nvidia: Option<String>,
    /// `CUDA_VISIBLE_DEVICES`.
    cuda: Option<String>,
    /// The files below `/var/run/nvidia-container-devices`.
    #[serde(default)]
    mounted: Vec<String>,
    /// In a pod.
    #[serde(default)]
    pod: bool,
    /// The node's agent lists these GPUs: those of the pod.
    #[serde(default)]
    agent: bool,
    /// GPUs that the pod's other containers name.
    containers: Option<Vec<String>>,
    /// Positions of GPUs on which processes of the pod compute.
    #[serde(default)]
    used: Vec<usize>,
    /// GPUs whose devices the container has; empty: those that the driver shows.
    devices: Option<Vec<String>>,
    selected: Option<Vec<usize>>,
    by: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Cases {
    case: Vec<Case>,
}

fn names(list: &[String]) -> Vec<GpuName> {
    list.iter().map(|name| GpuName::parse(name)).collect()
}

impl Case {
    fn select(&self, gpus: &[GpuIdentity]) -> Result<Selection, SelectError> {
        let variable = |name: &str| match name {
            NVIDIA => self.nvidia.clone(),
            CUDA => self.cuda.clone(),
            _ => None,
        };
        let variables = Variables::read(variable, || self.mounted.clone());
        let named = self.containers.as_deref().map(|list| (SelectedBy::Containers, names(list)));
        let devices = self.devices.as_deref().map(|list| match list {
            [] => Devices::Shown,
            list => Devices::Named(names(list)),
        });
        let used = self.used.clone();
        let evidence = Evidence { in_pod: self.pod, is_own_only: self.agent, named, used, devices };
        select(&self.gpu, &variables, &evidence, gpus)
    }
}

/// Every value that NVIDIA's runtime, plugins and CUDA take, and every kind of evidence.
#[test]
fn values_select_what_the_fixture_states() {
    let cases: Cases =
        toml::from_str(include_str!("../../../tests/fixtures/visible_devices.toml")).unwrap();
    assert!(cases.case.len() > 60, "{}", cases.case.len());
    for case in cases.case {
        match case.select(&gpus()) {
            Ok(selection) => {
                assert_eq!(Some(&selection.gpus), case.selected.as_ref(), "{case:?}");
                assert_eq!(Some(selection.by.to_string()), case.by, "{case:?}");
            }
            Err(error) => assert_eq!(Some(error.to_string()), case.error, "{case:?}"),
        }
    }
}

fn select_from(
    gpus: &[GpuIdentity],
    requested: &str,
    environment: Environment<'_>,
) -> Result<Selection, SelectError> {
    let requested: Vec<String> =
        requested.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let variable = |name: &str| {
        environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
    };
    let variables = Variables::read(variable, Vec::new);
    select(&requested, &variables, &Evidence::default(), gpus)
}

#[test]
fn ambiguous_selection_is_warned_about() {
    let mut mixed = gpus();
    mixed[3].model = Some("NVIDIA A100".to_owned());
    let by_bus = (CUDA_ORDER, "PCI_BUS_ID");
    let stopped = |entry: &str| Warning::StoppedAt { entry: entry.to_owned() };
    let table: [(&[GpuIdentity], Environment<'_>, &[Warning]); 7] = [
        (&gpus(), &[(CUDA, "0,1")], &[]),
        (&mixed, &[(CUDA, "0,1")], &[Warning::DeviceOrder]),
        (&mixed, &[(CUDA, "0,1"), by_bus], &[]),
        (&mixed, &[(CUDA, "GPU-bb33")], &[]),
        (&mixed, &[(CUDA, "3,2,1,0")], &[]),
        // All GPUs visible in the container have the same model.
        (&mixed, &[(NVIDIA, "0,1,2"), (CUDA, "1")], &[]),
        (&gpus(), &[(CUDA, "1,-1")], &[stopped("-1")]),
    ];
    for (gpus, environment, warnings) in table {
        let selection = select_from(gpus, "", environment).unwrap();
        assert_eq!(selection.warnings, warnings, "{environment:?}");
    }
}

/// As many GPUs that have not answered as entries that match none: they must be the same.
#[test]
fn gpus_that_have_not_answered_are_selected_by_elimination() {
    let mut some = gpus();
    some[1].uuid = None;
    let select = |requested: &str, environment: Environment<'_>| {
        select_from(&some, requested, environment).map(|it| (it.gpus, it.is_partial))
    };
    assert_eq!(select("", &[]), Ok((vec![0, 1, 2, 3], false)));
    assert_eq!(select("1,GPU-bb", &[]), Ok((vec![1, 2], false)));
    assert_eq!(select("GPU-bb,GPU-aa22", &[]), Ok((vec![2, 1], false)));
    assert_eq!(select("", &[(CUDA, "GPU-aa22,GPU-cc")]), Ok((vec![3, 1], false)));
    assert_eq!(select("", &[(NVIDIA, "GPU-aa22")]), Ok((vec![1], false)));
    // One of these two does not exist.
    assert_eq!(select("GPU-dd,GPU-aa22,0", &[]), Ok((vec![0], true)));
    assert!(matches!(select("7", &[]), Err(SelectError::Unknown { .. })));
}
