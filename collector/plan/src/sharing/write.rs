//! The packings and the shares of a bill, as a worksheet.

use phasemeter_meter::mig::Profile;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::projection::HOURS_PER_MONTH;

use crate::format::{gib, gpus, percent, rate, usd};
use crate::units::Ratio;
use crate::worksheet::{Amount, Worksheet};

use super::commands;
use super::{Mode, Packing, Request, Sharing};

/// Measured utilization from which a separate GPU serves better than a share of one.
const BUSY: Ratio = Ratio::from_ppm(500_000);

impl Sharing {
    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        if !self.request.workloads.is_empty() {
            self.write_packings(&mut sheet);
        }
        self.write_partition(&mut sheet);
        self.write_profiles(&mut sheet);
        self.write_notes(&mut sheet);
        sheet
    }

    fn write_packings(&self, sheet: &mut Worksheet) {
        let Request { workloads, today, price, model, .. } = &self.request;
        let alone = workloads.len() as u64;
        let before = today.unwrap_or(alone);
        let best = self.best();
        sheet.headline = match best {
            Some((packing, count)) => vec![
                format!("{} workloads on {} with {}", alone, gpus(count), packing.mode.as_str()),
                format!("{} today", gpus(before)),
            ],
            None => vec![format!("no way to share {model} holds these workloads")],
        };
        sheet.value("workloads", "", Amount::Count(alone));
        sheet.value("today_gpus", "", Amount::Count(before));
        let monthly = |count: u64| price.map(|it| it.hourly().times(HOURS_PER_MONTH).times(count));
        let columns = [
            ("mode", "mode"),
            ("gpus", "GPUs"),
            ("monthly_usd", "month"),
            ("saved_monthly_usd", ""),
            ("saved_fraction", "saves"),
            ("isolates", "isolates"),
            ("does_not_isolate", ""),
        ];
        let no_price = Amount::Missing("no price is known; set --price");
        let rows = self.packings.iter().map(|packing| {
            let (isolates, but) = packing.mode.isolation();
            let count = packing.gpus.as_ref().ok().map(|gpus| gpus.len() as u64);
            let never = Amount::Missing("the workloads cannot be shared so");
            let saved = |count: u64| 1.0 - count as f64 / before as f64;
            let money = |of: &dyn Fn(u64) -> Option<NanoUsd>| match count {
                Some(count) => of(count).map_or(no_price.clone(), Amount::Usd),
                None => never.clone(),
            };
            vec![
                Amount::text(packing.mode.as_str()),
                count.map_or(never.clone(), Amount::Count),
                money(&monthly),
                money(&|count| Some(monthly(before)? - monthly(count)?)),
                count.map_or(never.clone(), |count| Amount::Fraction(saved(count))),
                Amount::text(isolates),
                Amount::text(but),
            ]
        });
        sheet.table("modes", "Ways to share", &columns, rows.collect());
        for packing in &self.packings {
            let (_, but) = packing.mode.isolation();
            sheet.note(format!("{}: {but}", packing.mode.as_str()));
            match &packing.gpus {
                Ok(packed) => self.write_packing(sheet, packing, packed),
                Err(reason) => sheet.note(format!("{}: {reason}", packing.mode.as_str())),
            }
        }
        if let Some((_, count)) = best {
            sheet.formula(
                "saved",
                "1 − GPUs ÷ GPUs today",
                format!("1 − {count} ÷ {before}"),
                percent(1.0 - count as f64 / before as f64),
            );
        }
        if let (Some(price), Some((_, count))) = (price, best) {
            let cost = monthly(count).unwrap_or_default();
            let numbers = format!("{HOURS_PER_MONTH} h × {} × {count}", rate(*price));
            sheet.formula("month", "720 h × price × GPUs", numbers, usd(cost));
        }
        if today.is_none() {
            sheet.assume("each workload has a GPU of its own today; set --today if they share");
        }
    }

    /// Which workloads share a GPU, and the commands for that.
    fn write_packing(&self, sheet: &mut Worksheet, packing: &Packing, packed: &[Vec<usize>]) {
        let workloads = &self.request.workloads;
        let names = |gpu: &[usize]| -> Vec<String> {
            let profile = |index: usize| packing.profiles.get(index).map(|it| it.name.as_str());
            let each = gpu.iter().filter_map(|&index| {
                let name = &workloads.get(index)?.name;
                Some(profile(index).map_or(name.clone(), |profile| format!("{name} ({profile})")))
            });
            each.collect()
        };
        let key = match packing.mode {
            Mode::Mig => "mig_gpus",
            Mode::Mps => "mps_gpus",
            Mode::TimeSlicing => "time_slicing_gpus",
        };
        let title = match packing.mode {
            Mode::Mig => "With MIG",
            Mode::Mps => "With MPS",
            Mode::TimeSlicing => "With time-slicing",
        };
        let columns = [("gpu", "GPU"), ("workloads", "workloads")];
        let rows = packed.iter().enumerate().map(|(gpu, items)| {
            vec![Amount::Count(gpu as u64), Amount::text(names(items).join(", "))]
        });
        // MPS and time-slicing pack alike.
        let title = if packing.mode == Mode::TimeSlicing { "" } else { title };
        sheet.table(key, title, &columns, rows.collect());
        sheet.snippets.extend(match packing.mode {
            Mode::Mig => commands::mig(packed, &packing.profiles),
            Mode::Mps => commands::mps(packed, workloads),
            Mode::TimeSlicing => commands::time_slicing(packed),
        });
    }

    /// The bill of a given partition.
    fn write_partition(&self, sheet: &mut Worksheet) {
        let Some(layout) = self.layout.as_ref().filter(|_| !self.partition.is_empty()) else {
            return;
        };
        let profiles: Vec<&Profile> = self.partition.iter().collect();
        let (weights, all) = layout.shares(&profiles);
        let hourly = self.request.price.map(Rate::hourly);
        let parts = hourly.map(|bill| {
            let (mut parts, rest) = layout.divide(bill, &profiles);
            parts.push(rest);
            Amount::sum(&parts, bill, true)
        });
        let no_price = Amount::Missing("no price is known; set --price");
        // The last but one is what is left over.
        let cost = |index: usize| {
            let part = parts.as_ref().and_then(|parts| parts.get(index));
            part.cloned().unwrap_or(no_price.clone())
        };
        let mut rows: Vec<_> = profiles
            .iter()
            .zip(&weights)
            .enumerate()
            .map(|(index, (profile, weight))| {
                let share = *weight as f64 / all as f64;
                let name = Amount::text(profile.name.clone());
                vec![name, Amount::Fraction(share), cost(index)]
            })
            .collect();
        let left = all - weights.iter().sum::<u64>().min(all);
        let left = Amount::Fraction(left as f64 / all as f64);
        rows.push(vec![Amount::text("left over"), left, cost(profiles.len())]);
        let columns =
            [("instance", "instance"), ("share_fraction", "share"), ("hourly_usd", "per hour")];
        sheet.table("partition", "Shares of the bill", &columns, rows);
        let unscaled: u64 = weights.iter().sum();
        let whole = layout.compute * layout.memory;
        sheet.formula(
            "share",
            "max(compute ÷ all, memory ÷ all) ÷ max(1, their sum)",
            format!("sum {}", percent(unscaled as f64 / whole as f64)),
            "with what is left over, 100%",
        );
        if self.request.workloads.is_empty() {
            sheet.headline =
                vec![format!("{} of {}", self.request.partition.join(" + "), self.request.model)];
        }
    }

    fn write_profiles(&self, sheet: &mut Worksheet) {
        let Some(layout) = &self.layout else { return };
        let columns = [
            ("profile", "profile"),
            ("instances", "per GPU"),
            ("compute_slices", "compute"),
            ("memory_slices", "memory"),
            ("memory_bytes", ""),
            ("memory", "about"),
        ];
        let rows = layout.profiles.iter().map(|it| {
            let bytes = self.request.memory.0 / layout.memory * it.memory;
            vec![
                Amount::text(it.name.clone()),
                Amount::Count(it.instances() as u64),
                Amount::Count(it.compute),
                Amount::Count(it.memory),
                Amount::Bytes(bytes),
                Amount::text(format!("{} GiB", gib(bytes))),
            ]
        });
        sheet.table("profiles", "MIG profiles", &columns, rows.collect());
        sheet.note(format!(
            "an instance of the whole GPU, {}, does not mean that MIG is disabled: it is the only \
             instance of a GPU in MIG mode",
            layout.profiles.last().map_or("", |it| it.name.as_str())
        ));
    }

    fn write_notes(&self, sheet: &mut Worksheet) {
        let Request { workloads, headroom, target, .. } = &self.request;
        if workloads.is_empty() {
            return;
        }
        sheet.assume(format!("{headroom} of each instance or GPU stays free (--headroom)"));
        sheet.assume(format!("without MIG, utilization adds up to at most {target} (--target)"));
        sheet.assume(
            "a workload needs the part of the SMs that its utilization is of the time; kernels that \
             fill few SMs need less",
        );
        for it in workloads.iter().filter(|it| it.utilization > BUSY).take(3) {
            sheet.note(format!(
                "{} uses its GPU {} of the time: a GPU of its own serves it better",
                it.name, it.utilization
            ));
        }
        sheet.note("use MPS among processes that trust each other only; MIG isolates tenants");
    }
}
