//! Policies in the running product: advice, prices, and what a policy that fails costs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::logs::Plan;
use crate::otlp;
use crate::phasemeter::Phasemeter;
use crate::policies::{evil, named_with, pricer, says, texts};
use crate::report::{self, list};

/// A GPU that the guests advise on, an hour and a quarter at this utilization.
fn log(percent: u64) -> String {
    let head = "timestamp, uuid, name, utilization.gpu [%], memory.used [MiB]\n".to_owned();
    (0..=150).fold(head, |log, tick| {
        let (minute, second) = (tick / 2, tick % 2 * 30);
        let (hour, minute) = (minute / 60, minute % 60);
        let at = format!("2026/07/27 0{hour}:{minute:02}:{second:02}.000");
        log + &format!("{at}, GPU-0, NVIDIA H100 80GB HBM3, {percent} %, 40000 MiB\n")
    })
}

/// Policies in files of their own.
pub(crate) struct Shelf(TempDir);

impl Shelf {
    pub(crate) fn of(policies: &[(&str, Vec<u8>)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in policies {
            fs::write(folder.path().join(format!("{name}.wasm")), bytes).unwrap();
        }
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An audit that asks all of these, in this order, and nobody else.
    pub(crate) fn audit(&self, names: &[&str]) -> Phasemeter {
        let run = Phasemeter::audit().within(self.0.path());
        let run = run.args(["-", "--no-default-policies", "--policy-cache", "cache"]);
        names.iter().fold(run, |run, name| run.args(["--policy", &format!("{name}.wasm")]))
    }
}

/// A recommender that promises this on a target, by its number in the contract.
fn promising(name: &str, target: u8, saving: [f64; 3]) -> Vec<u8> {
    let [low, expected, high] = saving;
    let recommend = format!(
        r#"(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (drop (call $advise))
          (i32.store8 (i32.const 2056) (i32.const {target}))
          (f64.store (i32.const 2096) (f64.const {low}))
          (f64.store (i32.const 2104) (f64.const {expected}))
          (f64.store (i32.const 2112) (f64.const {high}))
          (i32.const 1792))"#
    );
    named_with(name, '1', &recommend)
}

/// A pricer that quotes $2 an hour, bound for a year, by contract 4711; until half an hour into the
/// log.
fn quoting() -> Vec<u8> {
    let until = (1_785_110_400_u64 + 1_800) * 1_000_000_000;
    let quote = format!("(i64.store (i32.const 4408) (i64.const {until}))");
    pricer("contract 4711", RESERVED_ONE_YEAR, &quote)
}

/// A plan, and targets, by their numbers in the contract.
const RESERVED_ONE_YEAR: u8 = 2;
const OCCUPANCY: u8 = 2;
const RATE: u8 = 3;

/// 40 % by better use and 60 % off the rate are 76 %, not 100 %.
#[test]
fn savings_multiply() {
    let shelf = Shelf::of(&[
        ("use", promising("use", OCCUPANCY, [0.4, 0.4, 0.4])),
        ("rate", promising("rate", RATE, [0.6, 0.6, 0.6])),
    ]);
    let run = shelf.audit(&["use", "rate"]).args(["--price", "8"]).stdin(log(60));
    let report = run.report();
    report::check(&report);
    let savings = &report["savings"];
    assert_eq!(savings["utilization_fraction"]["expected"], 0.4);
    assert_eq!(savings["rate_fraction"]["expected"], 0.6);
    assert_eq!(savings["total_fraction"]["expected"], 0.76);
    assert_eq!(savings["total_usd"]["expected"], "7.600000000");
    assert_eq!(savings["monthly_usd"]["expected"], "4377.600000000");
    assert_eq!(savings["naive_sum_fraction"], 1.0);
    assert_eq!(savings["capped"], false);
    let codes: Vec<_> = list(&report["recommendations"]).iter().map(|it| &it["policy"]).collect();
    assert_eq!(codes, ["rate", "use"], "what saves most goes first");
}

/// No more is saved than was wasted; of two on one pool the larger counts.
#[test]
fn no_dollar_is_saved_twice_or_out_of_nothing() {
    let shelf = Shelf::of(&[
        ("large", promising("large", OCCUPANCY, [0.1, 0.9, 1.0])),
        ("small", promising("small", OCCUPANCY, [0.1, 0.2, 0.3])),
    ]);
    let run = shelf.audit(&["small", "large"]).args(["--price", "8"]).stdin(log(80));
    let report = run.report();
    report::check(&report);
    let savings = &report["savings"];
    assert_eq!(
        savings["total_fraction"]["expected"], 0.2,
        "at 80 % no more than a fifth is wasted"
    );
    assert_eq!(savings["capped"], true);
    let counted: Vec<_> =
        list(&report["recommendations"]).iter().map(|it| &it["counted"]).collect();
    assert_eq!(counted, [true, false]);
    assert_eq!(savings["pools"][2]["from"][0]["policy"], "large");
}

/// Each hostile guest costs its own verdict, by the fault that it stands for; the bill and the
/// exit status stay, and so does the advice of the one beside it.
#[test]
fn a_policy_that_fails_costs_its_verdict_alone() {
    let folder = crate::policies::home().join("tests/evil");
    let guests = texts(&folder);
    let alone = Shelf::of(&[("good", promising("good", OCCUPANCY, [0.1, 0.2, 0.3]))]);
    let wanted = alone.audit(&["good"]).stdin(log(60)).report();
    let mut met = 0;
    for (name, text) in &guests {
        let fault = says(text, "fault").unwrap();
        // Those that are slow by design are met once.
        if fault == "none" || (name.starts_with("loop-") && name != "loop-recommend") {
            continue;
        }
        let shelf = Shelf::of(&[("bad", evil(name)), ("good", evil_proof())]);
        let report = shelf.audit(&["bad", "good"]).stdin(log(60)).report();
        report::check(&report);
        let policies = list(&report["policies"]);
        let told = policies.iter().find(|policy| !policy["fault"].is_null());
        let told = told.unwrap_or_else(|| panic!("{name}: {policies:#?}"));
        assert_eq!(told["fault"]["kind"], fault, "{name}");
        for part in ["cost", "fleet", "gpus", "recommendations", "savings"] {
            assert_eq!(report[part], wanted[part], "{name}");
        }
        met += 1;
    }
    assert!(met > 30, "only {met} guests were met");
}

fn evil_proof() -> Vec<u8> {
    promising("good", OCCUPANCY, [0.1, 0.2, 0.3])
}

#[test]
fn what_is_no_policy_is_told_by_its_file() {
    let honest = evil("honest");
    let shelf = Shelf::of(&[
        ("random", (0..4_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
        ("truncated", honest[..honest.len() / 2].to_vec()),
        ("empty", Vec::new()),
    ]);
    let run = shelf.audit(&["random", "truncated", "empty"]).stdin(log(60));
    let report = run.report();
    report::check(&report);
    for (policy, name) in list(&report["policies"]).iter().zip(["random", "truncated", "empty"]) {
        assert_eq!(policy["name"], format!("{name}.wasm"));
        assert_eq!(policy["fault"]["kind"], "load.unreadable");
        assert_eq!(policy["digest"], Value::Null);
    }
    let text =
        Phasemeter::new("audit").within(&shelf.path("")).args(["-", "--no-default-policies"]);
    let text = text.args(["--policy", "empty.wasm"]).stdin(log(60)).run();
    assert_eq!((text.status, text.err.as_str()), (0, ""));
    assert!(
        text.out.contains("Failed       empty.wasm: it is no whole WebAssembly file"),
        "{}",
        text.out
    );
}

#[test]
fn what_the_operator_names_must_be_there() {
    let shelf = Shelf::of(&[("honest", evil("honest"))]);
    fs::write(shelf.path("none.key"), "no key").unwrap();
    fs::write(shelf.path("list.json"), "[1]").unwrap();
    fs::write(shelf.path("some.json"), "{}").unwrap();
    let table: [(&[&str], i32, &str); 7] = [
        (&["--policy", "gone.wasm"], 66, "gone.wasm: "),
        (&["--policies", "gone"], 66, "gone: "),
        (&["--policy-settings", "evil=gone.json"], 66, "gone.json: "),
        (&["--policy-key", "gone.key"], 66, "gone.key: "),
        (&["--policy-key", "none.key"], 78, "none.key: 'no key' is no ed25519 public key"),
        (&["--policy-settings", "evil=list.json"], 78, "its settings are wrong"),
        (&["--policy-settings", "good=some.json"], 78, "--policy-settings good: no policy has"),
    ];
    for (args, status, told) in table {
        let outcome = shelf.audit(&["honest"]).args(args).stdin(log(60)).run();
        assert_eq!(outcome.status, status, "{args:?}: {outcome:?}");
        assert!(outcome.refusal().starts_with(told), "{args:?}: {outcome:?}");
    }
    let no_folder = Phasemeter::audit().within(&shelf.path("")).args(["-", "--policy-cache"]);
    let outcome = no_folder.arg("honest.wasm").stdin(log(60)).run();
    assert_eq!(outcome.status, 74, "{outcome:?}");
    assert!(outcome.refusal().starts_with("honest.wasm cannot keep compiled"), "{outcome:?}");
    for limit in ["fuel", "fuel=0", "speed=1"] {
        let outcome = shelf.audit(&["honest"]).args(["--policy-limit", limit]).run();
        assert_eq!(outcome.status, 2, "{outcome:?}");
    }
}

#[test]
fn limits_are_what_the_operator_says() {
    let shelf = Shelf::of(&[("loop", evil("loop-recommend")), ("hog", evil("memory-hog"))]);
    let run = shelf.audit(&["loop", "hog"]);
    let run = run.args(["--policy-limit", "fuel=4242", "--policy-limit", "memory_mib=2"]);
    let report = run.stdin(log(60)).report();
    let message = |at: usize| report["policies"][at]["fault"]["message"].as_str().unwrap();
    // They have one name, so the second took the place of the first.
    assert!(message(0).contains("and may have 2097152"), "{report:#}");
    let alone =
        shelf.audit(&["loop"]).args(["--policy-limit", "fuel=4242"]).stdin(log(60)).report();
    assert!(
        alone["policies"][0]["fault"]["message"].as_str().unwrap().contains("4242"),
        "{alone:#}"
    );
}

/// With keys, only what is signed is used; what ships needs no signature.
#[test]
fn with_a_key_only_what_is_signed_is_used() {
    let shelf = Shelf::of(&[("honest", evil("honest"))]);
    // The key of RFC 8032, 7.1, test 1.
    let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\n";
    fs::write(shelf.path("team.key"), key).unwrap();
    let run = Phasemeter::audit().within(&shelf.path("")).args(["-", "--policy", "honest.wasm"]);
    let report = run.args(["--policy-key", "team.key"]).stdin(log(60)).report();
    let faults: Vec<_> = list(&report["policies"]).iter().map(|it| &it["fault"]["kind"]).collect();
    assert_eq!(faults.last().unwrap(), &"load.signature");
    assert!(faults.len() > 1 && faults[..faults.len() - 1].iter().all(|fault| fault.is_null()));
}

#[test]
fn a_quote_stands_between_the_users_word_and_the_book() {
    let shelf = Shelf::of(&[("quoting", quoting()), ("loop", evil("loop-quote"))]);
    let priced = |names: &[&str], args: &[&str]| {
        let report = shelf.audit(names).args(args).stdin(log(60)).report();
        report::check(&report);
        report
    };
    let quoted = priced(&["quoting"], &[]);
    assert_eq!(quoted["cost"]["rate_usd_per_gpu_hour"], "2.000000000");
    let price = &quoted["cost"]["price"];
    assert_eq!(price["source"], "contract 4711, quoted by evil");
    assert_eq!((&price["plan"], &price["as_of"]), (&"reserved_1y".into(), &"2026-07-20".into()));
    assert_eq!(quoted["policies"][0]["kind"], "pricer");
    assert!(quoted["policies"][0]["fuel"].as_u64() > Some(0));

    let assumed = quoted["assumptions"].to_string();
    let ended = "quoted by evil ended at 2026-07-27T00:30:00Z, and was held on to";
    // It says the same again, and may not: a quote ends after the time of the request.
    assert_eq!(quoted["policies"][0]["fault"]["kind"], "invalid");
    assert!(assumed.contains(ended), "{assumed}");

    let given = priced(&["quoting"], &["--price", "3"]);
    assert_eq!(given["cost"]["rate_usd_per_gpu_hour"], "3.000000000");
    assert_eq!(given["policies"][0]["fuel"], 0, "nobody asked it");

    let book = priced(&[], &[]);
    let failed = priced(&["loop"], &["--policy-limit", "fuel=1000000"]);
    assert_eq!(failed["policies"][0]["fault"]["kind"], "out_of_fuel");
    assert_eq!(failed["cost"], book["cost"], "the book is asked then");
}

#[test]
fn without_policies_nobody_is_asked() {
    let report = Shelf::of(&[]).audit(&[]).stdin(log(60)).report();
    report::check(&report);
    assert_eq!(list(&report["policies"]).len() + list(&report["recommendations"]).len(), 0);
    assert_eq!(report["savings"]["total_usd"]["high"], "0.000000000");
    let text = Shelf::of(&[]);
    let text = Phasemeter::new("audit").within(text.0.path()).args(["-", "--no-default-policies"]);
    let text = text.stdin(log(60)).run();
    assert!(!text.out.contains("Savings") && !text.out.contains("Advice"), "{}", text.out);
}

/// Advice is an event in the experiment's own trace.
#[test]
fn advice_goes_out_as_events() {
    let shelf = Shelf::of(&[("good", evil_proof()), ("bad", evil("trap-unreachable"))]);
    let run = shelf.audit(&["good", "bad"]).args(["--otlp-file", "otlp.jsonl"]);
    let report = run.stdin(log(60)).report();
    let told = otlp::read(&fs::read_to_string(shelf.path("otlp.jsonl")).unwrap());
    let events: Vec<_> = told.events.iter().map(|event| event.event_name.as_str()).collect();
    assert_eq!(events, ["phasemeter.recommendation", "phasemeter.policy.fault"]);
    for event in &told.events {
        let trace: String = event.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(report["experiment"]["trace_id"], trace);
        assert!(!event.span_id.is_empty());
    }
    let attributes = otlp::attributes(&told.events[0].attributes);
    assert_eq!(attributes["phasemeter.recommendation.code"], "test.advice");
    assert_eq!(attributes["phasemeter.recommendation.pool"], "occupancy");
    assert_eq!(attributes["phasemeter.recommendation.saving.expected"], "0.2");
    assert!(attributes["hw.id"].contains("GPU-0"), "{attributes:?}");
    let attributes = otlp::attributes(&told.events[1].attributes);
    assert_eq!(attributes["error.type"], "trap");
}

/// What policies are shown is written down, and is what the report says.
#[test]
fn windows_are_written_down() {
    let shelf = Shelf::of(&[]);
    let plan = Plan { seed: 71, gpus: 3, every: 1_000, ticks: 1_500, ..Plan::default() };
    let run = |path: &str| {
        let run = shelf.audit(&[]).args(["--price", "8", "--dump-windows", path]);
        run.stdin(plan.text()).report()
    };
    fs::create_dir(shelf.path("windows")).unwrap();
    let (report, _) = (run("one.window.json"), run("windows"));
    let read = |path: &Path| fs::read(shelf.path("").join(path)).unwrap();
    let window = read(Path::new("one.window.json"));
    assert_eq!(window, read(Path::new("windows/0001.window.json")));
    let window: Value = serde_json::from_slice(&window).unwrap();
    let window = &window["window"];
    assert_eq!(window["last"], true);
    assert_eq!(window["trace_id"], report["experiment"]["trace_id"]);
    let gpus = list(&window["gpus"]).iter().zip(list(&report["gpus"]));
    for (shown, told) in gpus {
        assert_eq!(shown["id"], told["gpu"]);
        let accounts = shown["accounts"].as_object().unwrap().values();
        let cost: i64 = accounts.map(|account| account["cost_nano_usd"].as_i64().unwrap()).sum();
        assert_eq!(Some(i128::from(cost)), report::nanos(&told["cost_usd"]));
        let points = list(&shown["utilization"]);
        assert!((300..=600).contains(&points.len()), "{}", points.len());
        let seen: Vec<_> = points.iter().filter_map(Value::as_f64).collect();
        let mean = seen.iter().sum::<f64>() / seen.len() as f64 * 100.0;
        let told = told["utilization"]["mean"].as_f64().unwrap();
        assert!((mean - told).abs() < 1.0, "{mean} ≠ {told}");
    }
    let unwritten = shelf.audit(&[]).args(["--dump-windows", "gone/window.json"]);
    let unwritten = unwritten.stdin(plan.text()).run();
    assert_eq!(unwritten.status, 74, "{unwritten:?}");
}
