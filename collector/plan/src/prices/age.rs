//! How old the prices of each source are.

use std::collections::BTreeMap;

use phasemeter_meter::date::Date;
use phasemeter_meter::price::{LISTED_PLANS, PriceBook, STALE_AFTER_DAYS};

use crate::format::grouped;
use crate::worksheet::{Amount, Worksheet};

/// Ages by source.
#[must_use]
pub fn age(book: &PriceBook, today: Date) -> Worksheet {
    let mut sources: BTreeMap<(&str, &str), Vec<Date>> = BTreeMap::new();
    for row in book.rows() {
        for price in LISTED_PLANS.iter().filter_map(|plan| row.listed(*plan)) {
            sources.entry((&row.provider, &price.source)).or_default().push(price.as_of);
        }
    }
    let is_stale = |date: &&Date| date.days_between(today) > STALE_AFTER_DAYS;
    let stale: usize = sources.values().flatten().filter(is_stale).count();
    let all: usize = sources.values().map(Vec::len).sum();
    let mut sheet = Worksheet::new(vec![
        format!("{} prices", grouped(all as u128)),
        format!("{} older than {STALE_AFTER_DAYS} days", grouped(stale as u128)),
    ]);
    sheet.value("prices", "", Amount::Count(all as u64));
    sheet.value("stale_prices", "", Amount::Count(stale as u64));
    let columns = [
        ("provider", "provider"),
        ("prices", "prices"),
        ("oldest", ""),
        ("oldest_age_days", "oldest"),
        ("newest", ""),
        ("newest_age_days", "newest"),
        ("stale", "stale"),
        ("source", "source"),
    ];
    let none = Amount::Missing("no prices");
    let rows = sources.iter().map(|((provider, source), dates)| {
        let [oldest, newest] = [dates.iter().min(), dates.iter().max()];
        let date =
            |date: Option<&Date>| date.map_or(none.clone(), |date| Amount::text(date.to_string()));
        let days = |date: Option<&Date>| {
            date.map_or(none.clone(), |date| Amount::Count(date.days_between(today)))
        };
        vec![
            Amount::text(*provider),
            Amount::Count(dates.len() as u64),
            date(oldest),
            days(oldest),
            date(newest),
            days(newest),
            Amount::Count(dates.iter().filter(is_stale).count() as u64),
            Amount::text(*source),
        ]
    });
    sheet.table("sources", "Ages in days", &columns, rows.collect());
    if stale > 0 {
        sheet.note(
            "import newer prices with `phasemeter prices import`, and use them with --prices",
        );
    }
    sheet
}
