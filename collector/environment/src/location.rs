//! Where GPUs run, as far as it is known: by options, else by the attributes of the resource.

use phasemeter_otlp::experiment::Attributes;

/// Where GPUs run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Cloud provider, like `aws`.
    pub provider: Option<String>,
    /// The provider's region, like `us-east-1`.
    pub region: Option<String>,
    /// The provider's instance type, like `p5.48xlarge`.
    pub instance_type: Option<String>,
}

/// The parts of a location that the price book lists most often together, first.
const PARTS: [[bool; 3]; 7] = [
    [true, false, true],
    [false, true, true],
    [false, false, true],
    [true, true, false],
    [true, false, false],
    [false, true, false],
    [false, false, false],
];

impl Location {
    /// The location in the attributes of a resource.
    #[must_use]
    pub fn from_resource(attributes: &Attributes) -> Self {
        let text = |key: &str| attributes.get(key).filter(|value| !value.is_empty()).cloned();
        // The metadata server of gcp returns projects/NUMBER/machineTypes/NAME.
        let last = |path: String| path.rsplit('/').next().map(str::to_owned);
        Self {
            provider: text("cloud.provider"),
            region: text("cloud.region"),
            instance_type: text("host.type").and_then(last),
        }
    }

    /// This location, completed by another one.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let or = |own: &Option<String>, other: &Option<String>| own.clone().or(other.clone());
        Self {
            provider: or(&self.provider, &other.provider),
            region: or(&self.region, &other.region),
            instance_type: or(&self.instance_type, &other.instance_type),
        }
    }

    /// What of it another location lacks.
    #[must_use]
    pub fn lacking_in(self, other: &Self) -> Self {
        Self {
            provider: self.provider.filter(|_| other.provider.is_none()),
            region: self.region.filter(|_| other.region.is_none()),
            instance_type: self.instance_type.filter(|_| other.instance_type.is_none()),
        }
    }

    /// All of it, then ever smaller parts of it, each with the names of the parts that are left out.
    pub fn parts(&self) -> impl Iterator<Item = (Self, Vec<String>)> {
        let parts = PARTS.into_iter().map(|parts| {
            let mut left_out = Vec::new();
            let mut part = |name: &str, value: &Option<String>, is_kept: bool| {
                left_out.extend(value.iter().filter(|_| !is_kept).map(|it| format!("{name} {it}")));
                value.clone().filter(|_| is_kept)
            };
            let [provider, region, instance_type] = parts;
            let location = Self {
                provider: part("cloud.provider", &self.provider, provider),
                region: part("cloud.region", &self.region, region),
                instance_type: part("host.type", &self.instance_type, instance_type),
            };
            (location, left_out)
        });
        let smaller = parts.filter(|(_, left_out)| !left_out.is_empty());
        std::iter::once((self.clone(), Vec::new())).chain(smaller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes<const N: usize>(pairs: [(&str, &str); N]) -> Attributes {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn resource_attributes_are_a_location() {
        let location = Location::from_resource(&attributes([
            ("cloud.provider", "gcp"),
            ("cloud.region", ""),
            ("host.type", "projects/7/machineTypes/a2-highgpu-1g"),
            ("host.name", "node-7"),
        ]));
        let expected = Location {
            provider: Some("gcp".to_owned()),
            region: None,
            instance_type: Some("a2-highgpu-1g".to_owned()),
        };
        assert_eq!(location, expected);
    }

    #[test]
    fn parts_get_smaller_and_name_what_is_left_out() {
        let location = Location::from_resource(&attributes([
            ("cloud.provider", "aws"),
            ("cloud.region", "eu-west-1"),
            ("host.type", "p5.48xlarge"),
        ]));
        let parts: Vec<_> = location.parts().collect();
        assert_eq!(parts[0], (location.clone(), vec![]));
        assert_eq!(parts[1].1, ["cloud.region eu-west-1"]);
        assert_eq!(parts.last().unwrap().0, Location::default());
        assert_eq!(parts.last().unwrap().1.len(), 3);
    }
}
