//! A value of a GPU: of the GPU as a whole, and of the shares that its holders have.
//!
//! An exporter of a time-sliced GPU has both, or the shares only; older ones repeat the value of the GPU for
//! each holder.

use phasemeter_meter::holder::Holder;
use phasemeter_meter::units::Timestamp;

use super::agreed::{Agreed, Origin};
use super::holder::ShareKey;
use super::names::Names;
use super::smallest::Smallest;

/// A value of a GPU at an instant.
#[derive(Clone, Debug)]
pub(super) struct Shared<T> {
    whole: Option<Agreed<T>>,
    shares: Smallest<ShareKey, Agreed<T>>,
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
        Self { whole: None, shares: Smallest::default() }
    }
}

impl<T: Copy + PartialEq> Shared<T> {
    /// Adds the share of a holder; without one, the value of the GPU. Returns how many points are refused, since
    /// they differ.
    pub(super) fn add(&mut self, holder: Option<&ShareKey>, origin: Origin, value: T) -> u32 {
        let first = || Agreed::new(origin, value);
        let add = |known: &mut Agreed<T>| known.add(origin, value);
        match (holder, &mut self.whole) {
            (Some(holder), _) => self.shares.upsert(holder, first, add).unwrap_or_default(),
            (None, Some(whole)) => add(whole),
            (None, whole) => {
                *whole = Some(first());
                0
            }
        }
    }

    /// Completes the names of holders; a value under the complete name counts before another one.
    pub(super) fn complete(&mut self, names: &Names) {
        self.shares.rename(|key| key.complete(names), |_, _| {});
    }

    /// The shares of these are values of the GPU.
    pub(super) fn give_back(&mut self, is_of_gpu: impl Fn(&Holder) -> bool) {
        let of_gpu = self.shares.take(|key| is_of_gpu(&key.holder));
        self.whole = self.whole.or_else(|| of_gpu.into_iter().next());
    }

    /// Whether there were more shares than it has.
    pub(super) const fn is_over(&self) -> bool {
        self.shares.is_over()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_none() && self.shares.is_empty()
    }

    /// When the share of this holder was measured; without one, the value of the GPU. `None` if there is none.
    pub(super) fn measured_at(&self, holder: Option<&ShareKey>) -> Option<Timestamp> {
        self.of(holder).map(Agreed::at)
    }

    fn of(&self, holder: Option<&ShareKey>) -> Option<&Agreed<T>> {
        holder.map_or(self.whole.as_ref(), |holder| self.shares.get(holder))
    }

    /// Whether only shares are known, and not all of these.
    pub(super) fn lacks_any(&self, holders: &Smallest<ShareKey, ()>) -> bool {
        let is_known = |holder| self.of(Some(holder)).and_then(Agreed::get).is_some();
        self.whole.is_none() && !holders.keys().all(is_known)
    }

    /// The value of the GPU, else that of its only holder; `None` if its points differ.
    pub(super) fn undivided(&self) -> Option<T> {
        let only = || if self.shares.len() == 1 { self.shares.values().next() } else { None };
        self.whole.as_ref().or_else(only).and_then(Agreed::get)
    }

    /// The shares, if they are all that is known, and no points of any differ.
    pub(super) fn divided(&self) -> Option<impl Iterator<Item = T>> {
        let is_known = || self.shares.values().all(|share| share.get().is_some());
        let is_all = self.whole.is_none() && !self.is_over();
        let is_divided = is_all && self.shares.len() > 1 && is_known();
        is_divided.then(|| self.shares.values().filter_map(Agreed::get))
    }

    /// The share of each holder, as far as its points agree, and whether the value of the GPU is known, too.
    pub(super) fn by_holder(&self) -> (impl Iterator<Item = (&Holder, T)>, bool) {
        let shares = self.shares.iter();
        let known = shares.filter_map(|(key, share)| Some((&key.holder, share.get()?)));
        (known, self.whole.is_some())
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
