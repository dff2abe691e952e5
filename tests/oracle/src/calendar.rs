//! A calendar that counts days one by one: slow but obviously correct.

const DAY: u64 = 86_400_000;

fn is_leap(year: u64) -> bool {
    (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Formats milliseconds since 1970 as `nvidia-smi` does.
pub fn format_millis(millis: u64) -> String {
    let (mut day, mut year, mut month) = (millis / DAY, 1970, 1);
    while day >= days_in(year, month) {
        day -= days_in(year, month);
        (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    }
    let (hour, minute) = (millis % DAY / 3_600_000, millis % 3_600_000 / 60_000);
    let (second, milli) = (millis % 60_000 / 1_000, millis % 1_000);
    let day = day + 1;
    format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}.{milli:03}")
}

/// Parses that format; `None` if the text has another shape.
pub fn parse(text: &str) -> Option<u64> {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    if shape != "0000/00/00 00:00:00.000" {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u64>().unwrap();
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let mut days = day - 1;
    for before in 1970..year {
        days += (1..=12).map(|month| days_in(before, month)).sum::<u64>();
    }
    days += (1..month).map(|month| days_in(year, month)).sum::<u64>();
    let (hour, minute, second) = (number(11, 13), number(14, 16), number(17, 19));
    Some(days * DAY + ((hour * 60 + minute) * 60 + second) * 1_000 + number(20, 23))
}

#[test]
fn calendar_round_trips() {
    assert_eq!(format_millis(0), "1970/01/01 00:00:00.000");
    assert_eq!(format_millis(1_785_111_747_123), "2026/07/27 00:22:27.123");
    for millis in [951_782_399_999, 951_782_400_000, 1_709_251_200_000, 1_798_761_599_999] {
        assert_eq!(parse(&format_millis(millis)), Some(millis));
    }
}
