//! `phasemeter policy` on the default policies.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed test may panic"
)]

mod new;
mod project;
mod signing;
#[path = "../../../../rules/tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use project::{PolicyProject, wasm_rules};
use signing::{PUBLIC, SECRET};

/// Guarantee: commands accept the directory of a built project in place of its component.
#[test]
fn commands_accept_project_directory() {
    let (recommender, pricer) = (PolicyProject::new(), PolicyProject::pricer());
    recommender.write("key.pem", SECRET);
    recommender.write("pub.pem", PUBLIC);
    let (window, request) = ("tests/fleet.window.json", "tests/commitment.request.json");
    for (project, args, expected) in [
        (&recommender, &["check", "."][..], "./data-loading.wasm: OK: data-loading 0.1.0"),
        (&recommender, &["check"], "./data-loading.wasm: OK: data-loading 0.1.0"),
        (&recommender, &["inspect", "."], "file      ./data-loading.wasm\n"),
        (&recommender, &["run", ".", "--window", window], "(data-loading."),
        (
            &recommender,
            &["bench", ".", "--window", window, "--runs", "1"],
            "data-loading.wasm: 1 eval",
        ),
        (&recommender, &["compile", "."], "./data-loading.aot: "),
        (&recommender, &["sign", ".", "--key", "key.pem"], "./data-loading.wasm.sig: signed by "),
        (&recommender, &["verify", ".", "--key", "pub.pem"], "./data-loading.wasm: OK: signed\n"),
        (&pricer, &["run", "--request", request], "no quote"),
    ] {
        let (status, text) = project.policy(args);
        assert!(status == 0 && text.contains(expected), "{args:?}: {status}: {text}");
    }
}

/// Scenario: a policy logs a thousand lines, of which 32 are kept.
/// Guarantee: the number of the others is printed.
#[test]
fn dropped_log_lines_are_counted() {
    let project = PolicyProject::new();
    fs::write(project.at("flood.wasm"), support::hostile("log-flood")).unwrap();
    let (_, text) = project.policy(&["run", "flood.wasm", "--window", "tests/fleet.window.json"]);
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("evil: ")).collect();
    assert_eq!((lines.len(), lines.last()), (33, Some(&"evil: 968 more lines")), "{text}");
}

/// Guarantee: for a project that is not built, commands state in one line how to build it.
#[test]
fn unbuilt_project_is_rejected_with_build_command() {
    let project = PolicyProject::new();
    fs::remove_file(project.at("data-loading.wasm")).unwrap();
    project.write("key.pem", SECRET);
    project.write("pub.pem", PUBLIC);
    let window = "tests/fleet.window.json";
    for args in [
        &["check", "."][..],
        &["inspect", "."],
        &["run", ".", "--window", window],
        &["bench", ".", "--window", window],
        &["compile", "."],
        &["sign", ".", "--key", "key.pem"],
        &["verify", ".", "--key", "pub.pem"],
        &["test", "."],
        &["test"],
    ] {
        let (status, text) = project.policy(args);
        let expected = "./data-loading.wasm: not built; run 'phasemeter policy build .'\n";
        assert!(status == 66 && text.ends_with(expected), "{args:?}: {status}: {text}");
    }
    fs::create_dir(project.at("empty")).unwrap();
    let (status, text) = project.policy(&["check", "empty"]);
    assert!(status == 66 && text.contains("empty/policy.json: cannot be read"), "{text}");
}

#[test]
fn valid_policy_passes_check_and_build() {
    let project = PolicyProject::new();
    let ok = "data-loading.wasm: OK: data-loading 0.1.0, a recommender\n".to_owned();
    assert_eq!(project.policy(&["check", "data-loading.wasm"]), (0, ok.clone()));
    let built = format!("built\n./{ok}running: echo built\n");
    assert_eq!(project.policy(&["build"]), (0, built));
    let (status, text) = project.policy(&["inspect", "data-loading.wasm"]);
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
fn invalid_policy_fails_with_reason() {
    let project = PolicyProject::new();
    project.write("text.wasm", "no WebAssembly");
    let wasm = fs::read(project.at("data-loading.wasm")).unwrap();
    fs::write(project.at("torn.wasm"), &wasm[..wasm.len() / 2]).unwrap();
    project.write("wrong.json", r#"{"min_lost": 2, "other": true}"#);
    project.write("tests/torn.window.json", "{");
    fs::create_dir(project.at("made")).unwrap();
    project.write("made/policy.json", "{}");
    for (args, status, message) in [
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
        (&["new", "--lang", "c", "Big"], 2, "starting with a letter"),
        (&["new", "--lang", "c", "made"], 73, "made: already exists"),
        (&["sign", "data-loading.wasm", "--key", "policy.json"], 65, "invalid ed25519 private key"),
    ] {
        let (ended, text) = project.policy(args);
        assert!(ended == status && text.contains(message), "{args:?}: {ended}: {text}");
    }
}

#[test]
fn policy_test_shows_differences() {
    let project = PolicyProject::new();
    let (status, text) = project.policy(&["test"]);
    assert_eq!(status, 1);
    assert!(text.contains("fleet.window.json: no expected output; run with --update"), "{text}");

    assert_eq!(project.policy(&["test", "--update"]).0, 0);
    let (status, text) = project.policy(&["test"]);
    assert!(status == 0 && text.ends_with("2 tests, 0 failed\n"), "{text}");
    let (_, output) = project.policy(&[
        "run",
        "data-loading.wasm",
        "--window",
        "tests/fleet.window.json",
        "--format",
        "json",
    ]);
    assert_eq!(output, fs::read_to_string(project.at("tests/fleet.recommendations.json")).unwrap());

    project
        .write("tests/fleet.recommendations.json", &output.replace("\"starvation\"", "\"idle\""));
    let (status, text) = project.policy(&["test"]);
    assert_eq!(status, 1);
    assert!(
        text.contains("  -    \"target\": \"idle\",\n  +    \"target\": \"starvation\",\n"),
        "{text}"
    );

    // Settings of a window apply to that window only.
    project.write("tests/nothing.settings.json", r#"{"min_lost": 1.5}"#);
    let (status, text) = project.policy(&["test"]);
    assert!(
        status == 65 && text.contains("min_lost: invalid value 1.5: expected at most 1"),
        "{text}"
    );
}

/// Scenario: files of tests by another author: one that never begins, one that is too large, one with control
/// characters, and expected output with some.
/// Guarantee: each is rejected by its name, or compared, and none of its text moves a cursor.
#[test]
fn files_of_tests_are_limited_and_their_text_is_cleaned() {
    let project = PolicyProject::new();
    let odd = project.at("tests/odd.window.json");
    let create: [&dyn Fn(); 3] = [
        &|| assert!(Command::new("mkfifo").arg(&odd).status().unwrap().success()),
        &|| fs::File::create(&odd).unwrap().set_len(1 << 40).unwrap(),
        &|| fs::write(&odd, r#"{"x\u001b[2J\u202e": "x\u001b[2J"}"#).unwrap(),
    ];
    for create in create {
        create();
        let (status, text) = project.policy(&["test"]);
        assert!(status != 0 && text.contains("odd.window.json"), "{status}: {text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        fs::remove_file(&odd).unwrap();
    }
    assert_eq!(project.policy(&["test", "--update"]).0, 0);
    let expected = project.at("tests/fleet.recommendations.json");
    let hostile = fs::read_to_string(&expected).unwrap();
    let hostile = hostile.replace("\"title\": \"", "\"title\": \"x\\u001b[2J\\u202e");
    project.write("tests/fleet.recommendations.json", &hostile);
    let (status, text) = project.policy(&["test"]);
    assert!(status == 1 && text.contains("differs"), "{status}: {text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
}

#[test]
fn policy_test_supports_pricers() {
    let project = PolicyProject::pricer();
    let (status, text) = project.policy(&["test"]);
    assert_eq!(status, 1);
    assert!(
        text.contains("commitment.request.json: no expected output; run with --update"),
        "{text}"
    );

    assert_eq!(project.policy(&["test", "--update"]).0, 0);
    let (status, text) = project.policy(&["test"]);
    assert!(status == 0 && text.ends_with("1 test, 0 failed\n"), "{text}");

    let quote = fs::read_to_string(project.at("tests/commitment.quote.json")).unwrap();
    project.write("tests/commitment.quote.json", &quote.replace("reserved_1y", "reserved_3y"));
    let (status, text) = project.policy(&["test"]);
    assert_eq!(status, 1);
    assert!(
        text.contains("  -    \"plan\": \"reserved_3y\",\n  +    \"plan\": \"reserved_1y\",\n"),
        "{text}"
    );

    // Without terms it returns no quote.
    fs::remove_file(project.at("tests/commitment.settings.json")).unwrap();
    let (status, text) = project.policy(&["test"]);
    assert!(status == 1 && text.contains("\n  +  \"quote\": null\n"), "{text}");
}

#[test]
fn quote_is_printed_as_text_and_json() {
    let project = PolicyProject::pricer();
    let request = ["run", "negotiated.wasm", "--request", "tests/commitment.request.json"];
    let terms = ["--settings", "tests/commitment.settings.json"];
    let text = "$0.41 per GPU-hour, reserved 1y\n  source   order 4711\n  as of    2026-01-01\n  \
                expires  2027-01-01T00:00:00Z\n";
    assert_eq!(project.policy(&[&request[..], &terms].concat()), (0, text.to_owned()));
    let none = "no quote; the next pricer is queried\n".to_owned();
    assert_eq!(project.policy(&request), (0, none));

    let json = [&request[..], &terms, &["--format", "json"]].concat();
    let quote = wasm_rules("policies/negotiated/tests/commitment.quote.json");
    assert_eq!(project.policy(&json), (0, fs::read_to_string(quote).unwrap()));
}

/// Guarantee: input for the other kind of policy is rejected with the policy's kind and the expected
/// input.
#[test]
fn input_for_other_kind_of_policy_is_rejected() {
    let (recommender, pricer) = (PolicyProject::new(), PolicyProject::pricer());
    let (window, request) = ("tests/fleet.window.json", "tests/commitment.request.json");
    fs::copy(recommender.at(window), pricer.at(window)).unwrap();
    fs::copy(pricer.at(request), recommender.at(request)).unwrap();
    let log = wasm_rules("../tests/fixtures/logs/bounces.csv");
    let log = log.to_str().unwrap();
    let expects_window = [
        "data-loading.wasm: a recommender does not accept ",
        "; provide a window: NAME.window.json, --window or --log",
    ];
    let expects_request = [
        "negotiated.wasm: a pricer does not accept ",
        "; provide a quote request: NAME.request.json or --request",
    ];
    for (project, args, messages) in [
        (&recommender, &["run", "data-loading.wasm", "--request", request][..], expects_window),
        (&recommender, &["bench", "data-loading.wasm", "--request", request], expects_window),
        (&recommender, &["test"], expects_window),
        (&pricer, &["run", "negotiated.wasm", "--window", window], expects_request),
        (&pricer, &["bench", "negotiated.wasm", "--window", window], expects_request),
        (&pricer, &["run", "negotiated.wasm", "--log", log], expects_request),
    ] {
        let (status, text) = project.policy(args);
        let all = messages.iter().all(|message| text.contains(message));
        assert!(status == 65 && all, "{args:?}: {status}: {text}");
    }
    fs::remove_file(pricer.at(request)).unwrap();
    let (status, text) = pricer.policy(&["test"]);
    assert!(status == 65 && expects_request.iter().all(|message| text.contains(message)), "{text}");
    fs::remove_file(pricer.at(window)).unwrap();
    let (status, text) = pricer.policy(&["test"]);
    assert!(status == 66 && text.contains("no tests; add NAME.window.json"), "{text}");
}

/// Guarantee: every default policy with tests passes them as built.
#[test]
fn default_policies_pass_their_tests() {
    let project = PolicyProject::pricer();
    let dirs = fs::read_dir(wasm_rules("policies")).unwrap().map(|entry| entry.unwrap().path());
    let dirs: Vec<_> = dirs.filter(|dir| dir.join("policy.json").exists()).collect();
    assert!(!dirs.is_empty());
    for dir in dirs {
        let (status, text) = project.policy(&["test", dir.to_str().unwrap()]);
        assert_eq!(status, 0, "{text}");
    }
}

/// Guarantee: a policy run on a log gets the same window as in an audit.
#[test]
fn policy_run_on_log_matches_audit_window() {
    let project = PolicyProject::needing();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/logs/bounces.csv");
    fs::copy(log, project.at("bounces.csv")).unwrap();
    let audit = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
        .args(["audit", "bounces.csv", "--price", "3", "--no-default-policies"])
        .args(["--dump-windows", "bounces.window.json"])
        .current_dir(project.0.path())
        .output()
        .unwrap();
    assert!(audit.status.success(), "{audit:?}");
    let run = |input: &[&str]| {
        let (status, text) =
            project.policy(&[&["run", "measure.wasm", "--format", "json"], input].concat());
        assert_eq!(status, 0, "{text}");
        text
    };
    let output = run(&["--log", "bounces.csv", "--price", "3"]);
    assert!(output.contains("\"missing\": \"phasemeter.workload\""), "{output}");
    assert_eq!(output, run(&["--window", "bounces.window.json"]));
}

#[test]
fn bench_prints_usage_and_limits() {
    let project = PolicyProject::new();
    let window = ["--window", "tests/fleet.window.json", "--runs", "3"];
    let (status, text) = project.policy(&[&["bench", "data-loading.wasm"], &window[..]].concat());
    assert_eq!(status, 0, "{text}");
    for line in
        ["data-loading.wasm: 3 evaluations", "  fuel    ", " of 500,000,000\n", " of 65,536 KiB\n"]
    {
        assert!(text.contains(line), "{text}");
    }
    let request = ["--request", "tests/commitment.request.json", "--runs", "3"];
    let (status, text) =
        PolicyProject::pricer().policy(&[&["bench", "negotiated.wasm"], &request[..]].concat());
    assert!(status == 0 && text.starts_with("negotiated.wasm: 3 evaluations\n"), "{text}");
}
