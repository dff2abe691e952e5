//! The price list of Amazon EC2 as CSV: five lines of metadata, then one row per price.
//!
//! Linux on shared hosts, without software; of reservations those without upfront payment.

use std::io::{BufRead, Read};

use phasemeter_meter::csv::quoted_cells;
use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::PaymentPlan;

use super::{Imported, Offer, Problem};

/// The line with the names of columns, from 1.
const HEADER: usize = 6;

/// Maximum length of a line. Rows have less than 4 KiB.
const MAX_LINE: u64 = 1 << 20;

/// The date in the metadata.
const PUBLISHED: &str = "Publication Date";

/// The columns that are read.
pub(super) const COLUMNS: [&str; 13] = [
    "TermType",
    "Unit",
    "PricePerUnit",
    "Currency",
    "Instance Type",
    "Region Code",
    "Tenancy",
    "Operating System",
    "Pre Installed S/W",
    "CapacityStatus",
    "LeaseContractLength",
    "PurchaseOption",
    "OfferingClass",
];

/// Reads a price list.
pub(super) fn read(
    mut text: impl BufRead,
    as_of: Option<Date>,
    imported: &mut Imported<'_>,
) -> Result<(), Problem> {
    let mut published = as_of;
    let mut columns: Option<([usize; COLUMNS.len()], Option<usize>)> = None;
    for number in 1.. {
        let mut line = String::new();
        let read =
            text.by_ref().take(MAX_LINE).read_line(&mut line).map_err(|_| Problem::Format)?;
        if read == 0 {
            break;
        }
        if read as u64 == MAX_LINE {
            return Err(Problem::Format);
        }
        let Some(cells) = quoted_cells(line.trim_end()) else { return Err(Problem::Format) };
        match &columns {
            None if number < HEADER => {
                if let [name, date, ..] = cells.as_slice()
                    && name == PUBLISHED
                {
                    let date = date.get(..10).and_then(|date| date.parse().ok());
                    published = published.or(date);
                }
            }
            None => {
                let place = |name: &str| cells.iter().position(|known| known == name);
                let all: Option<Vec<usize>> = COLUMNS.iter().map(|name| place(name)).collect();
                let all = all.and_then(|all| all.try_into().ok()).ok_or(Problem::Format)?;
                columns = Some((all, place("GPU")));
            }
            Some((places, gpu)) => {
                let as_of = published.ok_or(Problem::Format)?;
                let cell = |place: usize| cells.get(place).map_or("", String::as_str);
                let has_gpu = gpu.is_some_and(|gpu| !matches!(cell(gpu), "" | "0" | "NA"));
                row(places.map(cell), has_gpu, as_of, imported)
                    .map_err(|problem| Problem::Row(number, problem))?;
            }
        }
    }
    if columns.is_none() { Err(Problem::Format) } else { Ok(()) }
}

/// Adds the price of these cells, if it counts.
pub(super) fn row(
    cells: [&str; COLUMNS.len()],
    has_gpu: bool,
    as_of: Date,
    imported: &mut Imported<'_>,
) -> Result<(), String> {
    let [term, unit, price, currency, instance_type, region, tenancy, system, software, .., class] =
        cells;
    let [.., status, length, option, _] = cells;
    let is_usual = [
        (currency, "USD"),
        (tenancy, "Shared"),
        (system, "Linux"),
        (software, "NA"),
        (status, "Used"),
    ];
    if is_usual.iter().any(|(cell, usual)| cell != usual) || !matches!(unit, "Hrs" | "Hours") {
        return Ok(());
    }
    let plan = match (term, length, option, class) {
        ("OnDemand", ..) => PaymentPlan::OnDemand,
        ("Reserved", "1yr", "No Upfront", "standard") => PaymentPlan::Reserved1y,
        ("Reserved", "3yr", "No Upfront", "standard") => PaymentPlan::Reserved3y,
        _ => return Ok(()),
    };
    let price = price.trim_end_matches('0').trim_end_matches('.');
    let price = if price.is_empty() { "0" } else { price };
    let price = Rate::parse(price).map_err(|error| format!("price '{price}': {error}"))?;
    // Rows of $0 are of reservations that others pay for.
    if price == Rate::ZERO {
        return Ok(());
    }
    if !imported.add(&Offer { region, instance_type, plan, price, as_of }) && has_gpu {
        imported.unknown.insert(instance_type.to_owned());
    }
    Ok(())
}
