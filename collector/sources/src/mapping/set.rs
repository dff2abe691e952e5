//! All mappings in use: those of Phasemeter, and those of the user, which replace them metric by metric.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{MappingError, MappingFile};
use super::point::Point;
use super::rule::{GpuValue, Rule};
use super::unit_check::{UnitChecks, UnitNotice};

/// The mappings of Phasemeter.
const BUILT_IN: [&str; 6] = [
    include_str!("../../../../otel-config/mappings/dcgm-exporter.toml"),
    include_str!("../../../../otel-config/mappings/dcgmi-dmon.toml"),
    include_str!("../../../../otel-config/mappings/google.toml"),
    include_str!("../../../../otel-config/mappings/hami.toml"),
    include_str!("../../../../otel-config/mappings/hardware.toml"),
    include_str!("../../../../otel-config/mappings/nvidia-gpu-exporter.toml"),
];

/// Mappings by metric.
#[derive(Clone, Debug, Default)]
pub struct Mappings {
    rules: BTreeMap<String, Vec<Rule>>,
    /// The lowest rank of a rule.
    lowest: i32,
}

/// A point, mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The value of a GPU; if its number is out of range or of another unit, it is unreadable.
    pub value: GpuValue,
    /// Evidence about the unit of its sender, once per change.
    pub notice: Option<UnitNotice>,
}

impl Mappings {
    /// The mappings of Phasemeter.
    ///
    /// # Errors
    /// Never returns an error: a test parses them.
    pub fn built_in() -> Result<Self, MappingError> {
        let mut mappings = Self::default();
        for text in BUILT_IN.into_iter().rev() {
            mappings.put_first(MappingFile::parse(text)?);
        }
        Ok(mappings)
    }

    /// Adds a file, whose rules replace those of the same metrics.
    pub fn replace(&mut self, file: MappingFile) {
        let metrics: BTreeSet<_> = file.rules.iter().map(|(metric, _)| metric.clone()).collect();
        metrics.iter().for_each(|metric| drop(self.rules.remove(metric)));
        self.put_first(file);
    }

    /// Adds a file, whose rules precede those before, and keep their order.
    fn put_first(&mut self, file: MappingFile) {
        for (metric, mut rule) in file.rules.into_iter().rev() {
            self.lowest = self.lowest.saturating_sub(1);
            rule.rank = self.lowest;
            self.rules.entry(metric).or_default().insert(0, rule);
        }
    }

    /// Reads the labels of pods with these keys, beside those that mappings name.
    pub fn add_pod_labels(&mut self, keys: &[String]) {
        let rules = self.rules.values_mut().flatten();
        rules.for_each(|rule| rule.identity.add_pod_labels(keys));
    }

    /// Whether a metric has a mapping.
    #[must_use]
    pub fn has(&self, metric: &str) -> bool {
        self.rules.contains_key(metric)
    }

    /// The value of a point; `None` if no rule is about it, or it names no GPU. `units` is the evidence about
    /// the units of senders so far.
    pub fn read(&self, point: &Point<'_>, units: &mut UnitChecks) -> Option<Mapped> {
        let rules = self.rules.get(point.metric)?;
        let rule = rules.iter().find(|rule| rule.applies(point))?;
        let (value, notice) = rule.read(point, units)?;
        Some(Mapped { value, notice })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GpuValue, MappingFile, Point, UnitChecks, Value};
    use super::Mappings;
    use phasemeter_meter::instrument::Instrument;
    use phasemeter_meter::quantity::Quantity;
    use phasemeter_meter::reading::{Basis, MissingReason};
    use phasemeter_meter::units::{Timestamp, Utilization};
    use proptest::prelude::*;

    type Labels = &'static [(&'static str, &'static str)];

    const A: Labels =
        &[("UUID", "GPU-a"), ("gpu", "3"), ("modelName", "NVIDIA L4"), ("Hostname", "h")];

    /// The value of a point, and what is logged.
    fn read(
        mappings: &Mappings,
        units: &mut UnitChecks,
        metric: &str,
        labels: Labels,
        number: f64,
    ) -> Option<(GpuValue, Option<String>)> {
        let find =
            |name: &str| labels.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let at = Timestamp::default();
        let point =
            Point { metric, label: &find, instrument: Instrument::Gauge, start: None, at, number };
        let mapped = mappings.read(&point, units)?;
        Some((mapped.value, mapped.notice.map(|notice| notice.to_string())))
    }

    fn gpu_value(metric: &str, labels: Labels, number: f64) -> Option<GpuValue> {
        let mappings = Mappings::built_in().unwrap();
        Some(read(&mappings, &mut UnitChecks::default(), metric, labels, number)?.0)
    }

    fn value(metric: &str, labels: Labels, number: f64) -> Option<Result<Value, MissingReason>> {
        gpu_value(metric, labels, number).map(|value| value.value)
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
        let smi: Labels = &[("uuid", "72f02a28-5140-325e-ba49-1ae77c6b4e30")];
        let smi = gpu_value("nvidia_smi_utilization_gpu_ratio", smi, 0.1).unwrap();
        assert_eq!(smi.gpu.id.name(), "GPU-72f02a28-5140-325e-ba49-1ae77c6b4e30");
        let labels = gpu_value("DCGM_FI_DEV_POWER_USAGE", A, 61.5).unwrap().gpu;
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

    /// Guarantee: a value out of range is unreadable, alone, whatever the metric.
    #[test]
    fn value_out_of_range_is_unreadable_alone() {
        let (mappings, mut units) = (Mappings::built_in().unwrap(), UnitChecks::default());
        let unreadable = Err(MissingReason::Unreadable);
        for (metric, wrong, right) in [
            ("DCGM_FI_DEV_GPU_UTIL", 2_619.0, 37.0),
            ("DCGM_FI_DEV_GPU_UTIL", 686_103.0, 37.0),
            ("DCGM_FI_DEV_GPU_UTIL", 4_294_967_295.0, 37.0),
            ("DCGM_FI_DEV_GPU_UTIL", 0.87, 37.0),
            ("DCGM_FI_PROF_SM_ACTIVE", 1.3, 0.5),
            ("DCGM_FI_PROF_SM_ACTIVE", 55.0, 0.5),
            ("DCGM_FI_DEV_POWER_USAGE", -1.0, 61.5),
            ("DCGM_FI_DEV_POWER_USAGE", 4_294_967.3, 61.5),
            ("DCGM_FI_DEV_GPU_TEMP", 255.0, 41.0),
            ("DCGM_FI_DEV_FB_USED", -1.0, 1_024.0),
            ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", -1.0, 4.0),
            ("hw.gpu.utilization", f64::INFINITY, 0.5),
        ] {
            let labels: Labels = &[("UUID", "GPU-a"), ("hw.id", "GPU-a")];
            for (number, is_readable) in [(right, true), (wrong, false), (right, true)] {
                let (found, notice) = read(&mappings, &mut units, metric, labels, number).unwrap();
                let expected =
                    if is_readable { found.value.is_ok() } else { found.value == unreadable };
                assert!(expected && notice.is_none(), "{metric} {number}: {found:?} {notice:?}");
            }
        }
    }

    /// Guarantee: a sender of the other unit is named once, and again once it sends the declared one; points of
    /// MIG instances and of other senders prove nothing about it.
    #[test]
    fn sender_of_another_unit_is_named_once() {
        let (mappings, mut units) = (Mappings::built_in().unwrap(), UnitChecks::default());
        let mut util = |labels, number| {
            read(&mappings, &mut units, "DCGM_FI_DEV_GPU_UTIL", labels, number).unwrap().1
        };
        let instance: Labels = &[("UUID", "GPU-a"), ("Hostname", "h"), ("GPU_I_ID", "3")];
        let other: Labels = &[("UUID", "GPU-b"), ("Hostname", "g")];
        for _ in 0..9 {
            let notices = [util(A, 0.87), util(instance, 0.5), util(other, 0.5), util(other, 55.0)];
            assert_eq!(notices, [None, None, None, None]);
        }
        assert_eq!(
            util(A, 0.87).unwrap(),
            "DCGM_FI_DEV_GPU_UTIL of h: declared as percent, but 10 values in a row are of the other unit; its \
             values are unreadable until 10 agree: declare unit = \"ratio\" in a mapping"
        );
        assert!((0..20).all(|_| util(A, 0.87).is_none()));
        let lifted: Vec<_> = (0..20).filter_map(|_| util(A, 55.0)).collect();
        let expected = "DCGM_FI_DEV_GPU_UTIL of h: 10 values in a row are percent again, as declared; its values count";
        assert_eq!(lifted, [expected]);
    }

    #[test]
    fn mapping_of_user_replaces_that_of_the_same_metric() {
        let mut mappings = Mappings::built_in().unwrap();
        let own = "[identity]\nuuid = [\"id\"]\n[[metric]]\nname = \"DCGM_FI_DEV_GPU_UTIL\"\n\
                   is = \"utilization\"\nbasis = \"dcgm.gpu\"\nunit = \"ratio\"\n";
        mappings.replace(MappingFile::parse(own).unwrap());
        let own: Labels = &[("id", "x")];
        let mut units = UnitChecks::default();
        let (read, _) = read(&mappings, &mut units, "DCGM_FI_DEV_GPU_UTIL", own, 0.87).unwrap();
        assert_eq!(Some(read.value), percent(Basis::DcgmGpu, 87));
        assert_eq!(read.quantity, Some(Quantity::Utilization));
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
        let unknown = error("is = \"processes\"\nunit = \"code\"");
        assert!(
            unknown.contains("unknown value `processes`, expected one of utilization, "),
            "{unknown}"
        );
        let error = MappingFile::parse("[identity]\nuuid = []").unwrap_err();
        assert!(error.to_string().starts_with("identity: names no label"));
    }

    proptest! {
        /// Any number of a metric is a value, missing or unreadable.
        #[test]
        fn number_is_converted_exactly_or_unreadable(whole in 0_u32..=100, any in any::<f64>()) {
            let exact = value("DCGM_FI_DEV_GPU_UTIL", A, f64::from(whole));
            prop_assert_eq!(exact, percent(Basis::DcgmGpu, whole));
            let ratio = value("DCGM_FI_PROF_SM_ACTIVE", A, f64::from(whole) / 100.0);
            prop_assert_eq!(ratio, percent(Basis::DcgmSm, whole));
            let mappings = Mappings::built_in().unwrap();
            for metric in mappings.rules.keys() {
                let _ = read(&mappings, &mut UnitChecks::default(), metric, A, any);
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
        for (name, number, quantity, expected) in [
            ("DCGM_FI_DEV_FAN_SPEED", 42.0, Quantity::FanSpeed, 420_000),
            // Above its nominal maximum.
            ("DCGM_FI_DEV_FAN_SPEED", 104.0, Quantity::FanSpeed, 1_040_000),
            ("DCGM_FI_DEV_PCIE_LINK_GEN", 5.0, Quantity::PcieGeneration, 5),
            ("DCGM_FI_DEV_PCIE_LINK_WIDTH", 16.0, Quantity::PcieWidth, 16),
        ] {
            assert_eq!(value(name, A, number), Some(Ok(Value::Kept(quantity, expected))));
        }
        for name in ["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] {
            assert_eq!(value(name, A, 68.0), Some(Ok(Value::EventReasons(0x44))));
        }
    }

    #[test]
    fn rates_of_links_are_read() {
        for (name, link) in [
            ("DCGM_FI_PROF_PCIE_TX_BYTES", Quantity::PcieTransmitted),
            ("DCGM_FI_PROF_PCIE_RX_BYTES", Quantity::PcieReceived),
            ("DCGM_FI_PROF_NVLINK_TX_BYTES", Quantity::NvlinkTransmitted),
            ("DCGM_FI_PROF_NVLINK_RX_BYTES", Quantity::NvlinkReceived),
            ("dcgmi.dmon.PCITX", Quantity::PcieTransmitted),
            ("dcgmi.dmon.PCIRX", Quantity::PcieReceived),
            ("dcgmi.dmon.NVLTX", Quantity::NvlinkTransmitted),
            ("dcgmi.dmon.NVLRX", Quantity::NvlinkReceived),
        ] {
            assert_eq!(value(name, A, 2.5e10), Some(Ok(Value::Rate(link, 25_000_000_000))));
            let missing = Some(Err(MissingReason::NotSupported));
            assert_eq!(value(name, A, 140_737_488_355_328.0), missing);
        }
    }

    /// Guarantee: the values of a metric of ambiguous unit are unreadable, whatever they are, and it is named once.
    #[test]
    fn ambiguous_unit_is_named_once() {
        let (mappings, mut units) = (Mappings::built_in().unwrap(), UnitChecks::default());
        let mut util = |number| {
            let metric = "DCGM_FI_DEV_GPU_UTIL_RATIO";
            read(&mappings, &mut units, metric, A, number).unwrap()
        };
        let (first, notice) = util(1.0);
        assert_eq!(first.value, Err(MissingReason::Unreadable));
        assert_eq!(
            notice.unwrap(),
            "DCGM_FI_DEV_GPU_UTIL_RATIO: is percent or ratio, by the version of its sender; its values are \
             unreadable: declare its unit in a mapping"
        );
        for number in [0.0, 0.5, 55.0] {
            let (value, notice) = util(number);
            assert_eq!((value.value, notice), (Err(MissingReason::Unreadable), None), "{number}");
        }
    }
}
