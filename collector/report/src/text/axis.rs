//! Times below the bars of utilization, and what their glyphs mean.

use phasemeter_meter::phase::Phase;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_terminal::page::{Page, Style};

use crate::value::Utc;

use super::phases::style;

/// Columns per time.
const SPACING: usize = 16;

/// What a legend shows of each phase, lowest first, and of unobserved time.
const LEGEND: [(char, &str, Option<Phase>); 5] = [
    ('▁', "idle", Some(Phase::Idle)),
    ('▄', "underutilized", Some(Phase::Underutilized)),
    ('▆', "productive", Some(Phase::Productive)),
    ('█', "compute-bound", Some(Phase::ComputeBound)),
    ('·', "unobserved", None),
];

/// Writes both, below bars of `columns` that begin at column `indent`.
pub(super) fn write(page: &mut Page, indent: usize, axis: (Timestamp, Timestamp), columns: usize) {
    page.write(Style::Dim, &format!("{:indent$}{}", "", times(axis, columns)));
    page.end_line();
    page.write(Style::Plain, &" ".repeat(indent));
    for (glyph, name, phase) in LEGEND {
        page.write(phase.map_or(Style::Dim, style), &glyph.to_string());
        page.write(Style::Plain, &format!(" {name}  "));
    }
    page.end_line();
}

/// Times at equal distances: the first at the first column, the last one at the last.
fn times((from, to): (Timestamp, Timestamp), columns: usize) -> String {
    let length = to.since(from);
    let count = (columns / SPACING).max(1);
    let mut line = String::new();
    for tick in 0..=count {
        let part = u128::from(length.0) * tick as u128 / count as u128;
        let at = from + Nanos(u64::try_from(part).unwrap_or(u64::MAX));
        let text = label(Utc(at), length);
        // The last one ends where the bars do.
        let begin = (columns * tick / count).min(columns.saturating_sub(text.len()));
        let filled = line.len();
        if tick > 0 && begin <= filled {
            continue;
        }
        line.push_str(&" ".repeat(begin.saturating_sub(filled)));
        line.push_str(&text);
    }
    line
}

/// A time as exact as an axis of this length needs.
fn label(at: Utc, length: Nanos) -> String {
    let at = at.civil();
    let (hour, minute, second) = at.to_hms();
    if length < Nanos::from_secs(600) {
        format!("{hour:02}:{minute:02}:{second:02}")
    } else if length < Nanos::from_secs(2 * 86_400) {
        format!("{hour:02}:{minute:02}")
    } else {
        format!("{:02}-{:02}", u8::from(at.month()), at.day())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(seconds: u64, columns: usize) -> String {
        let from = Timestamp::from_millis(1_785_110_400_000).unwrap();
        times((from, from + Nanos::from_secs(seconds)), columns)
    }

    #[test]
    fn times_stand_at_their_columns() {
        assert_eq!(axis(7_200, 32), "00:00           01:00      02:00");
        assert_eq!(axis(60, 20), "00:00:00    00:01:00");
        assert_eq!(axis(4 * 86_400, 32), "07-27           07-29      07-31");
        for columns in [1, 5, 12, 48, 200] {
            assert!(axis(7_200, columns).len() <= columns.max(5), "{columns}");
        }
    }
}
