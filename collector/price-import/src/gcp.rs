//! Pages of Google's Cloud Billing Catalog: JSON objects with `skus` of Compute Engine.
//!
//! Google prices processors, memory and GPUs apart; a machine type costs the sum of its parts. Those
//! with bundled local disks (A2 Ultra, A3) are left out, since disks are priced per month.

use std::collections::BTreeMap;
use std::io::Read;

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::PaymentPlan;
use serde::Deserialize;

use super::pages::items;
use super::{Imported, Offer, Problem};

/// A machine type: family, processors, memory in GiB, GPUs.
struct Machine {
    name: &'static str,
    family: &'static Family,
    cores: u64,
    memory: u64,
    gpus: u64,
}

/// Machine types whose parts have the same prices: names as in descriptions.
struct Family {
    name: &'static str,
    gpu: &'static str,
}

const A2: &Family = &Family { name: "A2", gpu: "Nvidia Tesla A100" };
const G2: &Family = &Family { name: "G2", gpu: "Nvidia L4" };

const fn machine(
    name: &'static str,
    family: &'static Family,
    cores: u64,
    memory: u64,
    gpus: u64,
) -> Machine {
    Machine { name, family, cores, memory, gpus }
}

/// As documented by Google for A2 Standard and G2.
const MACHINES: [Machine; 13] = [
    machine("a2-highgpu-1g", A2, 12, 85, 1),
    machine("a2-highgpu-2g", A2, 24, 170, 2),
    machine("a2-highgpu-4g", A2, 48, 340, 4),
    machine("a2-highgpu-8g", A2, 96, 680, 8),
    machine("a2-megagpu-16g", A2, 96, 1_360, 16),
    machine("g2-standard-4", G2, 4, 16, 1),
    machine("g2-standard-8", G2, 8, 32, 1),
    machine("g2-standard-12", G2, 12, 48, 1),
    machine("g2-standard-16", G2, 16, 64, 1),
    machine("g2-standard-24", G2, 24, 96, 2),
    machine("g2-standard-32", G2, 32, 128, 1),
    machine("g2-standard-48", G2, 48, 192, 4),
    machine("g2-standard-96", G2, 96, 384, 8),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Core,
    Memory,
    Gpu,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sku {
    description: String,
    category: Category,
    #[serde(default)]
    service_regions: Vec<String>,
    #[serde(default)]
    pricing_info: Vec<PricingInfo>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Category {
    usage_type: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PricingInfo {
    pricing_expression: PricingExpression,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PricingExpression {
    usage_unit: String,
    #[serde(default)]
    tiered_rates: Vec<TieredRate>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TieredRate {
    unit_price: Money,
}

/// Google's `Money`: whole units, and billionths.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Money {
    currency_code: String,
    #[serde(default)]
    units: String,
    #[serde(default)]
    nanos: u64,
}

/// Nano-dollars per hour by family, region, plan and part.
type Parts = BTreeMap<(&'static str, String, PaymentPlan, Part), u64>;

/// Reads all pages.
pub(super) fn read(
    text: impl Read,
    as_of: Date,
    imported: &mut Imported<'_>,
) -> Result<(), Problem> {
    let mut parts = Parts::new();
    items(text, "skus", &mut |sku| add(sku, &mut parts)).map_err(|_| Problem::Format)?;
    for machine in &MACHINES {
        for ((family, region, plan, part), gpu) in &parts {
            if *part != Part::Gpu || *family != machine.family.name {
                continue;
            }
            let part = |part| parts.get(&(machine.family.name, region.clone(), *plan, part));
            let (Some(core), Some(memory)) = (part(Part::Core), part(Part::Memory)) else {
                continue;
            };
            let price = machine.cores * core + machine.memory * memory + machine.gpus * gpu;
            let Some(price) = Rate::new(price).filter(|price| *price > Rate::ZERO) else {
                continue;
            };
            let instance_type = machine.name;
            imported.add(&Offer { region, instance_type, plan: *plan, price, as_of });
        }
    }
    Ok(())
}

/// Adds the price of a part, if it is one per hour in USD.
fn add(sku: &Sku, parts: &mut Parts) {
    let Some((family, plan, part)) = part_of(sku) else { return };
    let unit = if part == Part::Memory { "GiBy.h" } else { "h" };
    let Some(pricing) = sku.pricing_info.last().map(|info| &info.pricing_expression) else {
        return;
    };
    let Some(TieredRate { unit_price: Money { currency_code, units, nanos } }) =
        pricing.tiered_rates.first()
    else {
        return;
    };
    let units: Option<u64> = if units.is_empty() { Some(0) } else { units.parse().ok() };
    let price = units.and_then(|units| units.checked_mul(1_000_000_000)?.checked_add(*nanos));
    let Some(price) = price.filter(|price| *price < 1_000_000_000_000) else { return };
    if pricing.usage_unit == unit && currency_code == "USD" {
        for region in &sku.service_regions {
            parts.insert((family, region.clone(), plan, part), price);
        }
    }
}

/// The family, plan and part that a description names.
fn part_of(sku: &Sku) -> Option<(&'static str, PaymentPlan, Part)> {
    let plan = match sku.category.usage_type.as_str() {
        "OnDemand" => PaymentPlan::OnDemand,
        "Preemptible" => PaymentPlan::Spot,
        "Commit1Yr" => PaymentPlan::Reserved1y,
        "Commit3Yr" => PaymentPlan::Reserved3y,
        _ => return None,
    };
    for Family { name, gpu } in [A2, G2] {
        let names: [(Part, String); 4] = match plan {
            PaymentPlan::OnDemand => [
                (Part::Core, format!("{name} Instance Core running in ")),
                (Part::Memory, format!("{name} Instance Ram running in ")),
                (Part::Gpu, format!("{gpu} GPU running in ")),
                (Part::Gpu, format!("{gpu} GPU attached to VMs running in ")),
            ],
            PaymentPlan::Spot => [
                (Part::Core, format!("Spot Preemptible {name} Instance Core running in ")),
                (Part::Memory, format!("Spot Preemptible {name} Instance Ram running in ")),
                (Part::Gpu, format!("{gpu} GPU attached to Spot Preemptible VMs running in ")),
                (Part::Gpu, format!("Spot Preemptible {gpu} GPU running in ")),
            ],
            _ => [
                (Part::Core, format!("Commitment v1: {name} Cpu in ")),
                (Part::Memory, format!("Commitment v1: {name} Ram in ")),
                (Part::Gpu, format!("Commitment v1: {gpu} GPU running in ")),
                (Part::Gpu, format!("Commitment v1: {gpu} GPU in ")),
            ],
        };
        let found = names.iter().find(|(_, start)| sku.description.starts_with(start.as_str()));
        if let Some((part, _)) = found {
            return Some((name, plan, *part));
        }
    }
    None
}
