//! Formats values of a report: dollars that add up, GPU-hours, dates.

use std::fmt;

use phasemeter_meter::money::{NANOS_PER_USD, NanoUsd, Rate};
use phasemeter_meter::projection::UnitCost;
use phasemeter_terminal::money::{amount, dollars, unit};
use phasemeter_terminal::number::{trimmed, with_commas};
use phasemeter_terminal::printed;
use time::OffsetDateTime;

use crate::value::Utc;

/// Amounts that differ by at most this many nano-dollars are one, of which shares were rounded down.
const SAME: i128 = 10_000;

/// Dollars, rounded for display: three decimals below $10, two above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dollars {
    exact: NanoUsd,
    /// Rounded, in units of the last decimal.
    rounded: i128,
    decimals: u32,
}

impl Dollars {
    pub(crate) fn of(exact: NanoUsd) -> Self {
        let decimals = if exact < NanoUsd(10 * i128::from(NANOS_PER_USD)) { 3 } else { 2 };
        Self::rounded(exact, decimals)
    }

    fn rounded(exact: NanoUsd, decimals: u32) -> Self {
        Self { exact, rounded: printed::rounded(exact, unit(decimals)), decimals }
    }

    /// The amount, not rounded.
    pub(super) const fn exact(self) -> NanoUsd {
        self.exact
    }

    /// Amounts for one row: all with the decimals of the largest.
    pub(super) fn alike<const N: usize>(amounts: [NanoUsd; N]) -> [Self; N] {
        let largest = amounts.into_iter().max().map(Self::of);
        let decimals = largest.map_or(3, |largest| largest.decimals);
        amounts.map(|exact| Self::rounded(exact, decimals))
    }

    /// The parts of this amount. Displayed, they sum to it, each within one unit of the last decimal. Those that
    /// are among `others` are displayed alike.
    pub(super) fn split<const N: usize>(self, parts: [NanoUsd; N], others: &[Self]) -> [Self; N] {
        let known = |exact| {
            let mut others = others.iter().filter(|it| it.decimals == self.decimals);
            others.find(|it| it.is(exact)).map(|it| it.rounded)
        };
        let rounded = printed::parts_with(self.rounded, &parts, unit(self.decimals), known);
        let mut rounded = rounded.into_iter();
        parts.map(|exact| Self { exact, rounded: rounded.next().unwrap_or_default(), ..self })
    }

    /// The same for any number of parts.
    pub(super) fn split_all(self, parts: Vec<NanoUsd>) -> Vec<Self> {
        let rounded = printed::parts(self.rounded, &parts, unit(self.decimals));
        let each = parts.into_iter().zip(rounded);
        each.map(|(exact, rounded)| Self { exact, rounded, ..self }).collect()
    }

    /// Whether it is this amount, but for the rounding of shares.
    fn is(self, exact: NanoUsd) -> bool {
        exact != NanoUsd::ZERO && (self.exact - exact).0.abs() <= SAME
    }

    /// This amount as it is displayed among `others`, else as it is.
    pub(super) fn as_among(self, others: &[Self]) -> Self {
        let other = others.iter().find(|it| it.is(self.exact));
        other.map_or(self, |other| Self::rounded(other.exact, self.decimals).or_same(*other))
    }

    /// The other, if it has the same decimals.
    fn or_same(self, other: Self) -> Self {
        if other.decimals == self.decimals { other } else { self }
    }

    /// Without a third decimal of 0, for use outside of columns.
    pub(crate) fn short(self) -> String {
        let text = self.to_string();
        match text.strip_suffix('0') {
            Some(short) if self.decimals == 3 => short.to_owned(),
            _ => text,
        }
    }

    /// The same, and `$0` for zero.
    pub(super) fn brief(self) -> String {
        if self.exact == NanoUsd::ZERO { "$0".to_owned() } else { self.short() }
    }

    /// In whole dollars.
    pub(super) fn whole(self) -> String {
        dollars(printed::rounded(self.exact, unit(0)), 0)
    }

    /// The percentage of `whole` to one decimal; zero if both are.
    pub(super) fn percent_of(self, whole: Self) -> String {
        let tenths = self.exact.ratio(1_000, whole.exact.0).map_or(0, |tenths| tenths.0);
        format!("{}.{}%", tenths / 10, tenths % 10)
    }
}

/// Non-zero amounts never display as zero.
impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_tiny = self.rounded == 0 && self.exact > NanoUsd::ZERO;
        let (sign, shown) = if is_tiny { ("<", 1) } else { ("", self.rounded) };
        f.pad(&format!("{sign}{}", dollars(shown, self.decimals)))
    }
}

/// What a category of waste is called. *idle* is a phase: a part of that time is starvation, and its rest idleness.
pub(super) fn waste_name(category: &str) -> &str {
    if category == "idle" { "idleness" } else { category }
}

/// A rate that was estimated: cents.
pub(super) fn estimated_rate(rate: Rate) -> String {
    amount(rate.hourly(), 2)
}

/// The cost of one unit of work: three significant digits below a dollar.
pub(super) fn each(cost: UnitCost) -> String {
    let dollars = cost.as_f64();
    if dollars >= 1.0 {
        return format!("${}", with_commas(&format!("{dollars:.2}")));
    }
    let scientific = format!("{dollars:.2e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok());
    let decimals = usize::try_from(2_i32.saturating_sub(exponent.unwrap_or(0))).unwrap_or(2);
    format!("${}", trimmed(&format!("{dollars:.decimals$}")))
}

/// GPU-hours: three decimals below a hundred, one above.
pub(super) fn hours(hours: f64) -> String {
    if hours < 100.0 {
        trimmed(&format!("{hours:.3}")).to_owned()
    } else {
        with_commas(&format!("{hours:.1}"))
    }
}

/// Hours to a tenth, or whole if there are many: `6.2`, `186`.
pub(super) fn tenths(of_hours: f64) -> String {
    if of_hours < 100.0 {
        hours((of_hours * 10.0).round() / 10.0)
    } else {
        with_commas(&format!("{of_hours:.0}"))
    }
}

/// Hours of GPUs in a unit of which there is one or more, if possible: `6.2 GPU-hours`, `4.2 GPU-minutes`.
pub(super) fn gpu_time(of_hours: f64) -> String {
    let units = [(1.0, "GPU-hour"), (60.0, "GPU-minute"), (3_600.0, "GPU-second")];
    let [.., seconds] = units;
    let (per_hour, unit) =
        units.into_iter().find(|(per, _)| of_hours * per >= 1.0).unwrap_or(seconds);
    let count = tenths(of_hours * per_hour);
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// `27 Jul 2026 00:22:27 – 00:34:04 UTC`; the second date only if it differs.
pub(super) fn range(from: Utc, to: Utc) -> String {
    let (from, to) = (from.civil(), to.civil());
    if from.date() == to.date() {
        format!("{} {} – {} UTC", day(from), clock(from), clock(to))
    } else {
        format!("{} {} – {} {} UTC", day(from), clock(from), day(to), clock(to))
    }
}

/// `27 Jul 2026 00:22:27 UTC`.
pub(super) fn instant(at: Utc) -> String {
    let at = at.civil();
    format!("{} {} UTC", day(at), clock(at))
}

fn day(at: OffsetDateTime) -> String {
    let month: String = at.month().to_string().chars().take(3).collect();
    format!("{} {month} {}", at.day(), at.year())
}

fn clock(at: OffsetDateTime) -> String {
    let (hour, minute, second) = at.to_hms();
    format!("{hour:02}:{minute:02}:{second:02}")
}

/// Energy in Wh or kWh.
pub(super) fn energy(joules: f64) -> String {
    let watt_hours = joules / 3_600.0;
    let (amount, unit) =
        if watt_hours < 1_000.0 { (watt_hours, "Wh") } else { (watt_hours / 1_000.0, "kWh") };
    format!("{} {unit}", hours(amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(nanos: i128) -> Dollars {
        Dollars::of(NanoUsd(nanos))
    }

    #[test]
    fn dollars_have_three_decimals_below_ten_else_two() {
        assert_eq!(usd(0).to_string(), "$0.000");
        assert_eq!(usd(1).to_string(), "<$0.001");
        assert_eq!(usd(1_162_000_000).to_string(), "$1.162");
        assert_eq!(usd(9_999_600_000).to_string(), "$10.000");
        assert_eq!(usd(80_000_000_000).to_string(), "$80.00");
        assert_eq!(usd(1_234_567_891_000_000_000).to_string(), "$1,234,567,891.00");
        assert_eq!(usd(6_000_000_000).short(), "$6.00");
        assert_eq!(usd(7_304_000_000).short(), "$7.304");
        assert_eq!(usd(17_000_000_000).short(), "$17.00");
        let range = [6_601_000_000, 11_800_000_000].map(NanoUsd);
        assert_eq!(Dollars::alike(range).map(|usd| usd.to_string()), ["$6.60", "$11.80"]);
    }

    #[test]
    fn displayed_parts_sum_to_displayed_total() {
        let whole = usd(1_001_500_000);
        let thirds = [NanoUsd(333_833_333), NanoUsd(333_833_333), NanoUsd(333_833_334)];
        let parts = whole.split(thirds, &[]);
        assert_eq!(whole.to_string(), "$1.002");
        assert_eq!(parts.map(|part| part.to_string()), ["$0.334", "$0.334", "$0.334"]);
        assert_eq!(usd(0).split([NanoUsd(0)], &[])[0].to_string(), "$0.000");
        // A part of another sum.
        let [known, rest] = whole.split([NanoUsd(500_600_000), NanoUsd(500_900_000)], &[]);
        assert_eq!([known, rest].map(|part| part.to_string()), ["$0.501", "$0.501"]);
        assert_eq!(usd(500_599_999).as_among(&[whole, known]), known);
        assert_eq!(usd(12).as_among(&[known]), usd(12));
        assert_eq!(usd(685_000_000).percent_of(usd(1_162_000_000)), "59.0%");
    }

    #[test]
    fn unit_costs_have_three_digits() {
        let of = |cost, count| each(UnitCost::of(NanoUsd(cost), count).unwrap());
        assert_eq!(of(80_000_000_000, 200_000), "$0.0004");
        assert_eq!(of(1_162_000_000, 200_000), "$0.00000581");
        assert_eq!(of(80_000_000_000, 3), "$26.67");
        assert_eq!(of(0, 3), "$0");
    }

    #[test]
    fn amounts_are_rounded_for_display() {
        assert_eq!(hours(6.0), "6");
        assert_eq!(hours(0.158_6), "0.159");
        assert_eq!(hours(12_345.67), "12,345.7");
        let times = [3.0, 1.02, 1.0 / 60.0, 0.5, 0.0].map(gpu_time);
        let expected =
            ["3 GPU-hours", "1 GPU-hour", "1 GPU-minute", "30 GPU-minutes", "0 GPU-seconds"];
        assert_eq!(times, expected);
        assert_eq!(energy(1_500.0), "0.417 Wh");
        assert_eq!(energy(9_000_000.0), "2.5 kWh");
    }
}
