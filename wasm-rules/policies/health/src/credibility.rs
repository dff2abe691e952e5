//! GPUs that report no work at a power that only work explains: to trust that number is to stop somebody's work.

use phasemeter_diagnoses::{
    SIMILAR, UnexplainedPower, confidence, contradictions, unexplained_power,
};
use phasemeter_policy::format::{decimal, duration, percent, subject, these};
use phasemeter_policy::{Gpu, Need, Recommendation, Response, Window, evidence, groups, mean};

use crate::risk;

/// Warns of them, and names what shows whether they work.
pub(crate) fn recommend(window: &Window) -> Response {
    // Measured activity tells more.
    let unknown = window.gpus.iter().filter(|gpu| contradictions(gpu).next().is_none());
    let found = unknown.filter_map(|gpu| Some((gpu, unexplained_power(gpu)?)));
    let share = |power: &UnexplainedPower| power.watts / power.limit;
    let groups = groups(found, |a, b| {
        a.1.limit == b.1.limit && (share(&a.1) - share(&b.1)).abs() <= SIMILAR
    });
    let unmeasured = groups.iter().flatten().map(|(gpu, _)| *gpu);
    let need = Need::by_vendor(
        "sm.activity",
        "shows whether they work, since their power contradicts 0%",
        ": dcgmi dmon -e 1002",
        unmeasured.filter(|gpu| gpu.sensors.sm_activity.is_none()),
    );
    Response::of(groups.iter().map(|group| warn(group)), need)
}

fn warn(group: &[(&Gpu, UnexplainedPower)]) -> Recommendation {
    let (first, power) = &group[0];
    let watts = mean(group, |(_, power)| power.watts);
    let level = mean(group, |(gpu, _)| gpu.accounts.idle().level());
    let idle = mean(group, |(gpu, _)| gpu.accounts.idle().seconds);
    let draw = format!("{} of {} W", decimal(watts, 0), decimal(power.limit, 0));
    let level = if level < 0.005 { "0%".to_owned() } else { percent(level) };
    let action = format!(
        "Do not stop or share anything here yet. Record the activity of its compute units{}. If it is above 0, this is \
         work that utilization misses: look for partitions, virtual GPUs and the driver's version. If it is 0, \
         clocks are stuck: reset the GPU.",
        first.vendor().tool(" (dcgmi dmon -e 1002)", ""),
    );
    Recommendation {
        evidence: evidence([
            ("idle.power", watts, "W"),
            ("idle.power_share_of_limit", watts / power.limit, "1"),
            ("idle.time", idle, "s"),
        ]),
        reversible: true,
        ..risk(
            "health.credibility",
            "measure",
            group.iter().map(|(gpu, _)| *gpu),
            [&format!("Measure {}: {level} busy at {draw}", these(group.len())), &action],
            format!(
                "{} reports {level} for {} and draws {draw} meanwhile. Without work, GPUs draw less than half of their \
                 limit, so most likely it works and the counter is wrong. No recommendation here relies on its idle \
                 time.",
                subject(group.len()),
                duration(idle),
            ),
            confidence::VERY_LIKELY,
        )
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_power};

    use super::*;

    fn found(watts: f64, sm_activity: Option<f64>) -> Response {
        let mut gpu = with_power(steady(7_200, 0.0), watts);
        gpu.sensors.sm_activity = sm_activity;
        recommend(&window(vec![gpu; 2]))
    }

    #[test]
    fn power_of_work_without_work_is_a_risk_and_a_need() {
        let response = found(420.0, None);
        let one = &response.recommendations[0];
        assert_eq!((one.lever.as_str(), one.gpus.len()), ("measure", 2));
        assert_eq!(one.title, "Measure these GPUs: 0% busy at 420 of 700 W");
        assert!(one.rationale.contains("for 2 h and draws 420 of 700 W"), "{}", one.rationale);
        assert_eq!(response.needs[0].missing, "sm.activity");
        assert!(found(420.0, Some(0.4)).needs.is_empty(), "it was measured");
        assert!(found(120.0, None).recommendations.is_empty(), "an idle GPU that is held");
    }
}
