//! What a page prints adds up, whatever the amounts are: accounts, waste, and savings.

use phasemeter_meter::money::NanoUsd;
use proptest::prelude::*;

use super::super::model::{PhaseTotals, Report, WasteUsd};
use super::super::policies::{GpuSavings, Range, Savings, Source, Step, WasteCoverage};
use super::super::test_fleet::*;
use super::super::value::Usd;
use super::{Bars, Explain, TextOptions, render};

/// The amounts of a text in units of their last decimal; what is below one is none.
fn amounts(text: &str) -> Vec<i128> {
    let word = |word: &str| {
        if word.starts_with("<$") {
            return Some(0);
        }
        let number = word.strip_prefix('$')?.replace([',', '.'], "");
        Some(number.parse().unwrap_or_else(|_| panic!("{word} in {text}")))
    };
    text.split_whitespace().filter_map(word).collect()
}

/// The last amount of the line that begins with this word.
fn cost(page: &str, name: &str) -> i128 {
    let line = page.lines().find(|line| line.trim_start().starts_with(name));
    line.and_then(|line| amounts(line).pop()).unwrap_or_else(|| panic!("no {name} in {page}"))
}

/// The fact with this label, whose lines are joined.
fn fact(page: &str, label: &str) -> Vec<i128> {
    let lines = page.lines().skip_while(|line| !line.starts_with(label)).enumerate();
    let lines = lines.take_while(|(index, line)| *index == 0 || line.starts_with("    "));
    amounts(&lines.map(|(_, line)| line).collect::<Vec<_>>().join(" "))
}

/// A report of these accounts (held, free, unknown, underutilized, productive, compute-bound, unobserved),
/// of which this share was used, and this share of the waste is idle.
fn report(accounts: [i128; 7], used: u8, idle: u8, steps: &[[i128; 3]]) -> Report {
    let gpus = [TestGpu::new(0, user_price("3"), &every_second(90, bouncing))];
    let mut report = Report::build(&input("train.csv", &gpus));
    let usd = |nanos: i128| Some(Usd(NanoUsd(nanos)));
    let phases = &mut report.fleet.phases;
    let [held, free, unknown, under, productive, bound, unobserved] = accounts;
    let set = |totals: &mut PhaseTotals, nanos| totals.cost_usd = usd(nanos);
    set(&mut phases.idle, held + free + unknown);
    let idle_totals = phases.idle;
    phases.idle_held = Some(PhaseTotals { cost_usd: usd(held), ..idle_totals });
    phases.idle_free = Some(PhaseTotals { cost_usd: usd(free), ..idle_totals });
    phases.idle_unknown = PhaseTotals { cost_usd: usd(unknown), ..idle_totals };
    set(&mut phases.underutilized, under);
    set(&mut phases.productive, productive);
    set(&mut phases.compute_bound, bound);
    let observed: i128 = accounts[..6].iter().sum();
    let utilized = observed * i128::from(used) / 255;
    let waste = observed - utilized;
    // Often all idle time, which is then the same amount as in the table.
    let idle =
        if idle == 0 { waste.min(held + free + unknown) } else { waste * i128::from(idle) / 255 };
    let starvation = (waste - idle) / 3;
    report.cost.total_usd = usd(observed + unobserved);
    report.cost.utilized_usd = usd(utilized);
    report.cost.waste_usd = usd(waste);
    report.cost.unobserved_usd = usd(unobserved);
    report.cost.waste_by_category_usd = WasteUsd {
        starvation: usd(starvation),
        idle: usd(idle),
        underload: usd(waste - idle - starvation),
    };
    let advised = waste / 3;
    let on_trial = advised / 2;
    let left = waste - advised - on_trial;
    report.waste_coverage = Some(WasteCoverage {
        advised_usd: Usd(NanoUsd(advised)),
        trial_usd: Usd(NanoUsd(on_trial)),
        uncovered_usd: Usd(NanoUsd(idle.min(left))),
        minor_usd: Usd(NanoUsd(left - idle.min(left))),
    });
    report.savings = Some(savings(steps));
    report
}

/// Savings of a GPU for each list of what its steps add.
fn savings(steps: &[[i128; 3]]) -> Savings {
    let none = Range { low: 0.0, expected: 0.0, high: 0.0 };
    let range = |nanos: i128| Range {
        low: Usd(NanoUsd(nanos / 7)),
        expected: Usd(NanoUsd(nanos / 3)),
        high: Usd(NanoUsd(nanos)),
    };
    let source = Source { policy: "test".to_owned(), code: "test".to_owned() };
    let mut total = [NanoUsd::ZERO; 3];
    let mut gpus = Vec::new();
    for (index, added) in steps.iter().enumerate() {
        let mut sum = 0;
        let mut steps = Vec::new();
        for (target, added) in ["starvation", "idle", "rate"].into_iter().zip(added) {
            sum += added;
            steps.push(Step {
                target,
                source: source.clone(),
                promised_fraction: none,
                counted_fraction: none,
                fraction: none,
                usd: range(sum),
            });
        }
        let last = range(sum);
        for (total, last) in total.iter_mut().zip([last.low, last.expected, last.high]) {
            *total += last.0;
        }
        gpus.push(GpuSavings { id: index.to_string(), steps });
    }
    let [low, expected, high] = total.map(Usd);
    Savings {
        waste_usd: Usd(NanoUsd::ZERO),
        gpus,
        by_category: Vec::new(),
        utilization_fraction: none,
        utilization_usd: range(0),
        capped: false,
        throughput_fraction: none,
        rate_fraction: none,
        total_fraction: none,
        total_usd: Range { low, expected, high },
        monthly_usd: None,
        naive_sum_fraction: 0.0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn printed_amounts_add_up(
        accounts in prop::array::uniform7(prop_oneof![
            Just(0_i128),
            1..100_000_000_i128,
            1..1_000_000_000_000_000_i128,
        ]),
        (used, idle) in (any::<u8>(), prop_oneof![Just(0_u8), any::<u8>()]),
        steps in prop::collection::vec(prop::array::uniform3(any::<u8>()), 1..4),
    ) {
        let gpus = [TestGpu::new(0, user_price("3"), &every_second(90, bouncing))];
        let input = input("train.csv", &gpus);
        // Together at most the bill.
        let bill: i128 = accounts.iter().sum();
        let part = |part: u8| bill * i128::from(part) / 255 / 9;
        let steps: Vec<[i128; 3]> = steps.into_iter().map(|added| added.map(part)).collect();
        let report = report(accounts, used, idle, &steps);
        let options = TextOptions { explain: Explain::All, ..TextOptions::default() };
        let page = render(&report, &Bars::of(&input), &options);
        let of = |name: &str| cost(&page, name);
        let has_unknown = page.lines().any(|line| line.starts_with("  unknown"));
        let unknown = if has_unknown { of("unknown") } else { 0 };
        prop_assert_eq!(of("idle"), of("held") + of("free") + unknown, "{}", page);
        let phases = ["idle", "underutilized", "productive", "compute-bound", "unobserved"];
        prop_assert_eq!(of("total"), phases.map(of).iter().sum::<i128>(), "{}", page);
        let bill = fact(&page, "Bill");
        prop_assert_eq!(bill[0], bill[1..].iter().sum::<i128>(), "{}", page);
        prop_assert_eq!(bill[0], of("total"), "{}", page);
        let waste = fact(&page, "Waste");
        // By category, and by what is to be done.
        prop_assert_eq!(waste[0], waste[1..4].iter().sum::<i128>(), "{}", page);
        prop_assert_eq!(waste[0], bill[2], "{}", page);
        if let Some(parts) = waste.get(4..).filter(|parts| !parts.is_empty()) {
            prop_assert_eq!(waste[0], parts.iter().sum::<i128>(), "{}", page);
        }
        if let Some(unobserved) = bill.get(3) {
            prop_assert_eq!(*unobserved, of("unobserved"), "{}", page);
        }
        let table = page.lines().skip_while(|line| !line.starts_with("potential savings")).skip(1);
        let table: Vec<Vec<i128>> = table.map(amounts).take_while(|row| row.len() == 3).collect();
        if let Some((total, rows)) = table.split_last() {
            for column in 0..3 {
                let sum: i128 = rows.iter().map(|row| row[column]).sum();
                prop_assert_eq!(total[column], sum, "{}", page);
            }
        }
    }
}
