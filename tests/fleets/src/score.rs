//! Counts cases, and compares them with the bounds.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crate::case::{Case, Replayed};

/// Difference between simulation and meter at the edges of a promise, as a share of the bill: the meter
/// counts whole seconds, and the log ends with its last reading.
const TOLERANCE: f64 = 0.002;

/// True savings inside the promise, at least.
const MIN_INSIDE: f64 = 0.8;
/// The same of savings in dollars that a replay promises.
const MIN_REPLAYED_INSIDE: f64 = 0.95;
/// Mean width of promises relative to the waste of their category, at most.
const MAX_WIDTH: f64 = 0.6;
/// Share of the recoverable waste that recommendations recover, at least.
const MIN_ADDRESSED: f64 = 0.6;
/// Share of the expected savings whose action cannot be simulated, at most.
const MAX_UNSIMULATED: f64 = 0.1;
/// Difference between confidence and hit rate, at most, and the fewest cases of a tenth.
const MAX_OFF: f64 = 0.15;
const MIN_CASES: usize = 30;

/// What recommendations are worth.
#[derive(Clone, Debug, Default)]
pub struct Score(Vec<Replayed>);

/// Means of some cases.
struct Means {
    count: usize,
    inside: f64,
    hit: f64,
    confidence: f64,
    truth: f64,
    promised: [f64; 3],
    width: f64,
}

impl Case {
    fn is_inside(&self) -> bool {
        let (low, high) = (self.promised.low - TOLERANCE, self.promised.high + TOLERANCE);
        (low..=high).contains(&self.truth)
    }

    /// Whether it saves at least half of what is expected.
    fn is_hit(&self) -> bool {
        self.truth + TOLERANCE >= 0.5 * self.promised.expected
    }
}

impl Means {
    fn of(cases: &[&Case]) -> Self {
        let count = cases.len();
        let mean = |value: &dyn Fn(&Case) -> f64| {
            cases.iter().map(|case| value(case)).sum::<f64>() / count.max(1) as f64
        };
        let share = |is: fn(&Case) -> bool| mean(&|case| f64::from(u8::from(is(case))));
        Self {
            count,
            inside: share(Case::is_inside),
            hit: share(Case::is_hit),
            confidence: mean(&|case| case.confidence),
            truth: mean(&|case| case.truth),
            promised: [
                mean(&|case| case.promised.low),
                mean(&|case| case.promised.expected),
                mean(&|case| case.promised.high),
            ],
            width: mean(&|case| case.width),
        }
    }
}

impl Score {
    /// Adds a fleet.
    pub(crate) fn add(&mut self, replayed: Replayed) {
        self.0.push(replayed);
    }

    /// The means of the cases that are of interest.
    fn means(&self, keep: impl Fn(&Case) -> bool) -> Means {
        let cases = self.0.iter().flat_map(|fleet| &fleet.cases);
        Means::of(&cases.filter(|case| keep(case)).collect::<Vec<_>>())
    }

    /// The tenths of confidence, from 0 to 9, with their cases.
    fn tenths(&self) -> impl Iterator<Item = (usize, Means)> {
        (0..10).filter_map(|tenth| {
            let means = self.means(|case| tenth_of(case.confidence) == tenth);
            (means.count > 0).then_some((tenth, means))
        })
    }

    /// Dollars that recommendations save, relative to those that could be saved.
    fn addressed(&self, workload: Option<&str>) -> f64 {
        let fleets = self.0.iter().filter(|fleet| workload.is_none_or(|own| own == fleet.workload));
        let recoverable: f64 = fleets.clone().map(|fleet| fleet.recoverable).sum();
        fleets.map(|fleet| fleet.addressed).sum::<f64>() / recoverable.max(f64::MIN_POSITIVE)
    }

    /// Expected dollars of recommendations that cannot be simulated, relative to those of all.
    fn unsimulated(&self) -> f64 {
        let ignored = self.0.iter().flat_map(|fleet| &fleet.ignored);
        let ignored = ignored.fold(0.0, |sum, (_, usd)| sum + usd);
        let cases = self.0.iter().flat_map(|fleet| &fleet.cases);
        let all = ignored + cases.map(|case| case.expected_usd).sum::<f64>();
        ignored / all.max(f64::MIN_POSITIVE)
    }

    /// The bounds that do not hold, with their figures. Empty if all do.
    #[must_use]
    pub fn broken_bounds(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let inside = self.means(|_| true).inside;
        if inside < MIN_INSIDE {
            broken.push(format!("{:.1}% of savings are inside the promise", 100.0 * inside));
        }
        let replayed = self.means(|case| case.is_replayed);
        if replayed.count > 0 && replayed.inside < MIN_REPLAYED_INSIDE {
            broken.push(format!("{:.1}% of replayed savings are inside", percent(replayed.inside)));
        }
        let width = self.means(|case| case.is_use).width;
        if width > MAX_WIDTH {
            broken.push(format!("promises are {:.1}% of the waste wide", 100.0 * width));
        }
        let addressed = self.addressed(None);
        if addressed < MIN_ADDRESSED {
            broken.push(format!("{:.1}% of recoverable waste is addressed", 100.0 * addressed));
        }
        let unsimulated = self.unsimulated();
        if unsimulated > MAX_UNSIMULATED {
            broken.push(format!("{:.1}% of savings are not simulated", percent(unsimulated)));
        }
        for (tenth, means) in self.tenths() {
            let off = (means.hit - means.confidence).abs();
            if means.count >= MIN_CASES && off > MAX_OFF {
                broken.push(format!(
                    "at {}0% confidence, {:.1}% of {} cases hit",
                    tenth,
                    100.0 * means.hit,
                    means.count
                ));
            }
        }
        broken
    }
}

fn tenth_of(confidence: f64) -> usize {
    ((confidence * 10.0) as usize).min(9)
}

fn percent(share: f64) -> f64 {
    100.0 * share
}

fn row(f: &mut Formatter<'_>, name: &str, means: &Means) -> fmt::Result {
    let [low, expected, high] = means.promised.map(percent);
    writeln!(
        f,
        "{name:22}{:>7}{:>8.1}{:>7.1}{:>12.1}{:>8.1}{low:>7.1}{expected:>10.1}{high:>7.1}{:>8.1}",
        means.count,
        percent(means.inside),
        percent(means.hit),
        percent(means.confidence),
        percent(means.truth),
        percent(means.width),
    )
}

impl Display for Score {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (all, replayed) = (self.means(|_| true), self.means(|case| case.is_replayed));
        let width = self.means(|case| case.is_use).width;
        writeln!(
            f,
            "{} fleets, {} savings promised; all figures in percent\n",
            self.0.len(),
            all.count
        )?;
        writeln!(f, "{:52}{:>8}{:>8}", "", "measured", "bound")?;
        let bounds = [
            ("true saving inside [low, high]", all.inside, ">=", MIN_INSIDE),
            ("the same of savings by replay", replayed.inside, ">=", MIN_REPLAYED_INSIDE),
            ("mean width, of the waste of the category", width, "<=", MAX_WIDTH),
            ("recoverable waste addressed", self.addressed(None), ">=", MIN_ADDRESSED),
            ("expected savings not simulated", self.unsimulated(), "<=", MAX_UNSIMULATED),
        ];
        for (name, value, sign, bound) in bounds {
            writeln!(f, "{name:52}{:>8.1}{sign:>4}{:>4.0}", percent(value), percent(bound))?;
        }
        for workload in ["training", "serving", "interactive", "batch"] {
            let addressed = percent(self.addressed(Some(workload)));
            writeln!(f, "  {:50}{addressed:>8.1}", format!("addressed, {workload}"))?;
        }
        writeln!(
            f,
            "\n{:22}{:>7}{:>8}{:>7}{:>12}{:>8}{:>7}{:>10}{:>7}{:>8}",
            "", "cases", "inside", "hit", "confidence", "truth", "low", "expected", "high", "width"
        )?;
        for (tenth, means) in self.tenths() {
            row(f, &format!("confidence {}0 to {}", tenth, (tenth + 1) * 10), &means)?;
        }
        writeln!(f)?;
        let mut codes: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
        for case in self.0.iter().flat_map(|fleet| &fleet.cases) {
            codes.entry(&case.code).or_default().push(case);
        }
        for (code, cases) in &codes {
            row(f, code, &Means::of(cases))?;
        }
        row(f, "by replay, in dollars", &replayed)?;
        row(f, "all", &all)?;
        let mut ignored: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
        for (code, usd) in self.0.iter().flat_map(|fleet| &fleet.ignored) {
            let (count, sum) = ignored.entry(code).or_default();
            (*count, *sum) = (*count + 1, *sum + usd);
        }
        if !ignored.is_empty() {
            writeln!(f, "\n{:22}{:>7}{:>8}", "not simulated", "cases", "USD")?;
        }
        ignored
            .iter()
            .try_for_each(|(code, (count, usd))| writeln!(f, "{code:22}{count:>7}{usd:>8.0}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Fractions;

    fn fleet(truths: &[f64], confidence: f64) -> Replayed {
        let case = |truth: &f64| Case {
            code: "test".to_owned(),
            promised: Fractions { low: 0.1, expected: 0.2, high: 0.3 },
            expected_usd: 2.0,
            confidence,
            truth: *truth,
            width: 0.5,
            is_use: true,
            is_replayed: false,
        };
        Replayed {
            workload: "training",
            cases: truths.iter().map(case).collect(),
            ignored: Vec::new(),
            recoverable: 10.0,
            addressed: 7.0,
        }
    }

    #[test]
    fn bounds_are_compared_with_cases() {
        let score = |inside: usize, outside: usize, confidence| {
            let truths = [vec![0.2; inside], vec![0.0; outside]].concat();
            Score(vec![fleet(&truths, confidence)]).broken_bounds()
        };
        assert_eq!(score(80, 20, 0.75), Vec::<String>::new());
        assert_eq!(score(79, 21, 0.75), ["79.0% of savings are inside the promise"]);
        assert_eq!(score(80, 20, 0.6), ["at 60% confidence, 80.0% of 100 cases hit"]);
        assert_eq!(score(24, 5, 0.2), Vec::<String>::new(), "too few cases");
        let mut replayed = fleet(&[vec![0.2; 94], vec![0.0; 6]].concat(), 0.94);
        replayed.cases.iter_mut().for_each(|case| case.is_replayed = true);
        let broken = Score(vec![replayed]).broken_bounds();
        assert_eq!(broken, ["94.0% of replayed savings are inside"]);
        let lost = Replayed { addressed: 5.0, ..fleet(&[0.2], 0.9) };
        assert_eq!(Score(vec![lost]).broken_bounds(), ["50.0% of recoverable waste is addressed"]);
        let with = |usd| {
            let ignored = vec![("test.other".to_owned(), usd)];
            Score(vec![Replayed { ignored, ..fleet(&[0.2; 9], 0.9) }]).broken_bounds()
        };
        assert_eq!(with(2.0), Vec::<String>::new());
        assert_eq!(with(4.5), ["20.0% of savings are not simulated"]);
    }
}
