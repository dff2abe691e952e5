//! Prices by GPU, and by instance type and region.

use std::collections::BTreeMap;

use phasemeter_meter::date::Date;
use phasemeter_meter::gpu_specs::same_model;
use phasemeter_meter::price::{BookRow, LISTED_PLANS, ListedPrice, PaymentPlan, PriceBook};

use crate::error::PlanError;
use crate::format::grouped;
use crate::worksheet::{Amount, Worksheet};

/// Which rows of a book; all if empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Provider.
    pub provider: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Instance type or GPU model.
    pub name: Option<String>,
}

impl Filter {
    /// The rows of a book that match.
    ///
    /// # Errors
    /// Returns an error if none does.
    fn rows<'a>(&self, book: &'a PriceBook) -> Result<Vec<&'a BookRow>, PlanError> {
        let is = |wanted: &Option<String>, name: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        let rows = book.rows().iter().filter(|row| {
            is(&self.provider, &row.provider)
                && is(&self.region, &row.region)
                && self.name.as_ref().is_none_or(|name| {
                    row.instance_type.eq_ignore_ascii_case(name) || same_model(&row.model, name)
                })
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            let given =
                [("provider", &self.provider), ("region", &self.region), ("name", &self.name)];
            let last = given.into_iter().rev().find_map(|(option, it)| Some((option, it.clone()?)));
            let (option, value) = last.unwrap_or(("prices", String::new()));
            let fix = "see `phasemeter prices list` for what is listed";
            return Err(PlanError::invalid(option, value, "no prices match", fix));
        }
        Ok(rows)
    }
}

/// Prices on demand and dates by GPU and provider.
///
/// # Errors
/// Returns an error if nothing matches.
pub fn list(book: &PriceBook, filter: &Filter, today: Date) -> Result<Worksheet, PlanError> {
    let rows = filter.rows(book)?;
    let mut sheet =
        Worksheet::new(vec![format!("{} instance types and regions", grouped(rows.len() as u128))]);
    sheet.value("rows", "", Amount::Count(rows.len() as u64));
    let mut groups: BTreeMap<(&str, &str), Vec<&ListedPrice>> = BTreeMap::new();
    for row in rows {
        let group = groups.entry((&row.model, &row.provider)).or_default();
        group.extend(row.listed(PaymentPlan::OnDemand));
    }
    let columns = [
        ("gpu_model", "GPU"),
        ("provider", "provider"),
        ("prices", "prices"),
        ("lowest_usd_per_gpu_hour", "lowest"),
        ("median_usd_per_gpu_hour", "median"),
        ("highest_usd_per_gpu_hour", "highest"),
        ("oldest_age_days", "days old"),
    ];
    let rows = groups.into_iter().map(|((model, provider), mut prices)| {
        prices.sort_by_key(|price| price.rate);
        let none = Amount::Missing("no price on demand");
        let rate = |price: Option<&&ListedPrice>| {
            price.map_or(none.clone(), |price| Amount::UsdFine(price.rate.hourly()))
        };
        let oldest = prices.iter().map(|price| price.as_of).min();
        vec![
            Amount::text(model),
            Amount::text(provider),
            Amount::Count(prices.len() as u64),
            rate(prices.first()),
            rate(prices.get(prices.len().saturating_sub(1) / 2)),
            rate(prices.last()),
            oldest.map_or(none.clone(), |date| Amount::Count(date.days_between(today))),
        ]
    });
    sheet.table("gpus", "On demand per GPU-hour", &columns, rows.collect());
    sheet.note("the same GPU costs more in instances with more processors: see `prices show GPU`");
    Ok(sheet)
}

/// All prices of an instance type or GPU.
///
/// # Errors
/// Returns an error if nothing matches.
pub fn show(book: &PriceBook, filter: &Filter, today: Date) -> Result<Worksheet, PlanError> {
    let mut rows = filter.rows(book)?;
    rows.sort_by_key(|row| row.key());
    let mut sheet = Worksheet::default();
    let mut sources: BTreeMap<&str, (Date, u64)> = BTreeMap::new();
    let mut cells = Vec::new();
    for row in rows {
        let listed: Vec<_> =
            LISTED_PLANS.iter().filter_map(|plan| Some((*plan, row.listed(*plan)?))).collect();
        for (plan, price) in listed {
            let source = sources.entry(&price.source).or_insert((price.as_of, 0));
            *source = (source.0.min(price.as_of), source.1 + 1);
            cells.push(vec![
                Amount::text(row.provider.clone()),
                Amount::text(row.region.clone()),
                Amount::text(row.instance_type.clone()),
                Amount::text(row.model.clone()),
                Amount::Count(u64::from(row.gpus)),
                Amount::text(plan.as_str()),
                Amount::Usd(price.instance.hourly()),
                Amount::UsdFine(price.rate.hourly()),
                Amount::text(price.as_of.to_string()),
                Amount::Count(price.as_of.days_between(today)),
                Amount::text(price.source.clone()),
            ]);
        }
    }
    sheet.headline = vec![format!("{} prices", grouped(cells.len() as u128))];
    let columns = [
        ("provider", ""),
        ("region", "region"),
        ("instance_type", "instance type"),
        ("gpu_model", ""),
        ("gpu_count", "GPUs"),
        ("plan", "plan"),
        ("instance_usd_per_hour", ""),
        ("usd_per_gpu_hour", "GPU-hour"),
        ("as_of", ""),
        ("age_days", "days"),
        ("source", ""),
    ];
    sheet.table("prices", "Prices", &columns, cells);
    for (source, (oldest, count)) in sources {
        sheet.note(format!("{source}: {count} prices, the oldest of {oldest}"));
    }
    Ok(sheet)
}
