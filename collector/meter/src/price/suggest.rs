//! Suggestions of names similar to an unknown one, for error messages. Prices match exactly.

use std::cmp::Reverse;

/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 3;

/// Scale of [`similarity`]. Names below an eighth of it are not suggested: `V100` still finds
/// `Tesla V100-SXM2-16GB` (0.16), and `B200` does not find `H100 80GB HBM3`.
const SCALE: usize = 1_000;

/// The most similar names, best first: by number of shared words, then of shared letter pairs.
/// Case-insensitive.
pub(super) fn suggest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    let mut known: Vec<_> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    let mut found: Vec<_> = known
        .into_iter()
        .filter_map(|other| {
            let lower = other.to_ascii_lowercase();
            let similarity = similarity(&name, &lower);
            (similarity >= SCALE / 8).then(|| (shared_words(&name, &lower), similarity, other))
        })
        .collect();
    found.sort_by_key(|&(words, similarity, _)| Reverse((words, similarity)));
    found.into_iter().take(MAX_SUGGESTIONS).map(|(_, _, other)| other.to_owned()).collect()
}

fn shared_words(one: &str, other: &str) -> usize {
    words(one).filter(|word| words(other).any(|w| w == *word)).count()
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// Shared letter pairs squared, over the product of both pair counts, in thousandths: 1000 if
/// equal.
fn similarity(one: &str, other: &str) -> usize {
    let shared = pairs(one).filter(|pair| pairs(other).any(|p| p == *pair)).count();
    let all = pairs(one).count().saturating_mul(pairs(other).count());
    shared.saturating_mul(shared).saturating_mul(SCALE).checked_div(all).unwrap_or(0)
}

fn pairs(name: &str) -> impl Iterator<Item = (char, char)> {
    name.chars().zip(name.chars().skip(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODELS: [&str; 7] = [
        "NVIDIA A10",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA A100-SXM4-40GB",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H100 NVL",
        "NVIDIA L4",
        "Tesla V100-SXM2-16GB",
    ];

    #[test]
    fn shared_words_rank_first() {
        assert_eq!(suggest("h100", MODELS), ["NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3"]);
        assert_eq!(suggest("NVIDIA A100", MODELS)[..2], [MODELS[1], MODELS[2]]);
        assert_eq!(suggest("V100", MODELS), ["Tesla V100-SXM2-16GB"]);
    }

    #[test]
    fn typo_finds_intended_name() {
        let types = ["p4d.24xlarge", "p5.4xlarge", "p5.48xlarge", "p5.48xlarge"];
        assert_eq!(suggest("p5.48xlrge", types)[0], "p5.48xlarge");
        assert_eq!(suggest("us-central", ["us-central1", "us-east1", "eastus"])[0], "us-central1");
    }

    #[test]
    fn dissimilar_name_has_no_suggestions() {
        for name in ["", "X", "Radeon", "東京"] {
            assert!(suggest(name, MODELS).is_empty(), "{name:?}");
        }
    }
}
