//! Signs of matrix products that could run in a lower precision, and the format that is declared.
//!
//! Simulations, renderers and decision trees fill GPUs too, and have none. Tensor cores multiply in FP64 as well, so
//! their activity does not show a model, unless the work is declared to be one's, and the vector units do less. What
//! computes in FP64 is none, whatever it is declared to be.

use phasemeter_policy::{Gpu, Need, Window, Workload};

/// The attribute that declares the framework.
const FRAMEWORK: &str = "phasemeter.framework";

/// Beginnings of attributes that may name it, beside that one.
const NAMES: [&str; 4] = ["service.name", "k8s.", "container.image.", "process."];

/// Beginnings of attributes that only clients and servers of language models have.
const MODELS: &str = "gen_ai.";

/// Beginnings of words in their values: frameworks, servers and controllers of models.
const WORDS: [&str; 22] = [
    "torch",
    "pytorch",
    "tensorflow",
    "jax",
    "flax",
    "keras",
    "mxnet",
    "paddle",
    "onnx",
    "transformers",
    "diffusers",
    "deepspeed",
    "megatron",
    "nemo",
    "vllm",
    "sglang",
    "tensorrt",
    "trtllm",
    "triton",
    "ollama",
    "llama",
    "tfjob",
];

/// Work that only models of language do.
const TOKENS: &str = "work.tokens";

/// The attribute that declares the number format.
const PRECISION: &str = "phasemeter.precision";

/// Activity of the FP64 pipe from which the work computes in FP64: models leave it idle. An assumption.
const IN_FP64: f64 = 0.02;

/// Number formats, from the most exact to the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "names of formats")]
pub enum Format {
    Fp64,
    Fp32,
    Tf32,
    /// BF16 and FP16.
    Half,
    Fp8,
}

impl Format {
    /// The format that is declared for a GPU, or for the run.
    pub fn declared(gpu: &Gpu, window: &Window) -> Option<Self> {
        let name = gpu.attribute(PRECISION).or_else(|| window.attribute(PRECISION))?;
        Some(match name {
            "fp64" => Self::Fp64,
            "fp32" => Self::Fp32,
            "tf32" => Self::Tf32,
            "bf16" | "fp16" => Self::Half,
            "fp8" => Self::Fp8,
            _ => return None,
        })
    }
}

/// Whether hardware counters show that a GPU computes in FP64: neither fewer bits nor peaks in other formats say anything
/// about such work.
pub fn computes_in_fp64(gpu: &Gpu) -> bool {
    gpu.metric("fp64.activity").is_some_and(|activity| activity >= IN_FP64)
}

/// Whether something shows that a GPU multiplies matrices of a model: a framework that is declared or named, tokens among
/// its work, or tensor cores that do more than the FP32 pipe in training, a service or a session. FP64 excludes it.
pub fn multiplies_matrices(gpu: &Gpu, window: &Window) -> bool {
    if computes_in_fp64(gpu) {
        return false;
    }
    let vector = gpu.metric("fp32.activity").unwrap_or(0.0);
    let is_active = || gpu.sensors.tensor_activity.is_some_and(|tensor| tensor > vector);
    let is_model = !matches!(gpu.workload, Workload::Batch | Workload::Unknown);
    (is_model && is_active())
        || window.metric(TOKENS).is_some_and(|done| done > 0.0)
        || gpu.attributes.iter().chain(&window.attributes).any(names_framework)
}

/// What is missing for GPUs without such a sign; `None` if there are none.
pub fn framework_need<'a>(gpus: impl IntoIterator<Item = &'a Gpu>) -> Option<Need> {
    let reason = "nothing shows whether it multiplies matrices of a model, which a lower precision or a compiler makes \
                  faster: the framework does (--framework pytorch, or phasemeter.framework in \
                  OTEL_RESOURCE_ATTRIBUTES)";
    Need::if_any(FRAMEWORK, reason, gpus.into_iter().filter(|gpu| !computes_in_fp64(gpu)))
}

fn names_framework((key, value): &(String, String)) -> bool {
    let may_name = || key == FRAMEWORK || NAMES.iter().any(|name| key.starts_with(name));
    let is_word = |word: &str| {
        WORDS.iter().any(|known| {
            word.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
        })
    };
    let words = || value.split(|letter: char| !letter.is_ascii_alphanumeric());
    key.starts_with(MODELS) || (may_name() && words().any(is_word))
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    fn has_sign(attribute: (&str, &str), tensor: Option<f64>) -> bool {
        let mut window = window(vec![steady(3_600, 0.97)]);
        window.gpus[0].workload = Workload::Training;
        window.gpus[0].sensors.tensor_activity = tensor;
        window.attributes = vec![(attribute.0.to_owned(), attribute.1.to_owned())];
        multiplies_matrices(&window.gpus[0], &window)
    }

    /// Scenario: pipes of vector units were measured beside tensor cores.
    /// Guarantee: FP64 shows that it is not a model, and FP32 that does more than tensor cores needs a framework.
    #[test]
    fn vector_units_that_do_the_work_are_no_model() {
        let with = |pipe: &str, activity: f64, framework: &str| {
            let mut window = window(vec![steady(3_600, 0.97)]);
            window.gpus[0].sensors.tensor_activity = Some(0.3);
            window.gpus[0].metrics.push((pipe.to_owned(), activity));
            window.attributes = vec![(FRAMEWORK.to_owned(), framework.to_owned())];
            let need = framework_need([&window.gpus[0]]).is_some();
            (multiplies_matrices(&window.gpus[0], &window), need)
        };
        assert_eq!(with("fp64.activity", 0.2, "pytorch"), (false, false));
        assert_eq!(with("fp64.activity", 0.0, "unknown"), (true, true));
        assert_eq!(with("fp32.activity", 0.5, "unknown"), (false, true));
        assert_eq!(with("fp32.activity", 0.5, "pytorch"), (true, true));
        assert_eq!(with("fp32.activity", 0.1, "unknown"), (true, true));
    }

    #[test]
    fn active_tensor_cores_and_frameworks_are_signs() {
        let none = ("team", "chemistry");
        assert!(has_sign(none, Some(0.004)));
        assert!(!has_sign(none, Some(0.0)));
        assert!(!has_sign(none, None));
        let mut solver = window(vec![Gpu { workload: Workload::Batch, ..steady(3_600, 0.97) }]);
        solver.gpus[0].sensors.tensor_activity = Some(0.5);
        assert!(!multiplies_matrices(&solver.gpus[0], &solver), "FP64");
        for sign in [
            ("phasemeter.framework", "PyTorch 2.9"),
            ("k8s.deployment.name", "vllm-llama"),
            ("k8s.pod.label.training.kubeflow.org/operator-name", "pytorchjob-controller"),
            ("process.executable.name", "torchrun"),
            ("gen_ai.request.model", "a"),
        ] {
            assert!(has_sign(sign, Some(0.0)), "{sign:?}");
        }
        for other in [
            ("phasemeter.framework", "gromacs"),
            ("phasemeter.workload", "training"),
            ("k8s.pod.name", "namd-7"),
            ("team", "torch"),
        ] {
            assert!(!has_sign(other, Some(0.0)), "{other:?}");
        }
    }
}
