//! The time zone of hours of the week.

use crate::phasemeter::Phasemeter;

/// Hours of the week count from a day on; without a zone of their own they are in UTC, which is noted once.
#[test]
fn hours_of_the_week_in_utc_are_noted() {
    let log = |hours: u64, zone: &str| {
        let row = |minute: u64| {
            let (day, hour, minute) = (27 + minute / 1_440, minute / 60 % 24, minute % 60);
            format!("2026/07/{day} {hour:02}:{minute:02}:00.000{zone}, GPU-0, 50\n")
        };
        let rows: String = (0..=hours * 60).map(row).collect();
        format!("timestamp, uuid, utilization.gpu [%]\n{rows}")
    };
    let utc = |log: String, options: &[&str]| {
        let run = Phasemeter::audit().args(["-", "--price", "2", "--stale-after", "120"]);
        let report = run.args(options).stdin(log).report();
        let notes = report["assumptions"].to_string();
        let noted =
            ["hours of the week are in UTC; set", "local times are read as UTC", "UTC+02:00"];
        noted.map(|note| notes.contains(note))
    };
    assert_eq!(utc(log(25, "Z"), &[]), [true, false, false]);
    assert_eq!(utc(log(2, "Z"), &[]), [false; 3]);
    assert_eq!(utc(log(25, ""), &[]), [false, true, false]);
    assert_eq!(utc(log(25, "Z"), &["--utc-offset", "+02:00"]), [false, false, true]);
}
