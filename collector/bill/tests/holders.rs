//! Bills of GPUs that holders shared: by namespace, pod and label, with what nobody had.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod reports;

use std::collections::BTreeMap;

use phasemeter_bill::bill::{Bill, Biller, IdlePolicy, NobodysShare, Payer, Row};
use phasemeter_bill::bill_json;
use phasemeter_bill::bill_text::render;
use phasemeter_bill::error::{BillError, ReadError};
use phasemeter_bill::printed_bill::{PrintedBill, PrintedRow};
use phasemeter_bill::read::read;
use phasemeter_meter::money::NanoUsd;
use proptest::prelude::*;
use reports::{divided, gpu, holder, parse, report, usd, working};
use serde_json::{Value, json};

const SCHEMA: &str = include_str!("../src/bill.schema.json");

const SHARES: [NobodysShare; 3] = [NobodysShare::None, NobodysShare::Even, NobodysShare::ByGrant];

fn bill(reports: &[Value], by: &str, share: NobodysShare) -> Bill {
    try_bill(reports, by, share).unwrap()
}

fn try_bill(reports: &[Value], by: &str, share: NobodysShare) -> Result<Bill, BillError> {
    let by = by.split(',').map(|name| name.parse().unwrap()).collect();
    let mut biller = Biller::new(by, IdlePolicy::Spread).sharing(share);
    let names: Vec<_> = (0..reports.len()).map(|index| format!("{index}.json")).collect();
    for (json, name) in reports.iter().zip(&names) {
        let (report, digest) = parse(json);
        biller.add(name, &report, digest);
    }
    biller.finish(&names)
}

/// Totals by name, in nano-dollars.
fn totals(bill: &Bill) -> BTreeMap<String, i128> {
    let name = |payer: &Payer| match payer {
        Payer::Group(values) => {
            let values = values.iter().map(|value| value.as_deref().unwrap_or("?"));
            values.collect::<Vec<_>>().join(",")
        }
        account => format!("({account:?})").to_lowercase(),
    };
    bill.rows.iter().map(|row| (name(&row.payer), row.total().0)).collect()
}

fn expect(bill: &Bill, expected: &[(&str, i128)]) {
    let expected = expected.iter().map(|(name, nanos)| ((*name).to_owned(), *nanos)).collect();
    assert_eq!(totals(bill), expected);
}

/// $8 of a GPU of 4 hours: of two pods of a deployment and one of a stateful set, and $1.5 of nobody. Another GPU, of
/// $2, has no holders.
fn node() -> Value {
    let hours = [working(0.5), working(0.5), working(0.5), working(0.5)];
    let team = [("team", "a"), ("kai.scheduler/queue", "prod")];
    let holders = vec![
        holder(
            "ml/chat-7c9d8f6b5-x2k4z",
            &team,
            (0, 4),
            [3_600.0, 1_800.0, 0.0],
            [2_000_000_000, 1_000_000_000, 0],
        ),
        holder(
            "ml/chat-7c9d8f6b5-bcdfg",
            &[],
            (0, 2),
            [1_800.0, 1_800.0, 0.0],
            [1_000_000_000, 1_000_000_000, 0],
        ),
        holder("web/train-0", &[("team", "b")], (1, 3), [0.0, 0.0, 2_700.0], [0, 0, 1_500_000_000]),
    ];
    let mut shared = divided(gpu("a", 0, &hours), holders);
    shared["host"] = "node-1".into();
    let attributes = [("k8s.namespace.name", "monitoring"), ("k8s.pod.name", "agent-x2k4z")];
    report(&attributes, vec![shared, gpu("b", 0, &hours[..1])])
}

#[test]
fn bill_by_namespace_comes_from_holders_and_nobody_has_a_row() {
    let by = |by| bill(&[node()], by, NobodysShare::None);
    let nobody = ("(nobody)", 1_500_000_000);
    let agent = 2_000_000_000;
    expect(
        &by("namespace"),
        &[("ml", 5_000_000_000), ("web", 1_500_000_000), nobody, ("monitoring", agent)],
    );
    expect(
        &by("pod"),
        &[
            ("ml/chat-7c9d8f6b5-x2k4z", 3_000_000_000),
            ("ml/chat-7c9d8f6b5-bcdfg", 2_000_000_000),
            ("web/train-0", 1_500_000_000),
            nobody,
            ("monitoring/agent-x2k4z", agent),
        ],
    );
    expect(
        &by("namespace,workload"),
        &[
            ("ml,chat", 5_000_000_000),
            ("web,train", 1_500_000_000),
            nobody,
            ("monitoring,agent", agent),
        ],
    );
    let rest = 2_000_000_000 + agent;
    let tagged = [("a", 3_000_000_000), ("b", 1_500_000_000)];
    let untagged = totals(&by("label:team"));
    assert_eq!(untagged["?"], rest);
    assert_eq!(tagged.map(|(name, _)| untagged[name]), tagged.map(|(_, nanos)| nanos));
    assert_eq!(totals(&by("queue"))["prod"], 3_000_000_000);
    // What tells no holders apart is not divided.
    expect(&by("model"), &[("NVIDIA H100 80GB HBM3", 10_000_000_000)]);
    expect(&by("node"), &[("node-1", 8_000_000_000), ("?", agent)]);
    expect(&by("month"), &[("2026-07", 10_000_000_000)]);
}

/// What a source states of a holder counts before what follows from its name.
#[test]
fn workload_queue_user_and_project_come_from_the_holder() {
    let mut node = node();
    let holders = node["gpus"][0]["holders"].as_array_mut().unwrap();
    for (key, value) in [("workload", "train-0"), ("workload_kind", "Pod"), ("queue", "research")] {
        holders[2][key] = value.into();
    }
    for (key, value) in [("user", "ana"), ("project", "vision"), ("queue", "batch")] {
        holders[1][key] = value.into();
    }
    let by = |by| totals(&bill(&[node.clone()], by, NobodysShare::None));
    let expect = |found: BTreeMap<String, i128>, expected: &[(&str, i128)]| {
        assert_eq!(found.values().sum::<i128>(), 10_000_000_000, "{found:?}");
        for (name, nanos) in expected {
            assert_eq!(found[*name], *nanos, "{found:?}");
        }
    };
    expect(by("workload"), &[("train-0", 1_500_000_000), ("chat", 5_000_000_000)]);
    let queues = [("prod", 3_000_000_000), ("batch", 2_000_000_000), ("research", 1_500_000_000)];
    expect(by("queue"), &queues);
    expect(by("user"), &[("ana", 2_000_000_000)]);
    expect(by("project"), &[("vision", 2_000_000_000)]);
    expect(by("label:team"), &[("a", 3_000_000_000), ("b", 1_500_000_000)]);
}

/// A label of a pod is its team, and that of the report the team of all others.
#[test]
fn team_is_that_of_the_holder_else_of_the_report() {
    let mut node = node();
    expect(
        &bill(&[node.clone()], "team", NobodysShare::None),
        &[
            ("a", 3_000_000_000),
            ("b", 1_500_000_000),
            ("?", 4_000_000_000),
            ("(nobody)", 1_500_000_000),
        ],
    );
    node["experiment"]["attributes"]["team"] = "platform".into();
    expect(
        &bill(&[node], "team", NobodysShare::None),
        &[
            ("a", 3_000_000_000),
            ("b", 1_500_000_000),
            ("platform", 4_000_000_000),
            ("(nobody)", 1_500_000_000),
        ],
    );
}

#[test]
fn nobodys_part_is_shared_by_rows_of_holders_only() {
    let of = |share| bill(&[node()], "namespace", share);
    let agent = ("monitoring", 2_000_000_000);
    expect(
        &of(NobodysShare::Even),
        &[("ml", 5_750_000_000), ("web", 2_250_000_000), agent, ("(nobody)", 0)],
    );
    // 9,000 s of ml and 2,700 of web.
    let ml = 1_500_000_000 * 9_000 / 11_700 + 1;
    expect(
        &of(NobodysShare::ByGrant),
        &[
            ("ml", 5_000_000_000 + ml),
            ("web", 1_500_000_000 + 1_500_000_000 - ml),
            agent,
            ("(nobody)", 0),
        ],
    );
    let page = render(&of(NobodysShare::Even), None);
    let line = |name: &str| page.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("ml ").ends_with("$0.75   $5.75"), "{page}");
    assert!(line("(nobody)").ends_with("-$1.50   $0.00"), "{page}");
    assert!(!line("monitoring").contains("0.75"), "{page}");
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "what nobody had of GPUs with known holders (idle, unobserved, or used by unknown processes) is paid by the rows of holders, each the same",
        "$2.00 was granted and not used, $1.50 granted and never touched, and $1.50 nobody's",
    ] {
        assert!(text.contains(part), "{page}");
    }
}

/// Scenario: of two pods with a quarter each, one also uses another quarter that nobody was granted.
/// Guarantee: what nobody had is shared equally by grant, and by nothing else.
#[test]
fn nobodys_part_by_grant_follows_what_was_granted() {
    let granted = |pod, seconds: f64, mut holder: Value| {
        holder["granted_seconds"] = seconds.into();
        assert_eq!(holder["name"], pod);
        holder
    };
    let used = [7_200.0, 0.0, 0.0];
    let idle = [0.0, 3_600.0, 0.0];
    let hours = [working(0.5), working(0.5), working(0.5), working(0.5)];
    let of = |seconds: [f64; 3]| {
        let holders = vec![
            granted(
                "a/busy",
                seconds[0],
                holder("a/busy", &[], (0, 4), used, [4_000_000_000, 0, 0]),
            ),
            granted(
                "b/idle",
                seconds[1],
                holder("b/idle", &[], (0, 4), idle, [0, 2_000_000_000, 0]),
            ),
            granted("c/late", seconds[2], holder("c/late", &[], (3, 4), [0.0; 3], [0; 3])),
        ];
        report(&[], vec![divided(gpu("a", 0, &hours), holders)])
    };
    let by_grant = |seconds| bill(&[of(seconds)], "namespace", NobodysShare::ByGrant);
    let nobody = ("(nobody)", 0);
    // Of $2: by GPU-hours it would be two to one.
    let even = [("a", 5_000_000_000), ("b", 3_000_000_000), nobody];
    expect(&by_grant([3_600.0, 3_600.0, 0.0]), &even);
    expect(&bill(&[of([3_600.0, 7_200.0, 0.0])], "namespace", NobodysShare::Even), &even);
    let other = [("a", 4_500_000_000), ("b", 3_500_000_000), nobody];
    expect(&by_grant([3_600.0, 10_800.0, 0.0]), &other);
    // Use without a grant has no part.
    expect(&by_grant([0.0, 3_600.0, 0.0]), &[("a", 4_000_000_000), ("b", 4_000_000_000), nobody]);
    let none = bill(&[of([0.0; 3])], "namespace", NobodysShare::ByGrant);
    let left = [("a", 4_000_000_000), ("b", 2_000_000_000), ("(nobody)", 2_000_000_000)];
    expect(&none, &left);
    assert!(
        none.notes.iter().any(|note| note.starts_with("nothing was granted")),
        "{:?}",
        none.notes
    );
}

#[test]
fn json_of_divided_gpus_follows_the_schema() {
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    for share in SHARES {
        let mut text = Vec::new();
        bill_json::write(&bill(&[node()], "namespace", share), None, &mut text).unwrap();
        let json: Value = serde_json::from_slice(&text).unwrap();
        assert!(schema.is_valid(&json), "{json:#}");
        assert_eq!(json["total"]["granted_unused_usd"], usd(2_000_000_000));
        assert_eq!(json["total"]["idle_usd"], Value::Null);
        let rows = json["rows"].as_array().unwrap();
        let nobody = rows.iter().find(|row| row["account"] == "nobody").unwrap();
        assert_eq!(nobody["metered_usd"], usd(1_500_000_000));
        let agent = rows.iter().find(|row| row["group"]["namespace"] == "monitoring").unwrap();
        assert_eq!(agent.get("never_touched_usd"), None);
    }
}

/// A report of a version that named holders without accounts is billed by its attributes.
#[test]
fn report_without_accounts_of_holders_is_not_divided() {
    let mut old = node();
    let gpu = &mut old["gpus"][0];
    gpu["nobody"] = Value::Null;
    gpu["holders"] = json!([{ "name": "ml/train-0", "never_touched_seconds": 12.5 }]);
    expect(&bill(&[old], "namespace", NobodysShare::Even), &[("monitoring", 10_000_000_000)]);
}

/// Waste is rounded in each phase: with what was used it may exceed the cost by some nano-dollars.
#[test]
fn rounded_waste_of_a_holder_is_accepted() {
    let mut json = node();
    json["gpus"][0]["holders"][0]["waste_usd"] = usd(1_000_000_002).into();
    let bill = bill(&[json], "namespace", NobodysShare::None);
    assert_eq!(totals(&bill)["ml"], 5_000_000_000);
    assert!(bill.rows.iter().all(|row| row.metered.unobserved == NanoUsd::ZERO));
}

#[test]
fn holders_that_contradict_the_bill_are_rejected() {
    let rejected = |change: fn(&mut Value), part: &str| {
        let mut json = node();
        change(&mut json["gpus"][0]);
        let error = read("a.json", json.to_string().as_bytes()).unwrap_err();
        assert!(matches!(error, ReadError::Contradiction { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    rejected(|gpu| gpu["nobody"]["cost_usd"] = usd(1).into(), "gpus[0].nobody.cost_usd: ");
    rejected(|gpu| gpu["holders"][1]["used_usd"] = usd(1).into(), "holders[1].cost_usd: ");
    rejected(
        |gpu| gpu["holders"][0]["waste_usd"] = usd(2_000_000_000).into(),
        "waste_usd: exceeds",
    );
    rejected(|gpu| gpu["holders"][0]["end"] = "2026-07-01T00:00:00Z".into(), "end: precedes");
}

/// The report of a sidecar whose pod has a part of a GPU for an hour: so many seconds for this cost.
fn part(pod: &str, seconds: f64, cost: i128) -> Value {
    let holder = holder(pod, &[], (0, 1), [seconds, 0.0, 0.0], [cost, 0, 0]);
    let mut gpu = divided(gpu("a", 0, &[working(0.5)]), vec![holder]);
    gpu["nobody"]["seconds"] = 0.0.into();
    let period = &mut gpu["periods"][0];
    period["effective_seconds"] = (seconds / 2.0).into();
    period["accounts"]["underutilized"]["seconds"] = seconds.into();
    report(&[], vec![gpu])
}

/// Scenario: the report of a sidecar whose pod has a quarter of a GPU for an hour; it then states more than the hour.
/// Guarantee: the pod pays for its quarter; more time than has passed is rejected.
#[test]
fn part_of_a_gpu_is_billed_and_not_for_more_than_its_time() {
    let of_pod = |seconds| part("ml/a", seconds, 2_000_000_000);
    let bill = bill(&[of_pod(900.0)], "namespace", NobodysShare::None);
    expect(&bill, &[("ml", 2_000_000_000)]);
    assert!((bill.rows[0].metered.hours() - 0.25).abs() < 1e-9);
    let error = read("a.json", of_pod(3_602.0).to_string().as_bytes()).unwrap_err();
    assert!(error.to_string().contains("sum to 3602"), "{error}");
}

/// Scenario: the reports of the sidecars of two pods that share a GPU for an hour; then another one of the first, or that
/// of the agent, which has all of the GPU.
/// Guarantee: each pod pays for its part, and nothing twice.
#[test]
fn parts_of_a_gpu_are_billed_together_and_none_twice() {
    let parts = [part("ml/a", 900.0, 2_000_000_000), part("web/b", 900.0, 2_000_000_000)];
    let both = bill(&parts, "namespace", NobodysShare::None);
    expect(&both, &[("ml", 2_000_000_000), ("web", 2_000_000_000)]);
    let whole = report(&[], vec![gpu("a", 0, &[working(0.5)])]);
    for other in [part("ml/a", 800.0, 2_000_000_000), whole] {
        let reports = [&parts[..], &[other]].concat();
        let error = try_bill(&reports, "namespace", NobodysShare::None).unwrap_err().to_string();
        assert!(error.contains("2.json: both bill the same GPU"), "{error}");
    }
}

/// Scenario: a holder and its GPU from 31 July, 18 h, to 1 August, 6 h.
/// Guarantee: months have their parts by time, which sum to the bill, and a note states it.
#[test]
fn holder_is_divided_at_the_end_of_a_month() {
    let hours = vec![working(0.5); 12];
    let first = 24 * 4 + 18;
    let held = holder(
        "ml/train-0",
        &[],
        (first, first + 12),
        [10_800.0, 10_800.0, 0.0],
        [6_000_000_001, 6_000_000_000, 0],
    );
    let json = report(&[], vec![divided(gpu("a", first, &hours), vec![held])]);
    let bill = bill(&[json], "namespace,month", NobodysShare::None);
    expect(
        &bill,
        &[
            ("ml,2026-07", 6_000_000_000),
            ("ml,2026-08", 6_000_000_001),
            ("(nobody)", 11_999_999_999),
        ],
    );
    assert!(
        bill.notes.iter().any(|note| note
            .starts_with("the end of a day or month of the bill divides 1 allocation by time")),
        "{:?}",
        bill.notes
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever a bill is split by and however nobody's part is shared, its rows sum to the reports, to the nano-dollar,
    /// and what is printed adds up.
    #[test]
    fn bill_of_divided_gpus_sums_to_reports(
        gpus in prop::collection::vec(
            (1_usize..5, prop::collection::vec((0_usize..4, 0_i128..120_000_000, 0_i128..120_000_000, 0_i128..120_000_000, 0_u64..4, 0_u64..4), 0..5)),
            1..5,
        ),
        by in prop::sample::select(vec!["namespace", "pod,month", "label:team", "team,day", "workload,model", "gpu", "user,queue"]),
        share in prop::sample::select(SHARES.to_vec()),
    ) {
        let pods = ["ml/train-0", "ml/chat-7c9d8f6b5-x2k4z", "web/chat", "x/y"];
        let gpus = gpus.iter().enumerate().map(|(index, (hours, holders))| {
            let hours = vec![working(0.5); *hours];
            let holders = holders.iter().map(|(pod, used, unused, never, from, length)| {
                let seconds = [used, unused, never].map(|nanos| (*nanos as f64 / 2e9 * 3_600.0).floor());
                let team = [("team", "a")];
                let labels = &team[..pod % 2];
                holder(pods[*pod], labels, (*from, from + length), seconds, [*used, *unused, *never])
            });
            divided(gpu(&index.to_string(), 0, &hours), holders.collect())
        });
        let json = report(&[], gpus.collect());
        let bill = bill(std::slice::from_ref(&json), by, share);
        let field = |gpu: &Value| gpu["cost_usd"].as_str().unwrap().replace('.', "").parse::<i128>().unwrap();
        let cost: i128 = json["gpus"].as_array().unwrap().iter().map(field).sum();
        prop_assert_eq!(bill.rows.iter().map(Row::total).sum::<NanoUsd>().0, cost);
        prop_assert_eq!(bill.rows.iter().map(|row| row.idle_share).sum::<NanoUsd>(), NanoUsd::ZERO);
        prop_assert_eq!(bill.sum.cost.0, cost);
        for row in &bill.rows {
            prop_assert!(row.total() >= NanoUsd::ZERO && row.metered.waste() >= NanoUsd::ZERO, "{:?}", row);
        }
        let printed = PrintedBill::of(&bill);
        prop_assert_eq!(printed.rows.iter().map(PrintedRow::total).sum::<i128>(), printed.all);
        prop_assert_eq!(printed.rows.iter().map(|row| row.idle_share).sum::<i128>(), 0);
    }
}
