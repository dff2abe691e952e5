//! Policies run by an audit: recommendations, quotes and failures.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::logs::Plan;
use crate::otlp;
use crate::phasemeter::Phasemeter;
use crate::policies::{header, hostile, pricer, recommender_with, wat_files};
use crate::report::{self, list};

/// A log of one GPU at this utilization for 75 minutes, for which the guests have recommendations.
fn log(percent: u64) -> String {
    let head = "timestamp, uuid, name, utilization.gpu [%], memory.used [MiB]\n".to_owned();
    (0..=150).fold(head, |log, tick| {
        let (minute, second) = (tick / 2, tick % 2 * 30);
        let (hour, minute) = (minute / 60, minute % 60);
        let at = format!("2026/07/27 0{hour}:{minute:02}:{second:02}.000");
        log + &format!("{at}, GPU-0, NVIDIA H100 80GB HBM3, {percent} %, 40000 MiB\n")
    })
}

/// A directory of policy files.
pub(crate) struct PolicyFiles(TempDir);

impl PolicyFiles {
    pub(crate) fn new(policies: &[(&str, Vec<u8>)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in policies {
            fs::write(dir.path().join(format!("{name}.wasm")), bytes).unwrap();
        }
        Self(dir)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An audit with these policies only, in this order. Their wall-clock limits are generous: on a
    /// busy machine fuel and memory must still be the limits that apply.
    pub(crate) fn audit(&self, names: &[&str]) -> Phasemeter {
        let run = Phasemeter::audit().within(self.0.path());
        let run = run.args(["-", "--no-default-policies", "--policy-cache", "cache"]);
        let run = run.args(["--policy-limit", "deadline_ms=600000"]);
        let run = run.args(["--policy-limit", "compile_seconds=600"]);
        names.iter().fold(run, |run, name| run.args(["--policy", &format!("{name}.wasm")]))
    }
}

/// A recommender with this saving on a target, given by its number in the contract.
fn recommending(name: &str, target: u8, saving: [f64; 3]) -> Vec<u8> {
    recommending_with(name, target, saving, 0.5)
}

/// The same with this confidence.
fn recommending_with(name: &str, target: u8, saving: [f64; 3], confidence: f64) -> Vec<u8> {
    let [low, expected, high] = saving;
    // A part of a GPU and another price are no alternatives.
    let lever = match target {
        RATE => {
            "(i32.store (i32.const 336) (i32.const 0x746f7073)) (i32.store (i32.const 2064) (i32.const 4))"
        }
        _ => "",
    };
    let recommend = format!(
        r#"(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (drop (call $recommendation)) {lever}
          (i32.store8 (i32.const 2056) (i32.const {target}))
          (f64.store (i32.const 2096) (f64.const {low}))
          (f64.store (i32.const 2104) (f64.const {expected}))
          (f64.store (i32.const 2112) (f64.const {high}))
          (f64.store (i32.const 2120) (f64.const {confidence}))
          (i32.const 1792))"#
    );
    recommender_with(name, '1', &recommend)
}

/// A recommender with evidence and an action for automation.
fn acting() -> Vec<u8> {
    let recommend = r#"(data (i32.const 8192) "nvidia.mig" "profile" "1g.10gb" "idle_gpus" "GPUs")
        (func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (drop (call $recommendation))
          (call $text (i32.const 3072) (i32.const 8216) (i32.const 9))
          (f64.store (i32.const 3080) (f64.const 3))
          (call $text (i32.const 3088) (i32.const 8225) (i32.const 4))
          (call $text (i32.const 2128) (i32.const 3072) (i32.const 1))
          (i32.store8 (i32.const 2148) (i32.const 1))
          (call $text (i32.const 2152) (i32.const 8192) (i32.const 10))
          (call $text (i32.const 2160) (i32.const 3200) (i32.const 1))
          (call $text (i32.const 3200) (i32.const 8202) (i32.const 7))
          (call $text (i32.const 3208) (i32.const 8209) (i32.const 7))
          (i32.const 1792))
        (func $text (param $at i32) (param $from i32) (param $length i32)
          (i32.store (local.get $at) (local.get $from))
          (i32.store offset=4 (local.get $at) (local.get $length)))"#;
    recommender_with("good", '1', recommend)
}

/// A pricer that quotes $2 per hour, reserved for a year under contract 4711, until half an hour into
/// the log.
fn quoting() -> Vec<u8> {
    let until = (1_785_110_400_u64 + 1_800) * 1_000_000_000;
    let quote = format!("(i64.store (i32.const 4424) (i64.const {until}))");
    pricer("contract 4711", RESERVED_ONE_YEAR, &quote)
}

/// A plan and targets by their numbers in the contract.
const RESERVED_ONE_YEAR: u8 = 2;
const OCCUPANCY: u8 = 2;
const RATE: u8 = 3;

/// 40% by better use and 60% off the rate combine to 76%, not 100%.
#[test]
fn utilization_and_rate_savings_multiply() {
    let files = PolicyFiles::new(&[
        ("use", recommending("use", OCCUPANCY, [0.4, 0.4, 0.4])),
        ("rate", recommending("rate", RATE, [0.6, 0.6, 0.6])),
    ]);
    let run = files.audit(&["use", "rate"]).args(["--price", "8"]).stdin(log(60));
    let report = run.report();
    report::check(&report);
    let savings = &report["savings"];
    assert_eq!(savings["utilization_fraction"]["expected"], 0.4);
    assert_eq!(savings["rate_fraction"]["expected"], 0.6);
    assert_eq!(savings["total_fraction"]["expected"], 0.76);
    assert_eq!(savings["total_usd"]["expected"], "7.600000000");
    assert!(savings["monthly_usd"].is_null(), "less than a day shows no month");
    assert_eq!(savings["naive_sum_fraction"], 1.0);
    assert_eq!(savings["capped"], false);
    let codes: Vec<_> = list(&report["recommendations"]).iter().map(|it| &it["policy"]).collect();
    assert_eq!(codes, ["use", "rate"], "better use comes before a lower rate");
}

/// A guess, and a saving of nothing, are what is missing and no recommendations.
#[test]
fn doubtful_recommendation_is_missing_evidence() {
    let files = PolicyFiles::new(&[
        ("guess", recommending_with("guess", OCCUPANCY, [0.1, 0.2, 0.3], 0.19)),
        ("nothing", recommending_with("nothing", OCCUPANCY, [0.0; 3], 0.9)),
        ("sure", recommending_with("sure", OCCUPANCY, [0.1, 0.15, 0.2], 0.2)),
    ]);
    let run = files.audit(&["guess", "nothing", "sure"]).args(["--price", "8"]).stdin(log(60));
    let report = run.report();
    report::check(&report);
    let given: Vec<_> = list(&report["recommendations"]).iter().map(|it| &it["policy"]).collect();
    assert_eq!(given, ["sure"]);
    assert_eq!(report["savings"]["total_fraction"]["expected"], 0.15);
    let needs: Vec<_> = list(&report["needs"]).iter().map(|it| it["reason"].to_string()).collect();
    let [guess, nothing] = &needs[..] else { panic!("{needs:?}") };
    assert!(guess.contains("guess is 19% confident"), "{guess}");
    assert!(nothing.contains("saves 0% at most"), "{nothing}");
}

/// Savings are capped at the waste; of two recommendations for one category the larger counts.
#[test]
fn savings_are_capped_and_counted_once() {
    let files = PolicyFiles::new(&[
        ("large", recommending("large", OCCUPANCY, [0.1, 0.9, 1.0])),
        ("small", recommending("small", OCCUPANCY, [0.1, 0.2, 0.3])),
    ]);
    let run = files.audit(&["small", "large"]).args(["--price", "8"]).stdin(log(80));
    let report = run.report();
    report::check(&report);
    let savings = &report["savings"];
    assert_eq!(savings["total_fraction"]["expected"], 0.2, "at 80% no more than a fifth is wasted");
    assert_eq!(savings["capped"], true);
    let counted: Vec<_> =
        list(&report["recommendations"]).iter().map(|it| &it["counted"]).collect();
    assert_eq!(counted, [true, false]);
    assert_eq!(savings["by_category"][2]["sources"][0]["policy"], "large");
}

/// Each hostile guest fails its own evaluation with the expected error. The bill, the exit status and
/// the recommendations of other policies are unchanged.
#[test]
fn hostile_policy_fails_only_its_own_evaluation() {
    let dir = crate::policies::home().join("tests/hostile");
    let guests = wat_files(&dir);
    let alone = PolicyFiles::new(&[("good", recommending("good", OCCUPANCY, [0.1, 0.2, 0.3]))]);
    let wanted = alone.audit(&["good"]).stdin(log(60)).report();
    let mut tested = 0;
    for (name, text) in &guests {
        let fault = header(text, "error").unwrap();
        // One of the guests that are slow by design is enough.
        // Without a provider, no offer is priced; `hostile_pricers` has one.
        if fault == "none"
            || name == "quote-offer"
            || (name.starts_with("loop-") && name != "loop-recommend")
        {
            continue;
        }
        let files = PolicyFiles::new(&[("bad", hostile(name)), ("good", good_policy())]);
        let report = files.audit(&["bad", "good"]).stdin(log(60)).report();
        report::check(&report);
        let policies = list(&report["policies"]);
        let failed = policies.iter().find(|policy| !policy["error"].is_null());
        let failed = failed.unwrap_or_else(|| panic!("{name}: {policies:#?}"));
        assert_eq!(failed["error"]["kind"], fault, "{name}");
        for part in ["cost", "fleet", "gpus", "recommendations", "savings"] {
            assert_eq!(report[part], wanted[part], "{name}");
        }
        tested += 1;
    }
    assert!(tested > 30, "only {tested} guests tested");
}

fn good_policy() -> Vec<u8> {
    recommending("good", OCCUPANCY, [0.1, 0.2, 0.3])
}

#[test]
fn invalid_policy_file_is_reported_by_name() {
    let honest = hostile("honest");
    let files = PolicyFiles::new(&[
        ("random", (0..4_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()),
        ("truncated", honest[..honest.len() / 2].to_vec()),
        ("empty", Vec::new()),
    ]);
    let run = files.audit(&["random", "truncated", "empty"]).stdin(log(60));
    let report = run.report();
    report::check(&report);
    for (policy, name) in list(&report["policies"]).iter().zip(["random", "truncated", "empty"]) {
        assert_eq!(policy["name"], format!("{name}.wasm"));
        assert_eq!(policy["error"]["kind"], "load.unreadable");
        assert_eq!(policy["digest"], Value::Null);
    }
    let text =
        Phasemeter::new("audit").within(&files.path("")).args(["-", "--no-default-policies"]);
    let text = text.args(["--policy", "empty.wasm"]).stdin(log(60)).run();
    assert_eq!((text.status, text.err.as_str()), (0, ""));
    assert!(text.out.contains("Failed       empty.wasm: invalid WebAssembly"), "{}", text.out);
}

/// The JSON report has all of them.
#[test]
fn many_rejected_policies_are_summarized() {
    let files = PolicyFiles::new(&[]);
    fs::create_dir(files.path("junk")).unwrap();
    for number in 10..40 {
        fs::write(files.path(&format!("junk/junk-{number}.wasm")), "no policy").unwrap();
    }
    let text = Phasemeter::new("audit").within(&files.path(""));
    let text = text.args(["-", "--no-default-policies", "--policies", "junk"]).stdin(log(60)).run();
    assert_eq!(text.out.matches("junk-").count(), 4, "{}", text.out);
    assert!(text.out.contains("26 more in --format json"), "{}", text.out);
    let report = files.audit(&[]).args(["--policies", "junk"]).stdin(log(60)).report();
    assert_eq!(list(&report["policies"]).len(), 30);
}

#[test]
fn missing_policy_inputs_are_rejected() {
    let files = PolicyFiles::new(&[("honest", hostile("honest"))]);
    fs::write(files.path("none.key"), "no key").unwrap();
    fs::write(files.path("list.json"), "[1]").unwrap();
    fs::write(files.path("some.json"), "{}").unwrap();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["--policy", "gone.wasm"], 66, "gone.wasm: "),
        (&["--policies", "gone"], 66, "gone: "),
        (&["--policy-settings", "evil=gone.json"], 66, "gone.json: "),
        (&["--policy-key", "gone.key"], 66, "gone.key: "),
        (&["--policy-key", "none.key"], 78, "none.key: invalid ed25519 public key 'no key'"),
        (&["--policy-settings", "evil=list.json"], 78, "invalid settings"),
        (&["--policy-settings", "good=some.json"], 78, "--policy-settings good: no policy has"),
    ];
    for (args, status, message) in cases {
        let outcome = files.audit(&["honest"]).args(args).stdin(log(60)).run();
        assert_eq!(outcome.status, status, "{args:?}: {outcome:?}");
        assert!(outcome.error_line().starts_with(message), "{args:?}: {outcome:?}");
    }
    let not_a_dir = Phasemeter::audit().within(&files.path("")).args(["-", "--policy-cache"]);
    let not_a_dir = not_a_dir.args(["honest.wasm", "--policy", "honest.wasm"]);
    let outcome = not_a_dir.stdin(log(60)).run();
    assert_eq!(outcome.status, 0, "{outcome:?}");
    let line = "phasemeter: compiled policies are not cached: ";
    assert!(outcome.err.starts_with(line) && outcome.err.lines().count() == 1, "{outcome:?}");
    for limit in ["fuel", "fuel=0", "speed=1"] {
        let outcome = files.audit(&["honest"]).args(["--policy-limit", limit]).run();
        assert_eq!(outcome.status, 2, "{outcome:?}");
    }
}

/// Guarantee: an audit with the default policies needs no compiler.
#[test]
fn default_policies_are_not_compiled() {
    let dir = tempfile::tempdir().unwrap();
    let run = Phasemeter::audit().within(dir.path()).args(["-", "--policy-cache", "cache"]);
    // With this little memory, the compiler cannot even start.
    let outcome = run.args(["--policy-limit", "compile_memory_mib=1"]).stdin(log(60)).run();
    assert_eq!((outcome.status, &*outcome.err), (0, ""), "{outcome:?}");
    let report = outcome.json();
    let policies = list(&report["policies"]);
    assert!(policies.len() > 5 && policies.iter().all(|it| it["error"].is_null()), "{outcome:?}");
    assert!(!dir.path().join("cache").exists());
}

#[test]
fn policy_limits_are_configurable() {
    let files =
        PolicyFiles::new(&[("loop", hostile("loop-recommend")), ("hog", hostile("memory-hog"))]);
    let run = files.audit(&["loop", "hog"]);
    let run = run.args(["--policy-limit", "fuel=4242", "--policy-limit", "memory_mib=2"]);
    let report = run.stdin(log(60)).report();
    let message = |at: usize| report["policies"][at]["error"]["message"].as_str().unwrap();
    // Both have the same name, so the second replaces the first.
    assert!(message(0).contains("limit 2097152"), "{report:#}");
    let alone =
        files.audit(&["loop"]).args(["--policy-limit", "fuel=4242"]).stdin(log(60)).report();
    assert!(
        alone["policies"][0]["error"]["message"].as_str().unwrap().contains("4242"),
        "{alone:#}"
    );
}

/// With keys only signed policies are used; default policies need no signature.
#[test]
fn policy_key_requires_signatures_except_for_default_policies() {
    let files = PolicyFiles::new(&[("honest", hostile("honest"))]);
    // The key of RFC 8032, 7.1, test 1.
    let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\n";
    fs::write(files.path("team.key"), key).unwrap();
    let run = Phasemeter::audit().within(&files.path("")).args(["-", "--policy", "honest.wasm"]);
    let report = run.args(["--policy-key", "team.key"]).stdin(log(60)).report();
    let faults: Vec<_> = list(&report["policies"]).iter().map(|it| &it["error"]["kind"]).collect();
    assert_eq!(faults.last().unwrap(), &"load.signature");
    assert!(faults.len() > 1 && faults[..faults.len() - 1].iter().all(|fault| fault.is_null()));
}

#[test]
fn quote_overrides_price_book_and_yields_to_price_option() {
    let files = PolicyFiles::new(&[("quoting", quoting()), ("loop", hostile("loop-quote"))]);
    let priced = |names: &[&str], args: &[&str]| {
        let report = files.audit(names).args(args).stdin(log(60)).report();
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
    let ended = "quoted by evil expired at 2026-07-27T00:30:00Z and remained in use";
    // The same quote again is invalid: a quote must end after the time of the request.
    assert_eq!(quoted["policies"][0]["error"]["kind"], "invalid");
    assert!(assumed.contains(ended), "{assumed}");

    let given = priced(&["quoting"], &["--price", "3"]);
    assert_eq!(given["cost"]["rate_usd_per_gpu_hour"], "3.000000000");
    assert_eq!(given["policies"][0]["fuel"], 0, "not evaluated");

    let book = priced(&[], &[]);
    let failed = priced(&["loop"], &["--policy-limit", "fuel=1000000"]);
    assert_eq!(failed["policies"][0]["error"]["kind"], "out_of_fuel");
    assert_eq!(failed["cost"], book["cost"], "falls back to the price book");
}

#[test]
fn audit_without_policies_has_no_recommendations() {
    let report = PolicyFiles::new(&[]).audit(&[]).stdin(log(60)).report();
    report::check(&report);
    assert_eq!(list(&report["policies"]).len() + list(&report["recommendations"]).len(), 0);
    assert_eq!(report["savings"]["total_usd"]["high"], "0.000000000");
    let text = PolicyFiles::new(&[]);
    let text = Phasemeter::new("audit").within(text.0.path()).args(["-", "--no-default-policies"]);
    let text = text.stdin(log(60)).run();
    assert!(!text.out.contains("Savings") && !text.out.contains("Saves"), "{}", text.out);
}

/// Recommendations are events in the trace of the experiment.
#[test]
fn recommendations_are_exported_as_events() {
    let files = PolicyFiles::new(&[("good", acting()), ("bad", hostile("trap-unreachable"))]);
    let run = files.audit(&["good", "bad"]).args(["--otlp-file", "otlp.jsonl"]);
    let report = run.stdin(log(60)).report();
    let captured = otlp::read(&fs::read_to_string(files.path("otlp.jsonl")).unwrap());
    let events: Vec<_> = captured.events.iter().map(|event| event.event_name.as_str()).collect();
    assert_eq!(events, ["phasemeter.recommendation", "phasemeter.policy.error"]);
    for event in &captured.events {
        let trace: String = event.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(report["experiment"]["trace_id"], trace);
        assert!(!event.span_id.is_empty());
    }
    let attributes = otlp::attributes(&captured.events[0].attributes);
    assert_eq!(attributes["phasemeter.recommendation.code"], "test.action");
    assert_eq!(attributes["phasemeter.recommendation.remediation.kind"], "nvidia.mig");
    assert_eq!(attributes["phasemeter.recommendation.remediation.parameter.profile"], "1g.10gb");
    assert_eq!(attributes["phasemeter.recommendation.evidence.idle_gpus.value"], "3");
    assert_eq!(attributes["phasemeter.recommendation.evidence.idle_gpus.unit"], "GPUs");
    assert_eq!(attributes["phasemeter.recommendation.saving.expected"], "0.2");
    assert!(attributes["phasemeter.gpu.ids"].contains("GPU-0"), "{attributes:?}");
    let attributes = otlp::attributes(&captured.events[1].attributes);
    assert_eq!(attributes["error.type"], "trap");
}

/// Of GPUs that are paid for either way, a saving is capacity, in the report and in its event.
#[test]
fn savings_on_purchased_gpus_are_capacity() {
    let kind = |plan: &str| {
        let files = PolicyFiles::new(&[("use", recommending("use", OCCUPANCY, [0.4, 0.4, 0.4]))]);
        let run = files.audit(&["use"]).args(["--price", "8", "--plan", plan]);
        let report = run.args(["--otlp-file", "otlp.jsonl"]).stdin(log(60)).report();
        let captured = otlp::read(&fs::read_to_string(files.path("otlp.jsonl")).unwrap());
        let event = otlp::attributes(&captured.events[0].attributes);
        let kind = report["recommendations"][0]["kind"].as_str().unwrap().to_owned();
        assert_eq!(event["phasemeter.recommendation.kind"], kind);
        let saves = report["recommendations"][0]["saving_usd"]["high"] != "0.000000000";
        (kind, saves, report["recommendations"][0]["saving_fraction"]["high"].as_f64())
    };
    for plan in ["owned", "reserved_1y", "reserved_3y"] {
        assert_eq!(kind(plan), ("capacity".to_owned(), false, Some(0.4)));
    }
    for plan in ["on_demand", "spot"] {
        assert_eq!(kind(plan), ("saving".to_owned(), true, Some(0.4)));
    }
}

/// Dumped policy windows match the report.
#[test]
fn dumped_windows_match_report() {
    let files = PolicyFiles::new(&[]);
    let plan = Plan { seed: 71, gpus: 3, every: 1_000, ticks: 1_500, ..Plan::default() };
    let run = |path: &str| {
        let run = files.audit(&[]).args(["--price", "8", "--dump-windows", path]);
        run.stdin(plan.text()).report()
    };
    fs::create_dir(files.path("windows")).unwrap();
    let (report, _) = (run("one.window.json"), run("windows"));
    let read = |path: &Path| fs::read(files.path("").join(path)).unwrap();
    let window = read(Path::new("one.window.json"));
    assert_eq!(window, read(Path::new("windows/0001.window.json")));
    let window: Value = serde_json::from_slice(&window).unwrap();
    let window = &window["window"];
    assert_eq!(window["is_final"], true);
    assert_eq!(window["trace_id"], report["experiment"]["trace_id"]);
    let gpus = list(&window["gpus"]).iter().zip(list(&report["gpus"]));
    for (dumped, reported) in gpus {
        assert_eq!(dumped["id"], reported["id"]);
        let accounts = dumped["accounts"].as_object().unwrap().values();
        let cost: i64 = accounts.map(|account| account["cost_nano_usd"].as_i64().unwrap()).sum();
        assert_eq!(Some(i128::from(cost)), report::nanos(&reported["cost_usd"]));
        let points = list(&dumped["utilization"]);
        assert!((300..=600).contains(&points.len()), "{}", points.len());
        let known: Vec<_> = points.iter().filter_map(Value::as_f64).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64 * 100.0;
        let reported_mean = reported["utilization"]["mean"].as_f64().unwrap();
        assert!((mean - reported_mean).abs() < 1.0, "{mean} ≠ {reported_mean}");
    }
    let unwritten = files.audit(&[]).args(["--dump-windows", "gone/window.json"]);
    let unwritten = unwritten.stdin(plan.text()).run();
    assert_eq!(unwritten.status, 74, "{unwritten:?}");
}
