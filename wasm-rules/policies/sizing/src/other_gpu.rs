//! Another GPU of the same provider and region, smaller or larger, compared with the price paid.
//!
//! The GPUs of an instance are replaced together, by as many, and what they exchange over NVLink must fit
//! the links there. Throughput there is not computed from peaks: they only exclude models that cannot be enough, the
//! low saving is 0, and where the throughput alone decides, it is missing.

use phasemeter_diagnoses::{
    DIFFERENCE_SAVED, DOUBLING, Unit, confidence, has_full_bandwidth, saved,
};
use phasemeter_policy::{Gpu, Memory, Offer, Price, Saving, Window, Workload};

use crate::Settings;
use crate::balance::waits_for_others;
use crate::current::{AS_FAST, Current};
use crate::load::{growth, saved_by_batch};

/// Price relative to the one paid from which a smaller GPU is worth a measurement. An assumption.
const MUCH_CHEAPER: f64 = 0.7;

/// Why another GPU costs less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reason {
    /// Fewer peaks and less memory suffice. Whether this one is far too large.
    Smaller { oversized: bool },
    /// The same by the activity of its SMs, whatever its utilization is.
    FewSms { activity: f64 },
    /// The same for a session that works now and then.
    Session,
    /// Memory limits the batch here, and not there.
    MoreMemory,
    /// As fast by its peaks, with as much memory, at a lower price.
    Newer,
    /// Memory bandwidth limits the work, and there is more of it per dollar: so many times as much.
    Bandwidth { ratio: f64 },
}

/// Another GPU for a GPU.
#[derive(Clone, Copy)]
pub(crate) struct Finding<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) paid: &'a Price,
    pub(crate) offer: &'a Offer,
    pub(crate) reason: Reason,
    pub(crate) saving: Saving,
    pub(crate) confidence: f64,
}

/// Another GPU that may cost less per unit of work, and what decides.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) paid: &'a Price,
    pub(crate) offer: &'a Offer,
    pub(crate) missing: Missing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Missing {
    /// Of a larger GPU for a full one: its throughput.
    Throughput,
    /// Of a smaller one with enough memory: how many SMs the work needs.
    Activity,
}

/// Chooses other GPUs, or asks for throughput.
pub(crate) fn choose<'a>(
    observed: &[&'a Gpu],
    units: &[Unit<'a>],
    window: &'a Window,
    settings: &Settings,
) -> (Vec<Finding<'a>>, Vec<Question<'a>>) {
    let (mut findings, mut questions) = (Vec::new(), Vec::new());
    for unit in units {
        if let Some(session) = Current::session(unit, observed, window, settings) {
            findings.extend(session.for_session());
            continue;
        }
        let Some(now) = Current::of(unit, observed, window, settings) else { continue };
        // A stage that waits for others needs balance.
        let balanced = !unit.gpus.iter().any(|gpu| waits_for_others(gpu, observed, window));
        let found = balanced.then(|| now.smaller()).flatten();
        let found = found.or_else(|| now.with_more_memory()).or_else(|| now.newer());
        match found.or_else(|| now.with_more_bandwidth()) {
            Some(found) => findings.extend(unit.gpus.iter().map(|gpu| Finding { gpu, ..found })),
            None => {
                let open = now.question().or_else(|| now.unclear());
                questions
                    .extend(open.into_iter().flat_map(|open| {
                        unit.gpus.iter().map(move |gpu| Question { gpu, ..open })
                    }));
            }
        }
    }
    (findings, questions)
}

impl<'a> Current<'a, '_> {
    fn found(&self, offer: &'a Offer, reason: Reason, saving: Saving, sure: f64) -> Finding<'a> {
        let confidence = sure * self.gpu.confidence();
        Finding { gpu: self.gpu, paid: self.paid, offer, reason, saving, confidence }
    }

    /// The cheapest GPU that memory and peaks do not exclude.
    fn smaller(&self) -> Option<Finding<'a>> {
        let (activity, lost) = (self.sm_activity(), self.lost());
        let level = activity.unwrap_or(self.level());
        let share = self.memory.in_use()?;
        if level >= self.profile.underutilized
            || (activity.is_none() && lost < self.settings.min_lost)
        {
            return None;
        }
        let (_, max_load) = self.profile.load;
        let (arithmetic, bandwidth) = self.load()?;
        let enough = |offer: &Offer| {
            self.fits(offer)
                && self.peaks(offer).is_some_and(|(flops, bytes)| {
                    flops.min(bytes) < AS_FAST
                        && arithmetic <= max_load * flops
                        && bandwidth <= max_load * bytes
                })
        };
        let offers = self.offers().filter(|(offer, price)| *price < 1.0 && enough(offer));
        let (offer, price) = offers.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let (max_level, max_memory) = self.profile.oversized;
        let oversized = level < max_level && share < max_memory;
        let sure = if oversized { confidence::LIKELY } else { confidence::PROBABLE };
        // Without idle SMs, utilization is waste; with them, the price is what differs.
        let saved = 1.0 - price;
        let (reason, most) = match activity.filter(|_| lost < saved) {
            Some(activity) => (Reason::FewSms { activity }, saved),
            None => (Reason::Smaller { oversized }, saved.min(lost)),
        };
        let saving = Saving::part(most, DIFFERENCE_SAVED);
        (most >= self.settings.min_lost).then(|| self.found(offer, reason, saving, sure))
    }

    /// The cheapest GPU with enough memory whose peaks do not exclude what a session runs: it may take longer.
    fn for_session(&self) -> Option<Finding<'a>> {
        let (_, max_load) = self.profile.load;
        let level = self.sm_activity().unwrap_or(self.level());
        self.memory.in_use()?;
        let enough = |offer: &Offer| {
            let least = self.ratios(offer).map(|(flops, bandwidth)| flops.min(bandwidth));
            let least = least.filter(|least| *least < AS_FAST);
            self.fits(offer) && least.is_some_and(|least| level <= max_load * least)
        };
        let offers = self
            .offers()
            .filter(|(offer, price)| 1.0 - price >= self.settings.min_lost && enough(offer));
        let (offer, price) = offers.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let saving = Saving::part(1.0 - price, saved::HALF);
        Some(self.found(offer, Reason::Session, saving, confidence::DOUBTFUL))
    }

    /// A much cheaper GPU with enough memory, whose peaks are too low for the utilization but perhaps not for the
    /// work.
    fn unclear(&self) -> Option<Question<'a>> {
        let (max_level, max_memory) = self.profile.oversized;
        let applies = self.sm_activity().is_none()
            && self.level() < max_level.min(self.profile.underutilized)
            && self.memory.in_use().is_some_and(|share| share < max_memory)
            && self.lost() >= self.settings.min_lost;
        let offers = self.offers().filter(|(offer, price)| {
            applies && *price <= MUCH_CHEAPER && self.fits(offer) && self.peaks(offer).is_some()
        });
        // The fastest of them most likely suffices, with the smallest host.
        let speed = |offer: &Offer| self.speed(offer).map_or(0.0, |(least, _)| least);
        let faster = |a: &(&Offer, f64), b: &(&Offer, f64)| {
            speed(a.0).total_cmp(&speed(b.0)).then(b.1.total_cmp(&a.1))
        };
        let (offer, _) = offers.max_by(faster)?;
        Some(Question { gpu: self.gpu, paid: self.paid, offer, missing: Missing::Activity })
    }

    /// A GPU with enough memory for twice the batch, if that costs less.
    fn with_more_memory(&self) -> Option<Finding<'a>> {
        let limited = self.gpu.workload == Workload::Training
            && self.level() < self.window.thresholds().productive
            && self.lost() >= self.settings.min_lost
            && self.memory.in_use().is_some_and(|share| share >= self.profile.memory_short);
        let peak = limited.then(|| self.memory_peak())??;
        let offers = self.offers().filter_map(|(offer, price)| {
            let share = peak / offer.memory_bytes? as f64;
            let (least, _) = self.speed(offer)?;
            // No faster than here: only the larger batch counts.
            let growth = growth(Memory::InUse(share)).filter(|growth| *growth >= DOUBLING)?;
            let (expected, most) = saved_by_batch(self.gpu, growth);
            let [expected, most] = [expected, most].map(|it| 1.0 - price * (1.0 - it));
            (least >= AS_FAST && most >= self.settings.min_lost).then_some((offer, expected, most))
        });
        let (offer, expected, most) = offers.max_by(|a, b| a.2.total_cmp(&b.2))?;
        let saving = Saving::part(1.0, [0.0, expected.max(0.0), most]);
        Some(self.found(offer, Reason::MoreMemory, saving, confidence::DOUBTFUL))
    }

    /// A GPU that is as fast by its peaks, has as much memory and costs less.
    fn newer(&self) -> Option<Finding<'a>> {
        let offers = self.offers().filter(|(offer, price)| {
            1.0 - price >= self.settings.min_lost
                && self.fits(offer)
                && self.speed(offer).is_some_and(|(least, _)| least >= AS_FAST)
        });
        let (offer, price) = offers.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let saving = Saving::part(1.0 - price, DIFFERENCE_SAVED);
        Some(self.found(offer, Reason::Newer, saving, confidence::PROBABLE))
    }

    /// More bandwidth per dollar, if bandwidth limits a job, and no less of it: kernels reach a like share of the peak.
    fn with_more_bandwidth(&self) -> Option<Finding<'a>> {
        if !self.gpu.workload.is_job() || !self.is_full() || !self.waits_for_bytes() {
            return None;
        }
        let offers = self.offers().filter_map(|(offer, price)| {
            let (_, ratio) = self.peaks(offer).filter(|_| self.holds(offer))?;
            let is_as_fast = ratio >= AS_FAST && self.carries_arithmetic(offer)?;
            is_as_fast.then_some((offer, ratio, price / ratio))
        });
        let (offer, ratio, cost) = offers.min_by(|a, b| a.2.total_cmp(&b.2))?;
        let saving = Saving::part(1.0 - cost, saved::HALF);
        let found = self.found(offer, Reason::Bandwidth { ratio }, saving, confidence::EVEN);
        (1.0 - cost >= self.settings.min_lost).then_some(found)
    }

    /// A GPU that may cost less per unit of work than this one, which is full: the one whose peaks
    /// exceed the need the most. At full memory bandwidth, arithmetic does not count.
    fn question(&self) -> Option<Question<'a>> {
        if !self.is_full() {
            return None;
        }
        let offers = self.offers().filter_map(|(offer, price)| {
            let may_pay = price > 1.0 && self.holds(offer) && self.is_affordable(price);
            let (flops, bandwidth) = self.peaks(offer).filter(|_| may_pay)?;
            let most = if has_full_bandwidth(self.gpu) { bandwidth } else { flops.max(bandwidth) };
            (most > price).then_some((offer, most / price))
        });
        let (offer, _) = offers.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Question { gpu: self.gpu, paid: self.paid, offer, missing: Missing::Throughput })
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_diagnoses::units;
    use phasemeter_policy::testing::{price, steady, window, with_varying_memory};
    use phasemeter_policy::{Pattern, PatternKind};

    use super::*;

    fn offer(model: &str, gib: u64, nano_usd_per_gpu_hour: u64) -> Offer {
        let price = Price {
            nano_usd_per_gpu_hour,
            instance_type: Some(["an instance of ", model].concat()),
            ..price()
        };
        Offer { model: model.to_owned(), gpus: 1, memory_bytes: Some(gib << 30), price }
    }

    const L4: &str = "NVIDIA L4";
    const L40S: &str = "NVIDIA L40S";
    const A10G: &str = "NVIDIA A10G";
    const V100: &str = "Tesla V100-SXM2-16GB";

    /// A GPU of this model on an instance of its own at this price, at a level, with memory in use that
    /// varies.
    fn alone(model: &str, gib: u64, nano_usd: u64, level: f64, used: f64) -> Gpu {
        Gpu {
            model: model.to_owned(),
            memory_total_bytes: Some(gib << 30),
            price: Some(offer(model, gib, nano_usd).price),
            ..with_varying_memory(steady(7_200, level), used)
        }
    }

    fn unit_of(gpu: &Gpu) -> Unit<'_> {
        Unit { gpus: vec![gpu], is_whole: true, has_known_size: true, is_committed: false }
    }

    /// What is found for one GPU: model and reason, and the model whose throughput is asked for.
    fn chosen(
        gpu: Gpu,
        offers: &[Offer],
        settings: &Settings,
    ) -> (Option<(String, Reason, Saving)>, Option<String>) {
        let window = Window { offers: offers.to_vec(), ..window(vec![gpu]) };
        let observed: Vec<_> = window.gpus.iter().collect();
        let (found, open) = choose(&observed, &units(&window), &window, settings);
        assert!(found.len() + open.len() <= 1);
        let found = found.first().map(|it| (it.offer.model.clone(), it.reason, it.saving));
        (found, open.first().map(|it| it.offer.model.clone()))
    }

    fn reason(gpu: Gpu, offers: &[Offer]) -> Option<Reason> {
        let (found, _) = chosen(gpu, offers, &Settings::default());
        found.map(|(_, reason, saving)| {
            assert_eq!(saving.low, 0.0, "throughput there is unknown");
            reason
        })
    }

    #[test]
    fn newer_gpu_with_the_same_peaks_costs_less() {
        let v100 = || alone(V100, 16, 3_060_000_000, 0.96, 11.0);
        assert_eq!(reason(v100(), &[offer(L40S, 48, 1_861_000_000)]), Some(Reason::Newer));
        // Half of the bandwidth.
        assert_eq!(reason(v100(), &[offer(L4, 24, 804_800_000)]), None);
        assert_eq!(reason(v100(), &[offer(L40S, 48, 3_000_000_000)]), None, "2% less");
    }

    #[test]
    fn faster_gpu_is_not_smaller() {
        let oversized = || alone(A10G, 24, 4_096_000_000, 0.3, 8.0);
        assert_eq!(reason(oversized(), &[offer(L40S, 48, 1_861_000_000)]), Some(Reason::Newer));
    }

    #[test]
    fn same_gpu_with_another_host_is_what_others_must_undercut() {
        let gpu = || alone(A10G, 24, 4_096_000_000, 0.6, 8.0);
        let l40s = offer(L40S, 48, 1_861_000_000);
        let same = offer(A10G, 24, 1_006_000_000);
        assert_eq!(reason(gpu(), &[l40s.clone(), same.clone()]), None);
        assert_eq!(reason(gpu(), &[l40s]), Some(Reason::Newer));
        let small = || alone(A10G, 24, 4_096_000_000, 0.3, 8.0);
        let smaller = Some(Reason::Smaller { oversized: true });
        assert_eq!(reason(small(), &[offer(L4, 24, 804_800_000), same]), smaller);
    }

    #[test]
    fn more_memory_pays_if_a_larger_batch_does() {
        let a10g = |price| alone(A10G, 24, price, 0.38, 21.5);
        let l40s = [offer(L40S, 48, 1_861_000_000)];
        assert_eq!(reason(a10g(1_624_000_000), &l40s), Some(Reason::MoreMemory));
        assert_eq!(reason(a10g(1_006_000_000), &l40s), None, "85% dearer");
        let serving = Gpu { workload: Workload::Serving, ..a10g(1_624_000_000) };
        assert_eq!(reason(serving, &l40s), None, "a service has no batch size");
        assert_eq!(
            reason(alone(A10G, 24, 1_624_000_000, 0.38, 15.0), &l40s),
            None,
            "memory is free"
        );
    }

    #[test]
    fn full_gpu_asks_for_throughput_where_it_decides() {
        let full = || alone(L4, 24, 804_800_000, 0.97, 19.0);
        let asked = |gpu, offers: &[Offer]| chosen(gpu, offers, &Settings::default()).1;
        let offers = [offer(A10G, 24, 1_006_000_000), offer(L40S, 48, 1_861_000_000)];
        assert_eq!(asked(full(), &offers).as_deref(), Some(A10G));
        assert_eq!(asked(full(), &[offer(L40S, 48, 9_000_000_000)]), None, "its peaks exclude it");
        assert_eq!(asked(alone(L4, 24, 804_800_000, 0.7, 19.0), &offers), None, "it is not full");
        let mut waiting = full();
        waiting.sensors.sm_activity = Some(0.4);
        assert_eq!(asked(waiting, &offers), None, "its SMs wait");
    }

    #[test]
    fn bandwidth_per_dollar_decides_if_bandwidth_is_the_limit() {
        let full = |dram| {
            let mut gpu = alone(L4, 24, 804_800_000, 0.97, 19.0);
            let sensors = &mut gpu.sensors;
            (sensors.sm_activity, sensors.dram_activity) = (Some(0.88), Some(dram));
            sensors.tensor_activity = Some(0.02);
            gpu
        };
        let a10g = || [offer(A10G, 24, 1_006_000_000)];
        let (found, asked) = chosen(full(0.85), &a10g(), &Settings::default());
        let (_, reason, saving) = found.unwrap();
        // Twice the bandwidth for 1.25 times the price.
        assert_eq!((reason, asked), (Reason::Bandwidth { ratio: 2.0 }, None));
        assert!((saving.high - 0.375).abs() < 1e-9 && saving.low == 0.0, "{saving:?}");
        let other = chosen(full(0.3), &a10g(), &Settings::default());
        assert!(other.0.is_none() && other.1.is_some(), "a trial decides");
        let dear = [offer(A10G, 24, 1_620_000_000)];
        let none = chosen(full(0.85), &dear, &Settings::default());
        assert!(none.0.is_none() && none.1.is_none(), "as much bandwidth per dollar: {none:?}");
        let service = Gpu { workload: Workload::Serving, ..full(0.85) };
        let asked = chosen(service, &a10g(), &Settings::default());
        assert!(asked.0.is_none() && asked.1.is_some(), "the saving is that of replicas");
    }

    #[test]
    fn service_compares_what_its_replicas_cost() {
        let asked = |replicas: usize| {
            let full =
                || Gpu { workload: Workload::Serving, ..alone(L4, 24, 800_000_000, 0.97, 20.5) };
            let offers = vec![offer("NVIDIA H100 80GB HBM3", 80, 6_400_000_000)];
            let window = Window { offers, ..window((0..replicas).map(|_| full()).collect()) };
            let observed: Vec<_> = window.gpus.iter().collect();
            let units: Vec<_> = window.gpus.iter().map(|gpu| unit_of(gpu)).collect();
            choose(&observed, &units, &window, &Settings::default()).1.len()
        };
        assert_eq!((asked(2), asked(7)), (0, 7), "eight times the price");
    }

    #[test]
    fn as_much_memory_as_here_suffices_for_a_full_gpu() {
        let full = alone(L4, 24, 804_800_000, 0.97, 21.5);
        let asked = chosen(full, &[offer(A10G, 24, 1_006_000_000)], &Settings::default()).1;
        assert_eq!(asked.as_deref(), Some(A10G));
    }

    #[test]
    fn session_gets_a_smaller_gpu_if_its_bursts_fit() {
        let session = |workload, level, used| {
            let gpu = alone(A10G, 24, 1_006_000_000, level, used);
            let pattern = gpu.pattern.map(|it| Pattern { kind: PatternKind::Mixed, ..it });
            Gpu { workload, pattern, ..gpu }
        };
        let t4 = || [offer("Tesla T4", 16, 526_000_000)];
        let interactive = |level, used| session(Workload::Interactive, level, used);
        assert_eq!(reason(interactive(0.4, 6.5), &t4()), Some(Reason::Session));
        let mut unknown = session(Workload::Unknown, 0.4, 6.5);
        assert_eq!(reason(unknown.clone(), &t4()), None, "it works all the time");
        unknown.activity.quiet.seconds = 5_000.0;
        assert_eq!(reason(unknown, &t4()), Some(Reason::Session));
        assert_eq!(reason(interactive(0.6, 6.5), &t4()), None, "half of the bandwidth");
        assert_eq!(reason(interactive(0.4, 15.0), &t4()), None, "more memory");
        let mut unused = interactive(0.4, 6.5);
        unused.accounts.underutilized.seconds = 600.0;
        assert_eq!(reason(unused, &t4()), None, "ten minutes show little");
    }

    #[test]
    fn profile_decides_what_is_small_enough() {
        let gpu = || alone("NVIDIA H100 80GB HBM3", 80, 6_880_000_000, 0.18, 36.0);
        let found = |profile| {
            let settings = Settings { profile, ..Settings::default() };
            chosen(gpu(), &[offer(L40S, 48, 1_861_000_000)], &settings).0.map(|it| it.1)
        };
        // 36 of 48 GiB are 75%, and 36 of 80 are 45%.
        assert_eq!(found("right-sizing"), Some(Reason::Smaller { oversized: false }));
        assert_eq!(found("optimization"), Some(Reason::Smaller { oversized: true }));
        assert_eq!(found("compute-optimizer"), Some(Reason::Smaller { oversized: true }));
        let fuller = alone("NVIDIA H100 80GB HBM3", 80, 6_880_000_000, 0.18, 40.0);
        let offers = [offer(L40S, 48, 1_861_000_000)];
        let settings = |profile| Settings { profile, ..Settings::default() };
        assert!(chosen(fuller.clone(), &offers, &settings("right-sizing")).0.is_none(), "83%");
        assert!(chosen(fuller, &offers, &settings("analytics")).0.is_some());
    }

    #[test]
    fn utilization_of_25_percent_is_far_too_low_for_the_optimization_guide() {
        let found = |profile, level| {
            let settings = Settings { profile, ..Settings::default() };
            let gpu = alone("NVIDIA A100-SXM4-80GB", 80, 6_880_000_000, level, 30.0);
            chosen(gpu, &[offer(L40S, 48, 1_861_000_000)], &settings).0.map(|it| it.1)
        };
        let smaller = |oversized| Some(Reason::Smaller { oversized });
        assert_eq!(found("optimization", 0.2), smaller(true));
        assert_eq!(found("optimization", 0.3), smaller(false), "from 25 to 60% it may be");
        assert_eq!(found("right-sizing", 0.3), smaller(true), "SM activity below 60%");
        assert_eq!(found("optimization", 0.62), None);
    }

    #[test]
    fn compute_optimizer_counts_bursts_that_a_95th_percentile_leaves_out() {
        let found = |profile, share: f64| {
            let mut gpu = alone("NVIDIA H100 80GB HBM3", 80, 6_880_000_000, 0.15, 12.0);
            let points = (gpu.utilization.len() as f64 * share) as usize;
            gpu.utilization[..points].fill(0.9);
            let settings = Settings { profile, ..Settings::default() };
            chosen(gpu, &[offer(L40S, 48, 1_861_000_000)], &settings).0.is_some()
        };
        assert!(found("right-sizing", 0.02) && !found("compute-optimizer", 0.02));
        assert!(found("right-sizing", 0.002) && found("compute-optimizer", 0.002));
        assert!(!found("right-sizing", 0.06) && !found("compute-optimizer", 0.06));
    }

    /// Four GPUs of one instance.
    fn four(gpu: &Gpu, price: &Offer) -> Vec<Gpu> {
        let on = || Gpu { price: Some(price.price.clone()), ..gpu.clone() };
        (0..4).map(|_| on()).collect()
    }

    fn chosen_for_four(gpus: Vec<Gpu>, others: &[Offer]) -> Option<String> {
        let own = offer("own", 0, 0).price;
        let own = gpus[0].price.clone().unwrap_or(own);
        let own = Offer { model: gpus[0].model.clone(), gpus: 4, memory_bytes: None, price: own };
        let offers = others.iter().map(|offer| Offer { gpus: 4, ..offer.clone() });
        let window = Window { offers: offers.chain([own]).collect(), ..window(gpus) };
        let observed: Vec<_> = window.gpus.iter().collect();
        let found = choose(&observed, &units(&window), &window, &Settings::default()).0;
        assert!(found.is_empty() || found.len() == window.gpus.len(), "all or none");
        found.first().map(|it| it.offer.model.clone())
    }

    #[test]
    fn gpus_of_an_instance_are_replaced_together() {
        let paid = offer(L40S, 48, 2_623_000_000);
        let oversized = Gpu { workload: Workload::Batch, ..alone(L40S, 48, 0, 0.16, 8.0) };
        let l4 = [offer(L4, 24, 1_150_400_000)];
        let four = |gpu: &Gpu| four(gpu, &paid);
        assert_eq!(chosen_for_four(four(&oversized), &l4).as_deref(), Some(L4));
        let mut one_full = four(&oversized);
        one_full[2] = Gpu { price: one_full[2].price.clone(), ..alone(L40S, 48, 0, 0.9, 8.0) };
        assert_eq!(chosen_for_four(one_full, &l4), None, "one is busy");
        let mut one_large = four(&oversized);
        one_large[3] = Gpu { price: one_large[3].price.clone(), ..alone(L40S, 48, 0, 0.16, 40.0) };
        assert_eq!(chosen_for_four(one_large, &l4), None, "one needs its memory");
        assert_eq!(
            chosen_for_four(four(&oversized)[..3].to_vec(), &l4),
            None,
            "one was not observed"
        );
    }

    #[test]
    fn exchange_over_nvlink_must_fit_the_links_there() {
        let paid = offer(V100, 16, 3_060_000_000);
        let small = alone(V100, 16, 0, 0.16, 4.0);
        let l4 = [offer(L4, 24, 1_150_400_000)];
        assert_eq!(chosen_for_four(four(&small, &paid), &l4), None, "the traffic is unknown");
        let metrics = vec![("nvlink.bytes_per_second".to_owned(), 1e9)];
        let measured = Gpu { metrics, ..small };
        assert_eq!(chosen_for_four(four(&measured, &paid), &l4).as_deref(), Some(L4));
    }
}
