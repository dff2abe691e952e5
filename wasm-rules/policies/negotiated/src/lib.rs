//! Negotiated: what GPUs cost by a contract of one's own. The example to copy for prices.
//!
//! Two kinds of terms, both from settings. A commitment names a GPU and what an hour of it costs,
//! for as long as it runs. A discount is taken off what the price book lists, for a model or for
//! all of a provider. Whatever neither covers is left to the next.
//!
//! ```json
//! {
//!     "contract": "order 4711",
//!     "day": "2026-01-01",
//!     "discounts": {"aws": 0.12, "NVIDIA H100 80GB HBM3": 0.25},
//!     "commitments": [
//!         {"model": "NVIDIA L4", "provider": "gcp", "usd_per_gpu_hour": 0.41,
//!          "plan": "reserved_1y", "until": "2026-12-31"}
//!     ]
//! }
//! ```

mod day;

use day::nanos_at_end_of;
use phasemeter_policy::settings::Settings;
use phasemeter_policy::words::percent;
use phasemeter_policy::{
    Given, Plan, Policy, Pricer, Quote, QuoteRequest, SettingError, Value, same_model,
};

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "contract": {"type": "string", "default": "negotiated terms",
            "description": "What these terms are called: the source of every price here."},
        "day": {"type": "string", "examples": ["2026-01-01"],
            "description": "The day from which on they hold. Needed where there are any."},
        "discounts": {
            "type": "object",
            "description": "Taken off the list price on demand, by model, else by provider: 0–1.",
            "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}
        },
        "commitments": {
            "type": "array",
            "description": "What was committed to. The first that fits goes before discounts.",
            "items": {
                "type": "object",
                "properties": {
                    "model": {"type": "string", "description": "As the driver names it."},
                    "usd_per_gpu_hour": {"type": "number", "minimum": 0, "maximum": 10000},
                    "plan": {"type": "string", "default": "reserved_1y",
                        "enum": ["reserved_1y", "reserved_3y", "own"]},
                    "provider": {"type": "string", "description": "Only at this one."},
                    "region": {"type": "string", "description": "Only there."},
                    "instance_type": {"type": "string", "description": "Only in this."},
                    "until": {"type": "string", "description": "Its last day, like 2026-12-31."}
                },
                "required": ["model", "usd_per_gpu_hour"],
                "additionalProperties": false
            }
        }
    },
    "additionalProperties": false
}"#;

struct Negotiated;

/// The terms of a contract.
#[derive(Debug)]
struct Terms {
    contract: String,
    day: String,
    discounts: Vec<(String, f64)>,
    commitments: Vec<Commitment>,
}

/// A GPU, and what an hour of it costs.
#[derive(Debug)]
struct Commitment {
    model: String,
    provider: Option<String>,
    region: Option<String>,
    instance_type: Option<String>,
    nano_usd_per_gpu_hour: u64,
    plan: Plan,
    until: Option<u64>,
}

impl Policy for Negotiated {
    const NAME: &'static str = "negotiated";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Prices GPUs by negotiated discounts and commitments.";
    type Settings = Terms;
}

impl Settings for Terms {
    fn schema() -> String {
        SCHEMA.to_owned()
    }

    fn read(given: &Given) -> Result<Self, Vec<SettingError>> {
        let text = |given: &Given, name| given.text(name).map(str::to_owned);
        let mut errors = Vec::new();
        let discounts = given.map("discounts").filter_map(|(name, value)| match value {
            Value::Number(share) => Some((name.to_owned(), *share)),
            _ => None,
        });
        let discounts: Vec<_> = discounts.collect();
        let mut commitments = Vec::new();
        for (number, given) in given.list("commitments").iter().enumerate() {
            let until = given.text("until").map(|until| {
                nanos_at_end_of(until).ok_or_else(|| {
                    let path = ["commitments.", &number.to_string(), ".until"].concat();
                    errors.push(SettingError {
                        path,
                        message: "is no day like 2026-12-31".to_owned(),
                    });
                })
            });
            commitments.push(Commitment {
                model: text(given, "model").unwrap_or_default(),
                provider: text(given, "provider"),
                region: text(given, "region"),
                instance_type: text(given, "instance_type"),
                nano_usd_per_gpu_hour: nano(given.number("usd_per_gpu_hour").unwrap_or_default()),
                plan: match given.text("plan") {
                    Some("reserved_3y") => Plan::ReservedThreeYears,
                    Some("own") => Plan::Owned,
                    _ => Plan::ReservedOneYear,
                },
                until: until.and_then(Result::ok),
            });
        }
        let day = text(given, "day").unwrap_or_default();
        if nanos_at_end_of(&day).is_none() && !(discounts.is_empty() && commitments.is_empty()) {
            let message = "is needed: the day from which on these terms hold, like 2026-01-01";
            errors.push(SettingError { path: "day".to_owned(), message: message.to_owned() });
        }
        let contract = text(given, "contract").unwrap_or_else(|| "negotiated terms".to_owned());
        if errors.is_empty() {
            Ok(Self { contract, day, discounts, commitments })
        } else {
            Err(errors)
        }
    }
}

impl Pricer for Negotiated {
    fn quote(terms: &Terms, request: &QuoteRequest) -> Option<Quote> {
        let committed = terms.commitments.iter().find(|commitment| commitment.covers(request));
        if let Some(commitment) = committed {
            return Some(Quote {
                nano_usd_per_gpu_hour: commitment.nano_usd_per_gpu_hour,
                plan: commitment.plan,
                source: terms.contract.clone(),
                day: terms.day.clone(),
                valid_until: commitment.until,
            });
        }
        let listed = request.listed.as_ref()?;
        let plans = [request.plan, listed.plan];
        if !plans.iter().all(|plan| matches!(plan, None | Some(Plan::OnDemand))) {
            return None;
        }
        let by_model = |name: &str| same_model(name, &request.model);
        let by_provider = |name: &str| Some(name) == listed.provider.as_deref();
        let found = terms.discounts.iter().find(|(name, _)| by_model(name));
        let (_, share) =
            found.or_else(|| terms.discounts.iter().find(|(name, _)| by_provider(name)))?;
        Some(Quote {
            nano_usd_per_gpu_hour: off(listed.nano_usd_per_gpu_hour, *share),
            plan: Plan::OnDemand,
            source: [&terms.contract, ": ", &percent(*share), " off the list"].concat(),
            day: listed.day.clone().unwrap_or_else(|| terms.day.clone()),
            valid_until: None,
        })
    }
}

impl Commitment {
    fn covers(&self, request: &QuoteRequest) -> bool {
        let fits = |mine: &Option<String>, asked: &Option<String>| mine.is_none() || mine == asked;
        same_model(&self.model, &request.model)
            && fits(&self.provider, &request.provider)
            && fits(&self.region, &request.region)
            && fits(&self.instance_type, &request.instance_type)
            && request.plan.is_none_or(|plan| plan == self.plan)
            && self.until.is_none_or(|until| until > request.time)
    }
}

/// Dollars in nano-dollars, rounded half up.
fn nano(usd: f64) -> u64 {
    (usd * 1e9 + 0.5) as u64
}

/// A price less a share of it, to a millionth, rounded half up.
fn off(nano_usd: u64, share: f64) -> u64 {
    let left = 1_000_000 - (share.clamp(0.0, 1.0) * 1e6 + 0.5) as u64;
    let exact = u128::from(nano_usd) * u128::from(left);
    u64::try_from((exact + 500_000) / 1_000_000).unwrap_or(nano_usd)
}

phasemeter_policy::pricer!(Negotiated);

#[cfg(test)]
mod tests {
    use phasemeter_policy::Price;
    use phasemeter_policy::testing::{price, request};

    use super::*;

    fn given(pairs: &[(&str, Value)]) -> Given {
        pairs.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn terms() -> Terms {
        Terms::read(&given(&[
            ("commitments.0.model", text("NVIDIA L4")),
            ("commitments.0.provider", text("gcp")),
            ("commitments.0.until", text("2026-12-31")),
            ("commitments.0.usd_per_gpu_hour", Value::Number(0.41)),
            ("contract", text("order 4711")),
            ("day", text("2026-01-01")),
            ("discounts.NVIDIA H100 80GB HBM3", Value::Number(0.25)),
            ("discounts.aws", Value::Number(0.12)),
        ]))
        .unwrap()
    }

    #[test]
    fn a_discount_of_the_model_goes_before_that_of_the_provider() {
        let quote = Negotiated::quote(&terms(), &request()).unwrap();
        assert_eq!(quote.nano_usd_per_gpu_hour, 2_700_000_000);
        assert_eq!(
            (quote.source.as_str(), quote.day.as_str()),
            ("order 4711: 25 % off the list", "2026-07-20")
        );
        let other = QuoteRequest { model: "NVIDIA A10G".to_owned(), ..request() };
        assert_eq!(
            Negotiated::quote(&terms(), &other).unwrap().nano_usd_per_gpu_hour,
            3_168_000_000
        );
    }

    #[test]
    fn a_commitment_covers_what_it_names_for_as_long_as_it_runs() {
        let l4 = QuoteRequest {
            model: "L4".to_owned(),
            provider: Some("gcp".to_owned()),
            plan: None,
            listed: None,
            ..request()
        };
        let quote = Negotiated::quote(&terms(), &l4).unwrap();
        assert_eq!((quote.nano_usd_per_gpu_hour, quote.plan), (410_000_000, Plan::ReservedOneYear));
        // The last day of 2026 ends with the year.
        assert_eq!(quote.valid_until, Some(1_798_761_600_000_000_000));
        let later = QuoteRequest { time: 1_798_761_600_000_000_000, ..l4.clone() };
        assert!(Negotiated::quote(&terms(), &later).is_none());
        let elsewhere = QuoteRequest { provider: Some("aws".to_owned()), ..l4.clone() };
        assert!(Negotiated::quote(&terms(), &elsewhere).is_none());
    }

    #[test]
    fn what_no_term_covers_is_left_to_the_next() {
        let nothing = Terms::read(&Given::default()).unwrap();
        assert!(Negotiated::quote(&nothing, &request()).is_none());
        let spot = QuoteRequest { plan: Some(Plan::Spot), ..request() };
        assert!(Negotiated::quote(&terms(), &spot).is_none());
        let unlisted = QuoteRequest { listed: None, ..request() };
        assert!(Negotiated::quote(&terms(), &unlisted).is_none());
        let reserved = Price { plan: Some(Plan::ReservedOneYear), ..price() };
        let reserved = QuoteRequest { listed: Some(reserved), ..request() };
        assert!(Negotiated::quote(&terms(), &reserved).is_none());
    }

    #[test]
    fn terms_have_a_day_and_days_are_days() {
        let wrong = given(&[
            ("commitments.0.model", text("NVIDIA L4")),
            ("commitments.0.until", text("2026-02-30")),
        ]);
        let errors = Terms::read(&wrong).unwrap_err();
        let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["commitments.0.until", "day"]);
    }

    #[test]
    fn a_discount_is_exact_to_the_nano_dollar() {
        assert_eq!(off(6_880_000_000, 0.25), 5_160_000_000);
        assert_eq!(off(1, 0.5), 1);
        assert_eq!((off(100, 0.0), off(100, 1.0)), (100, 0));
        assert_eq!((nano(0.41), nano(10_000.0)), (410_000_000, 10_000_000_000_000));
    }
}
