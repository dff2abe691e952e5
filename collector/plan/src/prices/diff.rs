//! The prices in which two books differ.

use std::collections::BTreeMap;

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{BookRow, LISTED_PLANS, ListedPrice, PaymentPlan, PriceBook};

use crate::format::grouped;
use crate::worksheet::{Amount, Worksheet};

type Prices<'a> = BTreeMap<([String; 3], PaymentPlan), (&'a BookRow, &'a ListedPrice)>;

/// Changed prices, largest change first, and the number of those that one book lacks: a book may have
/// one region only, so none is taken for removed.
#[must_use]
pub fn diff(names: [&str; 2], books: [&PriceBook; 2]) -> Worksheet {
    let [before, after] = books.map(prices);
    let mut changed = Vec::new();
    let (mut added, mut same) = (0_u64, 0_u64);
    for (key, (row, new)) in &after {
        match before.get(key) {
            Some((_, old)) if old.rate == new.rate => same += 1,
            Some((_, old)) => changed.push((change(old.rate, new.rate), *row, key.1, *old, *new)),
            None => added += 1,
        }
    }
    let missing = before.keys().filter(|key| !after.contains_key(key)).count() as u64;
    let magnitude = |change: Option<f64>| change.map_or(f64::INFINITY, f64::abs);
    changed.sort_by(|one, other| magnitude(other.0).total_cmp(&magnitude(one.0)));
    let [first, second] = names;
    let counts = [
        (changed.len() as u64, "changed".to_owned()),
        (added, format!("not in {first}")),
        (missing, format!("not in {second}")),
    ];
    let headline = counts.map(|(count, name)| format!("{} {name}", grouped(u128::from(count))));
    let headline = headline.to_vec();
    let mut sheet = Worksheet::new(headline);
    sheet.value("changed_prices", "", Amount::Count(changed.len() as u64));
    sheet.value("not_in_before_prices", "", Amount::Count(added));
    sheet.value("not_in_after_prices", "", Amount::Count(missing));
    sheet.value("equal_prices", "", Amount::Count(same));
    let columns = [
        ("provider", ""),
        ("region", "region"),
        ("instance_type", "instance type"),
        ("plan", "plan"),
        ("before_usd_per_gpu_hour", "before"),
        ("after_usd_per_gpu_hour", "after"),
        ("change_fraction", "change"),
    ];
    let rows = changed.into_iter().map(|(change, row, plan, old, new)| {
        vec![
            Amount::text(row.provider.clone()),
            Amount::text(row.region.clone()),
            Amount::text(row.instance_type.clone()),
            Amount::text(plan.as_str()),
            Amount::UsdFine(old.rate.hourly()),
            Amount::UsdFine(new.rate.hourly()),
            change.map_or(Amount::Missing("it was free"), Amount::Fraction),
        ]
    });
    sheet.table("changes", "Changes per GPU-hour", &columns, rows.collect());
    sheet
}

fn prices(book: &PriceBook) -> Prices<'_> {
    let all = book.rows().iter().flat_map(|row| {
        let listed = LISTED_PLANS.iter().filter_map(|plan| Some((*plan, row.listed(*plan)?)));
        listed.map(move |(plan, price)| ((row.key(), plan), (row, price)))
    });
    all.collect()
}

fn change(old: Rate, new: Rate) -> Option<f64> {
    let [old, new] = [old, new].map(|rate| rate.hourly().as_f64());
    (old > 0.0).then(|| new / old - 1.0)
}
