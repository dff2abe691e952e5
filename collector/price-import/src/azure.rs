//! Pages of the Azure Retail Prices API: JSON objects with `Items`.
//!
//! Linux virtual machines; reservations are listed as the sum of their term.

use std::io::Read;

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::projection::HOURS_PER_YEAR;
use serde_json::Value;

use super::pages::items;
use super::{Imported, Offer, Problem};

/// Reads one or more pages.
pub(super) fn read(
    text: impl Read,
    as_of: Date,
    imported: &mut Imported<'_>,
) -> Result<(), Problem> {
    items(text, "Items", &mut |it| item(it, as_of, imported)).map_err(|_| Problem::Format)
}

/// Adds a price, if the item is the hourly price of a Linux virtual machine in USD.
fn item(item: &Value, as_of: Date, imported: &mut Imported<'_>) {
    let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_usual = text("currencyCode") == "USD"
        && text("serviceName") == "Virtual Machines"
        && !text("productName").contains("Windows")
        && !text("productName").contains("Cloud Services");
    let name = text("skuName");
    let plan = match (text("type"), text("reservationTerm")) {
        ("Consumption", _) if name.contains("Low Priority") => return,
        ("Consumption", _) if name.contains("Spot") => PaymentPlan::Spot,
        ("Consumption", _) => PaymentPlan::OnDemand,
        ("Reservation", "1 Year") => PaymentPlan::Reserved1y,
        ("Reservation", "3 Years") => PaymentPlan::Reserved3y,
        _ => return,
    };
    let hours = match plan {
        PaymentPlan::Reserved1y => HOURS_PER_YEAR,
        PaymentPlan::Reserved3y => 3 * HOURS_PER_YEAR,
        _ => 1,
    };
    let Some(price) = item.get("retailPrice").and_then(|price| hourly(price, hours)) else {
        return;
    };
    if is_usual && price > Rate::ZERO {
        let (region, instance_type) = (text("armRegionName"), text("armSkuName"));
        imported.add(&Offer { region, instance_type, plan, price, as_of });
    }
}

/// A price for these hours, exactly as written in decimals, divided by them.
fn hourly(price: &Value, hours: u64) -> Option<Rate> {
    let text = price.as_f64().filter(|price| (0.0..1e9).contains(price))?.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.get(..9).unwrap_or(fraction);
    let nanos: i128 = format!("{whole}{fraction:0<9}").parse().ok()?;
    let nanos = phasemeter_meter::money::div_half_even(nanos, i128::from(hours))?;
    Rate::new(u64::try_from(nanos).ok()?)
}
