//! Holders in text and JSON: those of a GPU and nobody sum to its bill.

use std::sync::Arc;

use phasemeter_meter::holder::HolderChange;
use phasemeter_meter::holder_details::{HolderDetails, Workload};
use serde_json::{Value, json};

use super::Input;
use super::test_fleet::*;
use super::tests::{json_of, nanos, text_of};

const MEMORY: u64 = 81_559;

fn memory() -> Option<phasemeter_meter::units::Bytes> {
    phasemeter_meter::units::Bytes::from_mebibytes(MEMORY)
}

/// An hour at 30%: a pod uses 20%, another 10%, and a third never touches its replica.
fn shared(index: u32, dollars: &str) -> TestGpu {
    let [chat, rerank, canary] = ["ml/chat-0", "ml/rerank-0", "ml/canary-0"].map(pod);
    let uses = [used(&chat, 0, 3_600, 20), used(&rerank, 0, 3_600, 10), used(&canary, 0, 3_600, 0)];
    let changes = [vec![assigned(0, &[chat, rerank, canary], 3)], uses.to_vec()].concat();
    TestGpu::held(index, user_price(dollars), &every_second(3_600, |_| 30), memory(), &changes)
}

/// A pod that has a whole GPU for the first half of an hour, at 80%.
fn held(index: u32, name: &str) -> TestGpu {
    let changes = [assigned(0, &[pod(name)], 1), assigned(1_800, &[], 1)];
    let readings = every_second(3_600, |second| if second < 1_800 { 80 } else { 0 });
    TestGpu::held(index, user_price("3"), &readings, memory(), &changes)
}

/// Asserts that the holders of each GPU and nobody sum to its bill and time.
#[track_caller]
pub(super) fn assert_holders_sum_to_bill(gpu: &Value) {
    let holders = gpu["holders"].as_array().unwrap();
    let Some(nobody) = gpu.get("nobody") else {
        assert!(holders.is_empty());
        return;
    };
    let seconds = |of: &Value, field: &str| of[field].as_f64().unwrap();
    let time = |holder: &Value| {
        let accounts = ["used_seconds", "granted_unused_seconds", "never_touched_seconds"];
        accounts.iter().map(|field| seconds(holder, field)).sum::<f64>()
    };
    let all = holders.iter().map(time).sum::<f64>() + seconds(nobody, "seconds");
    let span = seconds(gpu, "span_seconds");
    assert!((all - span).abs() <= 1e-6 + span * 1e-12, "{all} s, not {span}");
    if gpu["cost_usd"].is_null() {
        assert!(nobody["cost_usd"].is_null());
        assert!(holders.iter().all(|holder| holder["used_usd"].is_null()));
        return;
    }
    let accounts = ["used_usd", "granted_unused_usd", "never_touched_usd"];
    for holder in holders {
        let sum: i128 = accounts.iter().map(|field| nanos(&holder[field])).sum();
        assert_eq!(nanos(&holder["cost_usd"]), sum, "{holder:#}");
    }
    let all: i128 = holders.iter().map(|holder| nanos(&holder["cost_usd"])).sum();
    assert_eq!(all + nanos(&nobody["cost_usd"]), nanos(&gpu["cost_usd"]), "{gpu:#}");
}

/// The rows of the table of holders.
fn table(input: &Input<'_>) -> Vec<String> {
    let text = text_of(input);
    assert_fits(&text);
    let lines = text.lines().skip_while(|line| !line.starts_with("Holder "));
    lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn shared_gpu_is_divided_by_use_and_who_never_touched_it_is_first() {
    let gpus = [shared(0, "3")];
    let input = input("shared.csv", &gpus);
    let report = json_of(&input);
    assert_holders_sum_to_bill(&report["gpus"][0]);
    let canary = &report["gpus"][0]["holders"][0];
    assert_eq!(canary["name"], "ml/canary-0");
    assert_eq!((&canary["kind"], &canary["method"]), (&"container".into(), &"by_use".into()));
    assert_eq!((&canary["namespace"], &canary["pod"]), (&"ml".into(), &"canary-0".into()));
    assert_eq!(canary["first_touch"], Value::Null);
    assert_eq!(canary["never_touched_usd"], "1.000000000");
    let chat = &report["gpus"][0]["holders"][1];
    assert_eq!(chat["first_touch"], report["gpus"][0]["start"]);
    assert_eq!((&chat["used_usd"], &chat["used_seconds"]), (&"0.600000000".into(), &720.0.into()));
    let expected = [
        "Holder        GPUs    used  not used  never touched    cost",
        "ml/canary-0  GPU 0  $0.000    $0.000         $1.000  $1.000",
        "ml/rerank-0  GPU 0  $0.300    $0.700         $0.000  $1.000",
        "ml/chat-0    GPU 0  $0.600    $0.400         $0.000  $1.000",
        "Divided      GPU 0 by what each was granted and used",
    ];
    assert_eq!(table(&input), expected);
}

/// What is known of a holder is in JSON, and what is not known is absent.
#[test]
fn workload_queue_and_labels_of_a_holder_are_reported() {
    let details = HolderDetails {
        workload: Some(Workload { kind: "Deployment".to_owned(), name: "chat".to_owned() }),
        queue: Some("research".to_owned()),
        labels: [("team".to_owned(), "vision".to_owned())].into(),
        ..HolderDetails::default()
    };
    let (chat, other) = (pod("ml/chat-7c9d8f6b5-x2k4z"), pod("ml/other"));
    let described = HolderChange::Described { holder: chat.clone(), details: Arc::new(details) };
    let changes = [assigned(0, &[chat, other], 2), described];
    let gpus = [TestGpu::held(0, user_price("3"), &every_second(60, |_| 80), memory(), &changes)];
    let report = json_of(&input("shared.csv", &gpus));
    let [chat, other] = [0, 1].map(|place| &report["gpus"][0]["holders"][place]);
    assert_eq!((&chat["workload"], &chat["workload_kind"]), (&json!("chat"), &json!("Deployment")));
    assert_eq!((&chat["queue"], &chat["labels"]), (&json!("research"), &json!({"team": "vision"})));
    for key in ["workload", "workload_kind", "queue", "user", "project", "labels"] {
        assert!(other.get(key).is_none(), "{other:#}");
    }
    assert!(chat.get("user").is_none(), "{chat:#}");
}

#[test]
fn fleet_has_the_rest_of_all_gpus_and_sums_to_the_bill() {
    let mut gpus: Vec<TestGpu> =
        (0..11).map(|index| held(index, &format!("ml/t-{index}"))).collect();
    gpus.push(TestGpu::new(11, user_price("3"), &every_second(3_600, |_| 50)));
    let input = input("fleet.csv", &gpus);
    let report = json_of(&input);
    report["gpus"].as_array().unwrap().iter().for_each(assert_holders_sum_to_bill);
    assert!(report["gpus"][11].get("nobody").is_none());
    let rows = table(&input);
    let cost = |row: &str| {
        let amount = row.rsplit(' ').next().unwrap().trim_start_matches('$');
        amount.replace('.', "").parse::<u64>().unwrap()
    };
    let name = |row: &str| row.split("  ").next().unwrap().to_owned();
    let named: Vec<(String, u64)> = rows.iter().skip(9).map(|row| (name(row), cost(row))).collect();
    let expected = [("3 more in --format json", 450), ("nobody", 1_650), ("no known holder", 300)];
    assert_eq!(named, expected.map(|(name, cost)| (name.to_owned(), cost)));
    let sum: u64 = rows.iter().skip(1).map(|row| cost(row)).sum();
    assert_eq!(sum, 3_600, "{rows:#?}");
}

#[test]
fn without_prices_holders_have_time() {
    let mut gpus = [shared(0, "3")];
    gpus[0].price = unpriced();
    let input = input("shared.csv", &gpus);
    assert_holders_sum_to_bill(&json_of(&input)["gpus"][0]);
    let rows = table(&input);
    assert!(rows[0].ends_with("never touched    GPU time"), "{rows:#?}");
    let canary = rows.iter().find(|row| row.starts_with("ml/canary-0")).unwrap();
    assert!(canary.ends_with("20 min 0 s  20 min 0 s"), "{canary}");
}

#[test]
fn one_unpriced_gpu_of_several_has_no_price() {
    let mut gpus = [held(0, "ml/a"), held(1, "ml/b")];
    gpus[1].price = unpriced();
    let input = input("two.csv", &gpus);
    let rows = table(&input);
    let b = rows.iter().find(|row| row.starts_with("ml/b")).unwrap();
    assert!(b.ends_with("no price") && !b.contains('$'), "{b}");
}
