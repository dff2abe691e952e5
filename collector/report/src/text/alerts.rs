//! Alerts: what opened, and rules that were not evaluated.

use phasemeter_meter::alert::short_time;
use phasemeter_meter::units::PPM;
use phasemeter_terminal::page::Page;

use crate::alerts::{Alerts, OpenedAlert};
use crate::model::{Gpu, Report};

use super::format;
use super::gpus::which;

/// Maximum number of alerts; the JSON report lists more.
const ALERTS: usize = 5;

pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(alerts) = &report.alerts else { return };
    page.end_line();
    let mut facts: Vec<Vec<String>> =
        alerts.opened.iter().take(ALERTS).map(|alert| opened(&report.gpus, alert)).collect();
    match alerts.total.saturating_sub(facts.len() as u64) {
        0 => {}
        more => facts.push(vec![format!("{more} more in --format json")]),
    }
    if alerts.total == 0 {
        facts.push(vec![none(alerts)]);
    }
    page.facts("Alerts", facts);
    let never = alerts.rules.iter().filter(|rule| rule.evaluated_minutes == 0);
    let never = never.map(|rule| {
        let window = short_time(rule.window_seconds.0);
        format!("{}: half of a window of {window} was never observed", rule.id)
    });
    let skipped = alerts.skipped.iter().map(|rule| format!("{}: {}", rule.id, rule.reason));
    page.sentences("Not checked", never.chain(skipped));
}

/// `no rule of 3 opened an alert`.
fn none(alerts: &Alerts) -> String {
    match alerts.rules.iter().filter(|rule| rule.evaluated_minutes > 0).count() {
        0 => "no rule was evaluated".to_owned(),
        1 => "none: the rule did not hold".to_owned(),
        rules => format!("none: no rule of {rules} held"),
    }
}

/// `hot on GPU 3, 10:00:00–10:15:00, mean 87.5 °C`.
fn opened(gpus: &[Gpu], alert: &OpenedAlert) -> Vec<String> {
    let gpu = which(gpus, std::slice::from_ref(&alert.gpu));
    let time = match alert.closed {
        Some(closed) => format::range(alert.opened, closed),
        None => format!("since {}, open at the end", format::instant(alert.opened)),
    };
    let extreme = alert.metric.with_unit(unscaled(alert));
    vec![format!("{} on {gpu}", alert.rule), time, format!("mean {extreme}")]
}

/// In the unit of the meter.
fn unscaled(alert: &OpenedAlert) -> f64 {
    let ppm = f64::from(PPM);
    if alert.metric.is_share() { alert.extreme * ppm / 100.0 } else { alert.extreme * ppm }
}
