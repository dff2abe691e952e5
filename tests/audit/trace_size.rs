//! The documented number of spans of a GPU that is metered for a day.

use std::fmt::Write;
use std::fs;

use crate::otlp;
use crate::phasemeter::Phasemeter;

const DOCUMENTATION: &str = include_str!("../../docs/otlp.md");

/// The spans of the row with this description.
fn documented(description: &str) -> usize {
    let row = DOCUMENTATION.lines().find(|line| line.starts_with(&format!("| {description}")));
    let spans = row.unwrap().split('|').nth(2).unwrap();
    spans.trim().replace(',', "").parse().unwrap()
}

/// The spans of one GPU whose utilization in percent is this, second by second, for 24 hours.
fn spans(utilization: impl Fn(u32) -> u32) -> usize {
    let mut log = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n".to_owned();
    for second in 0..24 * 3_600 {
        let (hour, minute, rest) = (second / 3_600, second / 60 % 60, second % 60);
        let percent = utilization(second);
        let time = format!("2026/07/27 {hour:02}:{minute:02}:{rest:02}.000");
        writeln!(log, "{time}, 0, {percent} %, 70000 MiB").unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let run = Phasemeter::audit().within(dir.path()).stdin(log);
    run.args(["-", "--price", "3", "--otlp-file", "otlp.jsonl"]).report();
    otlp::read(&fs::read_to_string(dir.path().join("otlp.jsonl")).unwrap()).spans.len()
}

#[test]
fn spans_of_a_day_are_as_documented() {
    assert_eq!(spans(|_| 97), documented("always at 97%"));
    let training = |second| match second {
        _ if second % 1_800 >= 1_700 => 40,
        _ if second % 40 < 4 => 15,
        _ => 95,
    };
    assert_eq!(spans(training), documented("in training at 95%"));
    let alternating = |second| if second / 5 % 2 == 0 { 3 } else { 95 };
    assert_eq!(spans(alternating), documented("idle for 5 s"));
}
