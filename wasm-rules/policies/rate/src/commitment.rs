//! Computes what a commitment saves, and its break-even.
//!
//! A commitment is paid for every hour of its term, used or not.

use phasemeter_policy::{Accounts, Gpu};

/// Hours per billing month: 24 × 30.
pub(crate) const HOURS_PER_MONTH: f64 = 720.0;

/// Hourly prices in nano-USD, without and with a commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commitment {
    pub(crate) on_demand: u64,
    pub(crate) committed: u64,
}

impl Commitment {
    /// Returns the price of a committed hour relative to on demand.
    pub(crate) fn ratio(self) -> f64 {
        self.committed as f64 / self.on_demand.max(1) as f64
    }

    /// Returns the hours per month from which a commitment costs less than on demand.
    pub(crate) fn break_even_hours(self) -> f64 {
        HOURS_PER_MONTH * self.ratio()
    }

    /// Returns the saving at `hours` of use per month: negative below break-even.
    pub(crate) fn saving(self, hours: f64) -> f64 {
        1.0 - self.break_even_hours() / hours
    }

    /// Returns the mean saving for unknown hours: uniformly distributed, and committed only above
    /// break-even.
    pub(crate) fn expected_saving(self) -> f64 {
        // The mean of max(0, 1 − r/h) for h from 0 to 1.
        let ratio = self.ratio().clamp(f64::MIN_POSITIVE, 1.0);
        1.0 - ratio + ratio * ratio.ln()
    }
}

/// How long a GPU was observed, in seconds, and its idle share of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observed {
    pub(crate) seconds: f64,
    pub(crate) idle: f64,
}

impl Observed {
    /// Of the window, or of the whole run if that is longer: a run without a known end has a window of a day,
    /// and its hours of the week are of all weeks.
    pub(crate) fn of(gpu: &Gpu) -> Self {
        let seconds = gpu.accounts.observed().seconds;
        let week: f64 = gpu.activity.week.iter().map(|hour| hour.observed_seconds).sum();
        if week <= seconds {
            return Self { seconds, idle: gpu.share(Accounts::idle) };
        }
        let idle: f64 = gpu.activity.week.iter().map(|hour| hour.idle_seconds).sum();
        Self { seconds: week, idle: idle / week }
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::HourOfWeek;
    use phasemeter_policy::testing::steady;

    use super::*;

    #[test]
    fn longer_of_window_and_run_is_observed() {
        let day = steady(86_400, 0.9);
        assert_eq!(Observed::of(&day), Observed { seconds: 86_400.0, idle: 0.0 });
        let hour = HourOfWeek { observed_seconds: 7_200.0, idle_seconds: 3_600.0 };
        let mut run = day.clone();
        run.activity.week = vec![hour; 168];
        assert_eq!(Observed::of(&run), Observed { seconds: 14.0 * 86_400.0, idle: 0.5 });
        // The whole run is in the window.
        let hour = HourOfWeek { observed_seconds: 400.0, idle_seconds: 400.0 };
        let mut same = day;
        same.activity.week = vec![hour; 168];
        assert_eq!(Observed::of(&same), Observed { seconds: 86_400.0, idle: 0.0 });
    }

    /// Published terms of p3.2xlarge at aws, without an upfront payment.
    const ONE_YEAR: Commitment = Commitment { on_demand: 3_060_000_000, committed: 1_820_000_000 };
    const THREE_YEARS: Commitment = Commitment { committed: 1_310_000_000, ..ONE_YEAR };

    /// Whole dollars for `hours`, rounded half up.
    fn usd(nano: u64, hours: u64) -> u64 {
        (nano * hours + 500_000_000) / 1_000_000_000
    }

    fn percent(share: f64) -> f64 {
        (share * 1_000.0).round() / 10.0
    }

    #[test]
    fn monthly_and_yearly_costs_match_published_table() {
        let (one, three) = (ONE_YEAR, THREE_YEARS);
        let (month, year) = (8 * 720, 8 * 720 * 12);
        assert_eq!(usd(one.on_demand, month), 17_626);
        assert_eq!(usd(one.on_demand, year), 211_507);
        assert_eq!(usd(one.committed, year), 125_798);
        assert_eq!(usd(one.on_demand - one.committed, year), 85_709);
        assert_eq!(usd(three.committed, year), 90_547);
        assert_eq!(percent(one.saving(HOURS_PER_MONTH)), 40.5);
        assert_eq!(percent(three.saving(HOURS_PER_MONTH)), 57.2);
    }

    #[test]
    fn yearly_cost_of_one_instance() {
        assert_eq!(usd(ONE_YEAR.on_demand, 8_760), 26_806);
        assert_eq!(usd(ONE_YEAR.committed, 8_760), 15_943);
        // Some sources give 10,862 here, which is wrong.
        assert_eq!(THREE_YEARS.committed * 8_760, 11_475_600_000_000);
    }

    #[test]
    fn saving_is_zero_at_break_even() {
        assert!((ONE_YEAR.break_even_hours() - 428.2).abs() < 0.1);
        assert!((THREE_YEARS.break_even_hours() - 308.2).abs() < 0.1);
        assert!(ONE_YEAR.saving(ONE_YEAR.break_even_hours()).abs() < 1e-12);
        assert!(ONE_YEAR.saving(200.0) < 0.0);
    }

    #[test]
    fn expected_saving_is_the_mean_over_all_hours() {
        for one in [ONE_YEAR, THREE_YEARS] {
            let hours = (1..=72_000).map(|tick| f64::from(tick) / 100.0);
            let mean = hours.map(|hours| one.saving(hours).max(0.0)).sum::<f64>() / 72_000.0;
            assert!((mean - one.expected_saving()).abs() < 1e-4);
        }
        let dearer = Commitment { committed: 4_000_000_000, ..ONE_YEAR };
        assert_eq!(dearer.expected_saving(), 0.0, "never committed");
    }
}
