//! The built-in profiles, files of one's own, settings, and the rules for Prometheus.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::PathBuf;

use phasemeter_alerts::{Profiles, Selection, Setting, SettingError, SkippedRule, prometheus};
use proptest::prelude::*;

fn selection(profile: &str, settings: &[&str]) -> Result<Selection, SettingError> {
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    Selection::of(Profiles::built_in().profile(profile).unwrap(), &settings)
}

fn described(selection: &Selection) -> Vec<String> {
    let each = |it: &phasemeter_alerts::ActiveRule| format!("{}: {}", it.rule.id(), it.rule);
    selection.active.iter().map(each).collect()
}

fn skipped(selection: &Selection) -> Vec<&str> {
    selection.skipped.iter().map(|SkippedRule { id, .. }| id.as_str()).collect()
}

#[test]
fn profiles_have_the_thresholds_of_the_guides() {
    let profiles = Profiles::built_in();
    let names: Vec<_> = profiles.names().map(|(name, _)| name).collect();
    assert_eq!(names, ["analytics", "optimization", "right-sizing"]);
    let analytics = selection("analytics", &[]).unwrap();
    assert_eq!(
        described(&analytics),
        [
            "analytics.low_utilization: mean utilization below 50% over 1h",
            "analytics.high_memory: mean memory above 85% over 5m",
        ]
    );
    let optimization = selection("optimization", &[]).unwrap();
    assert_eq!(
        described(&optimization),
        [
            "optimization.low_utilization: mean utilization below 40% over 30m",
            "optimization.saturated: mean utilization above 95% over 5m, for 1h",
            "optimization.hot: mean temperature above 83 °C over 5m",
        ]
    );
    assert_eq!(
        skipped(&optimization),
        ["optimization.high_memory", "optimization.power_near_limit"]
    );
}

#[test]
fn required_values_are_set_and_disabled_rules_enabled() {
    let settings = ["for=10m", "power_near_limit.enabled=true", "optimization.hot.threshold=80"];
    let selection = selection("optimization", &settings).unwrap();
    let all = described(&selection);
    for expected in [
        "optimization.high_memory: mean memory above 85% over 5m, for 10m",
        "optimization.power_near_limit: mean power above 90% over 5m",
        "optimization.hot: mean temperature above 80 °C over 5m",
    ] {
        assert!(all.iter().any(|it| it == expected), "{all:#?}");
    }
    assert_eq!(skipped(&selection), [""; 0]);
}

#[test]
fn skipped_rules_state_what_to_set() {
    let skipped = selection("optimization", &[]).unwrap().skipped;
    let reasons: Vec<_> = skipped.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "for has no default; set --alert-set optimization.high_memory.for=10m",
            "disabled; set --alert-set optimization.power_near_limit.enabled=true",
        ]
    );
}

#[test]
fn invalid_settings_are_rejected_with_what_to_do() {
    for (text, expected) in [
        ("x", "expected [RULE.]KEY=VALUE"),
        ("hot.limit=1", "expected [RULE.]KEY=VALUE"),
        ("hot.for=ten", "expected whole minutes, hours or days"),
        ("hot.threshold=inf", "expected a threshold in percent or degrees"),
        ("hot.enabled=yes", "expected true or false"),
    ] {
        let error = text.parse::<Setting>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    for (text, expected) in [
        ("cold.for=1m", "--alert-set cold.for=1m: no rule needs it; expected one of optimization."),
        (
            "enabled=true",
            "--alert-set enabled=true: no rule needs it; expected one of optimization.",
        ),
        ("hot.threshold=900", "--alert-set hot.threshold=900: expected degrees Celsius"),
        ("hot.window=0m", "--alert-set optimization.hot: invalid window: expected whole minutes"),
        ("hot.for=8d", "--alert-set optimization.hot: invalid for: expected whole minutes"),
    ] {
        let error = selection("optimization", &[text]).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

const RULE: &str = r#"[[rule]]
name = "idle"
brief = "It is idle"
metric = "utilization"
below = 10
window = "10m"
"#;

#[test]
fn file_of_ones_own_needs_no_profile() {
    let profiles = Profiles::parse("own.toml", RULE).unwrap();
    let selection = Selection::of(profiles.rules().to_vec(), &[]).unwrap();
    assert_eq!(described(&selection), ["idle: mean utilization below 10% over 10m"]);
}

#[test]
fn problems_name_file_line_and_what_to_do() {
    let cases = [
        ("", "own.toml:1: no rules; add a [[rule]]".to_owned()),
        ("metric = \"utilization\"", "own.toml:4: ".to_owned()),
        (
            "metric = \"heat\"",
            "own.toml:4: invalid metric \"heat\": expected one of utilization, memory, power, \
             temperature, sm_activity, tensor_activity, dram_activity"
                .to_owned(),
        ),
        ("below = 101", "own.toml:5: invalid threshold: expected a percentage".to_owned()),
        ("below = \"some\"", "own.toml:5: invalid rules: invalid type".to_owned()),
        (
            "window = \"90s\"",
            "own.toml:6: invalid window \"90s\": expected whole minutes, hours or days, like 30m, \
             1h or 7d, from 1m to 1d"
                .to_owned(),
        ),
        ("window = \"2d\"", "own.toml:6: invalid window \"2d\": ".to_owned()),
        ("name = \"Idle!\"", "own.toml:2: invalid name: expected lowercase".to_owned()),
        ("belov = 10", "own.toml:5: invalid rules: unknown field `belov`".to_owned()),
        ("below = ", "own.toml:5: invalid rules: ".to_owned()),
    ];
    for (changed, expected) in cases {
        let text = match changed.split_once(" =") {
            None => String::new(),
            Some(("metric", " \"utilization\"")) => {
                RULE.replace("metric = \"utilization\"\n", "metric = 1\n")
            }
            Some(("belov", _)) => RULE.replace("below = 10", changed),
            Some((key, _)) => {
                let lines = RULE
                    .lines()
                    .map(|line| if line.starts_with(&format!("{key} =")) { changed } else { line });
                lines.collect::<Vec<_>>().join("\n")
            }
        };
        let error = Profiles::parse("own.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with(&expected), "{changed}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let twice = format!("{RULE}{RULE}");
    let error = Profiles::parse("own.toml", &twice).unwrap_err().to_string();
    assert_eq!(error, "own.toml:8: rule idle is defined twice; rename one");
    let both = RULE.replace("below = 10", "below = 10\nabove = 20");
    let error = Profiles::parse("own.toml", &both).unwrap_err().to_string();
    assert_eq!(error, "own.toml:2: expected either below or above");
    let many: String = (0..65).map(|at| RULE.replace("idle\"", &format!("idle{at}\""))).collect();
    let error = Profiles::parse("own.toml", &many).unwrap_err().to_string();
    assert_eq!(error, "own.toml:386: more than 64 rules; use several files");
    let unknown = RULE.replace("name =", "profile = \"mine\"\nname =");
    let error = Profiles::parse("own.toml", &unknown).unwrap_err().to_string();
    assert_eq!(error, "own.toml:2: unknown profile \"mine\"; add it to [profile]");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}", at in 0_usize..100, cut in 0_usize..100) {
        let _ = Profiles::parse("own.toml", &text);
        let (at, cut) = (at.min(RULE.len()), cut.min(RULE.len()));
        let mixed = format!("{}{text}{}", &RULE[..at], &RULE[cut..]);
        if let Err(error) = Profiles::parse("own.toml", &mixed) {
            prop_assert!(!error.to_string().contains('\n'));
        }
        let _ = text.parse::<Setting>();
    }
}

/// `make generate` writes it.
#[test]
fn rules_for_prometheus_are_those_of_the_profiles() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../otel-config/alerts/prometheus-rules.yaml");
    let generated = prometheus::rules(&Profiles::built_in());
    if std::env::var_os("PHASEMETER_UPDATE").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), generated, "run make generate");
}
