//! Whether a report is consistent: its periods tile time and sum to its bills.

use std::collections::BTreeMap;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::Nanos;

use crate::error::ReadError;
use crate::holder::Holder;
use crate::report::{Gpu, Period, Report, SCHEMA, Usd};

/// Numbers of seconds have 53 bits: this is their rounding in the longest period.
const ROUNDING: Nanos = Nanos(2_000);

/// Checks the sums of a report.
pub(crate) fn validate(file: &str, report: &Report) -> Result<(), ReadError> {
    if report.schema != SCHEMA {
        return Err(ReadError::Field {
            file: file.to_owned(),
            field: "schema".to_owned(),
            problem: format!("is {:?}, not {SCHEMA:?}", report.schema),
        });
    }
    let contradiction = |(field, problem): (String, String)| ReadError::Contradiction {
        file: file.to_owned(),
        field,
        problem,
    };
    for (index, gpu) in report.gpus.iter().enumerate() {
        let of_gpu = |(field, problem)| contradiction((format!("gpus[{index}].{field}"), problem));
        check_gpu(gpu).map_err(of_gpu)?;
    }
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (unit, count) in report.work_by_hour.iter().flat_map(|hour| &hour.work) {
        let sum = sums.entry(unit).or_default();
        *sum = sum.saturating_add(*count);
    }
    for (unit, sum) in sums {
        let total = report.work.get(unit).map_or(0, |work| work.count);
        if sum != total {
            let problem = format!("its hours sum to {sum}, not {total}");
            return Err(contradiction((format!("work.{unit}"), problem)));
        }
    }
    Ok(())
}

fn check_gpu(gpu: &Gpu) -> Result<(), (String, String)> {
    let mut sum = NanoUsd::ZERO;
    for (index, period) in gpu.periods.iter().enumerate() {
        let of_period = |(field, problem)| (format!("periods[{index}].{field}"), problem);
        check_period(period, gpu.cost_usd.is_some(), gpu.is_of_holders()).map_err(of_period)?;
        let before = index.checked_sub(1).and_then(|before| gpu.periods.get(before));
        if before.is_some_and(|before| before.end != period.start) {
            let problem = format!("{} is not the end of the period before", Instant(period.start));
            return Err((format!("periods[{index}].start"), problem));
        }
        sum += period.accounts.cost_of(&Account::ALL);
    }
    match gpu.cost_usd {
        Some(Usd(cost)) if cost != sum => {
            Err(("cost_usd".to_owned(), format!("is {cost}, but its periods sum to {sum}")))
        }
        _ => check_holders(gpu),
    }
}

/// The accounts of holders are a second partition of the bill, if there are any.
fn check_holders(gpu: &Gpu) -> Result<(), (String, String)> {
    let Some((holders, nobody)) = gpu.division() else { return Ok(()) };
    let mut sum = nobody.cost();
    for (index, holder) in holders.iter().enumerate() {
        let wrong = |field: &str, problem| Err((format!("holders[{index}].{field}"), problem));
        let cost = holder.cost();
        let accounts = holder.accounts().into_iter().sum::<NanoUsd>();
        if cost != accounts {
            return wrong("cost_usd", format!("is {cost}, but its accounts sum to {accounts}"));
        }
        if holder.has_too_much_waste() {
            return wrong("waste_usd", "exceeds the cost that was not used".to_owned());
        }
        if holder.start.zip(holder.end).is_some_and(|(start, end)| end < start) {
            return wrong("end", "precedes the start".to_owned());
        }
        sum += cost;
    }
    if nobody.has_too_much_waste() {
        return Err(("nobody.waste_usd".to_owned(), "exceeds its cost".to_owned()));
    }
    let held: Nanos = holders.iter().map(Holder::time).chain([nobody.seconds.0]).sum();
    let span = gpu.periods.iter().map(|period| period.accounts.time_in(&Account::ALL));
    let span: Nanos = span.sum();
    if held.0.abs_diff(span.0) > Nanos::SECOND.0 {
        let problem = "does not sum, with the time of its holders, to the time of the GPU";
        return Err(("nobody.seconds".to_owned(), problem.to_owned()));
    }
    let cost = gpu.cost_usd.unwrap_or_default().0;
    if cost != sum {
        let problem = format!("and its holders cost {sum}, but the GPU {cost}");
        return Err(("nobody.cost_usd".to_owned(), problem));
    }
    Ok(())
}

fn check_period(period: &Period, is_priced: bool, is_part: bool) -> Result<(), (String, String)> {
    let wrong = |field: &str, problem: String| Err((field.to_owned(), problem));
    let accounts = &period.accounts;
    let time = accounts.time_in(&Account::ALL);
    if period.end < period.start {
        return wrong("end", "precedes the start".to_owned());
    }
    // A part may begin before it is known, by less than a second.
    let is_time = if is_part {
        time <= period.length() + Nanos::SECOND
    } else {
        time.0.abs_diff(period.length().0) <= ROUNDING.0
    };
    if !is_time {
        let (time, length) = (time.as_secs_f64(), period.length().as_secs_f64());
        return wrong("accounts", format!("sum to {time} s of a period of {length} s"));
    }
    if period.effective_seconds.0 > accounts.time_in(&Account::OBSERVED) + ROUNDING {
        return wrong("effective_seconds", "exceeds the observed time".to_owned());
    }
    if !is_priced && (period.utilized_usd.is_some() || accounts.is_priced()) {
        return wrong("accounts", "have a cost, but the GPU has none".to_owned());
    }
    let Usd(utilized) = period.utilized_usd.unwrap_or_default();
    if utilized > accounts.cost_of(&Account::OBSERVED) {
        return wrong("utilized_usd", "exceeds the cost of the observed time".to_owned());
    }
    Ok(())
}
