//! What a risk costs, and how its machine is repaired.

use phasemeter_policy::format::{decimal, percent, usd};
use phasemeter_policy::{Gpu, HOUR, Plan};

/// `$273.18 so far`, of GPUs and the seconds of each; hours without a price.
pub(crate) fn so_far(lost: &[(&Gpu, f64)]) -> String {
    let cost = |(gpu, seconds): &(&Gpu, f64)| rate(gpu) as f64 * *seconds / HOUR;
    let dollars: f64 = lost.iter().map(cost).sum();
    if dollars > 0.0 {
        return usd(dollars as u64) + " so far";
    }
    let time: f64 = lost.iter().map(|(_, seconds)| *seconds / HOUR).sum();
    [&*decimal(time, usize::from(time < 10.0)), " GPU-hours so far"].concat()
}

/// `$273.18 so far, and $55.04 in each further hour`.
pub(crate) fn so_far_and_further(lost: &[(&Gpu, f64)]) -> String {
    match lost.iter().map(|(gpu, _)| rate(gpu)).sum() {
        0 => so_far(lost),
        rate => [&*so_far(lost), ", and ", &usd(rate), " in each further hour"].concat(),
    }
}

fn rate(gpu: &Gpu) -> u64 {
    gpu.price.as_ref().map_or(0, |price| price.nano_usd_per_gpu_hour)
}

/// `; the other 7 GPUs probably wait for it 38% of their time, about $10.45 per hour and $104.50 so far`; `share` is absent if it is
/// unknown.
pub(crate) fn while_waiting(others: &[&Gpu], share: Option<f64>) -> String {
    let subject = match others.len() {
        0 => return String::new(),
        1 => "; the other GPU probably waits for it".to_owned(),
        count => ["; the other ", &count.to_string(), " GPUs probably wait for it"].concat(),
    };
    let prices = others.iter().filter_map(|gpu| gpu.price.as_ref());
    let rate: u64 = prices.map(|price| price.nano_usd_per_gpu_hour).sum();
    let bill: u64 = others.iter().map(|gpu| gpu.bill()).sum();
    let Some(share) = share else { return subject };
    let whose = if others.len() == 1 { " of its time" } else { " of their time" };
    let cost = match rate {
        0 => String::new(),
        rate => {
            let [per_hour, so_far] = [rate, bill].map(|all| usd((all as f64 * share) as u64));
            [", about ", &*per_hour, " per hour and ", &so_far, " so far"].concat()
        }
    };
    [&*subject, " ", &percent(share), whose, &cost].concat()
}

/// How the machine of a GPU is repaired: `own` on those of the user, and else to leave the host; `look` is what shows
/// the cause.
pub(crate) fn repair(gpu: &Gpu, own: &str, look: &str) -> String {
    let rented = gpu.price.as_ref().filter(|price| price.plan != Some(Plan::Owned));
    // An estimated price may be of another provider.
    let known = rented.filter(|price| !price.estimated);
    match known.and_then(|price| price.provider.as_deref()) {
        None => [own, " ", look].concat(),
        Some(name) => format!(
            "Save the state of the work, start a new instance before stopping this one, since capacity may be short, \
             and report the host to {name}. {look}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{price, steady, unpriced};
    use phasemeter_policy::{Gpu, Price};

    use super::*;

    #[test]
    fn costs_are_of_all_gpus() {
        let gpu = steady(7_200, 1.0);
        let both = [(&gpu, 7_200.0), (&gpu, 3_600.0)];
        assert_eq!(so_far_and_further(&both), "$10.80 so far, and $7.20 in each further hour");
        let free = unpriced(steady(7_200, 1.0));
        assert_eq!(so_far_and_further(&[(&free, 36_000.0)]), "10 GPU-hours so far");
        assert_eq!(
            while_waiting(&[&gpu, &gpu], Some(0.5)),
            "; the other 2 GPUs probably wait for it 50% of their time, about $3.60 per hour and $7.20 so far"
        );
        assert_eq!(while_waiting(&[&free], None), "; the other GPU probably waits for it");
        assert_eq!(while_waiting(&[], None), "");
    }

    #[test]
    fn hosts_of_a_provider_are_left_and_own_ones_repaired() {
        let action = |gpu: &Gpu| repair(gpu, "Reseat the card.", "Look at it.");
        assert!(action(&steady(60, 1.0)).contains("a new instance before stopping this one"));
        let owned = Price { plan: Some(Plan::Owned), ..price() };
        let owned = Gpu { price: Some(owned), ..steady(60, 1.0) };
        assert_eq!(action(&owned), "Reseat the card. Look at it.");
        assert_eq!(action(&unpriced(steady(60, 1.0))), "Reseat the card. Look at it.");
    }
}
