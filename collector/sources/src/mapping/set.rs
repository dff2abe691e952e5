//! All mappings in use: those of Phasemeter, and those of the user, which replace them metric by metric.
//!
//! Must not depend on where files come from.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{MappingError, MappingFile};
use super::point::Point;
use super::quantity::UnitError;
use super::rule::{GpuValue, Rule};

/// The mappings of Phasemeter.
const BUILT_IN: [&str; 5] = [
    include_str!("../../../../otel-config/mappings/dcgm-exporter.toml"),
    include_str!("../../../../otel-config/mappings/dcgmi-dmon.toml"),
    include_str!("../../../../otel-config/mappings/google.toml"),
    include_str!("../../../../otel-config/mappings/hardware.toml"),
    include_str!("../../../../otel-config/mappings/nvidia-gpu-exporter.toml"),
];

/// Mappings by metric.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    rules: BTreeMap<String, Vec<Rule>>,
    /// Metrics whose values contradict their unit. What they say is not used any more.
    refused: BTreeSet<String>,
}

/// A metric that is not used any more: its values contradict the declared unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{metric}: {reason}; its values are not used")]
pub struct UnitMismatch {
    /// The metric.
    pub metric: String,
    /// Why.
    pub reason: UnitError,
}

impl Mappings {
    /// The mappings of Phasemeter.
    ///
    /// # Errors
    /// Never returns an error: a test parses them.
    pub fn built_in() -> Result<Self, MappingError> {
        let mut mappings = Self::default();
        for text in BUILT_IN {
            for (metric, rule) in MappingFile::parse(text)?.rules {
                mappings.rules.entry(metric).or_default().push(rule);
            }
        }
        Ok(mappings)
    }

    /// Adds a file, whose rules replace those of the same metrics.
    pub fn replace(&mut self, file: MappingFile) {
        let metrics: BTreeSet<_> = file.rules.iter().map(|(metric, _)| metric.clone()).collect();
        metrics.iter().for_each(|metric| drop(self.rules.remove(metric)));
        for (metric, rule) in file.rules {
            self.rules.entry(metric).or_default().push(rule);
        }
    }

    /// Whether a metric has a mapping.
    #[must_use]
    pub fn has(&self, metric: &str) -> bool {
        self.rules.contains_key(metric)
    }

    /// The value of a point; `None` if no rule is about it, or it names no GPU. Of a refused metric the
    /// value is missing.
    ///
    /// # Errors
    /// Returns an error if the value contradicts the unit of its metric, once per metric.
    pub fn read(&mut self, point: &Point<'_>) -> Result<Option<GpuValue>, UnitMismatch> {
        let Some(rules) = self.rules.get(point.metric) else { return Ok(None) };
        let Some(rule) = rules.iter().find(|rule| rule.applies(point)) else { return Ok(None) };
        if self.refused.contains(point.metric) {
            return Ok(rule.unreadable(point));
        }
        match rule.read(point).transpose() {
            Ok(value) => Ok(value),
            Err(reason) => {
                self.refused.insert(point.metric.to_owned());
                Err(UnitMismatch { metric: point.metric.to_owned(), reason })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GpuValue, MappingFile, Point, Quantity, UnitError, Value};
    use super::Mappings;
    use phasemeter_meter::device_state::DeviceColumn;
    use phasemeter_meter::device_totals::LinkDirection;
    use phasemeter_meter::reading::{Basis, MissingReason};
    use phasemeter_meter::units::{Timestamp, Utilization};
    use proptest::prelude::*;

    type Labels = &'static [(&'static str, &'static str)];

    const A: Labels =
        &[("UUID", "GPU-a"), ("gpu", "3"), ("modelName", "NVIDIA L4"), ("Hostname", "h")];

    fn read(
        mappings: &mut Mappings,
        metric: &str,
        labels: Labels,
        number: f64,
    ) -> Result<Option<GpuValue>, String> {
        let find =
            |name: &str| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let point = Point { metric, label: &find, at: Timestamp::default(), number };
        mappings.read(&point).map_err(|refusal| refusal.to_string())
    }

    fn value(metric: &str, labels: Labels, number: f64) -> Option<Result<Value, MissingReason>> {
        let mut mappings = Mappings::built_in().unwrap();
        read(&mut mappings, metric, labels, number).unwrap().map(|value| value.value)
    }

    fn percent(basis: Basis, percent: u32) -> Option<Result<Value, MissingReason>> {
        Some(Ok(Value::Utilization(basis, Utilization::from_percent(percent).unwrap())))
    }

    #[test]
    fn point_of_each_exporter_names_gpu_and_value() {
        assert_eq!(value("DCGM_FI_DEV_GPU_UTIL", A, 37.0), percent(Basis::DcgmGpu, 37));
        assert_eq!(value("DCGM_FI_PROF_SM_ACTIVE", A, 0.5), percent(Basis::DcgmSm, 50));
        let google: Labels = &[("uuid", "GPU-b"), ("memory_state", "free")];
        assert_eq!(value("nvml.gpu.utilization", google, 0.25), percent(Basis::NvmlSamples, 25));
        assert_eq!(value("nvml.gpu.memory.bytes_used", google, 1.0), None, "free memory");
        let newer: Labels = &[("gpu.uuid", "GPU-b")];
        assert_eq!(value("gpu.dcgm.utilization", newer, 1.0), percent(Basis::DcgmGrEngine, 100));
        let plain: Labels = &[("hw.id", "GPU-c"), ("hw.type", "cpu")];
        assert_eq!(value("hw.gpu.utilization", plain, 0.0), percent(Basis::HwGpu, 0));
        assert_eq!(value("hw.power", plain, 3.0), None, "of a CPU");
        let mut mappings = Mappings::built_in().unwrap();
        let smi: Labels = &[("uuid", "72f02a28-5140-325e-ba49-1ae77c6b4e30")];
        let smi = read(&mut mappings, "nvidia_smi_utilization_gpu_ratio", smi, 0.1).unwrap();
        assert_eq!(smi.unwrap().gpu.uuid, "GPU-72f02a28-5140-325e-ba49-1ae77c6b4e30");
        let labels = read(&mut mappings, "DCGM_FI_DEV_POWER_USAGE", A, 61.5).unwrap().unwrap().gpu;
        assert_eq!((labels.index, labels.model.as_deref()), (Some(3), Some("NVIDIA L4")));
        assert_eq!((labels.host.as_deref(), labels.instance.is_some()), (Some("h"), false));
        assert_eq!(value("DCGM_FI_DEV_GPU_UTIL", &[], 1.0), None, "no GPU");
        assert_eq!(value("up", A, 1.0), None);
    }

    #[test]
    fn sentinel_of_dcgm_is_missing() {
        for sentinel in [140_737_488_355_328.0, 9_223_372_036_854_775_794.0, f64::NAN] {
            for metric in ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_FB_USED"]
            {
                let missing = Some(Err(MissingReason::NotSupported));
                assert_eq!(value(metric, A, sentinel), missing, "{metric} {sentinel}");
            }
        }
    }

    #[test]
    fn value_that_contradicts_its_unit_is_refused_by_name() {
        let mut mappings = Mappings::built_in().unwrap();
        let mut util = |number| read(&mut mappings, "DCGM_FI_DEV_GPU_UTIL", A, number);
        assert!(util(1.0).is_ok());
        assert_eq!(
            util(0.87).unwrap_err(),
            "DCGM_FI_DEV_GPU_UTIL: is declared as percent, but is a ratio; declare unit = \"ratio\" \
             in a mapping; its values are not used"
        );
        let after = util(55.0).unwrap().unwrap().value;
        assert_eq!(after, Err(MissingReason::Unreadable), "refused from then on");
        let mut mappings = Mappings::built_in().unwrap();
        assert!(read(&mut mappings, "DCGM_FI_PROF_SM_ACTIVE", A, 55.0).is_err());
        assert!(read(&mut mappings, "DCGM_FI_DEV_GPU_UTIL_RATIO", A, 1.0).is_err(), "ambiguous");
        assert!(read(&mut mappings, "DCGM_FI_DEV_GPU_TEMP", A, 1e9).is_err());
    }

    #[test]
    fn mapping_of_user_replaces_that_of_the_same_metric() {
        let mut mappings = Mappings::built_in().unwrap();
        let own = "[identity]\nuuid = [\"id\"]\n[[metric]]\nname = \"DCGM_FI_DEV_GPU_UTIL\"\n\
                   is = \"utilization\"\nbasis = \"dcgm.gpu\"\nunit = \"ratio\"\n";
        mappings.replace(MappingFile::parse(own).unwrap());
        let own: Labels = &[("id", "x")];
        let read = read(&mut mappings, "DCGM_FI_DEV_GPU_UTIL", own, 0.87).unwrap().unwrap();
        assert_eq!(Some(read.value), percent(Basis::DcgmGpu, 87));
        assert_eq!(read.quantity, Quantity::Utilization);
        assert!(mappings.has("DCGM_FI_PROF_SM_ACTIVE"));
    }

    #[test]
    fn invalid_file_is_rejected_with_its_reason() {
        let error = |metric: &str| {
            let text = format!("[identity]\nuuid = [\"UUID\"]\n[[metric]]\nname = \"m\"\n{metric}");
            MappingFile::parse(&text).unwrap_err().to_string()
        };
        assert!(error("is = \"power\"\nunit = \"percent\"").starts_with("m: unit does not fit"));
        assert!(
            error("is = \"utilization\"\nunit = \"percent\"").starts_with("m: utilization has")
        );
        assert!(error("is = \"power\"\nunit = \"W\"\nscale = 0").starts_with("m: scale must be"));
        assert!(error("is = \"power\"\nunit = \"W\"\nx = 1").starts_with("invalid mapping: TOML"));
        let error = MappingFile::parse("[identity]\nuuid = []").unwrap_err();
        assert!(error.to_string().starts_with("identity.uuid: names no label"));
    }

    proptest! {
        /// Any number of a metric is a value, missing, or refused; a value is within its range.
        #[test]
        fn number_is_converted_exactly_or_refused(whole in 0_u32..=100, any in any::<f64>()) {
            let exact = value("DCGM_FI_DEV_GPU_UTIL", A, f64::from(whole));
            prop_assert_eq!(exact, percent(Basis::DcgmGpu, whole));
            let ratio = value("DCGM_FI_PROF_SM_ACTIVE", A, f64::from(whole) / 100.0);
            prop_assert_eq!(ratio, percent(Basis::DcgmSm, whole));
            let mut mappings = Mappings::built_in().unwrap();
            let rules: Vec<String> = mappings.rules.keys().cloned().collect();
            for metric in rules {
                let _ = read(&mut mappings, &metric, A, any);
            }
        }

        /// Any text is a mapping or one line of an error.
        #[test]
        fn text_is_mapping_or_error(text in "(\\[identity\\]\n)?(uuid = \\[\"a\"\\]\n)?\\PC{0,60}") {
            if let Err(error) = MappingFile::parse(&text) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }

    #[test]
    fn reasons_for_reduced_clocks_fan_and_link_are_read() {
        let fan = |share| {
            Some(Ok(Value::Device(DeviceColumn::Fan, Utilization::from_percent(share).unwrap())))
        };
        assert_eq!(value("DCGM_FI_DEV_FAN_SPEED", A, 42.0), fan(42));
        assert_eq!(value("DCGM_FI_DEV_FAN_SPEED", A, 104.0), fan(100), "above its nominal maximum");
        let link = |column, number| Some(Ok(Value::Number(column, number)));
        let generation = link(DeviceColumn::PcieGeneration, 5);
        assert_eq!(value("DCGM_FI_DEV_PCIE_LINK_GEN", A, 5.0), generation);
        assert_eq!(
            value("DCGM_FI_DEV_PCIE_LINK_WIDTH", A, 16.0),
            link(DeviceColumn::PcieWidth, 16)
        );
        for name in ["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] {
            assert_eq!(value(name, A, 68.0), Some(Ok(Value::EventReasons(0x44))));
            assert!(read(&mut Mappings::built_in().unwrap(), name, A, -1.0).is_err());
        }
    }

    #[test]
    fn rates_of_links_are_read() {
        for (name, link) in [
            ("DCGM_FI_PROF_PCIE_TX_BYTES", LinkDirection::PcieTransmitted),
            ("DCGM_FI_PROF_PCIE_RX_BYTES", LinkDirection::PcieReceived),
            ("DCGM_FI_PROF_NVLINK_TX_BYTES", LinkDirection::NvLinkTransmitted),
            ("DCGM_FI_PROF_NVLINK_RX_BYTES", LinkDirection::NvLinkReceived),
            ("dcgmi.dmon.PCITX", LinkDirection::PcieTransmitted),
            ("dcgmi.dmon.PCIRX", LinkDirection::PcieReceived),
            ("dcgmi.dmon.NVLTX", LinkDirection::NvLinkTransmitted),
            ("dcgmi.dmon.NVLRX", LinkDirection::NvLinkReceived),
        ] {
            assert_eq!(value(name, A, 2.5e10), Some(Ok(Value::Rate(link, 25_000_000_000))));
            let missing = Some(Err(MissingReason::NotSupported));
            assert_eq!(value(name, A, 140_737_488_355_328.0), missing);
        }
    }

    #[test]
    fn ambiguous_unit_is_named() {
        let mut mappings = Mappings::built_in().unwrap();
        let refusal = read(&mut mappings, "DCGM_FI_DEV_GPU_UTIL_RATIO", A, 1.0).unwrap_err();
        assert!(refusal.contains(&UnitError::Ambiguous.to_string()), "{refusal}");
    }
}
