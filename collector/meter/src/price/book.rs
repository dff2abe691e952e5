//! The price book: list prices of the clouds' GPU instances, each with its source and day.
//!
//! The table is `data/gpu-instances.csv`; its README tells sources and doubts. Prices match
//! exactly or not at all; a near name is offered in the refusal, never taken.

use super::{Day, Estimate, Plan, Price, Unpriced, near::near};
use crate::gpu_facts::same_model;
use crate::money::Rate;
use crate::table;

const TABLE: &str = include_str!("../../data/gpu-instances.csv");

/// Where each provider's rows were read.
const SOURCES: [(&str, &str); 3] = [
    ("aws", "aws/karpenter-provider-aws"),
    ("azure", "Azure/karpenter-provider-azure"),
    ("gcp", "cloudpilot-ai/karpenter-provider-gcp"),
];

/// The list prices that ship.
#[derive(Clone, Debug)]
pub struct PriceBook {
    rows: Vec<Row>,
}

/// One instance type in one region.
#[derive(Clone, Copy, Debug)]
struct Row {
    provider: &'static str,
    region: &'static str,
    instance_type: &'static str,
    model: &'static str,
    /// A GPU-hour, as the rates below; `None` where the price is unknown.
    on_demand: Option<Rate>,
    spot: Option<Rate>,
    as_of: Day,
}

/// What is asked of the book. Case says nothing in any of the names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// The GPU's model, as the driver spells it. Asked only where there is no instance type.
    pub model: Option<&'a str>,
    /// `aws`, `azure`, `gcp`; else any.
    pub provider: Option<&'a str>,
    /// `us-east-1`; else any.
    pub region: Option<&'a str>,
    /// `p5.48xlarge`. Where it is given, it decides.
    pub instance_type: Option<&'a str>,
    /// On demand where it is not given.
    pub plan: Option<Plan>,
}

impl PriceBook {
    /// The book that ships. Reading it takes well under a millisecond; keep it where it is asked
    /// often.
    #[must_use]
    pub fn shipped() -> Self {
        Self { rows: table::rows(TABLE).filter_map(|cells| Row::parse(cells?)).collect() }
    }

    /// The price of a GPU-hour: by instance type where that is given, else by model.
    ///
    /// Of an instance type that the query leaves at one price, it is that price. Else it is the
    /// lower median of the prices that the query leaves, and says that it is an estimate; a price
    /// by model always is one, since the same GPU is sold in many instances.
    ///
    /// # Errors
    /// [`Unpriced`], where the book has no such price, with the reason.
    pub fn price(&self, query: &Query<'_>) -> Result<Price, Unpriced> {
        let plan = query.plan.unwrap_or(Plan::OnDemand);
        let rate: fn(&Row) -> Option<Rate> = match plan {
            Plan::OnDemand => |row| row.on_demand,
            Plan::Spot => |row| row.spot,
            Plan::Reserved1y | Plan::Reserved3y | Plan::Own => {
                return Err(Unpriced::PlanNotListed(plan));
            }
        };
        self.knows_place(query)?;
        let rows = self.rows_of(query)?;
        let mut priced: Vec<(Rate, Row)> = rows
            .filter(|row| query.is_sold_at(row))
            .filter_map(|row| Some((rate(row)?, *row)))
            .collect();
        priced.sort_by_key(|&(rate, _)| rate);
        let lower_median = priced.get(priced.len().saturating_sub(1) / 2);
        let (Some(&(rate, _)), Some(&(low, _)), Some(&(high, _))) =
            (lower_median, priced.first(), priced.last())
        else {
            return Err(query.not_listed(plan));
        };
        let exact = query.instance_type.is_some() && low == high;
        Ok(Price {
            rate,
            plan: Some(plan),
            provider: shared(&priced, |row| row.provider),
            region: shared(&priced, |row| row.region),
            instance_type: shared(&priced, |row| row.instance_type),
            source: sources(&priced),
            as_of: priced.iter().map(|(_, row)| row.as_of).min(),
            estimate: (!exact).then_some(Estimate { rows: priced.len(), low, high }),
        })
    }

    /// Whether provider and region, where they are given, are in the book.
    fn knows_place(&self, query: &Query<'_>) -> Result<(), Unpriced> {
        let of_provider = || self.rows.iter().filter(|row| fits(query.provider, row.provider));
        if let Some(provider) = query.provider
            && of_provider().next().is_none()
        {
            let known = SOURCES.map(|(provider, _)| provider).to_vec();
            return Err(Unpriced::UnknownProvider { provider: provider.to_owned(), known });
        }
        if let Some(region) = query.region
            && !of_provider().any(|row| fits(query.region, row.region))
        {
            return Err(Unpriced::UnknownRegion {
                region: region.to_owned(),
                provider: query.provider.map(str::to_owned),
                near: near(region, of_provider().map(|row| row.region)),
            });
        }
        Ok(())
    }

    /// All rows of the instance type, or else of the model; at least one.
    fn rows_of<'q>(&'q self, query: &Query<'q>) -> Result<impl Iterator<Item = &'q Row>, Unpriced> {
        let Query { model, instance_type, .. } = *query;
        let asked_for = move |row: &&Row| match instance_type {
            Some(_) => fits(instance_type, row.instance_type),
            None => model.is_some_and(|model| same_model(row.model, model)),
        };
        if self.rows.iter().any(|row| asked_for(&row)) {
            return Ok(self.rows.iter().filter(asked_for));
        }
        Err(match (instance_type, model) {
            (Some(name), _) => Unpriced::UnknownInstanceType {
                instance_type: name.to_owned(),
                near: near(name, self.rows.iter().map(|row| row.instance_type)),
            },
            (None, Some(name)) => Unpriced::UnknownModel {
                model: name.to_owned(),
                near: near(name, self.rows.iter().map(|row| row.model)),
            },
            (None, None) => Unpriced::NothingKnown,
        })
    }
}

impl Query<'_> {
    fn is_sold_at(&self, row: &Row) -> bool {
        fits(self.provider, row.provider) && fits(self.region, row.region)
    }

    fn not_listed(&self, plan: Plan) -> Unpriced {
        Unpriced::NotListed {
            what: self.instance_type.or(self.model).unwrap_or_default().to_owned(),
            plan,
            provider: self.provider.map(str::to_owned),
            region: self.region.map(str::to_owned),
        }
    }
}

impl Row {
    fn parse(cells: [&'static str; 9]) -> Option<Self> {
        let [provider, region, instance_type, model, gpus, _memory, on_demand, spot, day] = cells;
        let gpus = gpus.parse().ok()?;
        Some(Self {
            provider,
            region,
            instance_type,
            model,
            on_demand: each(on_demand, gpus)?,
            spot: each(spot, gpus)?,
            as_of: day.parse().ok()?,
        })
    }
}

/// An instance's price divided among its GPUs. An empty cell is `Some(None)`; one that can't be
/// read is `None`.
fn each(instance: &str, gpus: u32) -> Option<Option<Rate>> {
    if instance.is_empty() {
        return Some(None);
    }
    let instance = Rate::parse(instance).ok()?.nano_usd_per_hour();
    Rate::of_instance(instance, gpus).map(Some)
}

/// Whether a name is the wanted one, or any is.
fn fits(wanted: Option<&str>, name: &str) -> bool {
    wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
}

/// What all rows have in a column, where they have the same.
fn shared(rows: &[(Rate, Row)], column: fn(&Row) -> &'static str) -> Option<String> {
    let (_, first) = rows.first()?;
    rows.iter().all(|(_, row)| column(row) == column(first)).then(|| column(first).to_owned())
}

fn sources(rows: &[(Rate, Row)]) -> String {
    let used = |provider: &str| rows.iter().any(|(_, row)| row.provider == provider);
    let names: Vec<_> =
        SOURCES.iter().filter(|(provider, _)| used(provider)).map(|&(_, name)| name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu_facts::GpuFacts;

    fn ask(query: Query<'_>) -> Result<Price, Unpriced> {
        PriceBook::shipped().price(&query)
    }

    fn refusal(query: Query<'_>) -> String {
        ask(query).unwrap_err().to_string()
    }

    fn usd(text: &str) -> Rate {
        Rate::parse(text).unwrap()
    }

    #[test]
    fn every_row_is_read_has_a_source_and_carries_a_gpu_with_facts() {
        let book = PriceBook::shipped();
        assert_eq!(book.rows.len(), TABLE.lines().count() - 1);
        for row in &book.rows {
            assert!(SOURCES.iter().any(|(provider, _)| *provider == row.provider), "{row:?}");
            assert!(GpuFacts::of(row.model).is_some(), "{row:?}");
            assert!(row.on_demand.is_some_and(|rate| rate.nano_usd_per_hour() > 0), "{row:?}");
        }
    }

    #[test]
    fn an_instance_type_at_one_price_is_no_estimate() {
        let price = ask(Query { instance_type: Some("P5.48XLARGE"), ..Query::default() }).unwrap();
        assert_eq!(price.rate, usd("6.88"), "$55.04 among 8 GPUs");
        assert_eq!(price.plan, Some(Plan::OnDemand));
        assert_eq!(price.provider.as_deref(), Some("aws"));
        assert_eq!(price.region.as_deref(), Some("us-east-1"));
        assert_eq!(price.instance_type.as_deref(), Some("p5.48xlarge"));
        assert_eq!(price.source, "aws/karpenter-provider-aws");
        assert_eq!(price.as_of.unwrap().to_string(), "2026-07-20");
        assert_eq!(price.estimate, None);
    }

    #[test]
    fn an_instance_type_sold_at_several_prices_is_an_estimate_until_a_region_is_given() {
        let query = Query { instance_type: Some("a2-highgpu-1g"), ..Query::default() };
        let anywhere = ask(query).unwrap();
        assert_eq!(anywhere.estimate.unwrap().rows, 10);
        assert_eq!(anywhere.region, None);
        let there = ask(Query { region: Some("us-central1"), ..query }).unwrap();
        assert_eq!(there.rate, usd("3.673385"));
        assert_eq!(there.estimate, None);
    }

    #[test]
    fn a_model_costs_the_lower_median_of_what_the_query_leaves() {
        let query = Query { model: Some("a10g"), provider: Some("aws"), ..Query::default() };
        let price = ask(query).unwrap();
        let (low, high) = (usd("1.006"), usd("4.096"));
        assert_eq!(price.estimate, Some(Estimate { rows: 8, low, high }));
        assert_eq!(price.rate, usd("1.624"), "the fourth of eight");
        assert_eq!(price.instance_type, None);
        assert_eq!(price.region.as_deref(), Some("us-east-1"));
    }

    #[test]
    fn an_estimate_across_providers_names_every_source_and_its_oldest_day() {
        let price = ask(Query { model: Some("Tesla T4"), ..Query::default() }).unwrap();
        assert_eq!(price.provider, None);
        assert_eq!(price.source, "aws/karpenter-provider-aws, Azure/karpenter-provider-azure");
        assert_eq!(price.as_of.unwrap().to_string(), "2026-06-18");
    }

    #[test]
    fn a_model_in_one_row_is_still_an_estimate() {
        let price = ask(Query { model: Some("NVIDIA B200"), ..Query::default() }).unwrap();
        let rate = usd("14.2416");
        assert_eq!(price.estimate, Some(Estimate { rows: 1, low: rate, high: rate }));
    }

    #[test]
    fn spot_takes_spot_prices_only() {
        let query = Query { model: Some("NVIDIA L4"), plan: Some(Plan::Spot), ..Query::default() };
        let spot = ask(query).unwrap();
        assert_eq!(spot.provider.as_deref(), Some("gcp"), "aws lists no spot prices here");
        assert_eq!(spot.plan, Some(Plan::Spot));
        assert!(spot.rate < ask(Query { plan: None, ..query }).unwrap().rate);
    }

    #[test]
    fn the_instance_type_decides_over_the_model() {
        let query = Query {
            model: Some("NVIDIA B300 SXM6 AC"),
            instance_type: Some("p6-b300.48xlarge"),
            ..Query::default()
        };
        assert_eq!(ask(query).unwrap().rate, usd("17.802"));
    }

    #[test]
    fn a_refusal_says_what_is_wrong_and_what_would_be_right() {
        let any = Query::default();
        let cases = [
            (
                any,
                "neither the GPU's model nor its instance type is known: give one of them, or a \
                 price",
            ),
            (
                Query { model: Some("H100"), ..any },
                "the price book has no GPU model 'H100': did you mean NVIDIA H100 NVL or NVIDIA \
                 H100 80GB HBM3?",
            ),
            (Query { model: Some("Radeon"), ..any }, "the price book has no GPU model 'Radeon'"),
            (
                Query { instance_type: Some("p5.48xlrge"), model: Some("NVIDIA L4"), ..any },
                "the price book has no instance type 'p5.48xlrge': did you mean p5.48xlarge, \
                 p5.4xlarge or g5.48xlarge?",
            ),
            (
                Query { model: Some("NVIDIA L4"), provider: Some("amazon"), ..any },
                "the price book has no provider 'amazon': it knows aws, azure and gcp",
            ),
            (
                Query {
                    model: Some("NVIDIA L4"),
                    provider: Some("aws"),
                    region: Some("us-east1"),
                    ..any
                },
                "the price book has no region 'us-east1' of aws: did you mean us-east-1?",
            ),
            (
                Query { model: Some("NVIDIA A10G"), plan: Some(Plan::Spot), ..any },
                "the price book lists no spot price for 'NVIDIA A10G': another plan, provider or \
                 region has one",
            ),
            (
                Query { model: Some("NVIDIA L4"), plan: Some(Plan::Reserved1y), ..any },
                "the price book lists on_demand and spot prices, none for reserved_1y: give the \
                 price itself",
            ),
            (
                Query { model: Some("NVIDIA L4"), provider: Some("azure"), ..any },
                "the price book lists no on_demand price for 'NVIDIA L4' of azure: another plan, \
                 provider or region has one",
            ),
        ];
        for (query, sentence) in cases {
            assert_eq!(refusal(query), sentence);
        }
    }
}
