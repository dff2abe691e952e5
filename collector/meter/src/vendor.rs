//! Vendors of GPUs.

use std::fmt;

/// The vendor of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Intel.
    Intel,
}

impl Vendor {
    const ALL: [Self; 3] = [Self::Nvidia, Self::Amd, Self::Intel];

    /// The vendor of a model: NVIDIA, unless the name begins with another one.
    #[must_use]
    pub fn of_model(model: &str) -> Self {
        split(model).map_or(Self::Nvidia, |(vendor, _)| vendor)
    }

    /// The name, as models begin with it and as `hw.vendor` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Intel => "Intel",
        }
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A model without its vendor, which some drivers omit.
pub(crate) fn without_vendor(model: &str) -> &str {
    split(model).map_or(model, |(_, rest)| rest)
}

/// A vendor, and what follows it and a separator.
fn split(model: &str) -> Option<(Vendor, &str)> {
    Vendor::ALL.into_iter().find_map(|vendor| {
        let (begin, rest) = model.split_at_checked(vendor.name().len())?;
        let is_named = begin.eq_ignore_ascii_case(vendor.name());
        Some((vendor, is_named.then(|| rest.strip_prefix([' ', '-', '_'])).flatten()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_is_that_of_the_name() {
        for (model, expected) in [
            ("NVIDIA L4", "NVIDIA"),
            ("Tesla T4", "NVIDIA"),
            ("AMD_Instinct_MI300X_OAM", "AMD"),
            ("Intel Data Center GPU Max 1550", "Intel"),
            ("AMDAHL", "NVIDIA"),
        ] {
            assert_eq!(Vendor::of_model(model).name(), expected, "{model}");
        }
    }
}
