//! What schedulers allocated GPUs to, and which of them nothing ever touched.

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
    let mut holders: Vec<(&str, Vec<String>, Nanos)> = Vec::new();
    for Gpu { id, holders: of_gpu, .. } in &report.gpus {
        for holder in of_gpu {
            let time = holder.never_touched_seconds.0;
            match holders.iter_mut().find(|(name, ..)| *name == holder.name) {
                Some((_, gpus, sum)) => {
                    gpus.push(id.clone());
                    *sum += time;
                }
                None => holders.push((&holder.name, vec![id.clone()], time)),
            }
        }
    }
    holders.sort_by_key(|(.., time)| std::cmp::Reverse(*time));
    let fact = |(name, gpus, time): &(&str, Vec<String>, Nanos)| {
        let never = format!("never touched: {}", duration::duration(*time));
        let never = (*time > Nanos::ZERO).then_some(never);
        let items = [(*name).to_owned(), which(&report.gpus, gpus)];
        items.into_iter().chain(never).collect()
    };
    page.facts("Held by", first(HOLDERS, holders.iter().map(fact).collect()));
}
