//! Counters of known workloads, and the unit of work that each counts.
//!
//! Must not depend on how points arrive.

use crate::unit::Unit;

/// What a known metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The unit of work.
    pub unit: Unit,
    /// Whether it is a histogram whose sum counts.
    pub is_histogram_sum: bool,
}

const fn counter(unit: Unit) -> Mapped {
    Mapped { unit, is_histogram_sum: false }
}

const fn histogram(unit: Unit) -> Mapped {
    Mapped { unit, is_histogram_sum: true }
}

/// Names without the suffix `_total`, which depends on the receiver.
const KNOWN: [(&str, Mapped); 14] = [
    // The conventions for generative AI, now and before.
    ("gen_ai.client.inference.usage.input_tokens", counter(Unit::Tokens)),
    ("gen_ai.client.inference.usage.output_tokens", counter(Unit::Tokens)),
    ("gen_ai.client.token.usage", histogram(Unit::Tokens)),
    // vLLM.
    ("vllm:prompt_tokens", counter(Unit::Tokens)),
    ("vllm:generation_tokens", counter(Unit::Tokens)),
    ("vllm:request_success", counter(Unit::Requests)),
    // SGLang.
    ("sglang:prompt_tokens", counter(Unit::Tokens)),
    ("sglang:generation_tokens", counter(Unit::Tokens)),
    ("sglang:num_requests", counter(Unit::Requests)),
    // Triton. A batch of n inferences counts as n samples, and once as a request.
    ("nv_inference_request_success", counter(Unit::Requests)),
    ("nv_inference_count", counter(Unit::Samples)),
    // Text Generation Inference.
    ("tgi_request_success", counter(Unit::Requests)),
    ("tgi_request_input_length", histogram(Unit::Tokens)),
    ("tgi_request_generated_tokens", histogram(Unit::Tokens)),
];

/// What this metric counts; `None` if it is not known.
#[must_use]
pub fn mapped(name: &str) -> Option<Mapped> {
    let name = name.strip_suffix("_total").unwrap_or(name);
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, mapped)| *mapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_counters_have_units() {
        for (name, unit) in [
            ("vllm:generation_tokens_total", Unit::Tokens),
            ("vllm:generation_tokens", Unit::Tokens),
            ("nv_inference_request_success", Unit::Requests),
            ("gen_ai.client.token.usage", Unit::Tokens),
        ] {
            assert_eq!(mapped(name).map(|mapped| mapped.unit), Some(unit), "{name}");
        }
        assert_eq!(mapped("vllm:num_requests_running"), None);
        assert!(mapped("tgi_request_generated_tokens").is_some_and(|it| it.is_histogram_sum));
    }
}
