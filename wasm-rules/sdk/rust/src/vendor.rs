//! The vendor of a GPU, which decides what its tools are called.

use crate::Gpu;

/// Who makes a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Another one, or several.
    Other,
}

/// The attribute that names it. Hosts of old versions send none, and then the model decides.
const ATTRIBUTE: &str = "hw.vendor";

/// Words in names of models, and the vendor. All other models are NVIDIA's.
const WORDS: [(&str, Vendor); 5] = [
    ("AMD", Vendor::Amd),
    ("Instinct", Vendor::Amd),
    ("Radeon", Vendor::Amd),
    ("Intel", Vendor::Other),
    ("Gaudi", Vendor::Other),
];

impl Vendor {
    /// Returns the vendor of all these GPUs; [`Vendor::Other`] if they differ, so that texts name no tool.
    pub fn of<'a>(gpus: impl IntoIterator<Item = &'a Gpu>) -> Self {
        let mut vendors = gpus.into_iter().map(Gpu::vendor);
        let first = vendors.next().unwrap_or(Self::Other);
        if vendors.all(|other| other == first) { first } else { Self::Other }
    }

    /// Returns what a text names for it: a tool of NVIDIA, of AMD, or neutral words.
    pub fn choose<T>(self, nvidia: T, amd: T, other: T) -> T {
        match self {
            Self::Nvidia => nvidia,
            Self::Amd => amd,
            Self::Other => other,
        }
    }

    /// Returns the tool that a text names for it, of NVIDIA or of AMD; empty for others.
    #[must_use]
    pub fn tool(self, nvidia: &'static str, amd: &'static str) -> &'static str {
        self.choose(nvidia, amd, "")
    }
}

impl Gpu {
    /// Returns its vendor.
    #[must_use]
    pub fn vendor(&self) -> Vendor {
        match self.attribute(ATTRIBUTE) {
            Some("NVIDIA") => Vendor::Nvidia,
            Some("AMD") => Vendor::Amd,
            Some(_) => Vendor::Other,
            None => {
                let mut words = WORDS.into_iter();
                let word = words.find(|(word, _)| self.model.contains(word));
                word.map_or(Vendor::Nvidia, |(_, vendor)| vendor)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::steady;

    #[test]
    fn vendor_is_that_of_the_attribute_else_of_the_model() {
        let of = |attribute: Option<&str>, model: &str| {
            let named = attribute.map(|name| (ATTRIBUTE.to_owned(), name.to_owned()));
            let attributes = named.into_iter().collect();
            Gpu { attributes, model: model.to_owned(), ..steady(60, 0.5) }.vendor()
        };
        assert_eq!(of(None, "NVIDIA L4"), Vendor::Nvidia);
        assert_eq!(of(None, "Tesla T4"), Vendor::Nvidia);
        assert_eq!(of(None, "AMD Instinct MI300X"), Vendor::Amd);
        assert_eq!(of(None, "Intel Data Center GPU Max 1550"), Vendor::Other);
        assert_eq!(of(Some("AMD"), "102-G30211-0C"), Vendor::Amd);
        assert_eq!(of(Some("Intel"), "1550"), Vendor::Other);
    }

    #[test]
    fn gpus_of_several_vendors_get_neutral_words() {
        let amd = Gpu { model: "AMD Instinct MI210".to_owned(), ..steady(60, 0.5) };
        let words = |gpus: &[&Gpu]| Vendor::of(gpus.iter().copied()).choose("nvidia", "amd", "it");
        assert_eq!(words(&[&steady(60, 0.5)]), "nvidia");
        assert_eq!(words(&[&amd, &amd]), "amd");
        assert_eq!(words(&[&amd, &steady(60, 0.5)]), "it");
    }
}
