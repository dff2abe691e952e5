//! The MIG instances of live GPUs as parts of them: their sizes and uses, and the utilization of the GPU that follows.
//!
//! The driver lists them in rounds, every 10 s. An instance is a holder by name, unless others are known: its share is
//! the larger one of its compute and memory slices.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue, MigId};
use phasemeter_meter::holder::{Grant, Holder, HolderChange, HolderUse, Share};
use phasemeter_meter::mig::MigLayout;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, Interval};
use phasemeter_meter::units::{Nanos, PPM, Timestamp, Utilization};
use phasemeter_sources::live::{ComputeProcess, MigInstance, Observed};

use crate::pipeline::Pipeline;

/// Maximum number of instances in a round: GPUs have at most seven.
const MAX_INSTANCES: usize = 16;

/// A GPU with counters of its own in this time needs none of its instances.
const OWN_LIFETIME: Nanos = Nanos::from_secs(15);

/// The instances of all GPUs.
#[derive(Debug, Default)]
pub struct MigParts(BTreeMap<usize, Parts>);

#[derive(Debug, Default)]
struct Parts {
    /// Those of the current round, each with its activity and since when.
    round: Vec<(MigInstance, Option<(Timestamp, Utilization)>)>,
    /// Those of the last round whose activity has been known.
    measured: BTreeSet<MigId>,
    /// What was granted last.
    grants: Vec<Grant>,
    /// When counters of the GPU itself were read last.
    own: Option<Timestamp>,
    /// Rounds with instances, and those of them with the activity of each.
    rounds: u64,
    metered: u64,
}

/// What a round shows.
#[derive(Debug, Default, PartialEq)]
struct Round {
    /// The utilization of the GPU; `None` if it has its own, or if that of an instance has never been known. An instance
    /// whose activity is missing for once is left out: that of the GPU is the mean of the rest.
    interval: Option<Interval>,
    changes: Vec<HolderChange>,
    /// What each instance used; empty if that of the GPU is unknown. One whose activity is missing is taken to do what
    /// the rest of the GPU does.
    uses: Vec<InstanceUse>,
}

/// What a MIG instance used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstanceUse {
    /// The instance.
    pub id: MigId,
    /// Start of the range, that of all instances of the GPU.
    pub from: Timestamp,
    /// End of the range.
    pub to: Timestamp,
    /// The part of the GPU that it used.
    pub utilization: Utilization,
    /// Its own utilization; `None` if it was not measured, and `utilization` is an estimate.
    pub own: Option<Utilization>,
}

/// How GPUs in MIG mode were metered, by their places.
#[derive(Debug, Default)]
pub struct MigCoverage {
    /// By their instances.
    pub metered: Vec<usize>,
    /// Not at all: the driver has no counters of their instances.
    pub without_counters: Vec<usize>,
}

impl MigParts {
    /// Takes what was observed of a GPU of this model. `are_holders`: whether instances are holders, since no others
    /// are known. Returns what instances have used.
    pub fn observe(
        &mut self,
        (gpu, model): (usize, Option<&str>),
        (observed, now): (&Observed, Timestamp),
        are_holders: bool,
        pipeline: &mut Pipeline<'_>,
    ) -> Vec<InstanceUse> {
        match observed {
            Observed::Activity(activity) => {
                if let Some(parts) = self.0.get_mut(&gpu) {
                    parts.own = Some(activity.to);
                }
            }
            Observed::MigInstance(instance) => {
                let round = &mut self.0.entry(gpu).or_default().round;
                if round.len() < MAX_INSTANCES {
                    round.push((*instance, None));
                }
            }
            Observed::DeviceMetric(metric) => {
                self.0.get_mut(&gpu).into_iter().for_each(|parts| parts.measure(metric));
            }
            Observed::Process(ComputeProcess { gpu_instance: Some(number), .. }) if are_holders => {
                let touched = self.0.get(&gpu).and_then(|parts| parts.holder_on(*number));
                touched.into_iter().for_each(|holder| pipeline.touch(gpu, now, holder));
            }
            // The last one of a round.
            Observed::MigMode(is_enabled) => {
                pipeline.divide_into_parts(gpu, *is_enabled);
                let Some(parts) = self.0.get_mut(&gpu) else { return Vec::new() };
                let Round { interval, changes, uses } = parts.end_round(model, now);
                if let Some(interval) = interval {
                    pipeline.ingest_interval_of_parts(gpu, interval);
                }
                if are_holders {
                    changes.into_iter().for_each(|change| pipeline.change_holders(gpu, change));
                }
                return uses;
            }
            _ => {}
        }
        Vec::new()
    }

    /// How the GPUs that were in MIG mode were metered. One round without activity shows nothing: counters are compared
    /// with those of the round before.
    #[must_use]
    pub fn coverage(&self) -> MigCoverage {
        let places = |is: fn(&Parts) -> bool| {
            let gpus = self.0.iter().filter(|(_, parts)| is(parts));
            gpus.map(|(gpu, _)| *gpu).collect()
        };
        MigCoverage {
            metered: places(|parts| parts.metered > 0),
            without_counters: places(|parts| parts.metered == 0 && parts.rounds > 1),
        }
    }
}

impl Parts {
    /// The holder that is the only instance of a GPU instance.
    fn holder_on(&self, gpu_instance: u32) -> Option<&Holder> {
        let number = format!(" {gpu_instance}");
        let is_it = |grant: &&Grant| matches!(&grant.holder, Holder::Named(name) if name.ends_with(&number));
        let mut own = self.grants.iter().filter(is_it);
        own.next().map(|grant| &grant.holder).filter(|_| own.next().is_none())
    }

    /// Takes the activity of an instance of the round.
    fn measure(&mut self, metric: &DeviceMetric) {
        if let (Component::Mig(id), Quantity::SmActivity) = (metric.component, metric.quantity)
            && let DeviceValue::Mean { from, share } = metric.value
            && let Some((_, activity)) = self.round.iter_mut().find(|(it, _)| it.id == id)
        {
            *activity = Some((from, share));
        }
    }

    fn end_round(&mut self, model: Option<&str>, at: Timestamp) -> Round {
        let instances = std::mem::take(&mut self.round);
        let profiles =
            instances.iter().map(|(it, _)| it.profile.map(|profile| profile.to_string()));
        let shares = MigLayout::shares_of(model, &profiles.collect::<Vec<_>>());
        let mut parts: Vec<_> = instances.iter().zip(shares).collect();
        parts.sort_by_key(|((instance, _), _)| name(instance));
        let grants: Vec<Grant> = parts
            .iter()
            .map(|((it, _), share)| Grant { holder: Holder::Named(name(it)), share: *share })
            .collect();
        let mut round = Round::default();
        if grants != self.grants {
            self.grants.clone_from(&grants);
            round.changes.push(HolderChange::Assigned { at, grants });
        }
        let (mut sum, mut begin) = (Some(0_u32), Timestamp::EPOCH);
        let mut missing = Vec::new();
        for ((instance, activity), share) in parts {
            let active = activity.filter(|(from, _)| *from < at);
            let Some((share, (from, active))) = share.zip(active) else {
                match share.filter(|_| self.measured.contains(&instance.id)) {
                    Some(share) => missing.push((instance, share)),
                    None => sum = None,
                }
                continue;
            };
            let utilization = part_of(active, share);
            (sum, begin) = (sum.map(|sum| sum.saturating_add(utilization.ppm())), begin.max(from));
            round.add(instance, (from, at), utilization, Some(active));
        }
        let sum = sum.filter(|_| !round.uses.is_empty()).and_then(|sum| {
            let left_out =
                missing.iter().map(|(_, share)| part_of(Utilization::FULL, *share).ppm());
            let rest = u64::from(PPM.saturating_sub(left_out.sum()));
            u32::try_from((u64::from(sum) * u64::from(PPM)).checked_div(rest)?).ok()
        });
        for (instance, share) in missing {
            let all = sum.and_then(Utilization::from_ppm);
            let estimate = all.map(|all| part_of(all, share));
            estimate.into_iter().for_each(|used| round.add(instance, (begin, at), used, None));
        }
        let is_listed = |id: &MigId| instances.iter().any(|(instance, _)| instance.id == *id);
        self.measured.retain(is_listed);
        let active = instances.iter().filter(|(_, activity)| activity.is_some());
        self.measured.extend(active.map(|(instance, _)| instance.id));
        self.rounds += u64::from(!instances.is_empty());
        self.metered += u64::from(sum.is_some() && !instances.is_empty());
        if sum.is_none() {
            round.uses.clear();
        }
        round.uses.iter_mut().for_each(|used| used.from = begin);
        let has_own = self.own.is_some_and(|own| at.since(own) < OWN_LIFETIME);
        let sum = sum.filter(|_| !has_own && !instances.is_empty());
        round.interval = sum.and_then(Utilization::from_ppm).map(|utilization| Interval {
            basis: Basis::GpmSm,
            from: begin,
            to: at,
            utilization,
        });
        round
    }
}

impl Round {
    /// Adds what an instance used, and its own utilization if that was measured.
    fn add(
        &mut self,
        instance: &MigInstance,
        (from, to): (Timestamp, Timestamp),
        utilization: Utilization,
        own: Option<Utilization>,
    ) {
        let holder = Holder::Named(name(instance));
        self.changes.push(HolderChange::Used(HolderUse { holder, from, to, utilization, own }));
        self.uses.push(InstanceUse { id: instance.id, from, to, utilization, own });
    }
}

/// The part of the GPU that a part of an instance is.
fn part_of(active: Utilization, share: Share) -> Utilization {
    let (parts, of) = share.ratio();
    let ppm = u64::from(active.ppm()) * u64::from(parts) / u64::from(of.max(1));
    u32::try_from(ppm).ok().and_then(Utilization::from_ppm).unwrap_or(Utilization::FULL)
}

/// Its name, as in metrics of DCGM: `MIG 3g.40gb 2`.
fn name(MigInstance { id, gpu_instance, profile, .. }: &MigInstance) -> String {
    let profile = profile.map(|profile| format!(" {profile}")).unwrap_or_default();
    match gpu_instance {
        Some(number) => format!("MIG{profile} {number}"),
        None => format!("MIG{profile} {id}"),
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_sources::live::MigProfile;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    /// An instance without a profile has an unknown part.
    fn instance(number: u32) -> MigInstance {
        let id = format!("MIG-00000000-0000-0000-0000-{number:012}");
        let id = MigId::parse(&id).unwrap();
        MigInstance { id, gpu_instance: Some(number), profile: None, start: None }
    }

    fn activity(number: u32, from: u64, percent: u32) -> DeviceMetric {
        let share = Utilization::from_percent(percent).unwrap();
        let value = DeviceValue::Mean { from: at(from), share };
        let component = Component::Mig(instance(number).id);
        DeviceMetric { at: at(from + 10), component, quantity: Quantity::SmActivity, value }
    }

    /// Guarantee: instances of unknown size hold unknown parts, and make nothing of the GPU; once there are none,
    /// nobody holds it.
    #[test]
    fn instance_of_unknown_size_has_an_unknown_part() {
        let mut parts = Parts { round: vec![(instance(1), None)], ..Parts::default() };
        parts.measure(&activity(1, 0, 50));
        let Round { interval, changes, uses } = parts.end_round(None, at(10));
        assert_eq!(uses, []);
        let holder = Holder::Named("MIG 1".to_owned());
        let grants = vec![Grant { holder, share: None }];
        assert_eq!(
            (interval, changes),
            (None, vec![HolderChange::Assigned { at: at(10), grants }])
        );
        parts.round = vec![(instance(1), None)];
        assert_eq!(parts.end_round(None, at(20)), Round::default(), "nothing new");
        let Round { changes, .. } = parts.end_round(None, at(30));
        assert_eq!(changes, [HolderChange::Assigned { at: at(30), grants: Vec::new() }]);
    }

    /// Scenario: the counters of one of three instances cannot be read for once; a fourth one is new.
    /// Guarantee: the one is left out, and uses what the rest of the GPU does, which touches nothing; that of the GPU is
    /// unknown while nothing is known of an instance.
    #[test]
    fn instance_that_is_missing_for_once_is_left_out() {
        let part = |number, profile| MigInstance {
            profile: MigProfile::at_end_of(&format!("NVIDIA A30 MIG {profile}")),
            ..instance(number)
        };
        let all = [part(1, "2g.12gb"), part(2, "1g.6gb"), part(3, "1g.6gb")];
        let mut parts = Parts::default();
        let mut round = |second: u64, listed: &[MigInstance], active: &[(u32, u32)]| {
            parts.round = listed.iter().map(|instance| (*instance, None)).collect();
            for (number, percent) in active {
                parts.measure(&activity(*number, second - 10, *percent));
            }
            let Round { interval, uses, .. } = parts.end_round(Some("NVIDIA A30"), at(second));
            let ppm = |of: Utilization| of.ppm() / 100;
            let uses = uses.iter().map(|it| (ppm(it.utilization), it.own.map(ppm)));
            (interval.map(|it| ppm(it.utilization)), uses.collect::<Vec<_>>())
        };
        assert_eq!(round(10, &all, &[(1, 100), (3, 25)]), (None, vec![]), "never known");
        let of_others = [(5_000, Some(10_000)), (625, Some(2_500))];
        let expected = [&of_others[..1], &[(1_250, Some(5_000))], &of_others[1..]].concat();
        assert_eq!(round(20, &all, &[(1, 100), (2, 50), (3, 25)]).0, Some(6_875));
        let (of_gpu, mut uses) = round(30, &all, &[(1, 100), (3, 25)]);
        uses.sort_unstable();
        assert_eq!(of_gpu, Some(7_500));
        assert_eq!(uses, [(625, Some(2_500)), (1_875, None), (5_000, Some(10_000))]);
        let (_, mut uses) = round(40, &all, &[(1, 100), (2, 50), (3, 25)]);
        uses.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(uses, expected);
        assert_eq!(round(50, &all, &[]), (None, vec![]), "nothing is known");
    }

    #[test]
    fn part_of_an_instance_is_that_share_of_the_gpu() {
        let share = Share::new(28, 56).unwrap();
        assert_eq!(part_of(Utilization::FULL, share).ppm(), 500_000);
        assert_eq!(part_of(Utilization::ZERO, share).ppm(), 0);
    }
}
