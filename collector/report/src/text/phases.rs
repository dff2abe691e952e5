//! The table of phases: time, share and cost of the fleet.
//!
//! Displayed rows sum to the displayed total.

use phasemeter_meter::phase::Phase;
use phasemeter_meter::units::Nanos;
use phasemeter_terminal::duration;
use phasemeter_terminal::page::{Page, Style};
use phasemeter_terminal::percent::Percent;

use crate::model::{PhaseTotals, Report};
use crate::value::Seconds;

use super::amounts::Bill;
use super::format::Dollars;

/// Column widths of name, time and share; cost is as wide as needed.
const NAME: usize = 19;
const TIME: usize = 13;
const SHARE: usize = 10;

/// A row of the table.
struct Row {
    name: &'static str,
    style: Style,
    time: Seconds,
    share: String,
    cost: Option<Dollars>,
}

pub(super) fn write(page: &mut Page, report: &Report, bill: Option<&Bill>) {
    let rows = rows(report, bill);
    let costs = rows.iter().filter_map(|row| row.cost).map(|cost| cost.to_string().len());
    let money = costs.max().map_or(0, |widest| widest.max("cost".len()) + 3);
    let header = if money > 0 { "cost" } else { "" };
    let header = format!("{:NAME$}{:>TIME$}{:>SHARE$}{header:>money$}", "", "GPU time", "share");
    page.write(Style::Dim, &header);
    page.end_line();
    for row in rows {
        page.write(row.style, &format!("{:<NAME$}", row.name));
        let time = duration::duration_in_column(row.time.0);
        let cost = row.cost.map(|cost| cost.to_string()).unwrap_or_default();
        page.write(Style::Plain, &format!("{time:>TIME$}{:>SHARE$}{cost:>money$}", row.share));
        page.end_line();
    }
}

fn rows(report: &Report, bill: Option<&Bill>) -> Vec<Row> {
    let phases = &report.fleet.phases;
    let idle = style(Phase::Idle);
    let holding = phases.idle_held.zip(phases.idle_free);
    let never_touched = phases.idle_never_touched.filter(|it| it.seconds.0 > Nanos::ZERO);
    let of = |part: fn(&Bill) -> Dollars| bill.map(part);
    let row = |name, style, totals: PhaseTotals, cost| Row {
        name,
        style,
        time: totals.seconds,
        share: percent(totals.percent),
        cost,
    };
    let mut rows = vec![row("idle", idle, phases.idle, of(|it| it.idle))];
    if let Some((held, free)) = holding {
        rows.push(row("  held by a job", Style::Plain, held, of(|it| it.held)));
        if let Some(totals) = never_touched {
            let cost = of(|it| it.never_touched);
            rows.push(row("    never touched", Style::Plain, totals, cost));
        }
        rows.push(row("  free for others", Style::Plain, free, of(|it| it.free)));
        if phases.idle_unknown.seconds.0 > Nanos::ZERO {
            rows.push(row("  unknown", Style::Plain, phases.idle_unknown, of(|it| it.unknown)));
        }
    }
    rows.push(row(
        "underutilized",
        style(Phase::Underutilized),
        phases.underutilized,
        of(|it| it.underutilized),
    ));
    rows.push(row(
        "productive",
        style(Phase::Productive),
        phases.productive,
        of(|it| it.productive),
    ));
    rows.push(row(
        "compute-bound",
        style(Phase::ComputeBound),
        phases.compute_bound,
        of(|it| it.compute_bound),
    ));
    let plain = |name, time, share, cost| Row { name, style: Style::Plain, time, share, cost };
    rows.push(plain(
        "unobserved",
        report.fleet.unobserved_seconds,
        "–".to_owned(),
        of(|it| it.unobserved),
    ));
    rows.push(plain("total", report.fleet.span_seconds, String::new(), of(|it| it.total)));
    rows
}

/// The color of a phase.
pub(super) const fn style(phase: Phase) -> Style {
    match phase {
        Phase::Idle => Style::Red,
        Phase::Underutilized => Style::Yellow,
        Phase::Productive => Style::Green,
        Phase::ComputeBound => Style::Cyan,
    }
}

fn percent(percent: Option<Percent>) -> String {
    percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent}%"))
}
