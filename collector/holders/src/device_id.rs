//! IDs of devices as device plugins name them. The ID decides what a device is: names of resources can be configured.
//!
//! | form | device | plugin |
//! |---|---|---|
//! | `GPU-…`, `MIG-…` | GPU, MIG instance | NVIDIA |
//! | `GPU-…::2`, `MIG-…::7` | replica of it (time-slicing, MPS) | NVIDIA |
//! | `nvidia0`, `nvidia0/gi1` | GPU by minor number, GPU instance of it | Google |
//! | `nvidia0/vgpu3`, `nvidia0/gi1/vgpu0` | replica of it | Google |

use std::fmt;

/// The longest ID of a device that is read, in bytes.
const MAX_ID: usize = 128;

/// How a device is named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeviceName {
    /// By the UUID of a GPU or MIG instance.
    Uuid(String),
    /// By numbers.
    Number {
        /// The minor number of the GPU.
        minor: u32,
        /// The ID of the GPU instance, if the device is one.
        gpu_instance: Option<u32>,
    },
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => f.write_str(uuid),
            Self::Number { minor, gpu_instance: None } => write!(f, "nvidia{minor}"),
            Self::Number { minor, gpu_instance: Some(id) } => write!(f, "nvidia{minor}/gi{id}"),
        }
    }
}

/// A device of a device plugin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PluginDevice {
    /// The GPU or MIG instance.
    pub(crate) name: DeviceName,
    /// The replica of it, unless all of it was allocated.
    pub(crate) replica: Option<u32>,
}

impl PluginDevice {
    /// Parses an ID; `None` if it is not that of a GPU.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        if id.len() > MAX_ID {
            return None;
        }
        match id.split_once("::") {
            Some((uuid, replica)) => {
                Some(Self { name: uuid_name(uuid)?, replica: Some(number(replica)?) })
            }
            None => match uuid_name(id) {
                Some(name) => Some(Self { name, replica: None }),
                None => by_number(id),
            },
        }
    }
}

/// Whether a text has the form of a UUID of a GPU or MIG instance. Old drivers write `MIG-GPU-…/1/0`.
pub(crate) fn is_uuid(text: &str) -> bool {
    let rest = text.strip_prefix("GPU-").or_else(|| text.strip_prefix("MIG-"));
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/');
    text.len() <= MAX_ID && rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_part))
}

fn uuid_name(text: &str) -> Option<DeviceName> {
    is_uuid(text).then(|| DeviceName::Uuid(text.to_owned()))
}

fn by_number(id: &str) -> Option<PluginDevice> {
    let mut parts = id.split('/');
    let minor = number(parts.next()?.strip_prefix("nvidia")?)?;
    let (mut gpu_instance, mut replica) = (None, None);
    for part in parts {
        match (part.strip_prefix("gi"), part.strip_prefix("vgpu")) {
            (Some(id), _) if gpu_instance.is_none() && replica.is_none() => {
                gpu_instance = Some(number(id)?);
            }
            (_, Some(id)) if replica.is_none() => replica = Some(number(id)?),
            _ => return None,
        }
    }
    Some(PluginDevice { name: DeviceName::Number { minor, gpu_instance }, replica })
}

/// A decimal number without a sign.
pub(crate) fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_all_plugins_are_read() {
        let uuid = |text: &str| DeviceName::Uuid(text.to_owned());
        let at = |minor, gpu_instance| DeviceName::Number { minor, gpu_instance };
        let cases = [
            ("GPU-1", uuid("GPU-1"), None),
            ("MIG-a-b", uuid("MIG-a-b"), None),
            ("MIG-GPU-1/1/0", uuid("MIG-GPU-1/1/0"), None),
            ("GPU-1::0", uuid("GPU-1"), Some(0)),
            ("MIG-a-b::7", uuid("MIG-a-b"), Some(7)),
            ("nvidia0", at(0, None), None),
            ("nvidia12/gi1", at(12, Some(1)), None),
            ("nvidia0/gi1/vgpu0", at(0, Some(1)), Some(0)),
            ("nvidia0/vgpu3", at(0, None), Some(3)),
        ];
        for (id, name, replica) in cases {
            assert_eq!(PluginDevice::parse(id), Some(PluginDevice { name, replica }), "{id}");
        }
    }

    #[test]
    fn other_devices_are_none() {
        let long = format!("GPU-{}", "0".repeat(MAX_ID));
        for id in [
            "",
            "GPU-",
            "GPU-1::",
            "GPU-1::x",
            "GPU-1::-1",
            "GPU-a b",
            "nvidia",
            "nvidia+1",
            "nvidia0/",
            "nvidia0/vgpu0/gi1",
            "nvidia0/gi1/gi2",
            "nvidia4294967296",
            "mlx5_0",
            "0000:3b:00.0",
            "fpga-1",
            "nvidiactl",
            &long,
        ] {
            assert_eq!(PluginDevice::parse(id), None, "{id}");
        }
    }
}
