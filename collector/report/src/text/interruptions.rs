//! Facts about interruptions: what the cloud announced, and what was lost.

use phasemeter_terminal::number;
use phasemeter_terminal::page::{Page, SEPARATOR};

use crate::interruptions::{InterruptionNotice, LostWork};
use crate::model::Report;
use crate::value::Usd;

use super::first;
use super::format::{self, Dollars};

/// Maximum number of notices; the JSON report lists more.
const NOTICES: usize = 4;

pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(interruptions) = &report.interruptions else { return };
    page.facts("Notices", first(NOTICES, interruptions.notices.iter().map(notice)));
    if let Some(lost) = &interruptions.lost_work {
        page.fact("Lost work", &lost_work(lost), SEPARATOR);
    }
}

/// `aws: terminate at 10:02:00`, `received 10:00:00`, `SIGUSR1 sent`.
fn notice(notice: &InterruptionNotice) -> Vec<String> {
    let due = notice.due.map(|due| format!(" at {}", format::instant(due))).unwrap_or_default();
    let first = format!("{}: {}{due}", notice.provider, notice.action);
    let received = format!("received {}", format::instant(notice.at));
    let sent = notice.signal.as_ref().map(|signal| format!("{signal} sent"));
    [first, received].into_iter().chain(sent).collect()
}

/// `512 samples`, `since the checkpoint at 10:01:00`, `$0.12`.
fn lost_work(lost: &LostWork) -> Vec<String> {
    let work = lost.work.iter();
    let work = work.map(|(unit, count)| format!("{} {unit}", number::grouped(u128::from(*count))));
    let mut facts: Vec<String> = work.collect();
    if facts.is_empty() {
        facts.push("no work was reported".to_owned());
    }
    let since = format::instant(lost.since);
    facts.push(match lost.checkpoint {
        true => format!("since the checkpoint at {since}"),
        false => format!("since the start at {since}; there was no checkpoint"),
    });
    facts.extend(lost.cost_usd.map(|Usd(cost)| Dollars::of(cost).short()));
    facts
}
