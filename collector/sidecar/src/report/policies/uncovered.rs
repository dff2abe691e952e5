//! Waste that no recommendation is about: a large one is never silent.
//!
//! Must not depend on how a report is displayed.

use phasemeter_meter::device_state::DeviceColumn;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::PatternKind;
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::NANOS_PER_HOUR;
use phasemeter_meter::waste::WasteCategory;
use serde::Serialize;

use super::{Need, Range, Recommendation};
use crate::report::input::GpuInput;
use crate::report::value::Usd;

/// Needs that explain no waste: of prices, of time that was not observed, and of work at full utilization.
const NOT_OF_WASTE: [&str; 9] = [
    "instance-type",
    "name",
    "power.draw",
    "provider",
    "readings",
    "spot_price",
    "tensor.activity",
    "throughput",
    "utilization.gpu",
];

/// How metrics of activity end: of SMs, memory bandwidth and links. They are of the time with work.
const ACTIVITY: &str = ".activity";

/// Utilization of a full GPU, in ppm.
const FULL_PPM: u32 = 1_000_000;

/// Share of all bills from which waste is reported, and of its own bill from which a GPU is named: 1 in 20 and in
/// 100.
const REPORTED_FROM: i128 = 20;
const NAMED_FROM: i128 = 100;

/// Waste of one category that recommendations do not cover: of GPUs with a price, or without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UncoveredWaste {
    /// The category.
    pub category: &'static str,
    /// IDs of the GPUs.
    pub gpus: Vec<String>,
    /// Waste in dollars: more than 5% of the bill of all GPUs. `None` for GPUs without a price.
    pub usd: Option<Usd>,
    /// The same, of the bill of all GPUs; or of the time of those without a price.
    pub fraction: f64,
    /// GPU-hours that cost as much at the mean rate of each GPU.
    pub gpu_hours: f64,
    /// Whether this is what recommendations leave of the waste of these GPUs, at most.
    pub is_rest: bool,
    /// What is missing to recommend something for them.
    pub missing: Vec<String>,
}

type MeteredGpu<'a> = (&'a GpuInput<'a>, &'a Summary);

/// How many times the high saving of a trial reaches the waste that it is about.
const TRIAL_COVERS: i128 = 3;

/// At most one entry per category for GPUs with a price, and for those without.
pub(super) fn uncovered(
    gpus: &[MeteredGpu<'_>],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Vec<UncoveredWaste> {
    let (priced, unpriced): (Vec<_>, Vec<_>) =
        gpus.iter().copied().partition(|(gpu, _)| gpu.price.is_ok());
    let of_category =
        |category| [&priced, &unpriced].map(|gpus| of(category, gpus, recommendations, needs));
    WasteCategory::ALL.into_iter().flat_map(of_category).flatten().collect()
}

/// The waste of these GPUs, all with a price or all without.
fn of(
    category: WasteCategory,
    gpus: &[MeteredGpu<'_>],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Option<UncoveredWaste> {
    let lefts: Vec<_> = gpus.iter().map(|gpu| Left::of(category, *gpu, recommendations)).collect();
    let bill: i128 = lefts.iter().map(|left| left.lost.bill).sum();
    let named: Vec<_> = lefts.iter().filter(|left| left.is_named()).collect();
    let waste: i128 = lefts.iter().map(|left| left.waste).sum();
    if waste * REPORTED_FROM <= bill {
        return None;
    }
    let is_priced = gpus.iter().all(|(gpu, _)| gpu.price.is_ok());
    Some(UncoveredWaste {
        category: category.name(),
        usd: is_priced.then_some(Usd(NanoUsd(waste))),
        fraction: waste as f64 / bill as f64,
        gpu_hours: lefts.iter().map(Left::hours).sum(),
        is_rest: named.iter().any(|left| left.waste < left.lost.waste),
        missing: missing(category, &named, needs),
        gpus: named.iter().map(|left| left.id().to_owned()).collect(),
    })
}

/// What the policies name as missing for the GPUs with most of this waste, as far as it can explain it; else what
/// would.
fn missing(category: WasteCategory, lefts: &[&Left<'_>], needs: &[Need]) -> Vec<String> {
    let waste: i128 = lefts.iter().map(|left| left.waste).sum();
    let is_of_most = |need: &&Need| {
        let here = lefts.iter().filter(|left| need.gpus.iter().any(|gpu| gpu == left.id()));
        here.map(|left| left.waste).sum::<i128>() * 2 >= waste
    };
    let explains = |need: &&Need| {
        !NOT_OF_WASTE.contains(&need.missing.as_str())
            && (category == WasteCategory::Underload || !need.missing.ends_with(ACTIVITY))
    };
    let named = needs.iter().filter(explains).filter(is_of_most).map(|need| need.missing.clone());
    let mut named: Vec<_> = named.collect();
    named.sort_unstable();
    named.dedup();
    if named.is_empty() { vec![decisive(category, lefts).to_owned()] } else { named }
}

/// What would decide between the recommendations for a category, if no policy names it.
fn decisive(category: WasteCategory, lefts: &[&Left<'_>]) -> &'static str {
    let is_held = |left: &&&Left<'_>| {
        let accounts = &left.summary.accounts;
        accounts[Account::IdleHeld].time > accounts[Account::IdleFree].time
    };
    let most = |is: usize| 2 * is > lefts.len();
    match category {
        WasteCategory::Starvation => "nsys profile of the waits",
        WasteCategory::Idle if most(lefts.iter().filter(is_held).count()) => {
            "py-spy dump while idle"
        }
        WasteCategory::Idle => "queued jobs",
        WasteCategory::Underload if most(lefts.iter().filter(|it| it.measures_sms()).count()) => {
            "nsys profile"
        }
        WasteCategory::Underload => "sm.activity",
    }
}

/// The waste of a GPU beyond what recommendations cover.
struct Left<'a> {
    gpu: &'a GpuInput<'a>,
    summary: &'a Summary,
    lost: Lost,
    waste: i128,
}

impl<'a> Left<'a> {
    fn of(
        category: WasteCategory,
        (gpu, summary): MeteredGpu<'a>,
        recommendations: &[Recommendation],
    ) -> Self {
        let lost = Lost::of(category, gpu, summary);
        let own = recommendations
            .iter()
            .filter(|it| it.target == category.name() && it.gpus.contains(&gpu.identity.name));
        let covered = own.map(|it| lost.covered(it)).max().unwrap_or(0);
        let waste = (lost.waste - covered).max(0);
        Self { gpu, summary, lost, waste }
    }

    fn id(&self) -> &str {
        &self.gpu.identity.name
    }

    /// Whether it has a part of the waste that matters.
    const fn is_named(&self) -> bool {
        self.waste * NAMED_FROM > self.lost.bill
    }

    /// The waste as time at the mean rate of the GPU.
    fn hours(&self) -> f64 {
        let time = self.summary.accounts.all().time.0 as f64 / NANOS_PER_HOUR as f64;
        self.waste as f64 / self.lost.bill.max(1) as f64 * time
    }

    fn measures_sms(&self) -> bool {
        self.gpu.measures(Basis::GpmSm, DeviceColumn::Sm)
    }
}

/// What a GPU lost: in nano-dollars, or in nanoseconds without a price.
struct Lost {
    waste: i128,
    bill: i128,
}

impl Lost {
    fn of(category: WasteCategory, gpu: &GpuInput<'_>, summary: &Summary) -> Self {
        let all = summary.accounts.all();
        match gpu.price {
            Ok(_) => Self { waste: summary.waste[category].0, bill: all.cost.0 },
            Err(_) => Self { waste: lost_time(category, summary), bill: i128::from(all.time.0) },
        }
    }

    /// The part of it that a recommendation is about. Of a saving that is certain, that is the time it returns,
    /// and the rest is other time; one that needs a trial is about all of it, if it may save a third. A risk and a
    /// diagnosis are about all of it; more work for GPUs that are kept, without a number, about none.
    fn covered(&self, it: &Recommendation) -> i128 {
        let Range { low, high, .. } = it.saving_fraction;
        let most = Fraction::new(high).map_or(0, |high| high.part_of(NanoUsd(self.bill)).0);
        match it.kind {
            "capacity" if most == 0 => 0,
            _ if most == 0 || it.kind == "risk" => self.waste,
            _ if low <= 0.0 && TRIAL_COVERS * most >= self.waste => self.waste,
            _ => most,
        }
    }
}

/// Observed time without its effective part, in nanoseconds: of a bouncing GPU all starvation, as the policies
/// count it.
fn lost_time(category: WasteCategory, summary: &Summary) -> i128 {
    let is_bouncing = summary.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Bouncing);
    let of = |account: &Account| match account {
        _ if is_bouncing => WasteCategory::Starvation,
        Account::IdleHeld | Account::IdleFree | Account::IdleUnknown => WasteCategory::Idle,
        _ => WasteCategory::Underload,
    };
    let accounts = Account::OBSERVED.iter().filter(|account| of(account) == category);
    let lost = accounts.map(|account| {
        let balance = summary.accounts[*account];
        let effective = balance.weighted / u128::from(FULL_PPM);
        i128::from(balance.time.0) - i128::try_from(effective).unwrap_or(i128::MAX)
    });
    lost.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_fleet::{TestGpu, bouncing, every_second, input, unpriced, user_price};

    fn recommendation(target: &'static str, kind: &'static str, gpu: &str) -> Recommendation {
        let range = Range { low: 0.0, expected: 0.1, high: 0.2 };
        Recommendation {
            policy: "test".to_owned(),
            code: "test".to_owned(),
            kind,
            effort: "low",
            reversible: true,
            target,
            lever: "other".to_owned(),
            title: String::new(),
            action: String::new(),
            rationale: String::new(),
            confidence: 1.0,
            gpus: vec![gpu.to_owned()],
            evidence: std::collections::BTreeMap::new(),
            saving_fraction: range,
            saving_usd: None,
            counted: false,
            remediation: None,
        }
    }

    #[test]
    fn large_waste_without_recommendation_is_reported() {
        let gpus = [
            TestGpu::new(0, user_price("3"), &every_second(840, bouncing)),
            TestGpu::new(1, user_price("3"), &every_second(840, |_| 50)),
            TestGpu::new(2, user_price("3"), &every_second(840, |_| 99)),
        ];
        let input = input("log.csv", &gpus);
        let summaries: Vec<Summary> = input.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
        let priced: Vec<_> = input.gpus.iter().zip(&summaries).collect();
        let of = |recommendations: &[Recommendation], needs: &[Need]| {
            let all = uncovered(&priced, recommendations, needs).into_iter();
            all.map(|it| (it.category, it.gpus.join(" "), it.missing.join(" "))).collect::<Vec<_>>()
        };
        let names: Vec<&str> = gpus.iter().map(|gpu| gpu.identity.name.as_str()).collect();
        let starvation = ("starvation", names[0].to_owned());
        let (category, gpu, missing) = of(&[], &[]).swap_remove(0);
        assert_eq!((category, gpu), starvation);
        assert_eq!(missing, "nsys profile of the waits");
        assert_eq!(of(&[], &[])[1].1, names[1], "the others waste too little");
        assert_eq!(of(&[], &[]).len(), 2, "{:?}", of(&[], &[]));

        // A recommendation covers its own GPU and category.
        let mut given = recommendation("starvation", "saving", names[0]);
        given.saving_fraction.high = 0.4;
        assert_eq!(of(&[given.clone()], &[]).len(), 1);
        assert_eq!(of(&[recommendation("starvation", "risk", names[0])], &[]).len(), 1);
        for other in ["idle", "underload"] {
            assert_eq!(of(&[recommendation(other, "risk", names[0])], &[])[0], of(&[], &[])[0]);
        }
        assert_eq!(of(&[recommendation("starvation", "saving", names[1])], &[]).len(), 2);
        // One that saves a small part of the waste, or known time, leaves the rest.
        let rest = |low, high| {
            let mut it = given.clone();
            it.saving_fraction = Range { low, expected: high, high };
            uncovered(&priced, &[it], &[]).into_iter().find(|it| it.category == "starvation")
        };
        assert_eq!(rest(0.0, 0.4), None);
        let all = uncovered(&priced, &[], &[])[0].fraction;
        for (low, high) in [(0.01, 0.03), (0.0, 0.03)] {
            let rest = rest(low, high).unwrap();
            assert!(rest.is_rest && (rest.fraction - (all - high / 3.0)).abs() < 1e-6, "{rest:?}");
        }

        // What a policy needs for these GPUs is what is missing, if it can explain the waste.
        let need = |missing: &str, gpu: &str| Need {
            missing: missing.to_owned(),
            reason: String::new(),
            gpus: vec![gpu.to_owned()],
        };
        assert_eq!(of(&[], &[need("requests", names[0])])[0].2, "requests");
        for unrelated in [need("provider", names[0]), need("requests", names[2])] {
            assert_eq!(of(&[], &[unrelated]), of(&[], &[]));
        }
    }

    #[test]
    fn waste_is_in_dollars_and_equivalent_hours() {
        let gpus = [TestGpu::new(0, user_price("3"), &every_second(3_600, |_| 50))];
        let input = input("log.csv", &gpus);
        let summary = input.gpus[0].meter.summary();
        let found = uncovered(&[(&input.gpus[0], &summary)], &[], &[]).swap_remove(0);
        assert_eq!(found.category, "underload");
        assert_eq!(found.usd, Some(Usd(summary.waste[WasteCategory::Underload])));
        assert!((found.fraction - 0.5).abs() < 0.01, "{found:?}");
        assert!((found.gpu_hours - 0.5).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn waste_without_a_price_is_in_time() {
        let gpus = [
            TestGpu::new(0, unpriced(), &every_second(3_600, |_| 0)),
            TestGpu::new(1, unpriced(), &every_second(3_600, |_| 100)),
        ];
        let input = input("log.csv", &gpus);
        let summaries: Vec<Summary> = input.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
        let all: Vec<_> = input.gpus.iter().zip(&summaries).collect();
        let found = uncovered(&all, &[], &[]);
        let [idle] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((idle.category, idle.usd, idle.gpus.len()), ("idle", None, 1));
        assert!((idle.fraction - 0.5).abs() < 0.01, "{idle:?}");
        assert!((idle.gpu_hours - 1.0).abs() < 0.01, "{idle:?}");
    }

    #[test]
    fn activity_does_not_explain_time_without_work() {
        let gpus = [
            TestGpu::new(0, user_price("3"), &every_second(3_600, |_| 0)),
            TestGpu::new(1, user_price("3"), &every_second(3_600, |_| 50)),
        ];
        let input = input("log.csv", &gpus);
        let summaries: Vec<Summary> = input.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
        let all: Vec<_> = input.gpus.iter().zip(&summaries).collect();
        let ids: Vec<_> = gpus.iter().map(|gpu| gpu.identity.name.clone()).collect();
        let need = |missing: &str| Need {
            missing: missing.to_owned(),
            reason: String::new(),
            gpus: ids.clone(),
        };
        let found = uncovered(&all, &[], &[need("sm.activity"), need("interval")]);
        let missing: Vec<_> = found.iter().map(|it| it.missing.join(" ")).collect();
        assert_eq!(missing, ["interval", "interval sm.activity"]);
    }
}
