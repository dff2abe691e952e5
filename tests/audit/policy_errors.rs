//! Policies that fail, and files and options that cannot be used.

use std::fs;

use serde_json::Value;

use crate::phasemeter::Phasemeter;
use crate::policies::{header, hostile, wat_files};
use crate::policy_files::{PolicyFiles, UNDERLOAD, log, recommending};
use crate::report::{self, list};

/// Each hostile guest fails its own evaluation with the expected error. The bill, the exit status and
/// the recommendations of other policies are unchanged.
#[test]
fn hostile_policy_fails_only_its_own_evaluation() {
    let dir = crate::policies::home().join("tests/hostile");
    let guests = wat_files(&dir);
    let alone = PolicyFiles::new(&[("good", recommending("good", UNDERLOAD, [0.1, 0.2, 0.3]))]);
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
    recommending("good", UNDERLOAD, [0.1, 0.2, 0.3])
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
