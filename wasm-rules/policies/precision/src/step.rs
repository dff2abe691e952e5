//! Steps to faster formats, and how much faster their peaks are.

use phasemeter_diagnoses::{Architecture, Format, Model, share};
use phasemeter_policy::Workload;

use crate::MIN_TENSOR_ACTIVITY;

/// Peak of TF32 relative to 16 bits, dense (NVIDIA's datasheets of A100 and H100).
const TF32_SHARE: f64 = 0.5;

/// A faster format, and how it is turned on.
#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) lever: &'static str,
    pub(crate) name: &'static str,
    pub(crate) how: &'static str,
    pub(crate) format: Format,
}

pub(crate) const TF32: Step = Step {
    lever: "tf32",
    name: "TF32",
    how: "torch.set_float32_matmul_precision(\"high\"), which keeps 10 bits of each fraction",
    format: Format::Tf32,
};

const BF16: Step = Step {
    lever: "bf16",
    name: "BF16",
    how: "torch.autocast(\"cuda\", dtype=torch.bfloat16), with master weights in FP32",
    format: Format::Half,
};

const AMP: Step = Step {
    lever: "amp",
    name: "FP16 on tensor cores",
    how: "automatic mixed precision (FP16 with loss scaling), since this architecture has no BF16",
    format: Format::Half,
};

pub(crate) const FP8: Step = Step {
    lever: "fp8",
    name: "FP8",
    how: "linear layers in FP8, with Transformer Engine or torchao",
    format: Format::Fp8,
};

/// A step from a format, and the ratio of the peaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) step: &'static Step,
    pub(crate) from: &'static str,
    pub(crate) speedup: f64,
}

/// Whether it has units for matrix products in few bits.
pub(crate) const fn has_tensor_cores(model: &Model) -> bool {
    !matches!(model.architecture, Architecture::Kepler | Architecture::Pascal)
}

/// The step to 16 bits.
const fn half(model: &Model) -> &'static Step {
    if model.bf16_tflops.is_some() { &BF16 } else { &AMP }
}

/// The step after the declared format; `None` if the model has none.
pub(crate) fn next(model: &Model, declared: Format) -> Option<&'static Step> {
    match declared {
        Format::Half => model.fp8_tflops.map(|_| &FP8),
        Format::Fp32 | Format::Tf32 if has_tensor_cores(model) => Some(half(model)),
        _ => None,
    }
}

/// The next changes, safest first: to TF32 and to 16 bits if the tensor cores are little used, else to 8 bits, as far as
/// the model supports them. TF32 is right for every kind of workload.
pub(crate) fn changes(model: &Model, tensor: f64, workload: Workload) -> Vec<Change> {
    let peak = model.bf16_tflops.or(model.fp16_tflops);
    let change = |step, from, fast: Option<f64>, slow: Option<f64>| {
        let speedup = Some(fast? / slow?).filter(|ratio| *ratio > 1.0)?;
        Some(Change { step, from, speedup })
    };
    let in_job = |change: &Change| workload.is_job() || *change.step == TF32;
    let has_tf32 = model.architecture >= Architecture::Ampere;
    let tf32 = peak.map(|peak| peak * TF32_SHARE).filter(|_| has_tf32);
    // 16 bits are compared with TF32, which is one setting.
    let (from, slow) = if has_tf32 { ("TF32", tf32) } else { ("FP32", model.fp32_tflops) };
    let found = match tensor {
        MIN_TENSOR_ACTIVITY.. => [change(&FP8, "16 bits", model.fp8_tflops, peak), None],
        ..=share::HARDLY_ANY if has_tensor_cores(model) => {
            [change(&TF32, "FP32", tf32, model.fp32_tflops), change(half(model), from, peak, slow)]
        }
        _ => [None, None],
    };
    found.into_iter().flatten().filter(in_job).collect()
}
