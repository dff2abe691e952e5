//! Which of the GPUs that the driver shows are metered.
//!
//! What the user names goes first; else what the environment gives the workload; else all. It knows
//! no driver and no process: the environment is a function.

use phasemeter_meter::reading::GpuIdentity;

const NVIDIA: &str = "NVIDIA_VISIBLE_DEVICES";
const CUDA: &str = "CUDA_VISIBLE_DEVICES";
const CUDA_ORDER: &str = "CUDA_DEVICE_ORDER";

/// The GPUs that are metered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Places in the list that was chosen from, each once, in the order requested for.
    pub gpus: Vec<usize>,
    /// Who chose.
    pub by: SelectedBy,
    /// What the user should know of it.
    pub warnings: Vec<Warning>,
}

/// Who chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedBy {
    /// `--gpu`.
    Option,
    /// This environment variable; where two restrict, the narrower one.
    Variable(&'static str),
    /// Nobody: all that the driver shows.
    Driver,
}

/// What may be other than the user thinks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// CUDA may count the GPUs in another order than we do.
    #[error(
        "{CUDA} counts GPUs of different models, which CUDA orders by speed and the driver by bus: \
         set {CUDA_ORDER}=PCI_BUS_ID, or name them by uuid"
    )]
    DeviceOrder,
    /// CUDA stops at an entry that names no GPU, and so do we.
    #[error("{CUDA}: `{entry}` names no GPU; like CUDA, what follows it is left out")]
    StoppedAt {
        /// The entry.
        entry: String,
    },
}

/// Why no GPUs can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// An entry names none of them.
    #[error("{by}: no GPU is called `{entry}`; there are {available}")]
    Unknown {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
        /// What there is.
        available: String,
    },
    /// An entry names several.
    #[error("{by}: `{entry}` is the beginning of several uuids; give more of it")]
    Ambiguous {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
    },
    /// An entry names a part of a GPU.
    #[error("{by}: `{entry}` is a MIG instance; only whole GPUs are metered, name its GPU")]
    Mig {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
    },
    /// Empty is left to meter.
    #[error("{by} leaves no GPU; name them with --gpu")]
    Empty {
        /// The option or variable.
        by: &'static str,
    },
}

/// Chooses from `gpus`, which stand in the order of their indices. `requested`: what `--gpu` names,
/// indices or uuids or their beginnings. `variable` looks up the environment.
///
/// # Errors
/// Where something is named that is no GPU here, or nothing is left.
pub fn select(
    requested: &[String],
    variable: impl Fn(&str) -> Option<String>,
    gpus: &[GpuIdentity],
) -> Result<Selection, SelectError> {
    let mut selection =
        Selection { gpus: (0..gpus.len()).collect(), by: SelectedBy::Driver, warnings: Vec::new() };
    if !requested.is_empty() {
        selection.gpus = resolve("--gpu", requested.iter().map(String::as_str), gpus)?;
        selection.by = SelectedBy::Option;
        return Ok(selection);
    }
    if let Some(value) = variable(NVIDIA) {
        selection.restrict_by_container(&value, gpus)?;
    }
    if let Some(value) = variable(CUDA) {
        let by_bus = variable(CUDA_ORDER).is_some_and(|order| order == "PCI_BUS_ID");
        selection.restrict_by_cuda(&value, by_bus, gpus)?;
    }
    Ok(selection)
}

impl Selection {
    /// What the container runtime was told. Where the driver shows as many GPUs as it lists, the
    /// runtime has done it already, and indices are those of the host.
    fn restrict_by_container(
        &mut self,
        value: &str,
        gpus: &[GpuIdentity],
    ) -> Result<(), SelectError> {
        let entries = || value.split(',').map(str::trim);
        match value.trim() {
            "all" | "void" | "" => return Ok(()),
            "none" => return Err(SelectError::Empty { by: NVIDIA }),
            _ => {}
        }
        let indices = entries().all(|entry| entry.parse::<u32>().is_ok());
        if !(indices && entries().count() == gpus.len()) {
            self.gpus = resolve(NVIDIA, entries(), gpus)?;
        }
        self.by = SelectedBy::Variable(NVIDIA);
        Ok(())
    }

    /// What CUDA shows the workload: indices count what is visible so far, in CUDA's order.
    fn restrict_by_cuda(
        &mut self,
        value: &str,
        by_bus: bool,
        gpus: &[GpuIdentity],
    ) -> Result<(), SelectError> {
        let visible = std::mem::take(&mut self.gpus);
        let mut counted = false;
        for entry in value.split(',').map(str::trim) {
            reject_mig(CUDA, entry)?;
            let position = match entry.parse::<usize>() {
                Ok(index) => {
                    counted = true;
                    visible.get(index).copied()
                }
                Err(_) => by_uuid_prefix(entry, gpus, &visible).unwrap_or_default(),
            };
            let Some(position) = position else {
                // An empty list is no mistake, it hides all GPUs.
                if !value.trim().is_empty() {
                    self.warnings.push(Warning::StoppedAt { entry: entry.to_owned() });
                }
                break;
            };
            if !self.gpus.contains(&position) {
                self.gpus.push(position);
            }
        }
        if self.gpus.is_empty() {
            return Err(SelectError::Empty { by: CUDA });
        }
        let model = |position: &usize| gpus.get(*position).map(|gpu| &gpu.model);
        let mixed = visible.windows(2).any(|two| two.first().map(model) != two.last().map(model));
        if counted && mixed && !by_bus && self.gpus.len() < visible.len() {
            self.warnings.push(Warning::DeviceOrder);
        }
        self.by = SelectedBy::Variable(CUDA);
        Ok(())
    }
}

/// The GPUs that entries name by the driver's index, by uuid or by its beginning.
fn resolve<'a>(
    by: &'static str,
    entries: impl Iterator<Item = &'a str>,
    gpus: &[GpuIdentity],
) -> Result<Vec<usize>, SelectError> {
    let all: Vec<usize> = (0..gpus.len()).collect();
    let mut positions = Vec::new();
    for entry in entries.map(str::trim) {
        reject_mig(by, entry)?;
        let found = match entry.parse::<u32>() {
            Ok(index) => Ok(gpus.iter().position(|gpu| gpu.index == Some(index))),
            Err(_) => by_uuid_prefix(entry, gpus, &all),
        };
        let position = found
            .map_err(|AmbiguousPrefix| SelectError::Ambiguous { by, entry: entry.to_owned() })?
            .ok_or_else(|| SelectError::Unknown {
                by,
                entry: entry.to_owned(),
                available: list_available(gpus),
            })?;
        if !positions.contains(&position) {
            positions.push(position);
        }
    }
    Ok(positions)
}

/// More than one GPU is matching.
struct AmbiguousPrefix;

/// The one of `positions` whose uuid begins with `entry`.
fn by_uuid_prefix(
    entry: &str,
    gpus: &[GpuIdentity],
    positions: &[usize],
) -> Result<Option<usize>, AmbiguousPrefix> {
    let begins = |position: &usize| {
        let uuid = gpus.get(*position).and_then(|gpu| gpu.uuid.as_deref());
        !entry.is_empty() && uuid.is_some_and(|uuid| uuid.starts_with(entry))
    };
    let mut matching = positions.iter().copied().filter(begins);
    match (matching.next(), matching.next()) {
        (Some(_), Some(_)) => Err(AmbiguousPrefix),
        (first, _) => Ok(first),
    }
}

/// MIG instances are `MIG-…`, or `0:1` to the container runtime.
fn reject_mig(by: &'static str, entry: &str) -> Result<(), SelectError> {
    if entry.starts_with("MIG-") || entry.contains(':') {
        return Err(SelectError::Mig { by, entry: entry.to_owned() });
    }
    Ok(())
}

fn list_available(gpus: &[GpuIdentity]) -> String {
    let name = |gpu: &GpuIdentity| match gpu.index {
        Some(index) => format!("{index} ({})", gpu.name),
        None => gpu.name.clone(),
    };
    gpus.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Environment<'a> = &'a [(&'a str, &'a str)];

    /// Four GPUs; the first two uuids begin alike.
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

    fn choose(
        gpus: &[GpuIdentity],
        requested: &str,
        environment: Environment<'_>,
    ) -> Result<Selection, SelectError> {
        let requested: Vec<String> =
            requested.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        };
        select(&requested, variable, gpus)
    }

    #[test]
    fn what_is_chosen() {
        let by_nvidia = SelectedBy::Variable(NVIDIA);
        let by_cuda = SelectedBy::Variable(CUDA);
        let table: [(&str, Environment<'_>, &[usize], SelectedBy); 20] = [
            ("", &[], &[0, 1, 2, 3], SelectedBy::Driver),
            // The option goes first.
            ("2", &[(CUDA, "0")], &[2], SelectedBy::Option),
            ("GPU-bb33,0", &[], &[2, 0], SelectedBy::Option),
            ("GPU-b", &[], &[2], SelectedBy::Option),
            ("1,1,GPU-aa22", &[], &[1], SelectedBy::Option),
            // The container's variable.
            ("", &[(NVIDIA, "all")], &[0, 1, 2, 3], SelectedBy::Driver),
            ("", &[(NVIDIA, "void")], &[0, 1, 2, 3], SelectedBy::Driver),
            ("", &[(NVIDIA, "")], &[0, 1, 2, 3], SelectedBy::Driver),
            ("", &[(NVIDIA, "1,3")], &[1, 3], by_nvidia),
            ("", &[(NVIDIA, "GPU-cc44, GPU-aa11")], &[3, 0], by_nvidia),
            // As many as there are: the runtime has applied it.
            ("", &[(NVIDIA, "4,5,6,7")], &[0, 1, 2, 3], by_nvidia),
            // CUDA's.
            ("", &[(CUDA, "0,1")], &[0, 1], by_cuda),
            ("", &[(CUDA, "3, 1")], &[3, 1], by_cuda),
            ("", &[(CUDA, "GPU-c")], &[3], by_cuda),
            ("", &[(CUDA, "2,2")], &[2], by_cuda),
            // CUDA counts what the container shows.
            ("", &[(NVIDIA, "1,3"), (CUDA, "1")], &[3], by_cuda),
            ("", &[(NVIDIA, "1,3"), (CUDA, "GPU-bb33,1")], &[], by_cuda),
            // CUDA stops at what names no GPU.
            ("", &[(CUDA, "1,-1,2")], &[1], by_cuda),
            ("", &[(CUDA, "1,9,2")], &[1], by_cuda),
            ("", &[(CUDA, "1,GPU-aa,2")], &[1], by_cuda),
        ];
        for (requested, environment, expected, by) in table {
            let case = format!("--gpu {requested:?}, {environment:?}");
            match choose(&gpus(), requested, environment) {
                Ok(selection) => {
                    assert_eq!(selection.gpus, expected, "{case}");
                    assert_eq!(selection.by, by, "{case}");
                }
                Err(error) => {
                    assert_eq!(expected, [0; 0], "{case}: {error}");
                    assert_eq!(error, SelectError::Empty { by: CUDA }, "{case}");
                }
            }
        }
    }

    #[test]
    fn what_is_refused() {
        let table: [(&str, Environment<'_>, &str); 9] = [
            (
                "7",
                &[],
                "--gpu: no GPU is called `7`; there are 0 (GPU-aa11), 1 (GPU-aa22), 2 (GPU-bb33), 3 (GPU-cc44)",
            ),
            ("GPU-aa", &[], "--gpu: `GPU-aa` is the beginning of several uuids; give more of it"),
            (
                "MIG-1f",
                &[],
                "--gpu: `MIG-1f` is a MIG instance; only whole GPUs are metered, name its GPU",
            ),
            (
                "",
                &[(NVIDIA, "0:1")],
                "NVIDIA_VISIBLE_DEVICES: `0:1` is a MIG instance; only whole GPUs are metered, name its GPU",
            ),
            ("", &[(NVIDIA, "none")], "NVIDIA_VISIBLE_DEVICES leaves no GPU; name them with --gpu"),
            (
                "",
                &[(NVIDIA, "GPU-dd")],
                "NVIDIA_VISIBLE_DEVICES: no GPU is called `GPU-dd`; there are 0 (GPU-aa11), 1 (GPU-aa22), 2 (GPU-bb33), 3 (GPU-cc44)",
            ),
            ("", &[(CUDA, "")], "CUDA_VISIBLE_DEVICES leaves no GPU; name them with --gpu"),
            (
                "",
                &[(CUDA, "NoDevFiles")],
                "CUDA_VISIBLE_DEVICES leaves no GPU; name them with --gpu",
            ),
            (
                "",
                &[(CUDA, "0,MIG-1f")],
                "CUDA_VISIBLE_DEVICES: `MIG-1f` is a MIG instance; only whole GPUs are metered, name its GPU",
            ),
        ];
        for (requested, environment, message) in table {
            let error = choose(&gpus(), requested, environment).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn what_is_warned_of() {
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
            // Of what the container shows, all are alike.
            (&mixed, &[(NVIDIA, "0,1,2"), (CUDA, "1")], &[]),
            (&gpus(), &[(CUDA, "1,-1")], &[stopped("-1")]),
        ];
        for (gpus, environment, warnings) in table {
            let selection = choose(gpus, "", environment).unwrap();
            assert_eq!(selection.warnings, warnings, "{environment:?}");
        }
    }
}
