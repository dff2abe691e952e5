//! Work by group, and what each unit of it costs.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;
use phasemeter_terminal::number;
use phasemeter_terminal::page::Page;

use super::amounts::Bill;
use super::first;
use super::format::{self, Dollars};
use crate::model::Report;
use crate::value::Usd;
use crate::work_groups::{Group, WorkGroups};

/// Maximum number of groups; the JSON report has all.
const GROUPS: usize = 8;

/// Writes the groups with the highest cost first, and what no group has for itself. All of it sums to the bill.
pub(super) fn write(page: &mut Page, report: &Report, bill: Option<&Bill>) {
    let Some(WorkGroups { groups, shared_usd, unserved_usd }) = &report.work_groups else { return };
    let mut groups: Vec<&Group> = groups.iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.cost_usd));
    let parts = groups.iter().map(|group| group.cost_usd).chain([*shared_usd, *unserved_usd]);
    let parts: Option<Vec<NanoUsd>> = parts.map(|usd| usd.map(|Usd(cost)| cost)).collect();
    let printed = bill.zip(parts).map(|(bill, parts)| bill.total.split_all(parts));
    let printed = printed.unwrap_or_default();
    let mut printed = printed.into_iter();
    let facts: Vec<_> = groups.iter().map(|group| fact(group, printed.next())).collect();
    let mut facts = first(GROUPS, facts.into_iter());
    let names = ["GPUs that several groups share", "GPUs that are not known to do this work"];
    let rest = names.into_iter().zip(printed).filter(|(_, cost)| cost.exact() > NanoUsd::ZERO);
    facts.extend(rest.map(|(name, cost)| vec![format!("{name}: {cost}")]));
    page.facts("By group", facts);
}

fn fact(group: &Group, cost: Option<Dollars>) -> Vec<String> {
    let labels: Vec<_> =
        group.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let name = match labels.is_empty() {
        true if group.is_overflow => "all other groups".to_owned(),
        true => "without labels".to_owned(),
        false => labels.join(" "),
    };
    let mut items = vec![name];
    for (unit, work) in &group.work {
        let each = work.cost_each_usd.map(|each| format!(" at {}", format::each(each)));
        let count = number::grouped(u128::from(work.count));
        items.push(format!("{count} {unit}{}", each.unwrap_or_default()));
    }
    let own = cost.zip(group.idle_usd).filter(|(cost, _)| cost.exact() > NanoUsd::ZERO);
    if let Some((cost, Usd(idle))) = own {
        let [idle, _] = cost.split([idle, cost.exact() - idle], &[]);
        items.push(format!("{cost}, of which {idle} idle"));
    }
    if group.shared_gpu_seconds.0 > Nanos::ZERO {
        items.push("shares GPUs, so its cost per unit is unknown".to_owned());
    } else if group.gpu_seconds.0 == Nanos::ZERO {
        items.push("its GPUs are unknown".to_owned());
    }
    items
}
