//! Commitments: what a reserved hour costs beside one on demand, and from how many hours on it
//! pays.
//!
//! A commitment is paid for every hour of its term, used or not. This room must not know who
//! offers one.

/// The hours of a month that bills are reckoned in: 24 × 30.
pub(crate) const MONTH_HOURS: f64 = 720.0;

/// A price with a commitment, and the same without, in nano-USD an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commitment {
    pub(crate) on_demand: u64,
    pub(crate) committed: u64,
}

impl Commitment {
    /// One year and three, nothing paid upfront: terms of p3.2xlarge on aws, whose on-demand
    /// price is in the price book to this day. Providers' terms differ by model and by year; no
    /// list of them ships, so the ratio of these stands for others, and the advice says so.
    pub(crate) const ONE_YEAR: Self = Self { on_demand: 3_060_000_000, committed: 1_820_000_000 };
    pub(crate) const THREE_YEARS: Self = Self { committed: 1_310_000_000, ..Self::ONE_YEAR };

    /// What a committed hour costs of one on demand.
    pub(crate) fn ratio(self) -> f64 {
        self.committed as f64 / self.on_demand as f64
    }

    /// The hours a month from which on it costs less than paying by the hour.
    pub(crate) fn break_even_hours(self) -> f64 {
        MONTH_HOURS * self.ratio()
    }

    /// What it saves where a GPU is used for so many hours a month: negative below break-even.
    pub(crate) fn saving(self, hours: f64) -> f64 {
        1.0 - self.break_even_hours() / hours
    }

    /// What it saves on average where nobody knows the hours: any number of them up to all is as
    /// likely, and below break-even nobody commits.
    pub(crate) fn expected_saving(self) -> f64 {
        // The mean of 1 − r/h over h from 0 to 1, where it is positive.
        let ratio = self.ratio();
        1.0 - ratio + ratio * ratio.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole dollars of a price for so many hours, rounded half up.
    fn usd(nano: u64, hours: u64) -> u64 {
        (nano * hours + 500_000_000) / 1_000_000_000
    }

    fn percent(share: f64) -> f64 {
        (share * 1_000.0).round() / 10.0
    }

    #[test]
    fn the_published_table_comes_out_to_the_dollar() {
        let (one, three) = (Commitment::ONE_YEAR, Commitment::THREE_YEARS);
        let (month, year) = (8 * 720, 8 * 720 * 12);
        assert_eq!(usd(one.on_demand, month), 17_626);
        assert_eq!(usd(one.on_demand, year), 211_507);
        assert_eq!(usd(one.committed, year), 125_798);
        assert_eq!(usd(one.on_demand - one.committed, year), 85_709);
        assert_eq!(usd(three.committed, year), 90_547);
        assert_eq!(percent(one.saving(MONTH_HOURS)), 40.5);
        assert_eq!(percent(three.saving(MONTH_HOURS)), 57.2);
    }

    #[test]
    fn one_instance_for_all_hours_of_a_year() {
        let (one, three) = (Commitment::ONE_YEAR, Commitment::THREE_YEARS);
        assert_eq!(usd(one.on_demand, 8_760), 26_806);
        assert_eq!(usd(one.committed, 8_760), 15_943);
        // 10,862 is in circulation for this one: a slip.
        assert_eq!(three.committed * 8_760, 11_475_600_000_000);
    }

    #[test]
    fn at_break_even_nothing_is_saved() {
        let one = Commitment::ONE_YEAR;
        assert!((one.break_even_hours() - 428.2).abs() < 0.1);
        assert!((Commitment::THREE_YEARS.break_even_hours() - 308.2).abs() < 0.1);
        assert!(one.saving(one.break_even_hours()).abs() < 1e-12);
        assert!(one.saving(200.0) < 0.0);
    }

    #[test]
    fn what_is_expected_is_the_mean_over_all_hours() {
        for one in [Commitment::ONE_YEAR, Commitment::THREE_YEARS] {
            let hours = (1..=72_000).map(|tick| f64::from(tick) / 100.0);
            let mean = hours.map(|hours| one.saving(hours).max(0.0)).sum::<f64>() / 72_000.0;
            assert!((mean - one.expected_saving()).abs() < 1e-4);
        }
    }
}
