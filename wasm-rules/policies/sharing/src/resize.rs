//! Instances of the same provider with fewer of the same GPUs, for the work of an instance with free ones.
//!
//! Must not depend on GPUs that share work.

use phasemeter_policy::format::{count, duration, subject, usd};
use phasemeter_policy::{
    Effort, Gpu, Offer, Price, Recommendation, Remediation, Saving, Target, Window, evidence,
    same_model,
};
use phasemeter_specs::Unit;

/// Shortest observation that shows how many GPUs the work uses, in seconds. An assumption.
const MIN_SECONDS: f64 = 3_600.0;

/// Smallest share of the instance's price for which work is moved. An assumption.
const MIN_SAVED: f64 = 0.1;

/// Share of the price difference that it saves: low, expected, high. Less if the work waits for its host
/// there. An assumption.
const DIFFERENCE_SAVED: [f64; 3] = [0.0, 0.8, 1.0];

/// Confidence that the work fits the smaller host. An assumption.
const SURE: f64 = 0.7;

/// An instance of which some GPUs are free, and a smaller one that has enough.
pub(crate) struct Resize<'a> {
    /// The GPUs without work.
    pub(crate) free: Vec<&'a Gpu>,
    /// Number of GPUs with work.
    busy: usize,
    /// The price per GPU now.
    paid: &'a Price,
    offer: &'a Offer,
}

impl<'a> Resize<'a> {
    /// The cheapest smaller instance for the work of an instance with free GPUs.
    pub(crate) fn of(
        unit: &Unit<'a>,
        window: &'a Window,
        is_free: impl Fn(&Gpu) -> bool,
    ) -> Option<Self> {
        let paid = unit.price().filter(|_| unit.is_returnable())?;
        let model = &unit.gpus.first()?.model;
        let gpus = unit.gpus.iter().copied();
        let (free, busy): (Vec<_>, Vec<_>) = gpus.partition(|gpu| is_free(gpu));
        let is_long = |gpu: &&Gpu| gpu.accounts.observed().seconds >= MIN_SECONDS;
        if busy.is_empty() || !unit.gpus.iter().all(is_long) {
            return None;
        }
        let offers = window.offers_beside(paid).filter(|offer| {
            let gpus = offer.gpus as usize;
            same_model(&offer.model, model) && (busy.len()..unit.gpus.len()).contains(&gpus)
        });
        let of = |offer| Self { free: free.clone(), busy: busy.len(), paid, offer };
        let cheapest = offers.map(of).min_by_key(|resize| resize.hourly().1)?;
        let (now, then) = cheapest.hourly();
        (now.saturating_sub(then) as f64 >= MIN_SAVED * now as f64).then_some(cheapest)
    }

    /// Dollars per hour of the instance, now and then, in billionths.
    fn hourly(&self) -> (u64, u64) {
        let all = (self.free.len() + self.busy) as u64;
        let hourly = |price: &Price, gpus: u64| price.nano_usd_per_gpu_hour.saturating_mul(gpus);
        (hourly(self.paid, all), hourly(&self.offer.price, u64::from(self.offer.gpus)))
    }

    pub(crate) fn recommendation(&self) -> Recommendation {
        let (now, then) = self.hourly();
        let free = self.paid.nano_usd_per_gpu_hour.max(1) as f64 * self.free.len() as f64;
        let saved = now.saturating_sub(then) as f64 / free;
        let [own, other] = [self.paid, &self.offer.price]
            .map(|price| price.instance_type.as_deref().unwrap_or_default());
        let mean = |value: &dyn Fn(&Gpu) -> f64| {
            self.free.iter().map(|gpu| value(gpu)).sum::<f64>() / self.free.len() as f64
        };
        let quiet = mean(&|gpu| gpu.activity.quiet.seconds);
        let observed = mean(&|gpu| gpu.accounts.observed().seconds);
        Recommendation {
            title: ["Rent an instance with fewer GPUs: ", other].concat(),
            action: format!(
                "Start the next run on {other}, if the CPUs and the memory of its host suffice, or fill the \
                 free GPUs with other jobs.",
            ),
            rationale: format!(
                "{} had no work for {} of {}. {other} has {} like these for {} per hour ({}), and {own} costs \
                 {}; the {} that worked fit there.",
                subject(self.free.len()),
                duration(quiet),
                duration(observed),
                count(self.offer.gpus as usize, "GPU"),
                usd(then),
                self.offer.price.source,
                usd(now),
                self.busy,
            ),
            saving: Saving::part(saved, DIFFERENCE_SAVED),
            confidence: SURE * mean(&|gpu| gpu.confidence()),
            evidence: evidence([
                ("quiet.time", quiet, "s"),
                ("current.price", now as f64 / 1e9, "{USD}/h"),
                ("other.price", then as f64 / 1e9, "{USD}/h"),
            ]),
            effort: Effort::Medium,
            remediation: Some(Remediation::to_place("instance.resize", &self.offer.price)),
            ..Recommendation::new(
                "sharing.resize",
                Target::Idle,
                "smaller_instance",
                self.free.iter().copied(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{price, steady, window, with_memory};
    use phasemeter_specs::units;

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
        assert!(one.title.ends_with("p5.of-4"), "{}", one.title);
        // Four of the five free GPUs are not rented.
        assert!((one.saving.high - 0.8).abs() < 1e-9 && one.saving.low == 0.0, "{:?}", one.saving);
        assert_eq!(one.gpus.len(), 5);
        assert!(found(6, &smaller).unwrap().title.ends_with("p5.of-6"));
        assert!(found(7, &smaller).is_none(), "seven do not fit six");
        assert!(found(0, &smaller).is_none(), "an empty instance is given back as it is");
        assert!(found(3, &[(4, 2 * per_gpu)]).is_none(), "half of the GPUs for the same price");
    }
}
