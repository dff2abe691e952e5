//! Pricers that quote for too few GPUs, or fail if they are queried for an offer: bills are bounded in the
//! number of quotes, and the GPUs in use keep their prices.

use std::fs;

use serde_json::Value;

use crate::policies::{empty_recommender, pricer};
use crate::policy_files::PolicyFiles;
use crate::report::{self, list};

/// Quotes for the GPUs of one model at one instant, after which the list price applies.
const MAX_QUOTES: usize = 16;

/// A plan by its number in the contract.
const ON_DEMAND: u8 = 0;

/// 28 July 2026, in nanoseconds, when all quotes expire.
const EXPIRY: u64 = 1_785_196_800_000_000_000;

/// A minute of this many GPUs.
fn log(gpus: usize) -> String {
    let head = "timestamp, index, name, utilization.gpu [%]\n".to_owned();
    (0..=60).flat_map(|second| (0..gpus).map(move |gpu| (second, gpu))).fold(
        head,
        |log, (second, gpu)| {
            let time = format!("2026/07/27 08:{:02}:{:02}.000", second / 60, second % 60);
            log + &format!("{time}, {gpu}, NVIDIA L4, 50\n")
        },
    )
}

fn sources(report: &Value) -> Vec<&str> {
    let gpus = list(&report["gpus"]).iter();
    gpus.map(|gpu| gpu["price"]["source"].as_str().unwrap()).collect()
}

/// Scenario: a pricer quotes for one GPU at a time.
/// Guarantee: the first sixteen have their quotes, each its own; the others the list price.
#[test]
fn quotes_for_one_gpu_each_are_bounded() {
    let quote = format!(
        "(i64.store (i32.const 4368) (i64.add (i64.const 2000000000)
          (i64.extend_i32_u (i32.load offset=60 (local.get $request)))))
        (i32.store8 (i32.const 4432) (i32.const 1))
        (i32.store (i32.const 4436) (i32.const 1))
        (i64.store (i32.const 4424) (i64.const {EXPIRY}))"
    );
    let files = PolicyFiles::new(&[("single", pricer("one by one", ON_DEMAND, &quote))]);
    let run = files.audit(&["single"]).args(["--provider", "aws", "--instance-type", "g6.2xlarge"]);
    let report = run.stdin(log(MAX_QUOTES + 2)).report();
    report::check(&report);
    for (number, gpu) in list(&report["gpus"]).iter().enumerate() {
        let quoted = format!("2.{number:09}");
        let rate = if number < MAX_QUOTES { quoted.as_str() } else { "0.977600000" };
        assert_eq!(gpu["rate_usd_per_gpu_hour"], rate, "GPU {number}");
    }
}

/// Scenario: a pricer traps if it is queried for an offer.
/// Guarantee: the GPUs in use have its quote, the offers their list prices, and the report the error.
#[test]
fn pricer_that_fails_for_offers_prices_the_gpus_in_use() {
    let quote = format!(
        "(if (i32.load8_u offset=152 (local.get $request)) (then (unreachable)))
        (i64.store (i32.const 4424) (i64.const {EXPIRY}))"
    );
    let files = PolicyFiles::new(&[
        ("empty", empty_recommender()),
        ("offers", pricer("not for offers", ON_DEMAND, &quote)),
    ]);
    let run = files.audit(&["empty", "offers"]).args(["--dump-windows", "window.json"]);
    let run = run.args(["--provider", "aws", "--instance-type", "g6.2xlarge"]);
    let report = run.stdin(log(2)).report();
    report::check(&report);
    assert_eq!(sources(&report), ["not for offers, quoted by evil"; 2]);
    let pricer = &list(&report["policies"])[1];
    assert_eq!(pricer["error"]["kind"], "trap", "{pricer:#}");

    let window = fs::read_to_string(files.path("window.json")).unwrap();
    let window: Value = serde_json::from_str(&window).unwrap();
    let offers = list(&window["window"]["offers"]);
    assert!(!offers.is_empty());
    for offer in offers {
        let source = offer["price"]["source"].as_str().unwrap();
        assert!(!source.contains("quoted by"), "{offer:#}");
    }
}
