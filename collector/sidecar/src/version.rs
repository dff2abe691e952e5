//! What `--version` prints: the version, and how old the sources and the list prices are that were built.

use phasemeter_meter::date::Date;
use phasemeter_meter::price::{LISTED_PLANS, PriceBook};
use phasemeter_meter::units::Timestamp;

/// Seconds since 1970 of the sources, as builds that are to be repeated set it: not the time of the build, by
/// which each build would differ.
const SOURCES: Option<&str> = option_env!("SOURCE_DATE_EPOCH");

/// The text.
#[must_use]
pub(crate) fn text() -> String {
    let book = PriceBook::built_in();
    let prices = book
        .rows()
        .iter()
        .flat_map(|row| LISTED_PLANS.into_iter().filter_map(|plan| Some(row.listed(plan)?.as_of)));
    of(SOURCES, prices)
}

fn of(sources: Option<&str>, prices: impl Iterator<Item = Date> + Clone) -> String {
    let name = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
    let seconds = sources.and_then(|text| text.parse::<u64>().ok());
    let at = seconds.and_then(|seconds| Timestamp::from_millis(seconds.checked_mul(1_000)?));
    let sources = at.map_or_else(
        || "unknown: built without SOURCE_DATE_EPOCH".to_owned(),
        |at| Date::of(at).to_string(),
    );
    let mut text = format!("{name}\nsource date {sources}\n");
    if let Some((first, last)) = prices.clone().min().zip(prices.max()) {
        text += &format!("list prices of {first} to {last}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_prices_have_their_days() {
        let days = ["2026-07-20", "2026-06-18", "2026-08-01"].map(|day| day.parse().unwrap());
        let expected =
            "phasemeter 0.1.0\nsource date 2026-11-26\nlist prices of 2026-06-18 to 2026-08-01\n";
        assert_eq!(of(Some("1795713250"), days.into_iter()), expected);
        let none = std::iter::empty();
        let unknown = "phasemeter 0.1.0\nsource date unknown: built without SOURCE_DATE_EPOCH\n";
        assert_eq!(of(None, none.clone()), unknown);
        for odd in ["", "-1", "today", "99999999999999999999"] {
            assert!(of(Some(odd), none.clone()).contains("source date unknown"), "{odd}");
        }
        assert!(text().contains("list prices of 20"), "{}", text());
    }
}
