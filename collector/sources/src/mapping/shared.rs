//! A value of a GPU: of the GPU as a whole, and of the shares that its holders have.
//!
//! An exporter of a time-sliced GPU has both, or the shares only; older ones repeat the value of the GPU for
//! each holder. Must not depend on what is measured.

use std::collections::{BTreeMap, BTreeSet};

use super::holder::Holder;

/// Maximum number of holders of a GPU at an instant. Labels come from anywhere.
pub(super) const MAX_SHARES: usize = 64;

/// A value of a GPU at an instant.
#[derive(Clone, Debug)]
pub(super) struct Shared<T> {
    whole: Option<T>,
    shares: BTreeMap<Holder, T>,
}

/// Whether several holders have the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison<T> {
    /// There are no several holders.
    None,
    /// All have this value.
    Equal(T),
    /// They have different ones.
    Different,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { whole: None, shares: BTreeMap::new() }
    }
}

impl<T: Copy + PartialEq> Shared<T> {
    /// Sets the share of a holder; without one, the value of the GPU.
    pub(super) fn set(&mut self, holder: Option<&Holder>, value: T) {
        match holder {
            Some(holder) if self.shares.len() < MAX_SHARES || self.has(Some(holder)) => {
                self.shares.insert(holder.clone(), value);
            }
            Some(_) => {}
            None => self.whole = Some(value),
        }
    }

    /// Whether it has the share of this holder; without one, the value of the GPU.
    pub(super) fn has(&self, holder: Option<&Holder>) -> bool {
        holder.map_or(self.whole.is_some(), |holder| self.shares.contains_key(holder))
    }

    /// Whether only shares are known, and not all of these.
    pub(super) fn lacks_any(&self, holders: &BTreeSet<Holder>) -> bool {
        self.whole.is_none() && holders.iter().any(|holder| !self.has(Some(holder)))
    }

    /// The value of the GPU, else that of its only holder.
    pub(super) fn undivided(&self) -> Option<T> {
        let only = || if self.shares.len() == 1 { self.shares.values().next() } else { None };
        self.whole.or_else(|| only().copied())
    }

    /// The shares, if they are all that is known.
    pub(super) fn divided(&self) -> Option<impl Iterator<Item = T>> {
        let is_divided = self.whole.is_none() && self.shares.len() > 1;
        is_divided.then(|| self.shares.values().copied())
    }

    pub(super) fn compare(&self) -> Comparison<T> {
        let Some(mut shares) = self.divided() else { return Comparison::None };
        match shares.next() {
            Some(first) if shares.all(|share| share == first) => Comparison::Equal(first),
            Some(_) => Comparison::Different,
            None => Comparison::None,
        }
    }
}
