//! Names like the one that was not found, for messages. Never for prices: those match exactly.

use std::cmp::Reverse;

/// At most so many names are offered.
const OFFERED: usize = 3;

/// A name with less than an eighth of this likeness is not offered: `V100` still finds
/// `Tesla V100-SXM2-16GB` (0.16), and `B200` no longer finds `H100 80GB HBM3`.
const ALIKE: usize = 1_000;

/// The names most like this one, the nearest first: those that share whole words with it, then
/// those that share pairs of letters. Case says nothing.
pub(super) fn near(name: &str, known: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
    let name = name.to_ascii_lowercase();
    let mut known: Vec<_> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    let mut found: Vec<_> = known
        .into_iter()
        .filter_map(|other| {
            let lower = other.to_ascii_lowercase();
            let likeness = likeness(&name, &lower);
            (likeness >= ALIKE / 8).then(|| (shared_words(&name, &lower), likeness, other))
        })
        .collect();
    found.sort_by_key(|&(words, likeness, _)| Reverse((words, likeness)));
    found.into_iter().take(OFFERED).map(|(_, _, other)| other).collect()
}

fn shared_words(one: &str, other: &str) -> usize {
    words(one).filter(|word| words(other).any(|w| w == *word)).count()
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// The pairs of letters that two names share, squared, over the product of how many each has, in
/// thousandths: 1000 where they are equal.
fn likeness(one: &str, other: &str) -> usize {
    let shared = pairs(one).filter(|pair| pairs(other).any(|p| p == *pair)).count();
    let all = pairs(one).count().saturating_mul(pairs(other).count());
    shared.saturating_mul(shared).saturating_mul(ALIKE).checked_div(all).unwrap_or(0)
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
    fn whole_words_come_first() {
        assert_eq!(near("h100", MODELS), ["NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3"]);
        assert_eq!(near("NVIDIA A100", MODELS)[..2], [MODELS[1], MODELS[2]]);
        assert_eq!(near("V100", MODELS), ["Tesla V100-SXM2-16GB"]);
    }

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        let types = ["p4d.24xlarge", "p5.4xlarge", "p5.48xlarge", "p5.48xlarge"];
        assert_eq!(near("p5.48xlrge", types)[0], "p5.48xlarge");
        assert_eq!(near("us-central", ["us-central1", "us-east1", "eastus"])[0], "us-central1");
    }

    #[test]
    fn what_is_like_nothing_is_offered_nothing() {
        for name in ["", "X", "Radeon", "東京"] {
            assert!(near(name, MODELS).is_empty(), "{name:?}");
        }
    }
}
