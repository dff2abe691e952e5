//! Selects the GPUs to meter among those of the driver.
//!
//! The user's selection comes first, then that of the environment for the workload; otherwise all
//! GPUs are metered.

use phasemeter_meter::reading::GpuIdentity;

const NVIDIA: &str = "NVIDIA_VISIBLE_DEVICES";
const CUDA: &str = "CUDA_VISIBLE_DEVICES";
const CUDA_ORDER: &str = "CUDA_DEVICE_ORDER";

/// The beginning of every UUID of a GPU.
const UUID: &str = "GPU-";

/// The selected GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Indices into the list of GPUs, each once, in the order requested.
    pub gpus: Vec<usize>,
    /// The origin of the selection.
    pub by: SelectedBy,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// Whether entries may match GPUs that have not answered, so that others may be selected later.
    pub is_partial: bool,
}

/// The origin of a selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedBy {
    /// `--gpu`.
    Option,
    /// This environment variable; the narrower one of two.
    Variable(&'static str),
    /// None: all GPUs of the driver.
    Driver,
}

/// A possible mismatch with the user's intention.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// CUDA's order of GPUs may differ from the driver's.
    #[error(
        "{CUDA}: CUDA orders GPUs of different models by speed, the driver by bus; \
         set {CUDA_ORDER}=PCI_BUS_ID, or use UUIDs"
    )]
    DeviceOrder,
    /// An entry does not match a GPU. CUDA ignores it and all later ones, and so does Phasemeter.
    #[error("{CUDA}: invalid entry '{entry}'; this and later entries are ignored, as in CUDA")]
    StoppedAt {
        /// The entry.
        entry: String,
    },
}

/// Why no GPUs can be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// An entry matches no GPU.
    #[error("{by}: unknown GPU '{entry}'; available: {available}")]
    Unknown {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
        /// The available GPUs.
        available: String,
    },
    /// An entry matches several GPUs.
    #[error("{by}: '{entry}' matches several UUIDs; use a longer prefix")]
    Ambiguous {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
    },
    /// An entry is a part of a GPU.
    #[error("{by}: MIG instance '{entry}' cannot be metered; name its GPU")]
    Mig {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
    },
    /// No GPU is left.
    #[error("{by}: no GPU selected; select GPUs with --gpu")]
    Empty {
        /// The option or variable.
        by: &'static str,
    },
}

/// Selects from `gpus`, which are ordered by index. One without a UUID has not answered: if as many
/// entries match no GPU as there are such GPUs, they are selected. `requested` has the values of `--gpu`: indices,
/// UUIDs or prefixes of UUIDs. `variable` looks up the environment.
///
/// # Errors
/// Returns an error if an entry does not match exactly one GPU, or no GPU is left.
pub fn select(
    requested: &[String],
    variable: impl Fn(&str) -> Option<String>,
    gpus: &[GpuIdentity],
) -> Result<Selection, SelectError> {
    let mut selection = Selection {
        gpus: (0..gpus.len()).collect(),
        by: SelectedBy::Driver,
        warnings: Vec::new(),
        is_partial: false,
    };
    if !requested.is_empty() {
        selection.resolve("--gpu", requested.iter().map(String::as_str), gpus)?;
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
    /// Applies the selection of the container runtime. If the driver lists as many GPUs as the
    /// variable has indices, the runtime has already applied it, and the indices are those of the
    /// host.
    fn restrict_by_container(
        &mut self,
        value: &str,
        gpus: &[GpuIdentity],
    ) -> Result<(), SelectError> {
        let entries = || value.split(',').map(str::trim);
        match value.trim() {
            "all" | "" => return Ok(()),
            "none" | "void" => return Err(SelectError::Empty { by: NVIDIA }),
            _ => {}
        }
        let indices = entries().all(|entry| entry.parse::<u32>().is_ok());
        if !(indices && entries().count() == gpus.len()) {
            self.resolve(NVIDIA, entries(), gpus)?;
        }
        self.by = SelectedBy::Variable(NVIDIA);
        Ok(())
    }

    /// Applies the selection of CUDA for the workload: indices count the GPUs visible so far, in
    /// CUDA's order.
    fn restrict_by_cuda(
        &mut self,
        value: &str,
        by_bus: bool,
        gpus: &[GpuIdentity],
    ) -> Result<(), SelectError> {
        let visible = std::mem::take(&mut self.gpus);
        self.by = SelectedBy::Variable(CUDA);
        if self.is_partial {
            // Which GPUs are counted is not known yet.
            return Ok(());
        }
        let (mut counted, mut unmatched) = (false, 0);
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
                if entry.starts_with(UUID) && unidentified(gpus).next().is_some() {
                    unmatched += 1;
                    continue;
                }
                // An empty list is valid: it hides all GPUs.
                if !value.trim().is_empty() {
                    self.warnings.push(Warning::StoppedAt { entry: entry.to_owned() });
                }
                break;
            };
            if !self.gpus.contains(&position) {
                self.gpus.push(position);
            }
        }
        self.add_unidentified(gpus, unmatched);
        if self.gpus.is_empty() && !self.is_partial {
            return Err(SelectError::Empty { by: CUDA });
        }
        let model = |position: &usize| gpus.get(*position).map(|gpu| &gpu.model);
        let mixed = visible.windows(2).any(|two| two.first().map(model) != two.last().map(model));
        if counted && mixed && !by_bus && self.gpus.len() < visible.len() {
            self.warnings.push(Warning::DeviceOrder);
        }
        Ok(())
    }

    /// Selects the GPUs that entries identify by index, UUID or prefix of a UUID.
    fn resolve<'a>(
        &mut self,
        by: &'static str,
        entries: impl Iterator<Item = &'a str>,
        gpus: &[GpuIdentity],
    ) -> Result<(), SelectError> {
        let all = std::mem::take(&mut self.gpus);
        let mut unmatched = 0;
        for entry in entries.map(str::trim) {
            reject_mig(by, entry)?;
            let found = match entry.parse::<u32>() {
                Ok(index) => Ok(gpus.iter().position(|gpu| gpu.index == Some(index))),
                Err(_) => by_uuid_prefix(entry, gpus, &all),
            };
            let found = found.map_err(|AmbiguousPrefix| SelectError::Ambiguous {
                by,
                entry: entry.to_owned(),
            })?;
            match found {
                Some(position) if self.gpus.contains(&position) => {}
                Some(position) => self.gpus.push(position),
                None if entry.starts_with(UUID) && unidentified(gpus).next().is_some() => {
                    unmatched += 1;
                }
                None => {
                    let (entry, available) = (entry.to_owned(), list_available(gpus));
                    return Err(SelectError::Unknown { by, entry, available });
                }
            }
        }
        self.add_unidentified(gpus, unmatched);
        Ok(())
    }

    /// Selects the GPUs that have not answered if they must be those of this many entries.
    fn add_unidentified(&mut self, gpus: &[GpuIdentity], unmatched: usize) {
        let others: Vec<_> =
            unidentified(gpus).filter(|position| !self.gpus.contains(position)).collect();
        match unmatched {
            0 => {}
            all if all == others.len() => self.gpus.extend(others),
            _ => self.is_partial = true,
        }
    }
}

/// The positions of the GPUs that have not answered.
fn unidentified(gpus: &[GpuIdentity]) -> impl Iterator<Item = usize> {
    gpus.iter().enumerate().filter(|(_, gpu)| gpu.uuid.is_none()).map(|(position, _)| position)
}

/// More than one GPU matches.
struct AmbiguousPrefix;

/// The one of `positions` whose UUID starts with `entry`.
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

/// MIG instances are `MIG-…`, or `0:1` for the container runtime.
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
        select(&requested, variable, gpus)
    }

    #[test]
    fn selection_follows_option_and_environment() {
        let by_nvidia = SelectedBy::Variable(NVIDIA);
        let by_cuda = SelectedBy::Variable(CUDA);
        let table: [(&str, Environment<'_>, &[usize], SelectedBy); 19] = [
            ("", &[], &[0, 1, 2, 3], SelectedBy::Driver),
            // The option takes precedence.
            ("2", &[(CUDA, "0")], &[2], SelectedBy::Option),
            ("GPU-bb33,0", &[], &[2, 0], SelectedBy::Option),
            ("GPU-b", &[], &[2], SelectedBy::Option),
            ("1,1,GPU-aa22", &[], &[1], SelectedBy::Option),
            // The container runtime's variable.
            ("", &[(NVIDIA, "all")], &[0, 1, 2, 3], SelectedBy::Driver),
            ("", &[(NVIDIA, "")], &[0, 1, 2, 3], SelectedBy::Driver),
            ("", &[(NVIDIA, "1,3")], &[1, 3], by_nvidia),
            ("", &[(NVIDIA, "GPU-cc44, GPU-aa11")], &[3, 0], by_nvidia),
            // As many as available: the runtime has applied it.
            ("", &[(NVIDIA, "4,5,6,7")], &[0, 1, 2, 3], by_nvidia),
            // CUDA's variable.
            ("", &[(CUDA, "0,1")], &[0, 1], by_cuda),
            ("", &[(CUDA, "3, 1")], &[3, 1], by_cuda),
            ("", &[(CUDA, "GPU-c")], &[3], by_cuda),
            ("", &[(CUDA, "2,2")], &[2], by_cuda),
            // CUDA counts the GPUs visible in the container.
            ("", &[(NVIDIA, "1,3"), (CUDA, "1")], &[3], by_cuda),
            ("", &[(NVIDIA, "1,3"), (CUDA, "GPU-bb33,1")], &[], by_cuda),
            // CUDA stops at an invalid entry.
            ("", &[(CUDA, "1,-1,2")], &[1], by_cuda),
            ("", &[(CUDA, "1,9,2")], &[1], by_cuda),
            ("", &[(CUDA, "1,GPU-aa,2")], &[1], by_cuda),
        ];
        for (requested, environment, expected, by) in table {
            let case = format!("--gpu {requested:?}, {environment:?}");
            match select_from(&gpus(), requested, environment) {
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
    fn invalid_selection_is_rejected() {
        let table: [(&str, Environment<'_>, &str); 12] = [
            (
                "7",
                &[],
                "--gpu: unknown GPU '7'; available: 0 (GPU-aa11), 1 (GPU-aa22), 2 (GPU-bb33), 3 (GPU-cc44)",
            ),
            ("GPU-aa", &[], "--gpu: 'GPU-aa' matches several UUIDs; use a longer prefix"),
            ("MIG-1f", &[], "--gpu: MIG instance 'MIG-1f' cannot be metered; name its GPU"),
            (
                "",
                &[(NVIDIA, "0:1")],
                "NVIDIA_VISIBLE_DEVICES: MIG instance '0:1' cannot be metered; name its GPU",
            ),
            (
                "",
                &[(NVIDIA, "none")],
                "NVIDIA_VISIBLE_DEVICES: no GPU selected; select GPUs with --gpu",
            ),
            (
                "",
                &[(NVIDIA, "void")],
                "NVIDIA_VISIBLE_DEVICES: no GPU selected; select GPUs with --gpu",
            ),
            (
                "",
                &[(NVIDIA, "nvidia.com/gpu=0")],
                "NVIDIA_VISIBLE_DEVICES: unknown GPU 'nvidia.com/gpu=0'; available: 0 (GPU-aa11), 1 (GPU-aa22), 2 (GPU-bb33), 3 (GPU-cc44)",
            ),
            (
                "",
                &[(NVIDIA, "/var/run/nvidia-container-devices")],
                "NVIDIA_VISIBLE_DEVICES: unknown GPU '/var/run/nvidia-container-devices'; available: 0 (GPU-aa11), 1 (GPU-aa22), 2 (GPU-bb33), 3 (GPU-cc44)",
            ),
            (
                "",
                &[(NVIDIA, "GPU-dd")],
                "NVIDIA_VISIBLE_DEVICES: unknown GPU 'GPU-dd'; available: 0 (GPU-aa11), 1 (GPU-aa22), 2 (GPU-bb33), 3 (GPU-cc44)",
            ),
            ("", &[(CUDA, "")], "CUDA_VISIBLE_DEVICES: no GPU selected; select GPUs with --gpu"),
            (
                "",
                &[(CUDA, "NoDevFiles")],
                "CUDA_VISIBLE_DEVICES: no GPU selected; select GPUs with --gpu",
            ),
            (
                "",
                &[(CUDA, "0,MIG-1f")],
                "CUDA_VISIBLE_DEVICES: MIG instance 'MIG-1f' cannot be metered; name its GPU",
            ),
        ];
        for (requested, environment, message) in table {
            let error = select_from(&gpus(), requested, environment).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
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
}
