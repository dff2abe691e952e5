//! What some holders of a GPU pay over a run, as another meter states it from time to time: an agent's account of a
//! container, in the report of the sidecar beside it.

use super::stated_part::StatedPart;
use crate::accounts::Accounts;
use crate::holders::Statement;
use crate::periods::Periods;
use crate::units::{Nanos, Timestamp};

/// Maximum number of gaps that are kept apart. Of later ones only the time counts.
const MAX_GAPS: usize = 16;

/// The state of a meter's accounts of some holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedState {
    /// Tells meters apart, one of which follows another.
    pub meter: u64,
    /// Where its accounts begin.
    pub from: Timestamp,
    /// The instant up to which all time is in them.
    pub until: Timestamp,
    /// The accounts since then.
    pub holders: Statement,
}

/// What some holders pay since the start of a run.
///
/// It begins with the first state at or after the start, for a holder that has come since then with its first grant,
/// and ends with the first state at or after the end. So runs that follow one another have no time twice. Time in the
/// accounts of no meter is in no sum.
#[derive(Clone, Debug)]
pub struct StatedAccounts {
    start: Timestamp,
    /// The end of what is stated, from the start on.
    until: Option<Timestamp>,
    /// The first instant of what is stated.
    from: Option<Timestamp>,
    /// Of meters that have ended.
    ended: Statement,
    current: Option<Current>,
    periods: Periods,
    gaps: Vec<(Timestamp, Timestamp)>,
    missing: Nanos,
    /// The state where the part in progress began; `None` for the first one.
    base: Option<Base>,
    /// Where the part in progress is to end.
    part_end: Option<Timestamp>,
    /// The part that has ended, until it is taken.
    ended_part: Option<StatedPart>,
}

/// The state at the start of a part.
#[derive(Clone, Debug)]
struct Base {
    at: Timestamp,
    holders: Statement,
    gaps: usize,
    missing: Nanos,
}

/// The accounts of the meter that states them now.
#[derive(Clone, Debug)]
struct Current {
    meter: u64,
    /// Those at the start of the run; `None` if that is not reached.
    before: Option<Statement>,
    now: Statement,
}

impl StatedAccounts {
    /// Those of a run that starts at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            until: None,
            from: None,
            ended: Statement::default(),
            current: None,
            periods: Periods::default(),
            gaps: Vec::new(),
            missing: Nanos::ZERO,
            base: None,
            part_end: None,
            ended_part: None,
        }
    }

    /// Time before `at` is not to be stated, if none is so far.
    pub fn begin_after(&mut self, at: Timestamp) {
        if self.from.is_none() {
            self.start = self.start.max(at);
        }
    }

    /// The part in progress ends with the first state at or after `at`, in place of any end that was planned; without
    /// it, with the run.
    pub fn end_part_at(&mut self, at: Option<Timestamp>) {
        self.part_end = at;
        self.end_reached_part();
    }

    /// Takes the part that has ended. If none has, the part in progress ends with what is stated. Parts tile what is
    /// stated, and sum to it.
    pub fn take_part(&mut self) -> StatedPart {
        if self.ended_part.is_none() {
            self.end_part();
        }
        self.ended_part.take().unwrap_or_default()
    }

    /// The part that has ended and was not taken, else all that is stated since the last one.
    #[must_use]
    pub fn part_so_far(&self) -> StatedPart {
        self.ended_part.clone().unwrap_or_else(|| self.since(self.base.as_ref()))
    }

    /// All that is stated of the run.
    #[must_use]
    pub fn whole(&self) -> StatedPart {
        self.since(None)
    }

    fn end_reached_part(&mut self) {
        if self.part_end.is_some_and(|end| self.until >= Some(end)) && self.ended_part.is_none() {
            self.end_part();
        }
    }

    fn end_part(&mut self) {
        self.part_end = None;
        self.ended_part = Some(self.part_so_far());
        let Some(at) = self.until else { return };
        let (holders, gaps, missing) = (self.holders(), self.gaps.len(), self.missing);
        self.periods.restart(at, &holders.accounts());
        self.base = Some(Base { at, holders, gaps, missing });
    }

    fn since(&self, base: Option<&Base>) -> StatedPart {
        let all = self.holders();
        let accounts = all.accounts();
        let from = base.map(|base| base.at).or(self.from);
        let (gaps, missing) = base.map_or((0, Nanos::ZERO), |base| (base.gaps, base.missing));
        StatedPart {
            span: from.zip(self.until),
            holders: base.map_or_else(|| all.clone(), |base| all.since(&base.holders)),
            periods: self.periods.until_now(&accounts),
            gaps: self.gaps.get(gaps..).unwrap_or_default().to_vec(),
            missing: self.missing - missing,
        }
    }

    /// Takes the next state. One in which an account is less than before is ignored.
    pub fn take(&mut self, state: StatedState) {
        let StatedState { meter, from, until, holders } = state;
        let current = self.current.take_if(|current| current.meter == meter);
        if let Some(ended) = self.current.take() {
            self.ended.join(ended.stated());
        }
        let mut current = current.unwrap_or_else(|| {
            // All of its time is that of the run.
            let before = (from >= self.start).then(Statement::default);
            if before.is_some() {
                self.begin(from);
            }
            Current { meter, before, now: Statement::default() }
        });
        if current.now.update(holders) {
            if current.before.is_none() && until >= self.start {
                // One that has come since then has had nothing before.
                let before = current.now.held_before(self.start);
                let is_all = before.is_empty();
                current.before = Some(before);
                self.begin(if is_all { self.start.ceil_second().min(until) } else { until });
            }
            if current.before.is_some() {
                self.until = self.until.max(Some(until));
            }
        }
        self.current = Some(current);
        if let Some(until) = self.until.filter(|until| *until >= self.periods.end()) {
            let accounts = self.holders().accounts();
            self.periods.begin(until, &accounts);
        }
        self.end_reached_part();
    }

    /// What is stated goes on at `at`.
    fn begin(&mut self, at: Timestamp) {
        let before = self.until.unwrap_or_else(|| self.start.ceil_second());
        if self.from.is_none() {
            self.from = Some(at);
            self.periods.begin(at, &Accounts::default());
        }
        if before < at {
            self.missing += at.since(before);
            if self.gaps.len() < MAX_GAPS {
                self.gaps.push((before, at));
            }
        }
        self.until = self.until.max(Some(at));
    }

    /// The time range of what is stated; `None` if nothing is, of the run.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.from.zip(self.until)
    }

    /// Whether the part in progress has ended, or all time up to `at` is stated.
    #[must_use]
    pub fn has_reached(&self, at: Timestamp) -> bool {
        self.ended_part.is_some() || self.until >= Some(at)
    }

    /// What each holder pays.
    fn holders(&self) -> Statement {
        let mut all = self.ended.clone();
        self.current.iter().for_each(|current| all.join(current.stated()));
        all
    }
}

impl Current {
    /// What it has stated of the run.
    fn stated(&self) -> Statement {
        self.before.as_ref().map(|before| self.now.since(before)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;
    use crate::accounts::Balance;
    use crate::accrual::UtilizedCost;
    use crate::holder::{Holder, HolderAccount};
    use crate::holders::HolderAccounts;
    use crate::money::NanoUsd;
    use crate::phase::Account;

    const HOUR: u64 = 3_600;

    fn gaps(stated: &StatedAccounts) -> (Vec<(Timestamp, Timestamp)>, Nanos) {
        let StatedPart { gaps, missing, .. } = stated.whole();
        (gaps, missing)
    }

    fn at(second: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(second)
    }

    /// A holder that has used a quarter of the GPU for so long, at a nano-dollar per microsecond.
    fn state(meter: u64, from: u64, until: u64, held: u64) -> StatedState {
        let mut holders = Statement::default();
        if held > 0 {
            let mut accounts = HolderAccounts::new(at(until - held));
            let time = Nanos::from_secs(held * 15 / 60);
            let cost = NanoUsd(i128::from(time.0 / 1_000));
            let balance = Balance::of(time, 0, cost, UtilizedCost::ZERO);
            accounts.add(HolderAccount::Used, Account::Productive, balance);
            accounts.add_granted(time);
            holders.add(Holder::Named("a".to_owned()), &accounts);
        }
        StatedState { meter, from: at(from), until: at(until), holders }
    }

    /// Seconds and nano-dollars.
    fn sum(stated: &StatedAccounts) -> (u64, i128) {
        let all = stated.holders().accounts().all();
        (all.time.0 / 1_000_000_000, all.cost.0)
    }

    #[test]
    fn account_is_that_of_the_run_only_and_lost_time_is_a_gap() {
        let mut stated = StatedAccounts::new(at(1_000));
        for until in (600..=1_400).step_by(100) {
            stated.take(state(1, 0, until, until));
        }
        assert_eq!(stated.span(), Some((at(1_000), at(1_400))));
        assert_eq!(sum(&stated), (100, 100_000_000));
        // An agent that has lost what it had: nothing becomes less.
        stated.take(state(1, 0, 1_500, 200));
        assert_eq!(sum(&stated), (100, 100_000_000));
        // Another one begins, and is the next one's holder anew.
        stated.take(state(2, 1_460, 1_500, 40));
        stated.take(state(2, 1_460, 1_860, 400));
        assert_eq!(stated.span(), Some((at(1_000), at(1_860))));
        assert_eq!(gaps(&stated), (vec![(at(1_400), at(1_460))], Nanos::from_secs(60)));
        assert_eq!(sum(&stated), (200, 200_000_000));
        // It is not stated any more, and keeps what it had.
        stated.take(state(2, 1_460, 1_900, 0));
        assert_eq!(sum(&stated), (200, 200_000_000));
    }

    #[test]
    fn holder_that_comes_later_has_all_of_its_account() {
        let mut stated = StatedAccounts::new(at(10));
        stated.take(state(1, 0, 10, 0));
        stated.take(state(1, 0, 60, 40));
        assert_eq!(sum(&stated), (10, 10_000_000));
        let never = StatedAccounts::new(at(10));
        assert_eq!((never.span(), sum(&never)), (None, (0, 0)));
    }

    /// The states at the start of the run and of the holder were not seen.
    #[test]
    fn states_that_were_missed_lose_nothing_of_a_holder_that_comes_later() {
        let mut stated = StatedAccounts::new(at(10));
        stated.take(state(1, 0, 9, 0));
        stated.take(state(1, 0, 60, 40));
        assert_eq!((stated.span(), sum(&stated)), (Some((at(10), at(60))), (10, 10_000_000)));
        // Another one held it before: it pays from the first state on.
        let mut stated = StatedAccounts::new(at(30));
        stated.take(state(1, 0, 29, 9));
        stated.take(state(1, 0, 60, 40));
        assert_eq!((stated.span(), sum(&stated)), (Some((at(60), at(60))), (0, 0)));
        assert_eq!(gaps(&stated), (vec![(at(30), at(60))], Nanos::from_secs(30)));
    }

    #[test]
    fn hours_sum_to_the_account() {
        let mut stated = StatedAccounts::new(at(0));
        for until in (0..=3 * HOUR + 1_800).step_by(1_200) {
            stated.take(state(1, 0, until, until));
        }
        let accounts = stated.holders().accounts();
        let periods = stated.periods.until_now(&accounts).to_vec();
        assert_eq!(periods.len(), 4);
        let starts: Vec<_> = periods.iter().map(|period| period.from).collect();
        assert_eq!(starts, [0, 1, 2, 3].map(|hour| at(hour * HOUR)));
        let costs = periods.iter().map(|period| period.cost(Account::Productive));
        assert_eq!(costs.sum::<NanoUsd>(), accounts.all().cost);
    }

    /// One thing that happens.
    #[derive(Clone, Debug)]
    enum Step {
        /// A state this much later.
        State(u64),
        /// A meter follows, this much later.
        Another(u64),
        /// A part is to end this much later.
        Plan(u64),
        /// The part is taken.
        Take,
    }

    proptest! {
        /// Whatever is stated, missed and lost, and whenever parts are to end and are taken: they tile what is stated, and
        /// sum to it; each second that is in no account is missing in one of them.
        #[test]
        fn parts_tile_what_is_stated_and_sum_to_it(
            start in 0..20_u64,
            steps in collection::vec(
                prop_oneof![
                    6 => (1..5_000_u64).prop_map(Step::State),
                    1 => (0..50_u64).prop_map(Step::Another),
                    3 => (0..9_000_u64).prop_map(Step::Plan),
                    2 => Just(Step::Take),
                ],
                1..60,
            ),
        ) {
            let mut stated = StatedAccounts::new(at(start));
            let (mut meter, mut from, mut now) = (1, 0, 0);
            let mut parts = Vec::new();
            for step in steps {
                match step {
                    Step::State(later) => {
                        now += later;
                        stated.take(state(meter, from, now, now - from));
                    }
                    Step::Another(later) => (meter, from, now) = (meter + 1, now + later, now + later),
                    Step::Plan(later) => stated.end_part_at(Some(at(now + later))),
                    Step::Take => parts.push(stated.take_part()),
                }
            }
            parts.push(stated.take_part());
            parts.push(stated.take_part());
            let whole = stated.whole();
            let sum = |of: &dyn Fn(&StatedPart) -> i128| parts.iter().map(of).sum::<i128>();
            let cost = |part: &StatedPart| part.holders.accounts().all().cost.0;
            let time = |part: &StatedPart| part.holders.accounts().all().time.0.into();
            let missing = |part: &StatedPart| part.missing.0.into();
            prop_assert_eq!(sum(&cost), cost(&whole));
            prop_assert_eq!(sum(&time), time(&whole));
            prop_assert_eq!(sum(&missing), missing(&whole));
            let of_periods = |part: &StatedPart| {
                let periods = part.periods.to_vec().into_iter();
                periods.map(|period| period.cost(Account::Productive).0).sum()
            };
            prop_assert_eq!(sum(&of_periods), cost(&whole));
            let spans: Vec<_> = parts.iter().filter_map(|part| part.span).collect();
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "{:?}", spans);
        }
    }
}
