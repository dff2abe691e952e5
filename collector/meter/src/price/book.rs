//! The price book: list prices of cloud GPU instances, each with its source and date.
//!
//! The table is `data/gpu-instances.csv`; its README lists sources and known issues. Names match
//! exactly or not at all; similar names are only suggested in the error.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::plan::PaymentPlan;
use super::priced::{Price, PriceRange};
use super::row::{BookRow, ListedPrice};
use super::suggest::suggest;
use super::unpriced::Unpriced;
use crate::csv;
use crate::date::Date;
use crate::gpu_specs::{GpuSpecs, extends_model, same_model};
use crate::money::Rate;

const TABLE: &str = include_str!("../../data/gpu-instances.csv");

/// The source of each provider's rows.
const SOURCES: [(&str, &str); 3] = [
    ("aws", "aws/karpenter-provider-aws"),
    ("azure", "Azure/karpenter-provider-azure"),
    ("gcp", "cloudpilot-ai/karpenter-provider-gcp"),
];

/// List prices: the built-in ones, and those of the user over them.
#[derive(Clone, Debug)]
pub struct PriceBook {
    rows: Vec<BookRow>,
}

/// A query of the price book. Names are case-insensitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// The GPU's model, as spelled by the driver. Used if there is no instance type, or only one with
    /// another GPU.
    pub model: Option<&'a str>,
    /// `aws`, `azure` or `gcp`; any if `None`.
    pub provider: Option<&'a str>,
    /// Such as `us-east-1`; any if `None`.
    pub region: Option<&'a str>,
    /// Such as `p5.48xlarge`; takes precedence over the model, unless it has another GPU.
    pub instance_type: Option<&'a str>,
    /// On demand if `None`.
    pub plan: Option<PaymentPlan>,
}

impl PriceBook {
    /// The built-in price book. Parsing it takes well under a millisecond; keep it for repeated
    /// queries.
    #[must_use]
    pub fn built_in() -> Self {
        Self { rows: csv::rows(TABLE).filter_map(|cells| built_in_row(cells?)).collect() }
    }

    /// A book of these rows only.
    #[must_use]
    pub const fn of(rows: Vec<BookRow>) -> Self {
        Self { rows }
    }

    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> &[BookRow] {
        &self.rows
    }

    /// Puts rows over these: each of their prices replaces the one of the same instance type, region
    /// and plan. Other prices remain, with their own dates and sources.
    #[must_use]
    pub fn overlaid(mut self, rows: Vec<BookRow>) -> Self {
        let places = self.rows.iter().enumerate().map(|(place, row)| (row.key(), place));
        let mut places: BTreeMap<_, _> = places.collect();
        for row in rows {
            let key = row.key();
            let place = *places.entry(key).or_insert(self.rows.len());
            match self.rows.get_mut(place) {
                // With another GPU or number of them, prices per GPU would not compare.
                Some(known) if known.gpus == row.gpus && same_model(&known.model, &row.model) => {
                    let prices = known.prices.iter_mut().zip(row.prices);
                    prices.for_each(|(old, new)| *old = new.or(old.take()));
                }
                Some(known) => *known = row,
                None => self.rows.push(row),
            }
        }
        self
    }

    /// The price per GPU-hour: by instance type if given, else by model.
    ///
    /// If all matching rows of an instance type have one price, it is that price. Otherwise it is
    /// the lower median of the matching prices, marked as an estimate. A price by model is always
    /// an estimate, since the same GPU is sold in many instance types.
    ///
    /// # Errors
    /// Returns an error with the reason if the book lists no such price.
    pub fn price(&self, query: &Query<'_>) -> Result<Price, Unpriced> {
        let query = &match query.model.zip(query.instance_type) {
            Some((model, name)) if self.has_other_gpu(name, model) => {
                Query { instance_type: None, ..*query }
            }
            _ => *query,
        };
        let plan = query.plan.unwrap_or(PaymentPlan::OnDemand);
        if !self.rows.iter().any(|row| row.listed(plan).is_some()) {
            return Err(Unpriced::PlanNotListed(plan));
        }
        self.check_location(query)?;
        let rows = self.matching_rows(query)?;
        let mut priced: Vec<(&ListedPrice, &BookRow)> = rows
            .filter(|row| query.matches_location(row))
            .filter_map(|row| Some((row.listed(plan)?, row)))
            .collect();
        priced.sort_by_key(|(price, _)| price.rate);
        let lower_median = priced.get(priced.len().saturating_sub(1) / 2);
        let (Some((price, _)), Some((low, _)), Some((high, _))) =
            (lower_median, priced.first(), priced.last())
        else {
            return Err(query.not_listed(plan));
        };
        let (rate, low, high) = (price.rate, low.rate, high.rate);
        let exact = query.instance_type.is_some() && low == high;
        let anywhere =
            query.instance_type.is_none() && query.provider.is_none() && query.region.is_none();
        let range = PriceRange { rows: priced.len(), low, high, anywhere };
        Ok(Price {
            rate,
            plan: Some(plan),
            provider: common_value(&priced, |row| &row.provider),
            region: common_value(&priced, |row| &row.region),
            instance_type: common_value(&priced, |row| &row.instance_type),
            source: sources(&priced),
            as_of: priced.iter().map(|(price, _)| price.as_of).min(),
            estimate: (!exact).then_some(range),
        })
    }

    /// The GPU of an instance type; `None` if it is not listed.
    #[must_use]
    pub fn gpu_of(&self, instance_type: &str) -> Option<&str> {
        let row = self.rows.iter().find(|row| matches(Some(instance_type), &row.instance_type));
        row.map(|row| &*row.model)
    }

    /// Whether an instance type has a GPU of another model than this. A model that is in no table, or
    /// has a longer name than in the book, may be the same.
    #[must_use]
    pub fn has_other_gpu(&self, instance_type: &str, model: &str) -> bool {
        self.gpu_of(instance_type).is_some_and(|it| !extends_model(model, it))
            && GpuSpecs::of(model).is_some()
    }

    /// Checks that the book has the queried provider and region.
    fn check_location(&self, query: &Query<'_>) -> Result<(), Unpriced> {
        let provider_rows =
            || self.rows.iter().filter(|row| matches(query.provider, &row.provider));
        if let Some(provider) = query.provider
            && provider_rows().next().is_none()
        {
            let known: BTreeSet<_> = self.rows.iter().map(|row| &*row.provider).collect();
            let known = known.into_iter().map(str::to_owned).collect();
            return Err(Unpriced::UnknownProvider { provider: provider.to_owned(), known });
        }
        if let Some(region) = query.region
            && !provider_rows().any(|row| matches(query.region, &row.region))
        {
            return Err(Unpriced::UnknownRegion {
                region: region.to_owned(),
                provider: query.provider.map(str::to_owned),
                suggestions: suggest(region, provider_rows().map(|row| &*row.region)),
            });
        }
        Ok(())
    }

    /// All rows of the instance type, else of the model; at least one.
    fn matching_rows<'q>(
        &'q self,
        query: &Query<'q>,
    ) -> Result<impl Iterator<Item = &'q BookRow>, Unpriced> {
        let Query { model, instance_type, .. } = *query;
        let is_requested = move |row: &&BookRow| match instance_type {
            Some(_) => matches(instance_type, &row.instance_type),
            None => model.is_some_and(|model| same_model(&row.model, model)),
        };
        if self.rows.iter().any(|row| is_requested(&row)) {
            return Ok(self.rows.iter().filter(is_requested));
        }
        Err(match (instance_type, model) {
            (Some(name), _) => Unpriced::UnknownInstanceType {
                instance_type: name.to_owned(),
                suggestions: suggest(name, self.rows.iter().map(|row| &*row.instance_type)),
            },
            (None, Some(name)) if GpuSpecs::of(name).is_some() => {
                Unpriced::ModelNotListed { model: name.to_owned() }
            }
            (None, Some(name)) => Unpriced::UnknownModel {
                model: name.to_owned(),
                suggestions: suggest(name, self.rows.iter().map(|row| &*row.model)),
            },
            (None, None) => Unpriced::NothingKnown,
        })
    }
}

impl Query<'_> {
    fn matches_location(&self, row: &BookRow) -> bool {
        matches(self.provider, &row.provider) && matches(self.region, &row.region)
    }

    fn not_listed(&self, plan: PaymentPlan) -> Unpriced {
        Unpriced::NotListed {
            what: self.instance_type.or(self.model).unwrap_or_default().to_owned(),
            plan,
            provider: self.provider.map(str::to_owned),
            region: self.region.map(str::to_owned),
        }
    }
}

/// A row of the built-in table; `None` if it is invalid.
fn built_in_row(cells: [&'static str; 9]) -> Option<BookRow> {
    let [provider, region, instance_type, model, gpus, _memory, on_demand, spot, date] = cells;
    let gpus = gpus.parse().ok()?;
    let as_of: Date = date.parse().ok()?;
    let (_, source) = SOURCES.iter().find(|(known, _)| *known == provider)?;
    // `Some(None)` for an empty cell, `None` if it is invalid.
    let price = |cell: &str| {
        if cell.is_empty() {
            return Some(None);
        }
        ListedPrice::of(Rate::parse(cell).ok()?, gpus, as_of, Cow::Borrowed(*source)).map(Some)
    };
    Some(BookRow {
        provider: Cow::Borrowed(provider),
        region: Cow::Borrowed(region),
        instance_type: Cow::Borrowed(instance_type),
        model: Cow::Borrowed(model),
        gpus,
        prices: [price(on_demand)?, price(spot)?, None, None],
    })
}

/// Whether a name matches the queried one, if any.
fn matches(wanted: Option<&str>, name: &str) -> bool {
    wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
}

/// The value of a column if all rows agree.
fn common_value(rows: &[(&ListedPrice, &BookRow)], column: fn(&BookRow) -> &str) -> Option<String> {
    let (_, first) = rows.first()?;
    rows.iter().all(|(_, row)| column(row) == column(first)).then(|| column(first).to_owned())
}

/// The names of all sources, in alphabetic order.
fn sources(rows: &[(&ListedPrice, &BookRow)]) -> String {
    let mut names: Vec<_> = rows.iter().map(|(price, _)| &*price.source).collect();
    names.sort_by_key(|name| name.to_ascii_lowercase());
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price_of(query: Query<'_>) -> Result<Price, Unpriced> {
        PriceBook::built_in().price(&query)
    }

    fn error_of(query: Query<'_>) -> String {
        price_of(query).unwrap_err().to_string()
    }

    fn usd(text: &str) -> Rate {
        Rate::parse(text).unwrap()
    }

    #[test]
    fn rows_parse_and_have_source_and_specs() {
        let book = PriceBook::built_in();
        assert_eq!(book.rows.len(), TABLE.lines().count() - 1);
        for row in &book.rows {
            assert!(GpuSpecs::of(&row.model).is_some(), "{row:?}");
            assert!(
                row.listed(PaymentPlan::OnDemand).is_some_and(|price| price.rate > Rate::ZERO),
                "{row:?}"
            );
        }
    }

    #[test]
    fn instance_type_with_one_price_is_exact() {
        let price =
            price_of(Query { instance_type: Some("P5.48XLARGE"), ..Query::default() }).unwrap();
        assert_eq!(price.rate, usd("6.88"), "$55.04 for 8 GPUs");
        assert_eq!(price.plan, Some(PaymentPlan::OnDemand));
        assert_eq!(price.provider.as_deref(), Some("aws"));
        assert_eq!(price.region.as_deref(), Some("us-east-1"));
        assert_eq!(price.instance_type.as_deref(), Some("p5.48xlarge"));
        assert_eq!(price.source, "aws/karpenter-provider-aws");
        assert_eq!(price.as_of.unwrap().to_string(), "2026-07-20");
        assert_eq!(price.estimate, None);
    }

    #[test]
    fn instance_type_with_several_prices_is_exact_in_one_region() {
        let query = Query { instance_type: Some("a2-highgpu-1g"), ..Query::default() };
        let anywhere = price_of(query).unwrap();
        assert_eq!(anywhere.estimate.unwrap().rows, 10);
        assert_eq!(anywhere.region, None);
        let in_region = price_of(Query { region: Some("us-central1"), ..query }).unwrap();
        assert_eq!(in_region.rate, usd("3.673385"));
        assert_eq!(in_region.estimate, None);
    }

    #[test]
    fn model_price_is_lower_median_of_matches() {
        let query = Query { model: Some("a10g"), provider: Some("aws"), ..Query::default() };
        let price = price_of(query).unwrap();
        let (low, high) = (usd("1.006"), usd("4.096"));
        assert_eq!(price.estimate, Some(PriceRange { rows: 8, low, high, anywhere: false }));
        assert_eq!(price.rate, usd("1.624"), "fourth of eight");
        assert_eq!(price.instance_type, None);
        assert_eq!(price.region.as_deref(), Some("us-east-1"));
    }

    #[test]
    fn estimate_across_providers_lists_sources_and_oldest_date() {
        let price = price_of(Query { model: Some("Tesla T4"), ..Query::default() }).unwrap();
        assert_eq!(price.provider, None);
        assert_eq!(price.source, "aws/karpenter-provider-aws, Azure/karpenter-provider-azure");
        assert_eq!(price.as_of.unwrap().to_string(), "2026-06-18");
    }

    #[test]
    fn model_in_one_row_is_estimate() {
        let price = price_of(Query { model: Some("NVIDIA B200"), ..Query::default() }).unwrap();
        let rate = usd("14.2416");
        let range = PriceRange { rows: 1, low: rate, high: rate, anywhere: true };
        assert_eq!(price.estimate, Some(range));
    }

    #[test]
    fn spot_query_uses_spot_prices_only() {
        let query =
            Query { model: Some("NVIDIA L4"), plan: Some(PaymentPlan::Spot), ..Query::default() };
        let spot = price_of(query).unwrap();
        assert_eq!(spot.provider.as_deref(), Some("gcp"), "aws lists no spot prices here");
        assert_eq!(spot.plan, Some(PaymentPlan::Spot));
        assert!(spot.rate < price_of(Query { plan: None, ..query }).unwrap().rate);
    }

    #[test]
    fn instance_type_takes_precedence_over_model() {
        let query = Query {
            model: Some("NVIDIA B300 SXM6 AC"),
            instance_type: Some("p6-b300.48xlarge"),
            ..Query::default()
        };
        assert_eq!(price_of(query).unwrap().rate, usd("17.802"));
    }

    #[test]
    fn instance_type_with_another_gpu_is_not_used() {
        let model = "NVIDIA H100 80GB HBM3";
        let by_model = Query { model: Some(model), provider: Some("aws"), ..Query::default() };
        let query = Query { instance_type: Some("g4dn.xlarge"), ..by_model };
        assert_eq!(price_of(query), price_of(by_model));
        assert_eq!(PriceBook::built_in().gpu_of("g4dn.xlarge"), Some("Tesla T4"));
        let unlisted = |model| error_of(Query { model: Some(model), ..by_model });
        let unpriced = "no list price for 'NVIDIA GeForce RTX 4090'; specify the price";
        assert_eq!(unlisted("NVIDIA GeForce RTX 4090"), unpriced);
        assert!(unlisted("NVIDIA H100X").starts_with("unknown GPU model 'NVIDIA H100X'"));
    }

    #[test]
    fn overlaid_price_replaces_one_plan_and_leaves_others() {
        let columns = "provider,region,instance_type,gpu_model,gpu_count,as_of,source,\
            spot_usd_per_hour,reserved_1y_usd_per_hour\n";
        let of = |rows: &str| {
            let rows = super::super::user_book::parse(&format!("{columns}{rows}"), "file").unwrap();
            PriceBook::built_in().overlaid(rows)
        };
        let book = of("aws,us-east-1,p5.48xlarge,NVIDIA H100 80GB HBM3,8,2026-11-01,ours,,40\n");
        assert_eq!(book.rows().len(), PriceBook::built_in().rows().len());
        let query = |plan| Query {
            instance_type: Some("p5.48xlarge"),
            plan: Some(plan),
            ..Query::default()
        };
        let reserved = book.price(&query(PaymentPlan::Reserved1y)).unwrap();
        assert_eq!((reserved.rate, reserved.source.as_str()), (usd("5"), "ours"));
        assert_eq!(reserved.as_of.unwrap().to_string(), "2026-11-01");
        let on_demand = book.price(&query(PaymentPlan::OnDemand)).unwrap();
        assert_eq!(
            (on_demand.rate, on_demand.source.as_str()),
            (usd("6.88"), "aws/karpenter-provider-aws")
        );
        let new = of("own,basement,box,NVIDIA L4,2,2026-11-01,,1,\n");
        let price = new.price(&Query { provider: Some("own"), ..query(PaymentPlan::Spot) });
        assert!(price.is_err(), "another instance type");
        let of_box =
            Query { instance_type: Some("box"), plan: Some(PaymentPlan::Spot), ..Query::default() };
        assert_eq!(new.price(&of_box).unwrap().rate, usd("0.5"));
        let other = of("aws,us-east-1,p5.48xlarge,NVIDIA H100 80GB HBM3,4,2026-11-01,,8,\n");
        assert!(
            other.price(&query(PaymentPlan::OnDemand)).is_err(),
            "its number of GPUs was wrong"
        );
    }

    #[test]
    fn error_states_problem_and_fix() {
        let any = Query::default();
        let cases = [
            (
                any,
                "model and instance type are unknown; specify one of them, or a \
                 price",
            ),
            (
                Query { model: Some("H100"), ..any },
                "unknown GPU model 'H100'; did you mean NVIDIA H100 NVL or NVIDIA \
                 H100 80GB HBM3?",
            ),
            (Query { model: Some("Radeon"), ..any }, "unknown GPU model 'Radeon'"),
            (
                Query { instance_type: Some("p5.48xlrge"), model: Some("NVIDIA L4"), ..any },
                "unknown instance type 'p5.48xlrge'; did you mean p5.48xlarge, \
                 p5.4xlarge or g5.48xlarge?",
            ),
            (
                Query { model: Some("NVIDIA L4"), provider: Some("amazon"), ..any },
                "unknown provider 'amazon': expected aws, azure or gcp",
            ),
            (
                Query {
                    model: Some("NVIDIA L4"),
                    provider: Some("aws"),
                    region: Some("us-east1"),
                    ..any
                },
                "unknown region 'us-east1' of aws; did you mean us-east-1?",
            ),
            (
                Query { model: Some("NVIDIA A10G"), plan: Some(PaymentPlan::Spot), ..any },
                "no spot list price for 'NVIDIA A10G'; try another plan, provider or \
                 region",
            ),
            (
                Query { model: Some("NVIDIA L4"), plan: Some(PaymentPlan::Reserved1y), ..any },
                "no list prices for plan reserved_1y, only for on_demand and spot; specify the \
                 price",
            ),
            (
                Query { model: Some("NVIDIA L4"), provider: Some("azure"), ..any },
                "no on_demand list price for 'NVIDIA L4' of azure; try another plan, \
                 provider or region",
            ),
        ];
        for (query, message) in cases {
            assert_eq!(error_of(query), message);
        }
    }
}
