//! What each holder of a GPU pays for, from the definitions: slow and simple, tick by tick.
//!
//! All instants are multiples of a tick. Holders are numbers; `None` is nobody.

use std::collections::{BTreeMap, BTreeSet};

/// A holder and its share, if that is known.
pub type Granted = (usize, Option<(u32, u32)>);

/// What is known of the holders of a GPU, and of the GPU itself.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// From when on who holds which share. Of equal times the last counts.
    pub assignments: Vec<(u64, Vec<Granted>)>,
    /// Holder, from, to, ppm.
    pub uses: Vec<(usize, u64, u64, u64)>,
    /// When a process of a holder was seen.
    pub touches: Vec<(usize, u64)>,
    /// From, to and ppm of readings.
    pub readings: Vec<(u64, u64, u64)>,
    /// From when on which rate applies, in nano-USD per hour.
    pub rates: Vec<(u64, u64)>,
    /// The threshold below which the GPU is idle, in ppm.
    pub idle: u64,
    pub tick: u64,
}

/// A time slice of the GPU. Unobserved ones have no use.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    pub from: u64,
    pub to: u64,
    /// Utilization × time, in ppm·ns.
    pub weighted: u128,
    pub account: usize,
    pub is_observed: bool,
    /// What was charged for it, in whole nano-USD.
    pub cost: f64,
}

/// An account of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Used,
    GrantedUnused,
    NeverTouched,
    Nobody,
}

/// Nanoseconds, ppm·ns and nano-USD.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amount {
    pub time: f64,
    pub weighted: f64,
    pub cost: f64,
}

pub type Accounts = BTreeMap<(Option<usize>, Kind, usize), Amount>;

impl World {
    fn grants(&self, at: u64) -> BTreeMap<usize, f64> {
        let begun = self.assignments.iter().filter(|(from, _)| *from <= at);
        let last = begun.max_by_key(|(from, _)| *from).map_or(&[][..], |(_, grants)| grants);
        let known: f64 = last.iter().filter_map(|(_, share)| share.map(ratio)).sum();
        let unknown = last.iter().filter(|(_, share)| share.is_none()).count() as f64;
        let mut grants = BTreeMap::new();
        for (holder, share) in last {
            let part = share.map_or_else(|| (1.0 - known).max(0.0) / unknown, ratio);
            *grants.entry(*holder).or_default() += part / known.max(1.0);
        }
        grants
    }

    fn is_exclusive(&self, at: u64) -> bool {
        let begun = self.assignments.iter().filter(|(from, _)| *from <= at);
        let last = begun.max_by_key(|(from, _)| *from).map_or(&[][..], |(_, grants)| grants);
        last.iter().all(|(_, share)| share.is_some())
            && matches!(self.grants(at).values().collect::<Vec<_>>()[..], [all] if *all > 0.999_999)
    }

    fn is_known(&self, at: u64) -> bool {
        self.uses.iter().any(|(_, from, to, _)| *from <= at && at < *to)
    }

    /// Whether any use is known of the time since the grants are what they are, up to this instant.
    fn were_known(&self, at: u64) -> bool {
        let mut begun: Vec<_> = self.assignments.iter().filter(|(from, _)| *from <= at).collect();
        begun.sort_by_key(|(from, _)| *from);
        begun.dedup_by(|next, before| next.1 == before.1);
        let since = begun.last().map_or(0, |(from, _)| *from);
        self.uses.iter().any(|(_, from, to, _)| *from <= at && since < *to)
    }

    fn used(&self, slice: &Slice) -> BTreeMap<usize, f64> {
        let mut used = BTreeMap::new();
        for (holder, from, to, ppm) in &self.uses {
            let time = (*to).min(slice.to).saturating_sub((*from).max(slice.from));
            *used.entry(*holder).or_default() += time as f64 * *ppm as f64;
        }
        used
    }

    /// When each holder touched the GPU: a process, a use or, if no use is known since those hold it, a reading.
    fn first_touches(&self) -> BTreeMap<usize, u64> {
        let mut touches: Vec<(usize, u64)> = self.touches.clone();
        let busy = self.uses.iter().filter(|(_, _, _, ppm)| *ppm >= self.idle);
        touches.extend(busy.map(|(holder, from, _, _)| (*holder, *from)));
        for (from, to, _) in self.readings.iter().filter(|(_, _, ppm)| *ppm >= self.idle) {
            for at in (*from..*to).step_by(self.tick as usize) {
                if !self.were_known(at) || self.is_exclusive(at) {
                    touches.extend(self.grants(at).keys().map(|holder| (*holder, at)));
                }
            }
        }
        let mut first = BTreeMap::new();
        for (holder, at) in touches {
            first.entry(holder).and_modify(|first: &mut u64| *first = at.min(*first)).or_insert(at);
        }
        first
    }

    fn rate(&self, at: u64) -> f64 {
        let last = self.rates.iter().filter(|(from, _)| *from <= at).max_by_key(|rate| rate.0);
        last.unwrap().1 as f64
    }

    /// The accounts of all, over these slices.
    pub fn divide(&self, slices: &[Slice]) -> Accounts {
        let touches = self.first_touches();
        let mut accounts = Accounts::new();
        for slice in slices {
            // Nothing is used of an unobserved slice, so that it can be cut anywhere.
            let step = if slice.is_observed { slice.to - slice.from } else { self.tick };
            let pieces = (slice.from..slice.to).step_by(step as usize).map(|from| {
                let to = (from + step).min(slice.to);
                Slice { from, to, cost: self.cost(from, to), ..*slice }
            });
            let pieces: Vec<_> = pieces.collect();
            let exact: f64 = pieces.iter().map(|piece| piece.cost).sum();
            assert!((slice.cost - exact).abs() < 1.001, "{slice:?} costs {exact}");
            for piece in pieces {
                // What is divided is what was charged.
                let cost = if exact > 0.0 { piece.cost * slice.cost / exact } else { 0.0 };
                self.divide_piece(&Slice { cost, ..piece }, &touches, &mut accounts);
            }
        }
        accounts
    }

    /// Rate × time, in nano-USD.
    fn cost(&self, from: u64, to: u64) -> f64 {
        self.rate(from) * (to - from) as f64 / 3.6e12
    }

    fn divide_piece(&self, piece: &Slice, touches: &BTreeMap<usize, u64>, accounts: &mut Accounts) {
        let grants = self.grants(piece.from);
        for at in (piece.from..piece.to).step_by(self.tick as usize) {
            assert_eq!(self.grants(at), grants, "grants change within a slice");
            assert!(!piece.is_observed || self.is_known(at) == self.is_known(piece.from));
        }
        let time = (piece.to - piece.from) as f64;
        let (one, device) = (time * 1e6, piece.weighted as f64);
        let mut used = self.used(piece);
        let others = used.iter().filter(|(holder, _)| !grants.contains_key(holder));
        let others: f64 = others.map(|(_, used)| used).sum();
        let known = self.is_known(piece.from) && piece.is_observed;
        if known && !(self.is_exclusive(piece.from) && others == 0.0) {
            let all: f64 = used.values().sum();
            used.values_mut().for_each(|used| *used *= (device / all).min(1.0));
        } else {
            let all: f64 = grants.values().sum();
            used =
                grants.iter().map(|(it, grant)| (*it, grant * (device / all).min(one))).collect();
            // While uses are missing, nobody is charged for use that has not touched the GPU.
            if self.were_known(piece.from) && !self.is_exclusive(piece.from) {
                used.retain(|it, _| touches.get(it).is_some_and(|touched| *touched < piece.to));
            }
        }
        // Nobody's grant is what is not granted, and its use what no holder's explains.
        let hidden = (device - used.values().sum::<f64>()).max(0.0);
        let free = (one - grants.values().sum::<f64>() * one).max(0.0);
        let holders: BTreeSet<usize> = grants.keys().chain(used.keys()).copied().collect();
        let grant = |it: &usize| grants.get(it).copied().unwrap_or(0.0) * one;
        let used = |it: &usize| used.get(it).copied().unwrap_or(0.0);
        let over: f64 = holders.iter().map(|it| (used(it) - grant(it)).max(0.0)).sum::<f64>()
            + (hidden - free).max(0.0);
        let left: f64 = holders.iter().map(|it| (grant(it) - used(it)).max(0.0)).sum::<f64>()
            + (free - hidden).max(0.0);
        let kept = if left > 0.0 { 1.0 - over / left } else { 0.0 };

        let mut post = |holder, kind, amount: f64, weighted: f64| {
            let all = accounts.entry((holder, kind, piece.account)).or_default();
            let share = amount / one;
            all.time += share * time;
            all.weighted += weighted;
            all.cost += share * piece.cost;
        };
        for it in &holders {
            post(Some(*it), Kind::Used, used(it), used(it));
            let rest = (grant(it) - used(it)).max(0.0) * kept;
            let touched = touches.get(it).copied().unwrap_or(u64::MAX);
            let before = touched.clamp(piece.from, piece.to) - piece.from;
            let before = before as f64 / time;
            post(Some(*it), Kind::NeverTouched, rest * before, 0.0);
            post(Some(*it), Kind::GrantedUnused, rest * (1.0 - before), 0.0);
        }
        post(None, Kind::Nobody, hidden + (free - hidden).max(0.0) * kept, hidden);
    }
}

fn ratio((parts, of): (u32, u32)) -> f64 {
    f64::from(parts) / f64::from(of)
}
