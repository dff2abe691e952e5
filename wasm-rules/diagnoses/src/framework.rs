//! Signs of matrix products that could run in a lower precision.
//!
//! Simulations, renderers and decision trees fill GPUs too, and have none.

use phasemeter_policy::{Gpu, Need, Window};

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

/// Whether something shows that a GPU multiplies matrices of a model: tensor cores that were ever active, or a
/// framework that is declared or named.
pub fn multiplies_matrices(gpu: &Gpu, window: &Window) -> bool {
    let is_active = gpu.sensors.tensor_activity.is_some_and(|activity| activity > 0.0);
    is_active || gpu.attributes.iter().chain(&window.attributes).any(names_framework)
}

/// What is missing for GPUs without such a sign; `None` if there are none.
pub fn framework_need<'a>(gpus: impl IntoIterator<Item = &'a Gpu>) -> Option<Need> {
    let reason = "tensor cores did nothing at all: only the framework shows whether there are matrix products, which a \
                  lower precision or a compiler makes faster (OTEL_RESOURCE_ATTRIBUTES=phasemeter.framework=pytorch)";
    Need::if_any(FRAMEWORK, reason, gpus)
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
        window.gpus[0].sensors.tensor_activity = tensor;
        window.attributes = vec![(attribute.0.to_owned(), attribute.1.to_owned())];
        multiplies_matrices(&window.gpus[0], &window)
    }

    #[test]
    fn active_tensor_cores_and_frameworks_are_signs() {
        let none = ("team", "chemistry");
        assert!(has_sign(none, Some(0.004)));
        assert!(!has_sign(none, Some(0.0)));
        assert!(!has_sign(none, None));
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
