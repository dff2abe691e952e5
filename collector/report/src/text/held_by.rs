//! What schedulers allocated GPUs to that are not divided among their holders, and which of them nothing ever touched.

use std::collections::BTreeMap;

use phasemeter_meter::units::Nanos;
use phasemeter_terminal::duration;
use phasemeter_terminal::page::Page;

use crate::model::{Gpu, Report};

use super::first;
use super::gpus::which;

/// Maximum number of holders; the JSON report has all.
const HOLDERS: usize = 4;

/// Writes the holders with most time that is never touched first.
pub(super) fn write(page: &mut Page, report: &Report) {
    let mut by_name: BTreeMap<&str, (Vec<String>, Nanos)> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for Gpu { id, holders, .. } in &report.gpus {
        for holder in holders.iter().filter(|holder| holder.bill.is_none()) {
            let (gpus, sum) = by_name.entry(&holder.name).or_insert_with(|| {
                order.push(&holder.name);
                Default::default()
            });
            gpus.push(id.clone());
            *sum += holder.never_touched_seconds.0;
        }
    }
    order.sort_by_key(|name| std::cmp::Reverse(by_name.get(name).map(|(_, time)| *time)));
    let fact = |name: &str| {
        let (gpus, time) = by_name.get(name).cloned().unwrap_or_default();
        let never = format!("never touched: {}", duration::duration(time));
        let never = (time > Nanos::ZERO).then_some(never);
        let items = [name.to_owned(), which(&report.gpus, &gpus)];
        items.into_iter().chain(never).collect()
    };
    page.facts("Held by", first(HOLDERS, order.into_iter().map(fact)));
}
