//! `phasemeter policy`, as authors use it, on policies that ship.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The pair of RFC 8410, section 10: known to everyone, and so worth nothing.
const SECRET: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
    -----END PUBLIC KEY-----\n";
/// Another one: that of RFC 8032, 7.1, test 1.
const STRANGER: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\n";

/// A file or folder of `wasm-rules`.
fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wasm-rules").join(name)
}

/// A folder of an author, with a policy in it that is there already.
struct Desk(TempDir);

impl Desk {
    /// With one that advises, and windows to try it on.
    fn new() -> Self {
        Self::with("data-loading", "templates", &["fleet.window.json", "nothing.window.json"])
    }

    /// With one that prices, and a request to try it on.
    fn pricer() -> Self {
        let files = ["commitment.request.json", "commitment.settings.json"];
        Self::with("negotiated", "policies/negotiated", &files)
    }

    fn with(policy: &str, from: &str, tests: &[&str]) -> Self {
        let desk = Self(TempDir::new().unwrap());
        fs::create_dir(desk.at("tests")).unwrap();
        for test in tests {
            let test = format!("tests/{test}");
            fs::copy(shipped(from).join(&test), desk.at(&test)).unwrap();
        }
        let wasm = format!("{policy}.wasm");
        fs::copy(shipped("dist").join(&wasm), desk.at(&wasm)).unwrap();
        desk.write("policy.json", &format!(r#"{{"build": "echo built", "wasm": "{wasm}"}}"#));
        desk
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    /// The exit status, and all that was printed.
    fn policy(&self, args: &[&str]) -> (i32, String) {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
            .arg("policy")
            .args(args)
            .current_dir(self.0.path())
            .env("XDG_CACHE_HOME", self.at("cache"))
            .output()
            .unwrap();
        let text = [stdout, stderr].concat();
        (status.code().unwrap(), String::from_utf8(text).unwrap())
    }
}

#[test]
fn a_policy_that_is_fine_is_said_to_be() {
    let desk = Desk::new();
    let fine = "data-loading.wasm: fine: data-loading 0.1.0, a recommender\n".to_owned();
    assert_eq!(desk.policy(&["check", "data-loading.wasm"]), (0, fine.clone()));
    assert_eq!(desk.policy(&["build"]), (0, format!("built\n./{fine}")));
    let (status, text) = desk.policy(&["inspect", "data-loading.wasm"]);
    assert_eq!(status, 0, "{text}");
    for line in [
        "exports   phasemeter:policy/policy@0.1.0",
        "kind      recommender",
        "settings  min_lost: default 0.05, maximum 1.0, minimum 0.0, type \"number\"",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn what_is_refused_says_why_and_ends_with_65() {
    let desk = Desk::new();
    desk.write("text.wasm", "no WebAssembly");
    let wasm = fs::read(desk.at("data-loading.wasm")).unwrap();
    fs::write(desk.at("torn.wasm"), &wasm[..wasm.len() / 2]).unwrap();
    desk.write("wrong.json", r#"{"min_lost": 2, "other": true}"#);
    desk.write("tests/torn.window.json", "{");
    fs::create_dir(desk.at("made")).unwrap();
    desk.write("made/policy.json", "{}");
    for (args, status, said) in [
        (&["check", "text.wasm"][..], 65, "text.wasm: load.unreadable: "),
        (&["inspect", "torn.wasm"], 65, "torn.wasm: load.unreadable: "),
        (&["check", "none.wasm"], 66, "none.wasm"),
        (
            &["check", "data-loading.wasm", "--settings", "wrong.json"],
            65,
            "settings: invalid settings: min_lost: invalid value 2: expected at most 1; other: unknown",
        ),
        (
            &["check", "data-loading.wasm", "--limit", "fuel=10"],
            65,
            "out_of_fuel: out of fuel: limit 10",
        ),
        (
            &["run", "data-loading.wasm", "--window", "tests/torn.window.json"],
            65,
            "torn.window.json: EOF",
        ),
        (&["test", "made"], 65, "made/policy.json: missing field `build`"),
        (&["new", "--lang", "c", "Big"], 2, "a letter first"),
        (&["new", "--lang", "c", "made"], 73, "made: is there already"),
        (&["sign", "data-loading.wasm", "--key", "policy.json"], 65, "invalid ed25519 private key"),
    ] {
        let (ended, text) = desk.policy(args);
        assert!(ended == status && text.contains(said), "{args:?}: {ended}: {text}");
    }
}

#[test]
fn a_test_shows_what_is_not_as_expected() {
    let desk = Desk::new();
    let (status, text) = desk.policy(&["test"]);
    assert_eq!(status, 1);
    assert!(text.contains("fleet.window.json: nothing is expected yet: --update"), "{text}");

    assert_eq!(desk.policy(&["test", "--update"]).0, 0);
    let (status, text) = desk.policy(&["test"]);
    assert!(status == 0 && text.ends_with("2 tests, 0 failed\n"), "{text}");
    let (_, advice) = desk.policy(&[
        "run",
        "data-loading.wasm",
        "--window",
        "tests/fleet.window.json",
        "--format",
        "json",
    ]);
    assert_eq!(advice, fs::read_to_string(desk.at("tests/fleet.recommendations.json")).unwrap());

    desk.write("tests/fleet.recommendations.json", &advice.replace("\"starvation\"", "\"idle\""));
    let (status, text) = desk.policy(&["test"]);
    assert_eq!(status, 1);
    assert!(
        text.contains("  -    \"target\": \"idle\",\n  +    \"target\": \"starvation\",\n"),
        "{text}"
    );

    // Settings of one window are for that window only.
    desk.write("tests/nothing.settings.json", r#"{"min_lost": 1.5}"#);
    let (status, text) = desk.policy(&["test"]);
    assert!(status == 65 && text.contains("min_lost: 1.5 is not at most 1"), "{text}");
}

#[test]
fn a_pricer_is_tested_as_a_recommender_is() {
    let desk = Desk::pricer();
    let (status, text) = desk.policy(&["test"]);
    assert_eq!(status, 1);
    assert!(text.contains("commitment.request.json: nothing is expected yet: --update"), "{text}");

    assert_eq!(desk.policy(&["test", "--update"]).0, 0);
    let (status, text) = desk.policy(&["test"]);
    assert!(status == 0 && text.ends_with("1 test, 0 failed\n"), "{text}");

    let quote = fs::read_to_string(desk.at("tests/commitment.quote.json")).unwrap();
    desk.write("tests/commitment.quote.json", &quote.replace("reserved_1y", "reserved_3y"));
    let (status, text) = desk.policy(&["test"]);
    assert_eq!(status, 1);
    assert!(
        text.contains("  -    \"plan\": \"reserved_3y\",\n  +    \"plan\": \"reserved_1y\",\n"),
        "{text}"
    );

    // Without terms it has no price for anyone.
    fs::remove_file(desk.at("tests/commitment.settings.json")).unwrap();
    let (status, text) = desk.policy(&["test"]);
    assert!(status == 1 && text.contains("\n  +  \"quote\": null\n"), "{text}");
}

#[test]
fn a_quote_is_told_to_people_and_written_for_tests() {
    let desk = Desk::pricer();
    let request = ["run", "negotiated.wasm", "--request", "tests/commitment.request.json"];
    let terms = ["--settings", "tests/commitment.settings.json"];
    let told = "$0.41 a GPU-hour, reserved 1y\n  by    order 4711\n  as of 2026-01-01\n  \
                ends  2027-01-01T00:00:00Z\n";
    assert_eq!(desk.policy(&[&request[..], &terms].concat()), (0, told.to_owned()));
    let none = "no quote: the next is asked\n".to_owned();
    assert_eq!(desk.policy(&request), (0, none));

    let json = [&request[..], &terms, &["--format", "json"]].concat();
    let quote = shipped("policies/negotiated/tests/commitment.quote.json");
    assert_eq!(desk.policy(&json), (0, fs::read_to_string(quote).unwrap()));
}

/// Guarantee: what is meant for the other kind of policy is refused, with what this one is and what
/// it is to be given.
#[test]
fn a_policy_is_asked_only_what_its_kind_is_asked() {
    let (recommender, pricer) = (Desk::new(), Desk::pricer());
    let (window, request) = ("tests/fleet.window.json", "tests/commitment.request.json");
    fs::copy(recommender.at(window), pricer.at(window)).unwrap();
    fs::copy(pricer.at(request), recommender.at(request)).unwrap();
    let log = shipped("../tests/fixtures/logs/bounces.csv");
    let log = log.to_str().unwrap();
    let wants_window = [
        "data-loading.wasm: it is a recommender, and is not shown ",
        ": give it a window: NAME.window.json, --window or --log",
    ];
    let wants_request = [
        "negotiated.wasm: it is a pricer, and is not shown ",
        ": give it a quote request: NAME.request.json or --request",
    ];
    for (desk, args, said) in [
        (&recommender, &["run", "data-loading.wasm", "--request", request][..], wants_window),
        (&recommender, &["bench", "data-loading.wasm", "--request", request], wants_window),
        (&recommender, &["test"], wants_window),
        (&pricer, &["run", "negotiated.wasm", "--window", window], wants_request),
        (&pricer, &["bench", "negotiated.wasm", "--window", window], wants_request),
        (&pricer, &["run", "negotiated.wasm", "--log", log], wants_request),
    ] {
        let (status, text) = desk.policy(args);
        let all = said.iter().all(|said| text.contains(said));
        assert!(status == 65 && all, "{args:?}: {status}: {text}");
    }
    fs::remove_file(pricer.at(request)).unwrap();
    let (status, text) = pricer.policy(&["test"]);
    assert!(status == 65 && wants_request.iter().all(|said| text.contains(said)), "{text}");
    fs::remove_file(pricer.at(window)).unwrap();
    let (status, text) = pricer.policy(&["test"]);
    assert!(status == 66 && text.contains("no NAME.request.json for a pricer"), "{text}");
}

/// Guarantee: each policy that ships with tests passes them as it ships.
#[test]
fn what_ships_passes_its_own_tests() {
    let desk = Desk::pricer();
    let folders = fs::read_dir(shipped("policies")).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = folders.filter(|folder| folder.join("policy.json").exists()).collect();
    assert!(!folders.is_empty());
    for folder in folders {
        let (status, text) = desk.policy(&["test", folder.to_str().unwrap()]);
        assert_eq!(status, 0, "{text}");
    }
}

/// Guarantee: a policy is shown of a log what an audit of it shows.
#[test]
fn a_log_is_shown_as_an_audit_shows_it() {
    let desk = Desk::new();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/logs/bounces.csv");
    fs::copy(log, desk.at("bounces.csv")).unwrap();
    let audit = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
        .args(["audit", "bounces.csv", "--price", "3", "--no-default-policies"])
        .args(["--dump-windows", "bounces.window.json"])
        .current_dir(desk.0.path())
        .output()
        .unwrap();
    assert!(audit.status.success(), "{audit:?}");
    let run = |shown: &[&str]| {
        let (status, text) =
            desk.policy(&[&["run", "data-loading.wasm", "--format", "json"], shown].concat());
        assert_eq!(status, 0, "{text}");
        text
    };
    let advice = run(&["--log", "bounces.csv", "--price", "3"]);
    assert!(advice.contains("\"target\": \"starvation\""), "{advice}");
    assert_eq!(advice, run(&["--window", "bounces.window.json"]));
}

#[test]
fn what_was_signed_is_verified_and_what_was_changed_is_not() {
    let desk = Desk::new();
    desk.write("key.pem", SECRET);
    desk.write("pub.pem", PUBLIC);
    desk.write("stranger.txt", STRANGER);
    let verify = |keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--key", key]);
        desk.policy(&["verify", "data-loading.wasm"].into_iter().chain(keys).collect::<Vec<_>>())
    };
    let (status, text) = verify(&["pub.pem"]);
    assert!(status == 65 && text.contains("it is not signed"), "{text}");
    let (status, text) = desk.policy(&["sign", "data-loading.wasm", "--key", "key.pem"]);
    let public = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
    assert_eq!((status, text), (0, format!("data-loading.wasm.sig: by {public}\n")));
    assert_eq!(fs::read(desk.at("data-loading.wasm.sig")).unwrap().len(), 64);
    assert_eq!(verify(&["stranger.txt", "pub.pem"]).0, 0);
    let (status, text) = verify(&["stranger.txt"]);
    assert!(status == 65 && text.contains("not signed by any configured key"), "{text}");

    let mut wasm = fs::read(desk.at("data-loading.wasm")).unwrap();
    wasm.push(0);
    fs::write(desk.at("data-loading.wasm"), wasm).unwrap();
    assert_eq!(verify(&["pub.pem"]).0, 65);
}

/// Guarantee: what was compiled and signed by an author is what a sidecar takes in place of
/// compiling: with no memory to compile, it is used, and unsigned it is not.
#[test]
fn what_was_compiled_elsewhere_is_used() {
    let desk = Desk::new();
    desk.write("key.pem", SECRET);
    desk.write("pub.pem", PUBLIC);
    let demo = || {
        let out = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
            .args([
                "demo",
                "--format",
                "json",
                "--no-default-policies",
                "--policy",
                "data-loading.wasm",
            ])
            .args(["--policy-key", "pub.pem", "--policy-limit", "compile_memory_mib=1"])
            .args(["--policy-cache", "nothing-yet"])
            .current_dir(desk.0.path())
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        report["policies"][0]["fault"]["kind"].as_str().map(str::to_owned)
    };
    assert_eq!(desk.policy(&["sign", "data-loading.wasm", "--key", "key.pem"]).0, 0);
    let (status, text) = desk.policy(&["compile", "data-loading.wasm"]);
    assert!(status == 0 && text.starts_with("input.aot: "), "{text}");
    assert_eq!(demo().as_deref(), Some("load.compile_limit"));
    assert_eq!(desk.policy(&["sign", "input.aot", "--key", "key.pem"]).0, 0);
    assert_eq!(demo(), None);
}

#[test]
fn a_bench_says_what_a_run_takes_and_may_take() {
    let desk = Desk::new();
    let window = ["--window", "tests/fleet.window.json", "--runs", "3"];
    let (status, text) = desk.policy(&[&["bench", "data-loading.wasm"], &window[..]].concat());
    assert_eq!(status, 0, "{text}");
    for line in ["data-loading.wasm: 3 runs", "  fuel    ", " of 500,000,000\n", " of 65,536 KiB\n"]
    {
        assert!(text.contains(line), "{text}");
    }
    let request = ["--request", "tests/commitment.request.json", "--runs", "3"];
    let (status, text) =
        Desk::pricer().policy(&[&["bench", "negotiated.wasm"], &request[..]].concat());
    assert!(status == 0 && text.starts_with("negotiated.wasm: 3 runs\n"), "{text}");
}
