//! The periods of a GPU in the report: hours, or longer in a long run.
//!
//! They stay in the meter's form until they are written, since they are most of a report.

use std::collections::BTreeMap;

use phasemeter_meter::periods::{Period, PeriodList};
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use serde::{Serialize, Serializer};

use super::value::{Seconds, Usd, Utc};

/// The periods of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Periods {
    list: PeriodList,
    /// Where the last one ends, if their time is that of a part of the GPU; else each is as long as its accounts.
    until: Option<Timestamp>,
    wall: WallOffset,
    priced: bool,
}

/// One period.
#[derive(Serialize)]
struct Row {
    start: Utc,
    end: Utc,
    effective_seconds: f64,
    utilized_usd: Option<Usd>,
    accounts: BTreeMap<&'static str, AccountTotals>,
}

/// Time and cost of an account in a period.
#[derive(Serialize)]
struct AccountTotals {
    seconds: Seconds,
    cost_usd: Option<Usd>,
}

impl Periods {
    pub(super) const fn new(
        list: PeriodList,
        until: Option<Timestamp>,
        wall: WallOffset,
        priced: bool,
    ) -> Self {
        Self { list, until, wall, priced }
    }

    fn row(&self, period: &Period, next: Option<&Period>) -> Row {
        let end = self.until.map(|until| next.map_or(until, |next| next.from));
        let usd = |amount| self.priced.then_some(Usd(amount));
        let accounts = Account::ALL.into_iter().filter(|it| period.time(*it) > Nanos::ZERO);
        let totals = accounts.map(|account| {
            let seconds = Seconds(period.time(account));
            (account.name(), AccountTotals { seconds, cost_usd: usd(period.cost(account)) })
        });
        Row {
            start: Utc(self.wall.wall(period.from)),
            end: Utc(self.wall.wall(end.unwrap_or_else(|| period.from + period.length()))),
            effective_seconds: period.effective.as_secs_f64(),
            utilized_usd: usd(period.utilized()),
            accounts: totals.collect(),
        }
    }
}

impl Serialize for Periods {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let periods = self.list.to_vec();
        let next = periods.iter().skip(1).map(Some).chain([None]);
        serializer
            .collect_seq(periods.iter().zip(next).map(|(period, next)| self.row(period, next)))
    }
}
