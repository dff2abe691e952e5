//! Prices that expire during a run: policies quote again, and the accounts sum to the bill.

use std::fs;

use serde_json::Value;

use crate::otlp;
use crate::phasemeter::Phasemeter;
use crate::policies::pricer;
use crate::policy_files::PolicyFiles;
use crate::report::{self, list, nanos};

/// 27 July 2026 at midnight, UTC.
const MIDNIGHT: u64 = 1_785_110_400;

const L4: &str = "NVIDIA L4";

/// A plan by its number in the contract.
const ON_DEMAND: u8 = 0;

/// GPU and seconds from midnight.
type Row = (&'static str, i64);

/// A log with these rows.
fn log(rows: &[Row]) -> String {
    let head = "timestamp, uuid, name, utilization.gpu [%]\n".to_owned();
    rows.iter().fold(head, |log, (gpu, second)| {
        let (day, second) = (27 + second.div_euclid(86_400), second.rem_euclid(86_400));
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        log + &format!(
            "2026/07/{day:02} {hour:02}:{minute:02}:{second:02}.000, {gpu}, {L4}, 50 %\n"
        )
    })
}

/// Rows of two GPUs every half minute, GPU-1 seven seconds after GPU-0: the run of both ends with GPU-1.
fn two(from: i64, to: i64) -> Vec<Row> {
    let ticks = (from..=to).step_by(30);
    ticks.flat_map(|second| [("GPU-0", second), ("GPU-1", second + 7)]).collect()
}

/// A pricer that quotes $2 plus one nano-dollar per microsecond between midnight and the requested
/// instant, valid for `valid_for` nanoseconds.
fn rising(valid_for: u64) -> Vec<u8> {
    let midnight = MIDNIGHT * 1_000_000_000;
    let quote = format!(
        "(i64.store (i32.const 4368) (i64.add (i64.const 2000000000)
          (i64.div_u (i64.sub (local.get $time) (i64.const {midnight})) (i64.const 1000))))
        (i64.store (i32.const 4424) (i64.add (local.get $time) (i64.const {valid_for})))"
    );
    pricer("a rising price", ON_DEMAND, &quote)
}

/// A pricer that quotes $2 until half an hour after midnight and fails from then on.
fn failing() -> Vec<u8> {
    let end = (MIDNIGHT + 1_800) * 1_000_000_000;
    let quote = format!(
        "(if (i64.ge_u (local.get $time) (i64.const {end})) (then (unreachable)))
        (i64.store (i32.const 4424) (i64.const {end}))"
    );
    pricer("a promise", ON_DEMAND, &quote)
}

/// The cost of a GPU for pairs of rate in nano-dollars per hour and seconds.
fn bill(terms: &[(u64, u64)]) -> Option<i128> {
    let exact: u128 = terms.iter().map(|(rate, time)| u128::from(rate * time)).sum();
    i128::try_from(exact / 3_600).ok()
}

/// The quote of [`rising`] this many seconds after midnight.
fn rate_at(second: u64) -> u64 {
    2_000_000_000 + second * 1_000_000
}

/// The earlier prices of a GPU: end and rate.
fn earlier(gpu: &Value) -> Vec<(&str, &str)> {
    let each = list(&gpu["earlier_prices"]).iter();
    each.map(|price| {
        (price["until"].as_str().unwrap(), price["rate_usd_per_gpu_hour"].as_str().unwrap())
    })
    .collect()
}

/// Scenario: nothing tells where GPUs are, so that their list price is an estimate; a discount on it, and a contract.
/// Guarantee: the discounted price is an estimate of the discounted prices, in the report and in its bill. A
/// contract is exact.
#[test]
fn discount_on_an_estimate_is_an_estimate() {
    let files = PolicyFiles::new(&[]);
    let audit = |terms: Option<&str>| {
        let run = Phasemeter::audit().within(&files.path("")).arg("-");
        let run = match terms {
            Some(terms) => {
                fs::write(files.path("terms.json"), terms).unwrap();
                run.args(["--policy-settings", "negotiated=terms.json"])
            }
            None => run,
        };
        let report = run.stdin(log(&two(0, 1_800))).report();
        report::check(&report);
        report
    };
    let discount =
        r#"{"contract": "order 4711", "as_of": "2026-07-01", "discounts": {"NVIDIA L4": 0.25}}"#;
    let (listed, discounted) = (audit(None), audit(Some(discount)));
    let estimate = |report: &Value| report["gpus"][0]["price"]["estimate"].clone();
    let (of_list, of_quote) = (estimate(&listed), estimate(&discounted));
    for bound in ["low_usd_per_gpu_hour", "high_usd_per_gpu_hour"] {
        let (list, quote) = (nanos(&of_list[bound]).unwrap(), nanos(&of_quote[bound]).unwrap());
        assert!((list * 3 - quote * 4).abs() <= 4, "{bound}: {list}, {quote}");
    }
    assert_eq!(of_quote["rows"], of_list["rows"]);
    assert!(discounted["cost"]["total_range_usd"].is_object(), "{:#}", discounted["cost"]);

    let contract = r#"{"contract": "order 4711", "as_of": "2026-07-01", "commitments": [
        {"model": "NVIDIA L4", "usd_per_gpu_hour": 0.41, "until": "2026-12-31"}]}"#;
    let exact = audit(Some(contract));
    assert!(estimate(&exact).is_null(), "{:#}", exact["gpus"][0]["price"]);
    assert!(exact["cost"]["total_range_usd"].is_null());
}

/// Scenario: a commitment ends at midnight while two GPUs are metered; a third starts later.
/// Guarantee: both cost the committed price until exactly that instant and the price book's price
/// from then on, to the nano-dollar. The report shows both; exports change at the same instant.
#[test]
fn expired_commitment_falls_back_to_price_book() {
    let files = PolicyFiles::new(&[]);
    let terms = r#"{"contract": "order 4711", "as_of": "2026-01-01", "commitments": [
        {"model": "NVIDIA L4", "usd_per_gpu_hour": 0.41, "until": "2026-07-26"}]}"#;
    fs::write(files.path("terms.json"), terms).unwrap();
    let mut rows = two(-1_800, 1_800);
    rows.extend((600..=1_800).step_by(30).map(|second| ("GPU-2", second + 11)));
    rows.sort_by_key(|(_, second)| *second);
    let run = || {
        let run = Phasemeter::new("audit").within(&files.path(""));
        let run = run.args(["-", "--policy-settings", "negotiated=terms.json"]);
        run.args(["--instance-type", "g6.2xlarge", "--provider", "aws"]).stdin(log(&rows))
    };
    let report = run().args(["--format", "json", "--otlp-file", "otlp.jsonl"]).report();
    report::check(&report);
    let (committed, listed) = (410_000_000, 977_600_000);
    let wanted = [
        bill(&[(committed, 1_800), (listed, 1_811)]),
        bill(&[(committed, 1_793), (listed, 1_811)]),
        bill(&[(listed, 1_200)]),
    ];
    for (gpu, wanted) in list(&report["gpus"]).iter().zip(wanted) {
        assert_eq!(nanos(&gpu["cost_usd"]), wanted, "{gpu:#}");
        assert_eq!(gpu["rate_usd_per_gpu_hour"], "0.977600000");
        assert_eq!(gpu["price"]["plan"], "on_demand");
    }
    let before = [("2026-07-27T00:00:00Z", "0.410000000")];
    let reported = list(&report["gpus"]);
    assert_eq!([0, 1, 2].map(|gpu| earlier(&reported[gpu])), [&before[..], &before[..], &[]]);
    let contract = &reported[0]["earlier_prices"][0]["price"]["source"];
    assert_eq!(contract, "order 4711, quoted by negotiated");
    assert_eq!(report["cost"]["hourly_usd"], "2.932800000", "the current rate");
    assert!(!report["assumptions"].to_string().contains("remained in use"), "{report:#}");

    let text = run().run().out;
    let line = "$0.41 until 27 Jul 2026 00:00:00 UTC · reserved 1y";
    assert_eq!(text.matches(line).count(), 1, "{text}");

    let sent = otlp::read(&fs::read_to_string(files.path("otlp.jsonl")).unwrap());
    let midnight = MIDNIGHT * 1_000_000_000;
    for (labels, stream) in sent.streams("phasemeter.gpu.price") {
        let is_old = labels["phasemeter.price.source"].contains("order 4711");
        let rate = if is_old { 0.41 } else { 0.9776 };
        for point in &stream.points {
            assert_eq!((point.time < midnight, point.value), (is_old, rate), "{labels:?}");
        }
    }
}

/// Scenario: quotes valid for twenty minutes, all different; readings in two orders of arrival.
/// Guarantee: each quote applies to its own time, GPUs change at the same instants, and the order of
/// arrival changes nothing.
#[test]
fn price_changes_do_not_depend_on_order_of_arrival() {
    let files = PolicyFiles::new(&[("rising", rising(1_200 * 1_000_000_000))]);
    let rows: Vec<Row> =
        (0..=3_000).flat_map(|second| [("GPU-0", second), ("GPU-1", second)]).collect();
    let mut late = rows.clone();
    late[2..].chunks_mut(6).for_each(<[Row]>::reverse);
    let audit = |rows: &[Row]| files.audit(&["rising"]).stdin(log(rows)).report();
    let (report, other) = (audit(&rows), audit(&late));
    report::check(&report);
    assert_eq!(report["cost"], other["cost"]);
    let gpus = |report: &Value| {
        let mut gpus = list(&report["gpus"]).to_vec();
        gpus.sort_by_key(|gpu| gpu["id"].to_string());
        gpus
    };
    assert_eq!(gpus(&report), gpus(&other));
    let wanted = bill(&[(rate_at(0), 1_200), (rate_at(1_200), 1_200), (rate_at(2_400), 600)]);
    for gpu in gpus(&report) {
        assert_eq!(nanos(&gpu["cost_usd"]), wanted);
        let changes =
            [("2026-07-27T00:20:00Z", "2.000000000"), ("2026-07-27T00:40:00Z", "3.200000000")];
        assert_eq!(earlier(&gpu), changes);
    }
    let once = files.audit(&["rising"]).stdin(log(&rows[..2_000])).report();
    let fuel = |report: &Value| report["policies"][0]["fuel"].as_u64().unwrap();
    assert_eq!(fuel(&report), 3 * fuel(&once), "one request per model");
}

/// Scenario: quotes that expire immediately.
/// Guarantee: after a few, a quote is requested once per minute, prices are held in between, and the
/// report notes it.
#[test]
fn quote_is_requested_once_per_minute_after_a_few() {
    let files = PolicyFiles::new(&[("hostile", rising(1))]);
    let audit = |seconds| files.audit(&["hostile"]).stdin(log(&two(0, seconds))).report();
    let report = audit(9_000);
    report::check(&report);
    // The first five follow one another by a nanosecond.
    let minutes = (0..150).map(|minute| (rate_at(minute * 60), 60));
    let minutes: Vec<_> = minutes.chain([(rate_at(9_000), 7)]).collect();
    assert_eq!(nanos(&report["gpus"][0]["cost_usd"]), bill(&minutes));
    assert_eq!(report["gpus"][0]["earlier_prices_total"], 150);
    assert_eq!(list(&report["gpus"][0]["earlier_prices"]).len(), 100);
    let fuel = |report: &Value| report["policies"][0]["fuel"].as_u64().unwrap();
    assert_eq!(31 * fuel(&report), 155 * fuel(&audit(1_560)), "5 and one per minute");
    let assumed = report["assumptions"].to_string();
    let held = "151 prices of NVIDIA L4 quoted by evil expired, the first at 2026-07-27T00:00:00";
    assert!(assumed.contains(held), "{assumed}");
}

/// Scenario: a policy fails to quote again, or readings stop for a day.
/// Guarantee: the last price is held, the report notes it, and the bill uses that rate.
#[test]
fn expired_price_is_held_without_new_quote() {
    let files =
        PolicyFiles::new(&[("failing", failing()), ("hourly", rising(3_600 * 1_000_000_000))]);
    let report = files.audit(&["failing"]).stdin(log(&two(0, 3_600))).report();
    report::check(&report);
    assert_eq!(nanos(&report["gpus"][0]["cost_usd"]), bill(&[(2_000_000_000, 3_607)]));
    assert_eq!(report["gpus"][0]["earlier_prices_total"], 0);
    assert_eq!(report["policies"][0]["error"]["kind"], "trap");
    let assumed = report["assumptions"].to_string();
    let held = "the price of NVIDIA L4 quoted by evil expired at 2026-07-27T00:30:00Z and remained in use\"";
    assert!(assumed.contains(held), "{assumed}");

    let mut rows = two(0, 60);
    rows.extend(two(86_400, 86_460));
    let report = files.audit(&["hourly"]).stdin(log(&rows)).report();
    report::check(&report);
    let hours = (0..5).map(|hour| (rate_at(hour * 3_600), 3_600));
    let held = [(rate_at(5 * 3_600), 19 * 3_600), (rate_at(86_400), 67)];
    let terms: Vec<_> = hours.chain(held).collect();
    assert_eq!(nanos(&report["gpus"][0]["cost_usd"]), bill(&terms));
    let assumed = report["assumptions"].to_string();
    let held = "expired at 2026-07-27T06:00:00Z and remained in use until 2026-07-28T00:00:00Z";
    assert!(assumed.contains(held), "{assumed}");
}
