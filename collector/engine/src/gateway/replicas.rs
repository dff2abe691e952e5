//! Which of several gateways meters a GPU, and which one passes on what a resource sent: each by rendezvous hashing.
//!
//! All gateways receive everything, and agree without talking to each other. If one is added to the list or removed
//! from it, only what that one takes over or gives up changes its gateway.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

/// The gateways among which GPUs and resources are divided, and which of them this is. By default it is the only one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    own: String,
    others: BTreeSet<String>,
}

/// Why a list of gateways cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicasError {
    /// This gateway is not in the list.
    #[error(
        "--replica {name}: not among --replicas {list}; name one of them, or add it to the list of each gateway"
    )]
    Unlisted {
        /// Its name.
        name: String,
        /// The list.
        list: String,
    },
    /// A name is empty, or there twice.
    #[error("--replicas {0}: expected different names, separated by commas")]
    Names(String),
}

impl Replicas {
    /// The gateways with these names, of which this one is `own`.
    ///
    /// # Errors
    /// Returns an error if a name is empty or there twice, or `own` is not among them.
    pub fn new(names: &[String], own: &str) -> Result<Self, ReplicasError> {
        let mut others: BTreeSet<String> = names.iter().cloned().collect();
        if others.len() < names.len() || others.contains("") {
            return Err(ReplicasError::Names(names.join(",")));
        }
        if !others.remove(own) {
            return Err(ReplicasError::Unlisted { name: own.to_owned(), list: names.join(",") });
        }
        Ok(Self { own: own.to_owned(), others })
    }

    /// Whether this gateway is the only one.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.others.is_empty()
    }

    /// Whether another gateway of the list has this name.
    #[must_use]
    pub fn is_other(&self, name: &str) -> bool {
        self.others.contains(name)
    }

    /// Whether this gateway meters the GPU with this name.
    #[must_use]
    pub fn meters(&self, gpu: &str) -> bool {
        self.has(b"gpu", gpu.as_bytes())
    }

    /// Whether this gateway passes on and counts what the resource with this identity sent.
    #[must_use]
    pub fn passes_on(&self, resource: &[u8]) -> bool {
        self.has(b"resource", resource)
    }

    /// Whether the hash of this gateway's name with the key is the highest.
    fn has(&self, kind: &[u8], key: &[u8]) -> bool {
        let score = |name: &str| {
            let mut digest = Sha256::new();
            for part in [kind, name.as_bytes(), key] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
            digest.finalize()
        };
        self.is_single() || {
            let own = score(&self.own);
            self.others.iter().all(|other| score(other) < own)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gateways with these names.
    fn gateways(names: &[&str]) -> Vec<Replicas> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        names.iter().map(|own| Replicas::new(&names, own).unwrap()).collect()
    }

    /// The place of the gateway that has each of 3,000 GPUs.
    fn places(gateways: &[Replicas]) -> Vec<usize> {
        let place = |gpu: u32| {
            let gpu = format!("GPU-{gpu:08x}");
            let has: Vec<_> = (0..gateways.len()).filter(|&it| gateways[it].meters(&gpu)).collect();
            let [place] = has[..] else { panic!("{gpu}: {has:?}") };
            place
        };
        (0..3_000).map(place).collect()
    }

    /// Guarantee: each GPU has one gateway, each gateway about as many, in any order of the list; a gateway that leaves
    /// changes that of its own GPUs only.
    #[test]
    fn each_gpu_has_one_gateway_which_changes_only_with_it() {
        let three = places(&gateways(&["a", "b", "c"]));
        for place in 0..3 {
            let count = three.iter().filter(|it| **it == place).count();
            assert!((900..1_100).contains(&count), "{count}");
        }
        let reversed = places(&gateways(&["c", "b", "a"]));
        assert!(three.iter().zip(&reversed).all(|(place, other)| 2 - place == *other));
        let two = places(&gateways(&["a", "b"]));
        assert!(three.iter().zip(&two).all(|(before, after)| *before == 2 || before == after));
        assert_eq!(places(&gateways(&["a"])), vec![0; 3_000]);
        assert!(Replicas::default().meters("any") && Replicas::default().passes_on(b"any"));
    }

    #[test]
    fn list_has_different_names_and_this_one() {
        let error = |names: &[&str], own: &str| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            Replicas::new(&names, own).unwrap_err().to_string()
        };
        let unlisted = "--replica c: not among --replicas a,b; ";
        assert!(error(&["a", "b"], "c").starts_with(unlisted));
        for names in [&["a", "a"][..], &["a", ""]] {
            assert!(error(names, "a").ends_with("expected different names, separated by commas"));
        }
    }
}
