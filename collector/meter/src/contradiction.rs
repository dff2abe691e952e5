//! Time in which two sources of utilization contradict each other: one reports work, and the other none.
//!
//! Counters fail without an error: profiling counters stay at 0 while another profiler holds them, and drivers report
//! 0% below a vGPU.

use crate::reading::Basis;
use crate::units::{Milliwatts, Nanos, PPM, Utilization};

/// Utilization from which a source reports work. A kernel on one of 148 SMs for half of the time is 0.3% of SM
/// activity, which is more than none.
const WORK_PPM: u32 = 500_000;

/// The same of SM activity: kernels ran for at least that share of the time.
const SM_WORK_PPM: u32 = 200_000;

/// Utilization up to which a source reports none: shares are kept in steps of half a percent.
const NONE_PPM: u32 = 2_500;

/// Time without agreement from which sources contradict each other: they average over different intervals, up to a
/// minute.
const LASTING: Nanos = Nanos::from_secs(600);

/// What two sources reported while they contradicted each other, for ten minutes or more at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The source that reports work.
    pub works: Basis,
    /// The source that reports none.
    pub rests: Basis,
    /// For how long.
    pub time: Nanos,
    /// Σ utilization × time of either, in ppm·ns.
    work: u128,
    rest: u128,
    /// Σ power × time in mW·ns, and the time in which power was recorded.
    energy: u128,
    powered: Nanos,
}

/// The contradictions of one GPU. They only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contradictions {
    lasting: Vec<Contradiction>,
    /// Those that go on, each with whether it has lasted.
    current: Vec<(Contradiction, bool)>,
}

impl Contradictions {
    /// Compares what two sources report for some time.
    pub(crate) fn post(
        &mut self,
        time: Nanos,
        power: Option<Milliwatts>,
        a: (Basis, Utilization),
        b: (Basis, Utilization),
    ) {
        for (works, rests) in [(a, b), (b, a)] {
            let is_same = |it: &Contradiction| it.works == works.0 && it.rests == rests.0;
            let least = if works.0.is_sm() { SM_WORK_PPM } else { WORK_PPM };
            if works.1.ppm() < least || rests.1.ppm() > NONE_PPM {
                self.current.retain(|(it, _)| !is_same(it));
                continue;
            }
            let part = Contradiction::part(time, power, works, rests);
            let index = self.current.iter().position(|(it, _)| is_same(it)).unwrap_or_else(|| {
                self.current.push((Contradiction::none(works.0, rests.0), false));
                self.current.len() - 1
            });
            let Some((current, has_lasted)) = self.current.get_mut(index) else { continue };
            current.add(&part);
            *has_lasted |= current.time >= LASTING;
            if *has_lasted {
                let added = std::mem::replace(current, Contradiction::none(works.0, rests.0));
                match self.lasting.iter_mut().find(|it| is_same(it)) {
                    Some(lasting) => lasting.add(&added),
                    None => self.lasting.push(added),
                }
            }
        }
    }

    /// Those since an earlier state.
    pub(crate) fn since(&self, earlier: &Self) -> Vec<Contradiction> {
        let of = |now: &Contradiction| {
            let is_same = |it: &&Contradiction| it.works == now.works && it.rests == now.rests;
            earlier.lasting.iter().find(is_same).map_or(*now, |before| now.since(before))
        };
        self.lasting.iter().map(of).filter(|it| it.time > Nanos::ZERO).collect()
    }
}

impl Contradiction {
    const fn none(works: Basis, rests: Basis) -> Self {
        Self { works, rests, time: Nanos::ZERO, work: 0, rest: 0, energy: 0, powered: Nanos::ZERO }
    }

    fn part(
        time: Nanos,
        power: Option<Milliwatts>,
        works: (Basis, Utilization),
        rests: (Basis, Utilization),
    ) -> Self {
        let weighted = |value: u32| u128::from(value) * u128::from(time.0);
        Self {
            time,
            work: weighted(works.1.ppm()),
            rest: weighted(rests.1.ppm()),
            energy: power.map_or(0, |power| weighted(power.get())),
            powered: power.map_or(Nanos::ZERO, |_| time),
            ..Self::none(works.0, rests.0)
        }
    }

    fn add(&mut self, part: &Self) {
        self.time += part.time;
        self.work += part.work;
        self.rest += part.rest;
        self.energy += part.energy;
        self.powered += part.powered;
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            time: Nanos(self.time.0.saturating_sub(earlier.time.0)),
            work: self.work.saturating_sub(earlier.work),
            rest: self.rest.saturating_sub(earlier.rest),
            energy: self.energy.saturating_sub(earlier.energy),
            powered: Nanos(self.powered.0.saturating_sub(earlier.powered.0)),
            ..*self
        }
    }

    /// The mean of the source that reports work, 0–1.
    #[must_use]
    pub fn mean_work(&self) -> f64 {
        mean(self.work, self.time).unwrap_or_default() / f64::from(PPM)
    }

    /// The mean of the source that reports none, 0–1.
    #[must_use]
    pub fn mean_rest(&self) -> f64 {
        mean(self.rest, self.time).unwrap_or_default() / f64::from(PPM)
    }

    /// The mean power in watts; `None` if it was not recorded.
    #[must_use]
    pub fn watts(&self) -> Option<f64> {
        mean(self.energy, self.powered).map(|milliwatts| milliwatts / 1_000.0)
    }
}

/// `None` without time.
#[expect(clippy::cast_precision_loss, reason = "a mean for evaluation")]
fn mean(sum: u128, time: Nanos) -> Option<f64> {
    (time > Nanos::ZERO).then(|| sum as f64 / time.0 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Nanos = Nanos::from_secs(60);

    fn percent(basis: Basis, percent: u32) -> (Basis, Utilization) {
        (basis, Utilization::from_percent(percent).unwrap())
    }

    /// Posts these minutes of driver utilization and SM activity.
    fn posted(minutes: &[(u32, u32)]) -> Vec<Contradiction> {
        let mut all = Contradictions::default();
        for (gpu, sm) in minutes {
            let sources = (percent(Basis::DcgmGpu, *gpu), percent(Basis::DcgmSm, *sm));
            all.post(MINUTE, Milliwatts::new(640_000), sources.0, sources.1);
        }
        all.since(&Contradictions::default())
    }

    #[test]
    fn lasting_contradictions_have_means_and_power() {
        let found = posted(&[(99, 0); 30]);
        let one = found.first().unwrap();
        assert_eq!(
            (one.works, one.rests, one.time.as_secs_f64()),
            (Basis::DcgmGpu, Basis::DcgmSm, 1_800.0)
        );
        assert_eq!((one.mean_work(), one.mean_rest(), one.watts()), (0.99, 0.0, Some(640.0)));
        let reverse = posted(&[(0, 35); 12]);
        assert_eq!((reverse[0].works, reverse[0].mean_work()), (Basis::DcgmSm, 0.35));
    }

    #[test]
    fn moments_and_small_kernels_are_none() {
        assert!(posted(&[(99, 0); 9]).is_empty(), "less than ten minutes");
        let mut torn = vec![(99, 0); 9];
        torn.push((99, 40));
        assert!(posted(&torn.repeat(20)).is_empty(), "they agree again and again");
        assert!(posted(&[(100, 1); 60]).is_empty(), "a kernel on one or two SMs");
        assert!(posted(&[(30, 0); 60]).is_empty(), "a small kernel now and then");
        assert!(posted(&[(0, 10); 60]).is_empty(), "a context");
    }

    #[test]
    fn totals_are_those_since_a_state() {
        let mut all = Contradictions::default();
        let mut post = |count: u32| {
            for _ in 0..count {
                let (gpu, sm) = (percent(Basis::DcgmGpu, 98), percent(Basis::DcgmSm, 0));
                all.post(MINUTE, None, gpu, sm);
            }
            all.clone()
        };
        let before = post(20);
        let since = post(15).since(&before);
        assert_eq!((since[0].time.as_secs_f64(), since[0].watts()), (900.0, None));
    }
}
