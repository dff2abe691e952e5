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
    /// Places in the list that was chosen from, each once, in the order asked for.
    pub gpus: Vec<usize>,
    /// Who chose.
    pub by: By,
    /// What the user should know of it.
    pub warnings: Vec<Warning>,
}

/// Who chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
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
    Order,
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
    #[error("{by}: no GPU is called `{entry}`; there are {there}")]
    Unknown {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
        /// What there is.
        there: String,
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
    /// Nothing is left to meter.
    #[error("{by} leaves no GPU; name them with --gpu")]
    Nothing {
        /// The option or variable.
        by: &'static str,
    },
}

/// Chooses from `gpus`, which stand in the order of their indices. `asked`: what `--gpu` names,
/// indices or uuids or their beginnings. `variable` looks up the environment.
///
/// # Errors
/// Where something is named that is no GPU here, or nothing is left.
pub fn select(
    asked: &[String],
    variable: impl Fn(&str) -> Option<String>,
    gpus: &[GpuIdentity],
) -> Result<Selection, SelectError> {
    let mut selection =
        Selection { gpus: (0..gpus.len()).collect(), by: By::Driver, warnings: Vec::new() };
    if !asked.is_empty() {
        selection.gpus = named("--gpu", asked.iter().map(String::as_str), gpus)?;
        selection.by = By::Option;
        return Ok(selection);
    }
    if let Some(value) = variable(NVIDIA) {
        selection.by_container(&value, gpus)?;
    }
    if let Some(value) = variable(CUDA) {
        let by_bus = variable(CUDA_ORDER).is_some_and(|order| order == "PCI_BUS_ID");
        selection.by_cuda(&value, by_bus, gpus)?;
    }
    Ok(selection)
}

impl Selection {
    /// What the container runtime was told. Where the driver shows as many GPUs as it lists, the
    /// runtime has done it already, and indices are those of the host.
    fn by_container(&mut self, value: &str, gpus: &[GpuIdentity]) -> Result<(), SelectError> {
        let entries = || value.split(',').map(str::trim);
        match value.trim() {
            "all" | "void" | "" => return Ok(()),
            "none" => return Err(SelectError::Nothing { by: NVIDIA }),
            _ => {}
        }
        let indices = entries().all(|entry| entry.parse::<u32>().is_ok());
        if !(indices && entries().count() == gpus.len()) {
            self.gpus = named(NVIDIA, entries(), gpus)?;
        }
        self.by = By::Variable(NVIDIA);
        Ok(())
    }

    /// What CUDA shows the workload: indices count what is visible so far, in CUDA's order.
    fn by_cuda(
        &mut self,
        value: &str,
        by_bus: bool,
        gpus: &[GpuIdentity],
    ) -> Result<(), SelectError> {
        let visible = std::mem::take(&mut self.gpus);
        let mut counted = false;
        for entry in value.split(',').map(str::trim) {
            refuse_mig(CUDA, entry)?;
            let place = match entry.parse::<usize>() {
                Ok(index) => {
                    counted = true;
                    visible.get(index).copied()
                }
                Err(_) => the_one(entry, gpus, &visible).unwrap_or_default(),
            };
            let Some(place) = place else {
                // An empty list is no mistake, it hides all GPUs.
                if !value.trim().is_empty() {
                    self.warnings.push(Warning::StoppedAt { entry: entry.to_owned() });
                }
                break;
            };
            if !self.gpus.contains(&place) {
                self.gpus.push(place);
            }
        }
        if self.gpus.is_empty() {
            return Err(SelectError::Nothing { by: CUDA });
        }
        let model = |place: &usize| gpus.get(*place).map(|gpu| &gpu.model);
        let mixed = visible.windows(2).any(|two| two.first().map(model) != two.last().map(model));
        if counted && mixed && !by_bus && self.gpus.len() < visible.len() {
            self.warnings.push(Warning::Order);
        }
        self.by = By::Variable(CUDA);
        Ok(())
    }
}

/// The GPUs that entries name by the driver's index, by uuid or by its beginning.
fn named<'a>(
    by: &'static str,
    entries: impl Iterator<Item = &'a str>,
    gpus: &[GpuIdentity],
) -> Result<Vec<usize>, SelectError> {
    let all: Vec<usize> = (0..gpus.len()).collect();
    let mut places = Vec::new();
    for entry in entries.map(str::trim) {
        refuse_mig(by, entry)?;
        let found = match entry.parse::<u32>() {
            Ok(index) => Ok(gpus.iter().position(|gpu| gpu.index == Some(index))),
            Err(_) => the_one(entry, gpus, &all),
        };
        let place = found
            .map_err(|Several| SelectError::Ambiguous { by, entry: entry.to_owned() })?
            .ok_or_else(|| SelectError::Unknown {
                by,
                entry: entry.to_owned(),
                there: there(gpus),
            })?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// More than one GPU is meant.
struct Several;

/// The one of `places` whose uuid begins with `entry`.
fn the_one(entry: &str, gpus: &[GpuIdentity], places: &[usize]) -> Result<Option<usize>, Several> {
    let begins = |place: &usize| {
        let uuid = gpus.get(*place).and_then(|gpu| gpu.uuid.as_deref());
        !entry.is_empty() && uuid.is_some_and(|uuid| uuid.starts_with(entry))
    };
    let mut meant = places.iter().copied().filter(begins);
    match (meant.next(), meant.next()) {
        (Some(_), Some(_)) => Err(Several),
        (first, _) => Ok(first),
    }
}

/// MIG instances are `MIG-…`, or `0:1` to the container runtime.
fn refuse_mig(by: &'static str, entry: &str) -> Result<(), SelectError> {
    if entry.starts_with("MIG-") || entry.contains(':') {
        return Err(SelectError::Mig { by, entry: entry.to_owned() });
    }
    Ok(())
}

fn there(gpus: &[GpuIdentity]) -> String {
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
        asked: &str,
        environment: Environment<'_>,
    ) -> Result<Selection, SelectError> {
        let asked: Vec<String> =
            asked.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        };
        select(&asked, variable, gpus)
    }

    #[test]
    fn what_is_chosen() {
        let by_nvidia = By::Variable(NVIDIA);
        let by_cuda = By::Variable(CUDA);
        let table: [(&str, Environment<'_>, &[usize], By); 20] = [
            ("", &[], &[0, 1, 2, 3], By::Driver),
            // The option goes first.
            ("2", &[(CUDA, "0")], &[2], By::Option),
            ("GPU-bb33,0", &[], &[2, 0], By::Option),
            ("GPU-b", &[], &[2], By::Option),
            ("1,1,GPU-aa22", &[], &[1], By::Option),
            // The container's variable.
            ("", &[(NVIDIA, "all")], &[0, 1, 2, 3], By::Driver),
            ("", &[(NVIDIA, "void")], &[0, 1, 2, 3], By::Driver),
            ("", &[(NVIDIA, "")], &[0, 1, 2, 3], By::Driver),
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
        for (asked, environment, expected, by) in table {
            let case = format!("--gpu {asked:?}, {environment:?}");
            match choose(&gpus(), asked, environment) {
                Ok(selection) => {
                    assert_eq!(selection.gpus, expected, "{case}");
                    assert_eq!(selection.by, by, "{case}");
                }
                Err(error) => {
                    assert_eq!(expected, [0; 0], "{case}: {error}");
                    assert_eq!(error, SelectError::Nothing { by: CUDA }, "{case}");
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
        for (asked, environment, message) in table {
            let error = choose(&gpus(), asked, environment).unwrap_err();
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
            (&mixed, &[(CUDA, "0,1")], &[Warning::Order]),
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
