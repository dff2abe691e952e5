//! Who holds one GPU from when on, and what holders use, from instants in the order of time.
//!
//! What was seen last is valid until the next instant, and no longer than a reading is: then nobody is known to hold
//! the GPU. Metrics of holders count before the labels of other metrics.

use std::collections::BTreeSet;

use phasemeter_meter::holder::{Grant, Holder, HolderChange, HolderUse};
use phasemeter_meter::holders::Holders;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

use super::names::Names;

/// What each holder uses of the GPU.
pub(super) type Uses = Vec<(Holder, Used)>;

/// What a holder uses of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    /// Its part of the GPU's utilization.
    pub(super) utilization: Utilization,
    /// That of what it has of the GPU. See [`HolderUse::own`].
    pub(super) own: Option<Utilization>,
}

impl Used {
    /// Of the GPU itself.
    pub(super) const fn of_gpu(utilization: Utilization) -> Self {
        Self { utilization, own: Some(utilization) }
    }
}

/// What is known of the holders of one GPU.
#[derive(Debug, Default)]
pub(super) struct Holding {
    /// The grants since the last change, in the order of holders.
    grants: Vec<Grant>,
    /// The largest number of holders that were granted the GPU at once.
    most: usize,
    /// When they were seen last, and how.
    granted: Option<(Timestamp, Evidence)>,
    /// The holders that labels named last, and when.
    named: Option<(Timestamp, Vec<Holder>)>,
    /// When labels named several holders at once last.
    shared: Option<Timestamp>,
    /// What was used from an instant on.
    used: Option<(Timestamp, Evidence, Uses)>,
    /// Until when changes have been found out.
    until: Timestamp,
    touched: BTreeSet<Holder>,
    changes: Vec<HolderChange>,
    /// Whether the GPU has had a reading: what was used before is used by nobody.
    is_metered: bool,
}

/// Where grants and uses come from; the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    /// Metrics of holders.
    Metrics,
    /// Labels of the metrics of the GPU, and shares of these.
    Labels,
}

impl Holding {
    /// These hold the GPU at this instant.
    pub(super) fn grant(
        &mut self,
        (at, by): (Timestamp, Evidence),
        grants: Vec<Grant>,
        stale_after: Nanos,
    ) {
        self.expire(at, stale_after);
        if self.granted.is_some_and(|(_, known)| known < by) {
            return;
        }
        self.granted = Some((at, by)).filter(|_| !grants.is_empty());
        self.assign(at, grants);
    }

    /// Labels name these at this instant.
    pub(super) fn see_names(&mut self, at: Timestamp, named: Vec<Holder>) {
        self.named = Some((at, named));
    }

    /// Those that labels named up to `stale_after` ago.
    pub(super) fn named(&self, at: Timestamp, stale_after: Nanos) -> &[Holder] {
        let named = self.named.as_ref().filter(|(seen, _)| at <= *seen + stale_after);
        named.map_or(&[], |(_, named)| named)
    }

    /// Those that hold or use the GPU.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        let used = self.used.iter().flat_map(|(.., uses)| uses.iter().map(|(holder, _)| holder));
        self.grants.iter().map(|grant| &grant.holder).chain(used)
    }

    /// From this instant on, the complete names of those that hold or use the GPU are known.
    pub(super) fn complete(&mut self, at: Timestamp, names: &Names, stale_after: Nanos) {
        self.advance(at, stale_after);
        let complete = |holder: &mut Holder| {
            if let Some(complete) = names.complete(holder) {
                *holder = complete.clone();
            }
        };
        if let Some((.., uses)) = &mut self.used {
            uses.iter_mut().for_each(|(holder, _)| complete(holder));
        }
        let mut grants = self.grants.clone();
        grants.iter_mut().for_each(|grant| complete(&mut grant.holder));
        grants.sort_by(|a, b| a.holder.cmp(&b.holder));
        self.assign(at, grants);
    }

    /// Labels name several holders at this instant.
    pub(super) const fn see_several(&mut self, at: Timestamp) {
        self.shared = Some(at);
    }

    /// Whether labels named several holders up to `stale_after` ago.
    pub(super) fn was_shared(&self, at: Timestamp, stale_after: Nanos) -> bool {
        self.shared.is_some_and(|shared| at <= shared + stale_after)
    }

    /// Holders use this from an instant on; `None` if that is unknown.
    pub(super) fn use_from(
        &mut self,
        (at, by): (Timestamp, Evidence),
        uses: Option<Uses>,
        stale_after: Nanos,
    ) {
        self.advance(at, stale_after);
        if self.used.as_ref().is_none_or(|(_, known, _)| by <= *known) {
            self.used = uses.map(|uses| (at, by, uses));
        }
    }

    /// These have a process at this instant.
    pub(super) fn touch<'a>(
        &mut self,
        at: Timestamp,
        holders: impl IntoIterator<Item = &'a Holder>,
    ) {
        let new = holders.into_iter().filter(|it| self.holds(it) && !self.touched.contains(it));
        for holder in new.cloned().collect::<Vec<_>>() {
            self.touched.insert(holder.clone());
            self.changes.push(HolderChange::Touched { at, holder });
        }
    }

    /// This is known of holders besides.
    pub(super) fn describe(&mut self, changes: Vec<HolderChange>) {
        self.changes.extend(changes);
    }

    /// Whether a holder has a part of the GPU now, and an account.
    pub(super) fn holds(&self, holder: &Holder) -> bool {
        self.place(holder).is_some_and(has_account)
    }

    /// Takes the changes up to an instant, at which there is a reading.
    pub(super) fn changes(&mut self, at: Timestamp, stale_after: Nanos) -> Vec<HolderChange> {
        self.is_metered = true;
        self.advance(at, stale_after);
        self.expire(at, stale_after);
        std::mem::take(&mut self.changes)
    }

    /// Finds out what was used until `to`.
    fn advance(&mut self, to: Timestamp, stale_after: Nanos) {
        let Some((at, _, uses)) = &self.used else { return };
        let (from, end) = ((*at).max(self.until), (*at + stale_after).min(to));
        if self.is_metered && from < end {
            let own = uses.iter().filter(|(holder, _)| self.place(holder).is_none_or(has_account));
            let own = own.map(|(holder, Used { utilization, own })| {
                let (holder, utilization, own) = (holder.clone(), *utilization, *own);
                HolderChange::Used(HolderUse { holder, from, to: end, utilization, own })
            });
            self.changes.extend(own.collect::<Vec<_>>());
        }
        if *at + stale_after <= to {
            self.used = None;
        }
        self.until = self.until.max(to);
    }

    /// The number of holders that had no account, since more than [`Holders::MAX_GRANTS`] held the GPU at once.
    pub(super) const fn without_account(&self) -> usize {
        self.most.saturating_sub(Holders::MAX_GRANTS)
    }

    fn place(&self, holder: &Holder) -> Option<usize> {
        place(&self.grants, holder)
    }

    /// Ends grants that were not seen for too long.
    fn expire(&mut self, at: Timestamp, stale_after: Nanos) {
        if let Some((seen, _)) = self.granted
            && seen + stale_after < at
        {
            self.granted = None;
            self.assign(seen + stale_after, Vec::new());
        }
    }

    fn assign(&mut self, at: Timestamp, grants: Vec<Grant>) {
        if grants == self.grants {
            return;
        }
        if !self.is_metered {
            // Nothing is charged before the first reading.
            self.changes.clear();
            self.touched.clear();
        }
        self.most = self.most.max(grants.len());
        self.grants.clone_from(&grants);
        let place = |holder: &Holder| place(&grants, holder);
        self.touched.retain(|holder| place(holder).is_some());
        self.changes.push(HolderChange::Assigned { at, grants });
    }
}

/// The place of a holder in grants.
fn place(grants: &[Grant], holder: &Holder) -> Option<usize> {
    grants.binary_search_by(|grant| grant.holder.cmp(holder)).ok()
}

/// Whether the holder of the grant at this place has an account.
const fn has_account(place: usize) -> bool {
    place < Holders::MAX_GRANTS
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::holder::Share;

    use super::*;

    const STALE: Nanos = Nanos::from_secs(45);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    fn name(name: &str) -> Holder {
        Holder::Named(name.to_owned())
    }

    fn grants(names: &[&str]) -> Vec<Grant> {
        let share = Share::new(1, names.len().max(1).try_into().unwrap());
        names.iter().map(|it| Grant { holder: name(it), share }).collect()
    }

    /// The changes in words.
    fn words(changes: &[HolderChange]) -> Vec<String> {
        let second = |at: &Timestamp| at.whole_second();
        let word = |change: &HolderChange| match change {
            HolderChange::Assigned { at, grants } => {
                let all = grants.iter().map(|grant| grant.holder.to_string()).collect::<Vec<_>>();
                format!("{}: {}", second(at), all.join("+"))
            }
            HolderChange::Used(HolderUse { holder, from, to, utilization, .. }) => {
                format!("{}-{}: {holder} {utilization}", second(from), second(to))
            }
            HolderChange::Touched { at, holder } => format!("{}: {holder} touched", second(at)),
            HolderChange::Described { holder, .. } => format!("{holder} described"),
        };
        changes.iter().map(word).collect()
    }

    /// Guarantee: a grant lasts from the instant at which it is seen first to the first at which it is not, and no
    /// longer than readings do.
    #[test]
    fn grant_ends_when_it_is_not_seen_any_more() {
        let mut holding = Holding::default();
        let mut changes = Vec::new();
        for (seconds, names) in [
            (0, &["a"][..]),
            (15, &["a"]),
            (30, &["a", "b"]),
            (45, &["b"]),
            (200, &["b"]),
            (215, &[]),
        ] {
            holding.grant((at(seconds), Evidence::Labels), grants(names), STALE);
            changes.extend(holding.changes(at(seconds), STALE));
        }
        let expected = ["0: a", "30: a+b", "45: b", "90: ", "200: b", "215: "];
        assert_eq!(words(&changes), expected);
    }

    /// Guarantee: metrics of holders count before labels as long as they are valid, whichever is seen between.
    #[test]
    fn metrics_count_before_labels() {
        let mut holding = Holding::default();
        let mut changes = Vec::new();
        let half = Used::of_gpu(Utilization::from_percent(50).unwrap());
        let half = |of: &str| Some(vec![(name(of), half)]);
        for (seconds, metrics) in
            [(0, false), (7, true), (15, false), (22, true), (30, false), (90, false)]
        {
            let at = at(seconds);
            let by = if metrics { Evidence::Metrics } else { Evidence::Labels };
            let of = if metrics { "m" } else { "l" };
            holding.use_from((at, by), half(of), STALE);
            holding.grant((at, by), grants(&[of]), STALE);
            holding.touch(at, &[name("m")]);
            if !metrics {
                changes.extend(holding.changes(at, STALE));
            }
        }
        let expected = [
            "0: l",
            "0-7: l 50%",
            "7: m",
            "7: m touched",
            "7-15: m 50%",
            "15-22: m 50%",
            "22-30: m 50%",
            "30-67: m 50%",
            "67: ",
            "90: l",
        ];
        assert_eq!(words(&changes), expected);
    }
}
