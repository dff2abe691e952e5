//! The rules as alerting rules of Prometheus, on the metrics that Phasemeter exports.
//!
//! Prometheus has no timer that pauses: if less than half of the window has samples, its alert
//! resolves.

use std::fmt::Write;

use phasemeter_meter::alert::short_time;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::Nanos;

use crate::definition::RuleDefinition;
use crate::profiles::Profiles;

const HEADER: &str = "\
# Generated from profiles.toml; do not edit. Load the groups that you want:
#
#   rule_files: [prometheus-rules.yaml]
#
# A rule requires samples for half of its window at the default export interval of 60 s. Rules that
# are disabled or need a value of yours are left out.
groups:
";

/// A rules file with a group per profile.
#[must_use]
pub fn rules(profiles: &Profiles) -> String {
    let mut text = HEADER.to_owned();
    for (name, _) in profiles.names() {
        let rules = profiles.profile(name).unwrap_or_default();
        let rules: Vec<_> = rules.iter().filter_map(rule).collect();
        if !rules.is_empty() {
            let _ = write!(text, "  - name: phasemeter-{name}\n    rules:\n{}", rules.concat());
        }
    }
    text
}

/// One rule; `None` if it is not complete.
fn rule(rule: &RuleDefinition) -> Option<String> {
    let hold = rule.hold.filter(|_| rule.enabled)?;
    let metric = rule.metric;
    let sign = if rule.is_below { "<" } else { ">" };
    let threshold = f64::from(rule.threshold) / 1_000_000.0;
    let window = short_time(rule.window);
    let samples = (rule.window.0 / Nanos::from_secs(60).0).div_ceil(2);
    let series = metric.series();
    let mean = format!("avg_over_time({series}[{window}])");
    let condition = match metric.quantity() {
        Quantity::Power => format!(
            "{mean} {sign} on (hw_id) group_left {threshold} * max by (hw_id) \
             (phasemeter_gpu_power_limit_watts)"
        ),
        _ => format!("{mean} {sign} {threshold}"),
    };
    let guard = format!("count_over_time({series}[{window}]) >= {samples}");
    let mut text = String::new();
    let _ = writeln!(text, "      - alert: {}", camel_case(&rule.name));
    let _ = writeln!(text, "        expr: '({condition}) and {guard}'");
    if hold > Nanos::ZERO {
        let _ = writeln!(text, "        for: {}", short_time(hold));
    }
    let profile = rule.profile.as_deref().unwrap_or_default();
    let _ = writeln!(text, "        labels: {{severity: warning, profile: {profile}}}");
    let brief = rule.brief.replace('\'', "''");
    let _ = writeln!(text, "        annotations: {{summary: '{brief}'}}");
    Some(text)
}

fn camel_case(name: &str) -> String {
    let words = name.split(['_', '-']).map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    words.collect()
}
