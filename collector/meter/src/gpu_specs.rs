//! Vendor specifications of GPU models: memory, nominal peaks, power.
//!
//! The table is `data/gpus.csv`; its README lists sources and known issues.

use crate::csv;
use crate::units::Bytes;
use crate::vendor::without_vendor;

const TABLE: &str = include_str!("../data/gpus.csv");

/// Specifications of one GPU as its vendor states them: nominal peaks, dense (without 2:4
/// sparsity). Values that do not apply or are unknown are `None`, never zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuSpecs {
    /// The name as returned by `nvmlDeviceGetName`.
    pub model: &'static str,
    /// `Hopper`, `Ada Lovelace`, …
    pub architecture: &'static str,
    /// CUDA compute capability, `9.0`.
    pub compute_capability: &'static str,
    /// Nominal memory: the gigabytes of the datasheet, taken as GiB. Drivers report a few percent
    /// less.
    pub memory: Option<Bytes>,
    /// Peak memory bandwidth in decimal GB/s.
    pub memory_bandwidth_gb_s: Option<f64>,
    /// FP32 without tensor cores and TF32.
    pub fp32_tflops: Option<f64>,
    /// BF16 tensor core throughput, FP32 accumulation.
    pub bf16_tflops: Option<f64>,
    /// FP16 tensor core throughput, FP32 accumulation; without tensor cores on Pascal.
    pub fp16_tflops: Option<f64>,
    /// FP8 tensor core throughput, FP32 accumulation.
    pub fp8_tflops: Option<f64>,
    /// INT8 tensor core throughput; without tensor cores on Pascal.
    pub int8_tops: Option<f64>,
    /// Power limit in watts; the upper end if the vendor gives a range.
    pub tdp_watts: Option<f64>,
    /// Maximum number of MIG instances; `None` without MIG.
    pub mig_instances: Option<u8>,
    /// Whether the part supports NVLink. Whether a bridge is installed is unknown.
    pub nvlink: bool,
    /// `SXM5`, `PCIe`, `superchip`, …
    pub form_factor: &'static str,
    /// Short names of the sources, listed in the table's README.
    pub source: &'static str,
    /// Whether every value has more than one source.
    pub confirmed: bool,
}

impl GpuSpecs {
    /// The specifications of a model, matched by [`same_model`]; `None` if it is not in the table.
    #[must_use]
    pub fn of(model: &str) -> Option<Self> {
        Self::all().find(|specs| same_model(specs.model, model))
    }

    /// All models, oldest architecture first.
    pub fn all() -> impl Iterator<Item = Self> {
        csv::rows(TABLE).filter_map(|cells| Self::parse(cells?))
    }

    fn parse(cells: [&'static str; 16]) -> Option<Self> {
        let [
            model,
            architecture,
            compute_capability,
            memory_gib,
            bandwidth,
            fp32,
            bf16,
            fp16,
            fp8,
            int8,
            tdp,
            mig,
            nvlink,
            form_factor,
            source,
            confirmed,
        ] = cells;
        let mig: u8 = mig.parse().ok()?;
        Some(Self {
            model,
            architecture,
            compute_capability,
            memory: memory(memory_gib)?,
            memory_bandwidth_gb_s: figure(bandwidth)?,
            fp32_tflops: figure(fp32)?,
            bf16_tflops: figure(bf16)?,
            fp16_tflops: figure(fp16)?,
            fp8_tflops: figure(fp8)?,
            int8_tops: figure(int8)?,
            tdp_watts: figure(tdp)?,
            mig_instances: (mig > 0).then_some(mig),
            nvlink: yes_or_no(nvlink)?,
            form_factor,
            source,
            confirmed: yes_or_no(confirmed)?,
        })
    }
}

/// Whether two names are the same model: equal except for case, for blanks that labels of Kubernetes and of
/// exporters replace by `-` or `_`, and for what [`letters`] leaves out. Never fuzzy: an A100 with 40 GB is not
/// one with 80 GB.
#[must_use]
pub fn same_model(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

/// Whether a name is that of this model, or begins with it, as `NVIDIA B300 SXM6 AC` with
/// `NVIDIA B300`.
#[must_use]
pub fn extends_model(name: &str, model: &str) -> bool {
    let mut name = letters(name);
    letters(model).all(|letter| name.next() == Some(letter))
        && matches!(name.next(), None | Some(b' '))
}

/// The driver's spelling of a model that the table lists, else the name as it is.
#[must_use]
pub fn driver_name(model: &str) -> &str {
    // The table lives as long as the program.
    GpuSpecs::of(model).map_or(model, |specs| specs.model)
}

/// Whether a label names a GPU that is shared by time-slicing or MPS.
#[must_use]
pub fn is_shared(label: &str) -> bool {
    let name = label.trim().as_bytes();
    let begin = name.len().saturating_sub(SHARED.len());
    name.get(begin..).is_some_and(|end| end.iter().copied().map(letter).eq(SHARED.iter().copied()))
}

/// Kubernetes appends it to the name of a GPU that is shared by time-slicing or MPS.
const SHARED: &[u8] = b" shared";

/// Some of AMD's drivers append the form factor.
const MODULE: &[u8] = b" oam";

/// The letters of a name in lower case, with blanks as the driver has them. Without the vendor, which drivers
/// before R470 omit, the mark of shared GPUs, and AMD's form factor.
fn letters(model: &str) -> impl Iterator<Item = u8> {
    let name = without_vendor(model.trim()).as_bytes();
    without_end(without_end(name, SHARED), MODULE).iter().copied().map(letter)
}

fn without_end<'a>(name: &'a [u8], end: &[u8]) -> &'a [u8] {
    let (begin, last) = name.split_at(name.len().saturating_sub(end.len()));
    if last.iter().copied().map(letter).eq(end.iter().copied()) { begin } else { name }
}

const fn letter(byte: u8) -> u8 {
    match byte {
        b'-' | b'_' => b' ',
        other => other.to_ascii_lowercase(),
    }
}

/// `Some(None)` for an empty cell, `None` if the cell is invalid; likewise below.
fn figure(cell: &str) -> Option<Option<f64>> {
    if cell.is_empty() { Some(None) } else { cell.parse().ok().map(Some) }
}

fn memory(gib: &str) -> Option<Option<Bytes>> {
    if gib.is_empty() {
        return Some(None);
    }
    let gib: u64 = gib.parse().ok()?;
    Bytes::from_mebibytes(gib.checked_mul(1024)?).map(Some)
}

fn yes_or_no(cell: &str) -> Option<bool> {
    match cell {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_parse_and_models_are_unique() {
        let all: Vec<_> = GpuSpecs::all().collect();
        assert_eq!(all.len(), TABLE.lines().count() - 1);
        for specs in &all {
            assert_eq!(all.iter().filter(|f| same_model(f.model, specs.model)).count(), 1);
        }
    }

    #[test]
    fn model_matches_any_driver_spelling() {
        for spelling in ["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "nvidia a100-sxm4-80gb"] {
            let specs = GpuSpecs::of(spelling).unwrap();
            assert_eq!(specs.memory.unwrap().get(), 80 << 30);
            assert_eq!(specs.bf16_tflops, Some(312.0));
            assert_eq!(specs.fp8_tflops, None, "an A100 has no FP8");
            assert_eq!(specs.mig_instances, Some(7));
        }
    }

    #[test]
    fn form_factor_is_no_part_of_a_name() {
        let named = driver_name("AMD_Instinct_MI300X_OAM");
        assert_eq!(named, "AMD Instinct MI300X");
        assert_eq!(GpuSpecs::of("Instinct MI325X OAM").unwrap().tdp_watts, Some(1000.0));
    }

    #[test]
    fn longer_name_extends_model_at_word_boundary() {
        assert!(extends_model("NVIDIA B300 SXM6 AC", "nvidia b300"));
        assert!(extends_model("B300", "NVIDIA B300"));
        for name in ["NVIDIA L40S", "NVIDIA GB300", "B30", ""] {
            assert!(!extends_model(name, "NVIDIA L4") && !extends_model(name, "NVIDIA B300"));
        }
    }

    /// Guarantee: a name in the form of a label is that model, in the table, and no other one.
    #[test]
    fn label_of_a_model_is_that_model() {
        for specs in GpuSpecs::all() {
            for blank in ["-", "_"] {
                let label = specs.model.replace(' ', blank);
                assert_eq!(GpuSpecs::of(&label), Some(specs), "{label}");
                let shared = [&label, blank, "SHARED"].concat();
                assert_eq!(driver_name(&shared), specs.model, "{shared}");
                assert_eq!([is_shared(&shared), is_shared(&label)], [true, false]);
            }
        }
        assert!(extends_model("NVIDIA-B300-SXM6-AC", "NVIDIA B300"));
        assert!(!same_model("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"));
        assert!(!same_model("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "NVIDIA-A100-SXM4-80GB"));
        assert!(same_model("AMD_Instinct_MI300X_OAM", "amd instinct mi300x oam"));
        assert!(same_model("AMD Instinct MI300X", "Instinct-MI300X"));
    }

    #[test]
    fn unknown_model_has_no_specs() {
        for model in ["", "NVIDIA ", "A100", "NVIDIA A100-SXM4-80GB MIG", "NVIDIÄ A10"] {
            assert_eq!(GpuSpecs::of(model), None, "{model:?}");
        }
    }
}
