//! Rate: what an hour costs, and how the same hour could cost less.
//!
//! Interruptible capacity, commitments, another region or cloud. None of it depends on how busy a
//! GPU is, but all of it on a price that is known and paid on demand. Prices are those of the
//! project's tables, each told with its day; discounts that were negotiated are not in them.

mod commitment;

use phasemeter_facts::{Model, instance};
use phasemeter_policy::words::{decimal, percent, usd};
use phasemeter_policy::{
    Accounts, Gpu, Plan, Policy, Price, Recommendation, Recommender, Saving, Target, Window,
    groups, log, same_model,
};

use commitment::{Commitment, MONTH_HOURS};

phasemeter_policy::settings! {
    /// Whether these jobs may be interrupted.
    interruptible: flag = true;
    /// For how many hours a month such GPUs are used, of 720; 0 where that is not known.
    hours_a_month: number = 0.0 in 0.0..=744.0;
    /// GPUs that were observed for less than this many seconds are not judged.
    least_seconds: number = 60.0 in 0.0..=86400.0;
    /// GPUs that were observed for less than this many seconds are no reason to commit.
    least_commit_seconds: number = 3600.0 in 0.0..=86400.0;
    /// A price that lies less than this share below is no reason to move.
    least_lower: number = 0.05 in 0.0..=1.0;
}

/// What of the work is done again after interruptions: much, some, none. An assumption; it depends
/// on how often a job saves its state.
const REDONE: [f64; 3] = [0.15, 0.05, 0.0];

/// What of a lower list price elsewhere is left once data and people have moved. An assumption.
const MOVED: [f64; 3] = [0.0, 0.5, 1.0];

/// A GPU that idles for more than this share of its time is no reason to commit to one.
const MOST_IDLE: f64 = 0.5;

struct Rate;

impl Policy for Rate {
    const NAME: &'static str = "rate";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Finds lower rates: spot, commitments, another region or cloud.";
    type Settings = Settings;
}

/// GPUs of one model at one price.
struct Priced<'a> {
    gpu: &'a Gpu,
    price: &'a Price,
}

impl Recommender for Rate {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let priced = window.seen(settings.least_seconds).into_iter().filter_map(|gpu| {
            let price = gpu.price.as_ref()?;
            let by_the_hour = matches!(price.plan, None | Some(Plan::OnDemand));
            (by_the_hour && gpu.bill() > 0).then_some(Priced { gpu, price })
        });
        let alike = |a: &Priced<'_>, b: &Priced<'_>| {
            same_model(&a.gpu.model, &b.gpu.model)
                && a.price.nano_usd_per_gpu_hour == b.price.nano_usd_per_gpu_hour
                && a.price.provider == b.price.provider
                && a.price.region == b.price.region
                && a.price.instance_type == b.price.instance_type
        };
        let mut found = Vec::new();
        for group in groups(priced, alike) {
            if settings.interruptible {
                found.extend(interruptible(&group));
            }
            found.extend(committed(&group, settings));
            found.extend(region(&group, settings));
            found.extend(provider(&group, settings));
        }
        found
    }
}

/// What can differ between pieces of advice on a rate.
struct Advice<'a> {
    code: &'a str,
    lever: &'a str,
    title: String,
    action: String,
    rationale: String,
    saving: [f64; 3],
    sure: f64,
    evidence: Vec<(&'a str, f64)>,
}

fn advise(group: &[Priced<'_>], advice: Advice<'_>) -> Recommendation {
    let certainty = group.iter().map(|priced| priced.gpu.certainty());
    Recommendation {
        code: advice.code.to_owned(),
        target: Target::Rate,
        lever: advice.lever.to_owned(),
        title: advice.title,
        action: advice.action,
        rationale: advice.rationale,
        saving: Saving::part(1.0, advice.saving),
        confidence: advice.sure * certainty.sum::<f64>() / group.len() as f64,
        evidence: advice
            .evidence
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        gpus: group.iter().map(|priced| priced.gpu.id.clone()).collect(),
    }
}

/// Capacity that may be taken away.
fn interruptible(group: &[Priced<'_>]) -> Option<Recommendation> {
    let Priced { gpu, price } = group.first()?;
    let Some(spot) = Model::of(&gpu.model).and_then(Model::spot) else {
        log::info(&["no spot price is known of ", name(gpu)].concat());
        return None;
    };
    let here = price.provider.as_deref() == Some(spot.provider);
    let saving = REDONE.map(|redone| 1.0 - (1.0 - spot.off) * (1.0 + redone));
    let rationale = format!(
        "On {} {} was listed as spot {} below on demand in {} at {}, where it is cheapest, and \
         up to {} below where it is dear. 60–80 % is what is often said. Some of the work is \
         done twice: 5 % of it are reckoned with.{}",
        spot.day,
        spot.model,
        percent(spot.off),
        spot.region,
        spot.provider,
        percent(spot.most),
        match &price.provider {
            _ if here => "",
            Some(_) => " Of this provider no spot prices are known here.",
            None => " Who sells these GPUs is not known.",
        }
    );
    Some(advise(
        group,
        Advice {
            code: "rate.spot",
            lever: "spot",
            title: "Run what can be interrupted on spot capacity".to_owned(),
            action: "Save state every few minutes and on the notice of interruption, restart by \
                     itself, and keep what people wait for on demand: spot capacity is taken \
                     away within seconds to minutes, and may not be there."
                .to_owned(),
            rationale,
            saving,
            sure: if here { 0.6 } else { 0.4 },
            evidence: vec![
                ("spot.below_list", spot.off),
                ("spot.redone_share", REDONE[1]),
                ("now.usd_per_hour", dollars(price.nano_usd_per_gpu_hour)),
            ],
        },
    ))
}

/// One year and three.
fn committed(group: &[Priced<'_>], settings: &Settings) -> Vec<Recommendation> {
    let worth = group.iter().filter(|priced| {
        let accounts = priced.gpu.accounts;
        accounts.observed().seconds >= settings.least_commit_seconds
            && priced.gpu.share(Accounts::idle) <= MOST_IDLE
    });
    let worth: Vec<_> = worth.map(|Priced { gpu, price }| Priced { gpu, price }).collect();
    let Some(Priced { price, .. }) = worth.first() else { return Vec::new() };
    let rate = price.nano_usd_per_gpu_hour;
    let terms = [
        ("rate.reserved-1y", "reserved_1y", "one year", Commitment::ONE_YEAR),
        ("rate.reserved-3y", "reserved_3y", "three years", Commitment::THREE_YEARS),
    ];
    let advice = terms.into_iter().filter_map(|(code, lever, term, commitment)| {
        let known = settings.hours_a_month;
        let even = commitment.break_even_hours();
        let most = commitment.saving(MONTH_HOURS);
        let (saving, sure, reckoned) = if known > 0.0 {
            let saving = commitment.saving(known.min(MONTH_HOURS)).max(0.0);
            let words = ["used for ", &decimal(known, 0), " hours, it saves "].concat();
            ([saving; 3], 0.6, words)
        } else {
            let words = "not knowing for how many, and committing only where it pays, it saves ";
            ([0.0, commitment.expected_saving(), most], 0.3, words.to_owned())
        };
        let rationale = format!(
            "Paid for every hour, used or not, it costs less from {} hours a month on, of 720; \
             {reckoned}{}, used for all of them {}. At {} an hour now, a committed hour would \
             cost about {}. The ratio is that of published terms ($3.06 on demand, {} committed, \
             no upfront, on aws): ask for those of this model. Do not commit to idle time that \
             can be saved first.",
            decimal(even, 0),
            percent(saving[1]),
            percent(most),
            usd(rate),
            usd((rate as f64 * commitment.ratio()) as u64),
            usd(commitment.committed),
        );
        (saving[2] > 0.0).then(|| advise(&worth, Advice {
            code,
            lever,
            title: ["Commit for ", term, " to what is always in use"].concat(),
            action: format!(
                "Look at the hours of the last months: commit for {term} to as many GPUs as were \
                 in use for {} hours a month and more, and to no other.",
                decimal(even, 0),
            ),
            rationale,
            saving,
            sure,
            evidence: vec![
                ("break_even.hours_a_month", even),
                ("committed.share_of_list", commitment.ratio()),
                ("now.usd_per_hour", dollars(rate)),
            ],
        }))
    });
    advice.collect()
}

/// The same instance in another region.
fn region(group: &[Priced<'_>], settings: &Settings) -> Option<Recommendation> {
    let Priced { price, .. } = group.first()?;
    let (provider, here) = (price.provider.as_deref()?, price.region.as_deref()?);
    let there = instance(provider, price.instance_type.as_deref()?)?;
    let now = price.nano_usd_per_gpu_hour;
    let off = below(there.nano_usd_per_gpu_hour, now);
    if there.region == here || off < settings.least_lower {
        return None;
    }
    let advice = Advice {
        code: "rate.region",
        lever: "region",
        title: ["Run it in ", there.region].concat(),
        action: format!(
            "Where the data may be there too, run these jobs in {}. Reckon with moving data, and \
             with how far the users are.",
            there.region,
        ),
        rationale: format!(
            "{} costs {} a GPU-hour here, in {here}; it is listed at {} in {} ({provider}, {}): \
             {} less.",
            there.instance_type,
            usd(now),
            usd(there.nano_usd_per_gpu_hour),
            there.region,
            there.day,
            percent(off),
        ),
        saving: MOVED.map(|moved| moved * off),
        sure: 0.4,
        evidence: vec![
            ("there.usd_per_hour", dollars(there.nano_usd_per_gpu_hour)),
            ("now.usd_per_hour", dollars(now)),
        ],
    };
    Some(advise(group, advice))
}

/// The same GPU in another cloud. Lists are laid beside lists: what was negotiated with one is not
/// in the other.
fn provider(group: &[Priced<'_>], settings: &Settings) -> Option<Recommendation> {
    let Priced { gpu, price } = group.first()?;
    let Some(provider) = price.provider.as_deref() else {
        log::info(
            &["who sells ", name(gpu), " is not known: where it costs less cannot be told"]
                .concat(),
        );
        return None;
    };
    let model = Model::of(&gpu.model)?;
    let (here, there) = (model.lowest(Some(provider))?, model.lowest(None)?);
    let off = below(there.nano_usd_per_gpu_hour, here.nano_usd_per_gpu_hour);
    if there.provider == provider || off < settings.least_lower {
        return None;
    }
    let advice = Advice {
        code: "rate.provider",
        lever: "provider",
        title: ["Ask what it costs at ", there.provider].concat(),
        action: format!(
            "Ask {} for a quote on {} in {}, and for capacity; reckon with moving data and with \
             all that is built on {provider}.",
            there.provider, there.instance_type, there.region,
        ),
        rationale: format!(
            "{} is listed at {} a GPU-hour at {} ({}, {}) and at {} at {provider} ({}, {}), each \
             in its cheapest region: {} less.",
            here.model,
            usd(there.nano_usd_per_gpu_hour),
            there.provider,
            there.region,
            there.day,
            usd(here.nano_usd_per_gpu_hour),
            here.region,
            here.day,
            percent(off),
        ),
        saving: MOVED.map(|moved| moved * off),
        sure: 0.3,
        evidence: vec![
            ("there.usd_per_hour", dollars(there.nano_usd_per_gpu_hour)),
            ("here.usd_per_hour", dollars(here.nano_usd_per_gpu_hour)),
        ],
    };
    Some(advise(group, advice))
}

/// How far one price lies below another, as a share of that.
fn below(then: u64, now: u64) -> f64 {
    1.0 - then as f64 / now.max(1) as f64
}

/// The model, for people.
fn name(gpu: &Gpu) -> &str {
    if gpu.model.is_empty() { "a GPU of unknown model" } else { &gpu.model }
}

fn dollars(nano_usd: u64) -> f64 {
    nano_usd as f64 / 1e9
}

phasemeter_policy::recommender!(Rate);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{price, steady, unpriced, window};

    use super::*;

    fn advice(settings: &Settings, gpu: Gpu) -> Vec<Recommendation> {
        Rate::recommend(settings, &window(vec![gpu]))
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|advice| advice.lever.as_str()).collect()
    }

    #[test]
    fn spot_saves_what_was_measured_less_what_is_done_twice() {
        let found = advice(&Settings::default(), steady(3_600, 0.9));
        assert_eq!(levers(&found), ["spot", "reserved_1y", "reserved_3y"]);
        let saving = found[0].saving;
        assert!(0.33 < saving.low && saving.high < 0.43, "{saving:?}");
        let never = Settings { interruptible: false, ..Settings::default() };
        assert!(!levers(&advice(&never, steady(3_600, 0.9))).contains(&"spot"));
        let unlisted = Gpu { model: "Tesla T4".to_owned(), ..steady(3_600, 0.9) };
        assert!(!levers(&advice(&Settings::default(), unlisted)).contains(&"spot"));
    }

    #[test]
    fn a_commitment_saves_by_the_hours_it_is_used() {
        let at = |hours_a_month| {
            let settings = Settings { hours_a_month, ..Settings::default() };
            let found = advice(&settings, steady(3_600, 0.9));
            found
                .into_iter()
                .find(|advice| advice.lever == "reserved_1y")
                .map(|a| a.saving.expected)
        };
        assert!((at(720.0).unwrap() - 0.4052).abs() < 1e-4);
        assert_eq!(at(400.0), None, "below break-even it costs more");
        let unknown = at(0.0).unwrap();
        assert!((unknown - 0.0963).abs() < 1e-3, "{unknown}");
    }

    #[test]
    fn nobody_commits_to_what_idles_or_was_seen_for_minutes() {
        for gpu in [steady(7_200, 0.0), steady(1_800, 0.9)] {
            let found = advice(&Settings::default(), gpu);
            assert_eq!(levers(&found), ["spot"]);
        }
    }

    #[test]
    fn a_lower_price_elsewhere_is_named_with_its_day() {
        let mut gpu = steady(1_800, 0.9);
        gpu.price = Some(Price {
            provider: Some("gcp".to_owned()),
            region: Some("europe-west3".to_owned()),
            instance_type: Some("a3-highgpu-8g".to_owned()),
            nano_usd_per_gpu_hour: 14_000_000_000,
            ..price()
        });
        let found = advice(&Settings { interruptible: false, ..Settings::default() }, gpu);
        assert_eq!(levers(&found), ["region", "provider"]);
        assert!(
            found[0].rationale.contains("us-central1 (gcp, 2026-08-06)"),
            "{}",
            found[0].rationale
        );
        assert!(found[1].rationale.contains("$6.88 a GPU-hour at aws"), "{}", found[1].rationale);
        assert!(found.iter().all(|advice| advice.saving.low == 0.0));
    }

    #[test]
    fn a_price_that_is_unknown_or_not_by_the_hour_is_left_alone() {
        assert!(advice(&Settings::default(), unpriced(steady(3_600, 0.9))).is_empty());
        let owned = Price { plan: Some(Plan::Owned), ..price() };
        assert!(
            advice(&Settings::default(), Gpu { price: Some(owned), ..steady(3_600, 0.9) })
                .is_empty()
        );
        assert!(advice(&Settings::default(), steady(50, 0.9)).is_empty());
    }
}
