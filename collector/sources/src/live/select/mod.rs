//! Selects the GPUs to meter among those of the driver.
//!
//! The user's selection comes first, then what names the GPUs of the workload: variables, and in a pod other
//! [evidence](Evidence). Otherwise all GPUs are metered; in a pod, none.

mod error;
mod evidence;
mod names;

use phasemeter_meter::reading::GpuIdentity;

pub use self::error::{SelectError, Warning};
use self::evidence::CUDA;
pub use self::evidence::{Devices, Evidence, NVIDIA, SelectedBy, Variables};
use self::names::UUID;
pub use self::names::{GpuName, MOUNTED_DEVICES, Visible};

/// The selected GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Indices into the list of GPUs, each once, in the order requested.
    pub gpus: Vec<usize>,
    /// What decided.
    pub by: SelectedBy,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// Whether entries may match GPUs that have not answered, so that others may be selected later.
    pub is_partial: bool,
}

/// Selects from `gpus`, which are ordered by index. One without a UUID has not answered: if as many
/// entries match no GPU as there are such GPUs, they are selected. `requested` has the values of `--gpu`: indices,
/// UUIDs or prefixes of UUIDs, names of CDI devices, or `all`.
///
/// # Errors
/// Returns an error if an entry does not match exactly one GPU, no GPU is left, or nothing decides.
pub fn select(
    requested: &[String],
    variables: &Variables,
    evidence: &Evidence,
    gpus: &[GpuIdentity],
) -> Result<Selection, SelectError> {
    let mut selection = Selection {
        gpus: (0..gpus.len()).collect(),
        by: SelectedBy::Driver,
        warnings: Vec::new(),
        is_partial: false,
    };
    if !requested.is_empty() {
        match Visible::of_names(requested.iter().map(String::as_str)) {
            Visible::All => selection.by = SelectedBy::Option,
            Visible::Listed(names) => selection.resolve(SelectedBy::Option, &names, gpus)?,
            Visible::Nothing => return Err(SelectError::Empty { by: "--gpu" }),
        }
        return Ok(selection);
    }
    let is_decided = selection.decide(variables, evidence, gpus)?;
    match &variables.cuda {
        Some(value) => selection.restrict_by_cuda(value, variables.is_by_bus, gpus)?,
        None if !is_decided => return Err(SelectError::Undecided),
        None => {}
    }
    Ok(selection)
}

impl Selection {
    /// Selects what a container has. Returns whether there was evidence.
    fn decide(
        &mut self,
        variables: &Variables,
        evidence: &Evidence,
        gpus: &[GpuIdentity],
    ) -> Result<bool, SelectError> {
        let is_hidden = match &variables.nvidia {
            Some(Visible::Listed(names)) => {
                let all = self.gpus.clone();
                match self.restrict_by_container(names, gpus) {
                    // The agent knows what the kubelet has given to the pod.
                    Err(_) if evidence.is_own_only => self.gpus = all,
                    restricted => return restricted.map(|()| true),
                }
                false
            }
            Some(Visible::Nothing) => true,
            Some(Visible::All) | None => false,
        };
        if evidence.is_own_only {
            self.by = SelectedBy::Agent;
            return Ok(true);
        }
        match &evidence.named {
            Some((by, names)) => return self.resolve(*by, names, gpus).map(|()| true),
            None if !evidence.used.is_empty() => {
                self.gpus.clone_from(&evidence.used);
                self.by = SelectedBy::Processes;
                return Ok(true);
            }
            None => {}
        }
        if evidence.in_pod || is_hidden {
            let all = self.gpus.clone();
            match &evidence.devices {
                Some(Devices::Named(names)) => self.resolve(SelectedBy::Devices, names, gpus)?,
                Some(Devices::Shown) => self.by = SelectedBy::Devices,
                None if evidence.in_pod => return Ok(false),
                None => return Err(SelectError::Empty { by: NVIDIA }),
            }
            // One in MIG mode has the devices of all its instances in each container.
            self.gpus.retain(|gpu| gpus.get(*gpu).is_none_or(|gpu| !gpu.is_in_mig_mode()));
            if self.gpus.is_empty() && !evidence.in_pod {
                return Err(SelectError::Empty { by: NVIDIA });
            }
            if self.gpus.is_empty() {
                self.gpus = all;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies the selection of the container runtime. If the driver lists as many GPUs as the
    /// variable has indices, the runtime has already applied it, and the indices are those of the
    /// host.
    fn restrict_by_container(
        &mut self,
        names: &[GpuName],
        gpus: &[GpuIdentity],
    ) -> Result<(), SelectError> {
        let are_indices = names.iter().all(|name| matches!(name, GpuName::Index(_)));
        if are_indices && names.len() == gpus.len() {
            self.by = SelectedBy::Variable(NVIDIA);
            return Ok(());
        }
        self.resolve(SelectedBy::Variable(NVIDIA), names, gpus)
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
            if let GpuName::Mig { name: entry, gpu } = GpuName::parse(entry) {
                return Err(SelectError::Mig { by: CUDA, entry, gpu });
            }
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

    /// Selects the GPUs with these names.
    fn resolve(
        &mut self,
        by: SelectedBy,
        names: &[GpuName],
        gpus: &[GpuIdentity],
    ) -> Result<(), SelectError> {
        let all = std::mem::take(&mut self.gpus);
        self.by = by;
        let (by, mut unmatched) = (by.subject(), 0);
        for name in names {
            let index = |index: &u32| gpus.iter().position(|gpu| gpu.index == Some(*index));
            let (found, entry) = match name {
                GpuName::Index(number) => (Ok(index(number)), number.to_string()),
                GpuName::Uuid(text) | GpuName::Other(text) => {
                    (by_uuid_prefix(text, gpus, &all), text.clone())
                }
                GpuName::Mig { name, gpu } => {
                    return Err(SelectError::Mig { by, entry: name.clone(), gpu: gpu.clone() });
                }
            };
            match found {
                Err(AmbiguousPrefix) => return Err(SelectError::Ambiguous { by, entry }),
                Ok(Some(position)) if self.gpus.contains(&position) => {}
                Ok(Some(position)) => self.gpus.push(position),
                Ok(None)
                    if matches!(name, GpuName::Uuid(_)) && unidentified(gpus).next().is_some() =>
                {
                    unmatched += 1;
                }
                Ok(None) => {
                    let available = list_available(gpus);
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

fn list_available(gpus: &[GpuIdentity]) -> String {
    let name = |gpu: &GpuIdentity| match gpu.index {
        Some(index) => format!("{index} ({})", gpu.name),
        None => gpu.name.clone(),
    };
    gpus.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
