//! A MIG instance as a driver lists it.

use std::fmt;

use phasemeter_meter::device_metric::MigId;

/// A MIG instance of a GPU. Properties that the driver does not report are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigInstance {
    /// Its UUID.
    pub id: MigId,
    /// The ID of its GPU instance.
    pub gpu_instance: Option<u32>,
    /// Its profile.
    pub profile: Option<MigProfile>,
    /// The memory slice of the GPU at which it starts. Only privileged users can query it.
    pub start: Option<u32>,
}

/// The profile of a MIG instance: `1g.10gb`. Extensions (`+me`) and parts of one (`1c.`) are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigProfile {
    compute: u8,
    gigabytes: u16,
}

impl MigProfile {
    /// The profile at the end of a name of the driver, like `NVIDIA H100 80GB HBM3 MIG 1g.10gb`; `None` if there is
    /// none.
    #[must_use]
    pub fn at_end_of(name: &str) -> Option<Self> {
        let profile = name.rsplit_once(" MIG ")?.1.trim();
        let profile = profile.split_once('+').map_or(profile, |(plain, _)| plain);
        let profile = profile.split_once("c.").map_or(profile, |(_, instance)| instance);
        let (compute, memory) = profile.split_once("g.")?;
        let gigabytes = memory.strip_suffix("gb")?;
        Some(Self { compute: compute.parse().ok()?, gigabytes: gigabytes.parse().ok()? })
    }
}

impl fmt::Display for MigProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}g.{}gb", self.compute, self.gigabytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_is_without_extensions() {
        let profile = |name: &str| MigProfile::at_end_of(name).map(|it| it.to_string());
        let cases = [
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", Some("1g.10gb")),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", Some("1g.10gb")),
            ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", Some("3g.20gb")),
            ("NVIDIA H100 80GB HBM3", None),
            ("NVIDIA H100 80GB HBM3 MIG 1g", None),
            ("A MIG 300g.1gb", None),
        ];
        for (name, expected) in cases {
            assert_eq!(profile(name).as_deref(), expected, "{name}");
        }
    }
}
