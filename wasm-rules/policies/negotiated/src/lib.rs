//! Prices GPUs by negotiated terms. The example for pricers.
//!
//! The settings define two kinds of terms. A commitment sets the hourly price of a number of GPUs from
//! its first day to its last. A discount reduces the list price of a model or of all models of a provider. All other
//! requests pass to the next pricer.
//!
//! ```json
//! {
//!     "contract": "order 4711",
//!     "as_of": "2026-01-01",
//!     "discounts": {"aws": 0.12, "NVIDIA H100 80GB HBM3": 0.25},
//!     "commitments": [
//!         {"model": "NVIDIA L4", "provider": "gcp", "usd_per_gpu_hour": 0.41,
//!          "plan": "reserved_1y", "from": "2026-01-01", "until": "2026-12-31", "gpus": 4}
//!     ]
//! }
//! ```

mod date;

use date::{nanos_at_end_of, nanos_at_start_of};
use phasemeter_policy::format::percent;
use phasemeter_policy::settings::Settings;
use phasemeter_policy::{
    Plan, Policy, Pricer, Quote, QuoteRequest, RawSettings, SettingError, Value, same_model,
};

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "contract": {"type": "string", "default": "negotiated terms",
            "description": "Name of the terms, reported as the source of every quote."},
        "as_of": {"type": "string", "examples": ["2026-01-01"],
            "description": "Start date of the terms. Required if there are any."},
        "discounts": {
            "type": "object",
            "description": "Discount on the on-demand list price, by model, else by provider: 0–1.",
            "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}
        },
        "commitments": {
            "type": "array",
            "description": "Committed prices, which take precedence over discounts. Each applies to the GPUs after those of the ones before it.",
            "items": {
                "type": "object",
                "properties": {
                    "model": {"type": "string", "description": "Model as the driver reports it."},
                    "usd_per_gpu_hour": {"type": "number", "minimum": 0, "maximum": 10000},
                    "plan": {"type": "string", "default": "reserved_1y",
                        "enum": ["reserved_1y", "reserved_3y", "owned"]},
                    "provider": {"type": "string", "description": "Applies only at this provider."},
                    "region": {"type": "string", "description": "Applies only in this region."},
                    "instance_type": {"type": "string", "description": "Applies only to this instance type."},
                    "from": {"type": "string", "description": "First day, like 2026-01-01."},
                    "until": {"type": "string", "description": "Last day, like 2026-12-31."},
                    "gpus": {"type": "integer", "minimum": 1, "maximum": 1000000,
                        "description": "Number of GPUs of one run; all by default. Other runs are not counted."}
                },
                "required": ["model", "usd_per_gpu_hour"],
                "additionalProperties": false
            }
        }
    },
    "additionalProperties": false
}"#;

struct Negotiated;

/// Negotiated terms.
#[derive(Debug)]
struct Terms {
    contract: String,
    as_of: String,
    discounts: Vec<(String, f64)>,
    commitments: Vec<Commitment>,
}

/// A committed hourly price.
#[derive(Debug)]
struct Commitment {
    model: String,
    provider: Option<String>,
    region: Option<String>,
    instance_type: Option<String>,
    nano_usd_per_gpu_hour: u64,
    plan: Plan,
    /// The first instant.
    from: Option<u64>,
    /// The first instant after it.
    until: Option<u64>,
    gpus: Option<u32>,
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

    fn read(raw: &RawSettings) -> Result<Self, Vec<SettingError>> {
        let text = |raw: &RawSettings, name| raw.text(name).map(str::to_owned);
        let mut errors = Vec::new();
        let discounts = raw.map("discounts").filter_map(|(name, value)| match value {
            Value::Number(share) => Some((name.to_owned(), *share)),
            _ => None,
        });
        let discounts: Vec<_> = discounts.collect();
        let mut commitments = Vec::new();
        for (number, raw) in raw.list("commitments").iter().enumerate() {
            let mut date = |name: &str, instant: fn(&str) -> Option<u64>| {
                let date = instant(raw.text(name)?);
                if date.is_none() {
                    errors.push(error(number, name, "invalid date; expected YYYY-MM-DD"));
                }
                date
            };
            let (from, until) = (date("from", nanos_at_start_of), date("until", nanos_at_end_of));
            if from.zip(until).is_some_and(|(from, until)| from >= until) {
                errors.push(error(
                    number,
                    "until",
                    "before 'from'; expected that day or a later one",
                ));
            }
            commitments.push(Commitment {
                model: text(raw, "model").unwrap_or_default(),
                provider: text(raw, "provider"),
                region: text(raw, "region"),
                instance_type: text(raw, "instance_type"),
                nano_usd_per_gpu_hour: nano(raw.number("usd_per_gpu_hour").unwrap_or_default()),
                plan: match raw.text("plan") {
                    Some("reserved_3y") => Plan::ReservedThreeYears,
                    Some("owned") => Plan::Owned,
                    _ => Plan::ReservedOneYear,
                },
                from,
                until,
                gpus: raw.number("gpus").map(|gpus| gpus as u32),
            });
        }
        let as_of = text(raw, "as_of").unwrap_or_default();
        if nanos_at_end_of(&as_of).is_none() && !(discounts.is_empty() && commitments.is_empty()) {
            let message = "required: the start date of the terms, as YYYY-MM-DD";
            errors.push(SettingError { path: "as_of".to_owned(), message: message.to_owned() });
        }
        let contract = text(raw, "contract").unwrap_or_else(|| "negotiated terms".to_owned());
        if errors.is_empty() {
            Ok(Self { contract, as_of, discounts, commitments })
        } else {
            Err(errors)
        }
    }
}

impl Pricer for Negotiated {
    fn quote(terms: &Terms, request: &QuoteRequest) -> Option<Quote> {
        // A commitment is for the GPUs in use: another one would be a new contract.
        let committed = if request.is_offer { &[] } else { terms.commitments.as_slice() };
        let matching = committed.iter().filter(|commitment| commitment.covers(request));
        let later = |commitment: &&Commitment| commitment.from > Some(request.time);
        let mut covered = 0;
        for (index, commitment) in matching.clone().enumerate() {
            covered += commitment.gpus.filter(|_| !later(&commitment)).unwrap_or_default();
            if later(&commitment) || (commitment.gpus.is_some() && covered <= request.priced) {
                continue;
            }
            // A commitment before this one takes precedence as soon as it begins.
            let start = matching.clone().take(index).filter(later).filter_map(|it| it.from).min();
            return Some(Quote {
                valid_until: [commitment.until, start].into_iter().flatten().min(),
                gpus: commitment.gpus.map(|_| covered - request.priced),
                ..commitment.quote(terms)
            });
        }
        let next = matching.filter(later).min_by_key(|commitment| commitment.from);
        match terms.discounted(request) {
            Some(quote) => {
                Some(Quote { valid_until: next.and_then(|commitment| commitment.from), ..quote })
            }
            None => next.map(|next| next.quote(terms)),
        }
    }
}

impl Terms {
    /// The quote for the list price less the discount of the model, else of the provider.
    fn discounted(&self, request: &QuoteRequest) -> Option<Quote> {
        let listed = request.listed.as_ref()?;
        let plans = [request.plan, listed.plan];
        if !plans.iter().all(|plan| matches!(plan, None | Some(Plan::OnDemand))) {
            return None;
        }
        let by_model = |name: &str| same_model(name, &request.model);
        let by_provider = |name: &str| Some(name) == listed.provider.as_deref();
        let found = self.discounts.iter().find(|(name, _)| by_model(name));
        let (_, share) =
            found.or_else(|| self.discounts.iter().find(|(name, _)| by_provider(name)))?;
        Some(Quote {
            nano_usd_per_gpu_hour: discounted(listed.nano_usd_per_gpu_hour, *share),
            plan: Plan::OnDemand,
            source: [&self.contract, ": ", &percent(*share), " off list price"].concat(),
            as_of: listed.as_of.clone().unwrap_or_else(|| self.as_of.clone()),
            valid_from: None,
            valid_until: None,
            gpus: None,
        })
    }
}

impl Commitment {
    /// The quote for all of its time and GPUs.
    fn quote(&self, terms: &Terms) -> Quote {
        Quote {
            nano_usd_per_gpu_hour: self.nano_usd_per_gpu_hour,
            plan: self.plan,
            source: terms.contract.clone(),
            as_of: terms.as_of.clone(),
            valid_from: self.from,
            valid_until: self.until,
            gpus: self.gpus,
        }
    }

    /// Whether it applies to these GPUs, now or later.
    fn covers(&self, request: &QuoteRequest) -> bool {
        let matches =
            |own: &Option<String>, requested: &Option<String>| own.is_none() || own == requested;
        same_model(&self.model, &request.model)
            && matches(&self.provider, &request.provider)
            && matches(&self.region, &request.region)
            && matches(&self.instance_type, &request.instance_type)
            && request.plan.is_none_or(|plan| plan == self.plan)
            && self.until.is_none_or(|until| until > request.time)
    }
}

/// The error of a setting of a commitment.
fn error(commitment: usize, name: &str, message: &str) -> SettingError {
    let path = ["commitments.", &commitment.to_string(), ".", name].concat();
    SettingError { path, message: message.to_owned() }
}

/// Converts dollars to nano-USD, rounded half up.
fn nano(usd: f64) -> u64 {
    (usd * 1e9 + 0.5) as u64
}

/// Reduces a price by a share, which is rounded to a millionth; the result is rounded half up.
fn discounted(nano_usd: u64, share: f64) -> u64 {
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

    fn raw(pairs: &[(&str, Value)]) -> RawSettings {
        pairs.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn terms() -> Terms {
        Terms::read(&raw(&[
            ("commitments.0.model", text("NVIDIA L4")),
            ("commitments.0.provider", text("gcp")),
            ("commitments.0.until", text("2026-12-31")),
            ("commitments.0.usd_per_gpu_hour", Value::Number(0.41)),
            ("contract", text("order 4711")),
            ("as_of", text("2026-01-01")),
            ("discounts.NVIDIA H100 80GB HBM3", Value::Number(0.25)),
            ("discounts.aws", Value::Number(0.12)),
        ]))
        .unwrap()
    }

    #[test]
    fn model_discount_takes_precedence_over_provider_discount() {
        let quote = Negotiated::quote(&terms(), &request()).unwrap();
        assert_eq!(quote.nano_usd_per_gpu_hour, 2_700_000_000);
        assert_eq!(
            (quote.source.as_str(), quote.as_of.as_str()),
            ("order 4711: 25% off list price", "2026-07-20")
        );
        let other = QuoteRequest { model: "NVIDIA A10G".to_owned(), ..request() };
        assert_eq!(
            Negotiated::quote(&terms(), &other).unwrap().nano_usd_per_gpu_hour,
            3_168_000_000
        );
    }

    #[test]
    fn commitment_applies_until_it_expires() {
        let l4 = QuoteRequest {
            model: "L4".to_owned(),
            provider: Some("gcp".to_owned()),
            plan: None,
            listed: None,
            ..request()
        };
        let quote = Negotiated::quote(&terms(), &l4).unwrap();
        assert_eq!((quote.nano_usd_per_gpu_hour, quote.plan), (410_000_000, Plan::ReservedOneYear));
        // The end of 2026-12-31.
        assert_eq!(quote.valid_until, Some(1_798_761_600_000_000_000));
        let later = QuoteRequest { time: 1_798_761_600_000_000_000, ..l4.clone() };
        assert!(Negotiated::quote(&terms(), &later).is_none());
        let elsewhere = QuoteRequest { provider: Some("aws".to_owned()), ..l4.clone() };
        assert!(Negotiated::quote(&terms(), &elsewhere).is_none());
    }

    const DAY: u64 = 86_400 * 1_000_000_000;
    /// The start of 2026-07-01.
    const JULY: u64 = 1_782_864_000_000_000_000;

    /// Commitments of two GPUs at $1 from July on, of three at $2 until the end of July, and of all at
    /// $3 from 2 July on.
    fn numbered() -> Terms {
        Terms::read(&raw(&[
            ("as_of", text("2026-01-01")),
            ("commitments.0.model", text("L4")),
            ("commitments.0.usd_per_gpu_hour", Value::Number(1.0)),
            ("commitments.0.from", text("2026-07-01")),
            ("commitments.0.gpus", Value::Number(2.0)),
            ("commitments.1.model", text("L4")),
            ("commitments.1.usd_per_gpu_hour", Value::Number(2.0)),
            ("commitments.1.until", text("2026-07-31")),
            ("commitments.1.gpus", Value::Number(3.0)),
            ("commitments.2.model", text("L4")),
            ("commitments.2.usd_per_gpu_hour", Value::Number(3.0)),
            ("commitments.2.from", text("2026-07-02")),
        ]))
        .unwrap()
    }

    /// Rate, number of GPUs, beginning and end of a quote.
    type Quoted = (u64, Option<u32>, Option<u64>, Option<u64>);

    /// Dollars, number of GPUs, start and end of the quote for the GPUs after `priced` at `time`.
    fn quoted(time: u64, priced: u32) -> Option<Quoted> {
        let l4 =
            QuoteRequest { model: "NVIDIA L4".to_owned(), plan: None, listed: None, ..request() };
        let request = QuoteRequest { time, gpus: 8, priced, ..l4 };
        let quote = Negotiated::quote(&numbered(), &request)?;
        let dollars = quote.nano_usd_per_gpu_hour / 1_000_000_000;
        Some((dollars, quote.gpus, quote.valid_from, quote.valid_until))
    }

    #[test]
    fn commitments_follow_one_another_by_number_of_gpus() {
        let (second, third) = (JULY + DAY, JULY + 31 * DAY);
        assert_eq!(quoted(second, 0), Some((1, Some(2), Some(JULY), None)));
        assert_eq!(quoted(second, 2), Some((2, Some(3), None, Some(third))));
        assert_eq!(quoted(second, 5), Some((3, None, Some(second), None)));
        assert_eq!(quoted(third, 2), Some((3, None, Some(second), None)), "the second has ended");
    }

    #[test]
    fn commitment_applies_from_its_first_day() {
        assert_eq!(
            quoted(JULY - 1, 0),
            Some((2, Some(3), None, Some(JULY))),
            "until the first begins"
        );
        assert_eq!(quoted(JULY - 1, 3), Some((1, Some(2), Some(JULY), None)), "not valid yet");
        assert_eq!(quoted(JULY, 0), Some((1, Some(2), Some(JULY), None)));
    }

    #[test]
    fn discount_applies_until_commitment_begins() {
        let terms = Terms::read(&raw(&[
            ("as_of", text("2026-01-01")),
            ("commitments.0.model", text("NVIDIA H100 80GB HBM3")),
            ("commitments.0.usd_per_gpu_hour", Value::Number(1.0)),
            ("commitments.0.plan", text("owned")),
            ("commitments.0.from", text("2026-07-01")),
            ("discounts.aws", Value::Number(0.5)),
        ]))
        .unwrap();
        let before = QuoteRequest { time: JULY - DAY, plan: None, ..request() };
        let quote = Negotiated::quote(&terms, &before).unwrap();
        assert_eq!((quote.nano_usd_per_gpu_hour, quote.valid_until), (1_800_000_000, Some(JULY)));
        let quote = Negotiated::quote(&terms, &QuoteRequest { time: JULY, ..before }).unwrap();
        assert_eq!((quote.nano_usd_per_gpu_hour, quote.valid_until), (1_000_000_000, None));
    }

    #[test]
    fn requests_without_terms_pass() {
        let nothing = Terms::read(&RawSettings::default()).unwrap();
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
    fn invalid_dates_are_rejected() {
        let invalid = raw(&[
            ("commitments.0.model", text("NVIDIA L4")),
            ("commitments.0.until", text("2026-02-30")),
            ("commitments.1.model", text("NVIDIA L4")),
            ("commitments.1.from", text("2026-02-01")),
            ("commitments.1.until", text("2026-01-31")),
            ("commitments.2.model", text("NVIDIA L4")),
            ("commitments.2.from", text("tomorrow")),
        ]);
        let errors = Terms::read(&invalid).unwrap_err();
        let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
        let expected =
            ["commitments.0.until", "commitments.1.until", "commitments.2.from", "as_of"];
        assert_eq!(paths, expected);
    }

    #[test]
    fn discounts_are_exact_to_the_nano_usd() {
        assert_eq!(discounted(6_880_000_000, 0.25), 5_160_000_000);
        assert_eq!(discounted(1, 0.5), 1);
        assert_eq!((discounted(100, 0.0), discounted(100, 1.0)), (100, 0));
        assert_eq!((nano(0.41), nano(10_000.0)), (410_000_000, 10_000_000_000_000));
    }
}
