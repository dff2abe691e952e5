//! Instances of the same provider with fewer GPUs, of the same model or one that replaces it, for the work of an
//! instance with unused ones, and for a session whose GPUs are all nearly unused.
//!
//! The whole instance is replaced, so what it saves is the difference of both bills: also GPUs with work get cheaper.

use phasemeter_diagnoses::{
    DIFFERENCE_SAVED, Model, NEARLY_IDLE, Unit, are_independent, confidence, saved, share,
    work_together,
};
use phasemeter_policy::format::{count, duration, percent, usd};
use phasemeter_policy::{
    Accounts, Effort, Gpu, HOUR, Offer, Price, Recommendation, Remediation, Saving, Target, Window,
    Workload, evidence, mean, same_model,
};

/// An instance of which some GPUs are unused, and smaller ones that have enough.
pub(crate) struct Resize<'a> {
    gpus: &'a [&'a Gpu],
    /// The GPUs without work; none if a session uses all at once, now and then.
    free: Vec<&'a Gpu>,
    /// The price per GPU now.
    paid: &'a Price,
    offer: &'a Offer,
    /// How many of them hold the work.
    instances: usize,
    workload: Workload,
}

impl<'a> Resize<'a> {
    /// The cheapest smaller instances for the work of an instance with unused GPUs.
    pub(crate) fn of(
        unit: &'a Unit<'a>,
        window: &'a Window,
        is_free: impl Fn(&Gpu) -> bool,
    ) -> Option<Self> {
        let paid = unit.price().filter(|_| unit.is_returnable())?;
        let model = &unit.gpus.first()?.model;
        let gpus = unit.gpus.iter().copied();
        let (free, busy): (Vec<_>, Vec<_>) = gpus.partition(|gpu| is_free(gpu));
        let is_long = |gpu: &&Gpu| gpu.accounts.observed().seconds >= HOUR;
        let is_session = free.is_empty() && is_session(unit);
        if busy.is_empty() || (free.is_empty() && !is_session) || !unit.gpus.iter().all(is_long) {
            return None;
        }
        let replaces = |offer: &str| {
            let models = Model::of(offer).zip(Model::of(model));
            same_model(offer, model) || models.is_some_and(|(offer, own)| offer.replaces(own))
        };
        let is_smaller =
            |offer: &&Offer| (offer.gpus as usize) < unit.gpus.len() && replaces(&offer.model);
        let needed = if is_session { 1 } else { busy.len() };
        let of = |offer: &'a Offer| Self {
            gpus: &unit.gpus,
            free: free.clone(),
            paid,
            offer,
            instances: needed.div_ceil(offer.gpus.max(1) as usize),
            workload: unit.workload(),
        };
        // Work that is one job needs one instance, and so may work of an unknown kind.
        let is_known = busy.iter().all(|gpu| gpu.workload != Workload::Unknown);
        let is_independent = busy.len() > 1 && is_known && are_independent(&busy);
        let offers = window.offers_beside(paid).filter(is_smaller).map(of);
        let fits =
            |resize: &Self| resize.instances == 1 || (is_independent && resize.offer.gpus == 1);
        // One instance, if several are no cheaper.
        let cheapest = offers.filter(fits).min_by_key(|it| (it.hourly().1, it.instances))?;
        let (now, then) = cheapest.hourly();
        (now.saturating_sub(then) as f64 >= share::HARDLY_ANY * now as f64).then_some(cheapest)
    }

    /// Dollars per hour of the instance, now and then, in billionths.
    fn hourly(&self) -> (u64, u64) {
        let hourly = |price: &Price, gpus: u64| price.nano_usd_per_gpu_hour.saturating_mul(gpus);
        let one = hourly(&self.offer.price, u64::from(self.offer.gpus));
        (hourly(self.paid, self.gpus.len() as u64), one.saturating_mul(self.instances as u64))
    }

    pub(crate) fn recommendation(&self) -> Recommendation {
        let (now, then) = self.hourly();
        let saved = now.saturating_sub(then) as f64 / now.max(1) as f64;
        let [own, other] = [self.paid, &self.offer.price]
            .map(|price| price.instance_type.as_deref().unwrap_or_default());
        let words = self.words(other);
        let (target, saving) = match self.free.is_empty() {
            // The price of all its GPUs changes, so no category of waste limits what is saved.
            false => (Target::Rate, Saving::part(saved, words.saved)),
            true => {
                let of = |gpu: &Gpu| Saving::part(saved.min(gpu.lost_idle()), words.saved);
                (Target::Idle, Saving::combined(self.gpus.iter().map(|gpu| (*gpu, of(gpu)))))
            }
        };
        let gpus = self.instances * self.offer.gpus as usize;
        let is_same = self.gpus.iter().all(|gpu| same_model(&gpu.model, &self.offer.model));
        let such = match is_same {
            true => count(gpus, "such GPU"),
            false => format!("{gpus} × {}, which lacks nothing of this one", self.offer.model),
        };
        Recommendation {
            title: words.title,
            action: words.action,
            rationale: format!(
                "{}. {} costs {} per hour ({}) for {such}, and {own} costs {}.",
                words.why,
                words.place,
                usd(then),
                self.offer.price.source,
                usd(now),
            ),
            saving,
            confidence: words.sure * mean(self.gpus, |gpu| gpu.confidence()),
            evidence: evidence([
                ("idle.share_of_time", mean(self.gpus, |gpu| gpu.share(Accounts::idle)), "1"),
                ("current.price", now as f64 / 1e9, "{USD}/h"),
                ("other.price", then as f64 / 1e9, "{USD}/h"),
            ]),
            effort: Effort::Medium,
            remediation: Some(
                Remediation::to_place("instance.resize", &self.offer.price)
                    .unless("other work is about to use the GPUs that are free"),
            ),
            ..Recommendation::new(words.code, target, "smaller_instance", self.gpus.iter().copied())
        }
    }

    /// What differs between work that leaves GPUs unused, and a session. `other` is the type of the smaller instance.
    fn words(&self, other: &str) -> Words {
        let (free, all) = (self.free.len(), self.gpus.len());
        if free == 0 {
            let idle = percent(mean(self.gpus, |gpu| gpu.share(Accounts::idle)));
            return Words {
                code: "sharing.debug",
                title: format!("Rent {other} for this session: {all} GPUs were idle {idle}"),
                action: "Write and debug there on as few GPUs as the program starts with, and rent all for the run."
                    .to_owned(),
                why: format!(
                    "{all} GPUs, which work at the same times, were idle {idle} of the time: the session waits for \
                     its user, if it is not one that needs all of them"
                ),
                place: other.to_owned(),
                saved: saved::HALF,
                sure: confidence::DOUBTFUL,
            };
        }
        let place = match self.instances {
            1 => other.to_owned(),
            instances => format!("{instances} × {other}"),
        };
        let start = match self.workload {
            Workload::Serving => format!("Serve with {} on", count(all - free, "replica")),
            _ => "Start the next run on".to_owned(),
        };
        let (code, sure, independent) = match self.instances {
            1 => ("sharing.resize", confidence::LIKELY, ""),
            _ => ("sharing.split", confidence::EVEN, "the tasks are independent and "),
        };
        Words {
            code,
            title: format!("Rent {place}: {free} of {all} GPUs had no work"),
            action: format!("{start} {place}, if {independent}CPUs and host memory suffice there."),
            why: format!(
                "{free} of {all} GPUs had no work for {} of {}",
                duration(mean(&self.free, |gpu| gpu.activity.quiet.seconds)),
                duration(mean(&self.free, |gpu| gpu.accounts.observed().seconds)),
            ),
            place,
            saved: DIFFERENCE_SAVED,
            sure,
        }
    }
}

/// What differs between recommendations.
struct Words {
    code: &'static str,
    title: String,
    action: String,
    why: String,
    /// The smaller instances.
    place: String,
    /// Share of the price difference that is saved.
    saved: [f64; 3],
    sure: f64,
}

/// Whether one session uses all GPUs of an instance at the same times, and is idle nearly always.
fn is_session(unit: &Unit<'_>) -> bool {
    let [first, others @ ..] = unit.gpus.as_slice() else { return false };
    let is_idle = |gpu: &&Gpu| gpu.share(Accounts::idle) >= NEARLY_IDLE;
    unit.workload() == Workload::Interactive
        && unit.gpus.iter().all(is_idle)
        && others.iter().all(|other| work_together(first, other))
}

#[cfg(test)]
mod tests {
    use phasemeter_diagnoses::units;
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{gpu, price, steady, window, with_memory};

    use super::*;

    /// An instance of eight with so many that work, and offers of smaller ones at the price per GPU.
    fn found(busy: usize, offers: &[(u32, u64)]) -> Option<Recommendation> {
        let gpu = |index: usize| {
            let level = if index < busy { 0.95 } else { 0.0 };
            let instance_type = Some("p5.48xlarge".to_owned());
            let price = Price { instance_type, ..price() };
            Gpu { price: Some(price), ..with_memory(steady(7_200, level), 60.0) }
        };
        let mut window = window((0..8).map(gpu).collect());
        let other = window.offers[0].clone();
        window.offers.extend(offers.iter().map(|(gpus, nano_usd_per_gpu_hour)| {
            let instance_type = Some(format!("p5.of-{gpus}"));
            let price = Price {
                instance_type,
                nano_usd_per_gpu_hour: *nano_usd_per_gpu_hour,
                ..other.price.clone()
            };
            Offer { gpus: *gpus, price, ..other.clone() }
        }));
        let units = units(&window);
        let is_free = |gpu: &Gpu| gpu.quiet_share() > 0.9;
        Resize::of(&units[0], &window, is_free).map(|resize| resize.recommendation())
    }

    #[test]
    fn cheapest_instance_that_holds_the_work_is_chosen() {
        let per_gpu = price().nano_usd_per_gpu_hour;
        let smaller = [(2, per_gpu), (4, per_gpu), (6, per_gpu)];
        let one = found(3, &smaller).unwrap();
        assert!(one.title.contains("p5.of-4"), "{}", one.title);
        // Four of eight GPUs are not rented.
        assert!((one.saving.high - 0.5).abs() < 1e-9 && one.saving.low == 0.0, "{:?}", one.saving);
        assert_eq!((one.gpus.len(), one.target), (8, Target::Rate));
        assert!(found(6, &smaller).unwrap().title.contains("p5.of-6"));
        assert!(found(7, &smaller).is_none(), "seven do not fit six");
        assert!(found(0, &smaller).is_none(), "an empty instance is given back as it is");
        assert!(found(3, &[(4, 2 * per_gpu)]).is_none(), "half of the GPUs for the same price");
    }

    #[test]
    fn independent_work_fits_several_instances() {
        let per_gpu = price().nano_usd_per_gpu_hour;
        let found = |workload| {
            let gpu = |index: usize| {
                let level = move |second: usize| match index {
                    7 => 0.0,
                    index => f64::from(u8::from((second / 60 + index * 7) % (5 + index) < 3)),
                };
                let instance_type = Some("p5.48xlarge".to_owned());
                let price = Price { instance_type, ..price() };
                Gpu { price: Some(price), workload, ..gpu(PatternKind::Mixed, 7_200, level) }
            };
            let mut window = window((0..8).map(gpu).collect());
            window.offers[1].price.nano_usd_per_gpu_hour = per_gpu / 2;
            let units = units(&window);
            let found = Resize::of(&units[0], &window, |gpu| gpu.quiet_share() > 0.9)?;
            Some(found.recommendation())
        };
        let one = found(Workload::Batch).unwrap();
        assert!(one.title.starts_with("Rent 7 × p5.4xlarge: 1 of 8"), "{}", one.title);
        assert!((one.saving.high - 9.0 / 16.0).abs() < 1e-9, "{:?}", one.saving);
        assert!(found(Workload::Training).is_none(), "one job");
        assert!(found(Workload::Unknown).is_none());
    }
}
