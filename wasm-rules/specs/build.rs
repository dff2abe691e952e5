//! Generates constants from the project's data tables, so that policies do not parse text.
//!
//! Of the prices, it keeps the cheapest region of each instance type, and the spot discount there
//! and at most. An unreadable table fails the build.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// The directory of the tables, relative to this crate.
const DATA: &str = "../../collector/meter/data";

fn main() -> Result<(), String> {
    let mut out = String::new();
    models(&mut out)?;
    prices(&mut out)?;
    let directory = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let file = Path::new(&directory).join("tables.rs");
    fs::write(&file, out).map_err(|error| format!("{}: {error}", file.display()))
}

fn models(out: &mut String) -> Result<(), String> {
    let mut lines = String::new();
    for row in rows::<16>("gpus.csv")? {
        let [model, architecture, _, memory, bandwidth, fp32, bf16, fp16, fp8, _, _, mig, ..] =
            &row;
        let [memory, bandwidth, fp32, bf16, fp16, fp8] =
            [memory, bandwidth, fp32, bf16, fp16, fp8].map(|cell| figure(cell));
        let architecture = architecture.replace(' ', "");
        let _ = writeln!(
            lines,
            "Model {{ name: {model:?}, architecture: Architecture::{architecture}, memory_gib: \
             {memory}, bandwidth_gb_s: {bandwidth}, fp32_tflops: {fp32}, bf16_tflops: {bf16}, \
             fp16_tflops: {fp16}, fp8_tflops: {fp8}, mig_slices: {mig} }},",
        );
    }
    let _ = write!(out, "/// All models.\npub const MODELS: &[Model] = &[\n{lines}];\n");
    Ok(())
}

fn prices(out: &mut String) -> Result<(), String> {
    let mut offers: BTreeMap<(String, String), (u128, String)> = BTreeMap::new();
    let mut spots: BTreeMap<(String, String), Spot> = BTreeMap::new();
    for row in rows::<9>("gpu-instances.csv")? {
        let [provider, region, instance, model, gpus, _, list, spot, as_of] = row;
        let count: u128 = gpus
            .parse()
            .map_err(|_| format!("{instance}: invalid GPU count {gpus}: expected an integer"))?;
        let whole = nano(&list).ok_or_else(|| format!("{instance}: invalid price {list}"))?;
        let rate = half_even(whole, count);
        if let Some(spot) = nano(&spot) {
            let discount = 1.0 - half_even(spot, count) as f64 / rate as f64;
            let found = Spot {
                rate,
                region: region.clone(),
                discount,
                max_discount: discount,
                as_of: as_of.clone(),
            };
            spots.entry((provider.clone(), model.clone())).or_insert(found.clone()).merge(found);
        }
        let line = format!(
            "Offer {{ provider: {provider:?}, region: {region:?}, instance_type: {instance:?}, \
             model: {model:?}, gpus: {count}, nano_usd_per_gpu_hour: {rate}, as_of: {as_of:?} }},\n",
        );
        offers
            .entry((provider, instance))
            .and_modify(|lowest| {
                if rate < lowest.0 {
                    *lowest = (rate, line.clone());
                }
            })
            .or_insert((rate, line));
    }
    let offers: String = offers.into_values().map(|(_, line)| line).collect();
    let _ = write!(
        out,
        "/// Every instance type of each provider, in its cheapest region.\npub const OFFERS: \
         &[Offer] = &[\n{offers}];\n",
    );
    let mut lines = String::new();
    for ((provider, model), Spot { region, discount, max_discount, as_of, .. }) in spots {
        let _ = writeln!(
            lines,
            "Spot {{ provider: {provider:?}, model: {model:?}, region: {region:?}, discount: \
             {discount:?}, max_discount: {max_discount:?}, as_of: {as_of:?} }},",
        );
    }
    let _ = write!(
        out,
        "/// Spot discounts by model.\npub const SPOTS: &[Spot] = \
         &[\n{lines}];\n",
    );
    Ok(())
}

/// The spot prices of a model.
#[derive(Clone)]
struct Spot {
    /// The lowest list price with a spot price, and its region.
    rate: u128,
    region: String,
    discount: f64,
    /// In any region.
    max_discount: f64,
    as_of: String,
}

impl Spot {
    fn merge(&mut self, other: Self) {
        let max_discount = self.max_discount.max(other.max_discount);
        if other.rate < self.rate {
            *self = other;
        }
        self.max_discount = max_discount;
    }
}

/// Reads the rows of a table, without its header.
fn rows<const N: usize>(name: &str) -> Result<Vec<[String; N]>, String> {
    let file = Path::new(DATA).join(name);
    println!("cargo::rerun-if-changed={}", file.display());
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let rows = text.lines().enumerate().skip(1).map(|(number, line)| {
        let cells: Vec<_> = line.split(',').map(str::to_owned).collect();
        let error = || format!("{}:{}: expected {N} cells", file.display(), number + 1);
        cells.try_into().map_err(|_| error())
    });
    rows.collect()
}

/// Formats a figure as a Rust `Option`; an empty cell is `None`.
fn figure(cell: &str) -> String {
    cell.parse().map_or("None".to_owned(), |figure: f64| format!("Some({figure:?})"))
}

/// Parses dollars as nano-USD, exactly; `None` if the cell is empty or has over nine decimals.
fn nano(dollars: &str) -> Option<u128> {
    if dollars.is_empty() {
        return None;
    }
    let (whole, fraction) = dollars.split_once('.').unwrap_or((dollars, ""));
    let fraction = format!("{fraction:0<9}");
    if fraction.len() > 9 { None } else { (whole.to_owned() + &fraction).parse().ok() }
}

/// Divides as the price book does, rounding half to even.
fn half_even(whole: u128, parts: u128) -> u128 {
    let (quotient, rest) = (whole / parts, whole % parts);
    let up = rest * 2 > parts || (rest * 2 == parts && quotient % 2 == 1);
    quotient + u128::from(up)
}
