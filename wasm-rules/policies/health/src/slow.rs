//! GPUs that run below their clock: capped, hot, short of power, or slower than others of their job.

use phasemeter_diagnoses::{
    CAPPED, FULL_CLOCK, Lag, THROTTLED, capped_below, fastest_clock, lag, sibling_temperature,
    slowed_by_heat, slowed_by_power_supply,
};
use phasemeter_policy::{Gpu, Need, Response, Vendor, Window, groups, same_model};

use crate::warn::{Cause, HOT, HOTTER, warn};

/// Warns of slow GPUs: of each, the cause that explains the most.
pub(crate) fn recommend(window: &Window) -> Response {
    let fastest = fastest_clock(window);
    let slow = window.gpus.iter().filter_map(|gpu| {
        let lag = lag(gpu, window, fastest);
        let cause = supply(gpu).or_else(|| heat(gpu, window, lag)).or_else(|| limit(gpu, window));
        Some((gpu, cause.or_else(|| Some(Cause::Unknown { lag: lag?, gpu }))?))
    });
    let groups = groups(slow, |a, b| a.1.is_like(&b.1));
    Response::of(groups.iter().map(|group| warn(group, window)), needs(&groups))
}

/// Columns that tell the cause.
fn needs(groups: &[Vec<(&Gpu, Cause<'_>)>]) -> Vec<Need> {
    let slow = groups.iter().flatten();
    let unexplained = slow.filter(|(gpu, cause)| {
        let is_guess = matches!(cause, Cause::Unknown { .. } | Cause::Heat { share: None });
        // The column is NVIDIA's.
        let lacks = gpu.sensors.throttling.is_empty() && gpu.vendor() == Vendor::Nvidia;
        is_guess && lacks
    });
    let reason = "tells heat, the power supply and locked clocks apart: add it to nvidia-smi \
                  --query-gpu, or use phasemeter record";
    let gpus = unexplained.map(|(gpu, _)| *gpu);
    Need::if_any("clocks_event_reasons.active", reason, gpus).into_iter().collect()
}

fn supply(gpu: &Gpu) -> Option<Cause<'_>> {
    let share = slowed_by_power_supply(gpu);
    (share >= THROTTLED).then_some(Cause::Supply { share })
}

/// Heat: recorded as the reason, or a hot GPU with a low clock.
fn heat<'a>(gpu: &Gpu, window: &Window, lag: Option<Lag>) -> Option<Cause<'a>> {
    let share = slowed_by_heat(gpu);
    if share >= THROTTLED {
        return Some(Cause::Heat { share: Some(share) });
    }
    let celsius = gpu.sensors.temperature_celsius?;
    let clocks = gpu.sensors.sm_clock_mhz.zip(gpu.sensors.max_sm_clock_mhz);
    let is_slow = lag.is_some() || clocks.is_some_and(|(clock, most)| clock <= FULL_CLOCK * most);
    let is_hotter = || {
        let others = sibling_temperature(gpu, window);
        lag.is_some() && others.is_some_and(|others| celsius >= others + HOTTER)
    };
    (is_slow && (celsius >= HOT || is_hotter())).then_some(Cause::Heat { share: None })
}

/// A lower power limit than others of its model have, or than the model is built for, if it runs at it.
fn limit<'a>(gpu: &'a Gpu, window: &Window) -> Option<Cause<'a>> {
    let limit = gpu.power_limit_watts?;
    // Limits mostly are equal, and numbers are compared faster than names.
    let higher = window.gpus.iter().filter(|other| {
        let is_higher = other.power_limit_watts.is_some_and(|other| limit <= CAPPED * other);
        is_higher && same_model(&other.model, &gpu.model)
    });
    let highest = higher.filter_map(|other| other.power_limit_watts).reduce(f64::max);
    let is_at_limit = || gpu.sensors.busy_power.is_some_and(|it| it.p50 >= CAPPED * limit);
    match highest.filter(|_| is_at_limit()) {
        Some(highest) => {
            Some(Cause::Limit { limit, highest, of: "others of this model have up to" })
        }
        None => {
            let highest = capped_below(gpu)?;
            Some(Cause::Limit { limit, highest, of: "this model is built for" })
        }
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};
    use phasemeter_policy::{Percentiles, Recommendation, ThrottleReason, Throttling, Workload};

    use super::*;

    fn of(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&window(gpus)).recommendations
    }

    fn codes(gpus: Vec<Gpu>) -> Vec<String> {
        of(gpus).into_iter().map(|one| one.code).collect()
    }

    /// A busy H100.
    fn busy(mhz: f64, celsius: f64, watts: f64) -> Gpu {
        let mut gpu = steady(3_600, 0.98);
        let sensors = &mut gpu.sensors;
        sensors.sm_clock_mhz = Some(mhz);
        sensors.max_sm_clock_mhz = Some(1_980.0);
        sensors.temperature_celsius = Some(celsius);
        sensors.max_temperature_celsius = Some(celsius + 2.0);
        sensors.busy_power = Some(Percentiles { p5: watts, p50: watts, p95: watts, max: watts });
        gpu
    }

    fn throttled(reason: ThrottleReason, share: f64) -> Gpu {
        let mut gpu = busy(1_600.0, 60.0, 450.0);
        gpu.sensors.throttling = vec![Throttling { reason, share }];
        gpu
    }

    #[test]
    fn capped_hot_and_slow_gpus_are_named() {
        let healthy = || busy(1_960.0, 60.0, 450.0);
        let found = of(vec![healthy(), healthy(), busy(1_200.0, 60.0, 450.0)]);
        assert_eq!((found[0].code.as_str(), &*found[0].gpus[0]), ("health.straggler", "GPU-2"));
        assert_eq!(codes(vec![busy(940.0, 88.0, 450.0)]), ["health.heat"]);
        let capped = Gpu { power_limit_watts: Some(460.0), ..busy(1_450.0, 60.0, 455.0) };
        let found = of(vec![healthy(), capped.clone(), capped.clone()]);
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("health.power-limit", 2));
        assert_eq!(found.len(), 1);
        assert!(found[0].rationale.contains("others of this model"), "{}", found[0].rationale);
        let found = of(vec![capped.clone(), capped.clone()]);
        assert!(found[0].rationale.contains("built for 700 W"), "{}", found[0].rationale);
        let below = Gpu { sensors: busy(1_450.0, 60.0, 300.0).sensors, ..capped };
        assert!(codes(vec![below]).is_empty(), "the limit is not reached");
        assert!(codes(vec![healthy(), healthy()]).is_empty());
    }

    #[test]
    fn recorded_reasons_are_risks_from_a_tenth_of_the_time() {
        let heat = |share| throttled(ThrottleReason::HardwareThermal, share);
        assert_eq!(codes(vec![heat(0.3), heat(0.35), heat(0.02)]), ["health.heat"]);
        let found = of(vec![heat(0.3), heat(0.35)]);
        assert_eq!(found[0].gpus.len(), 2);
        assert!(found[0].title.contains("for 32% of its time"), "{}", found[0].title);
        assert_eq!(
            codes(vec![throttled(ThrottleReason::PowerBrake, 1.0)]),
            ["health.power-supply"]
        );
        assert!(codes(vec![throttled(ThrottleReason::PowerCap, 1.0)]).is_empty(), "as usual");
    }

    #[test]
    fn others_of_the_job_are_the_reference() {
        let healthy = || busy(1_970.0, 60.0, 450.0);
        let mut slow = throttled(ThrottleReason::HardwareThermal, 0.8);
        slow.sensors.sm_clock_mhz = Some(1_182.0);
        slow.sensors.max_sm_clock_mhz = Some(1_260.0);
        let found = of(vec![healthy(), healthy(), slow.clone()]);
        let text = &found[0].rationale;
        assert!(text.contains("that of the others 1,970"), "{text}");
        assert!(text.contains("other 2 GPUs probably wait for it 40% of their time"), "{text}");
        assert!(text.contains("$2.88 per hour"), "{text}");
        let serving = [healthy(), healthy(), slow];
        let serving = serving.map(|gpu| Gpu { workload: Workload::Serving, ..gpu });
        assert!(!of(serving.to_vec())[0].rationale.contains("wait"), "replicas do not");
    }

    #[test]
    fn slow_gpus_are_not_the_reference_of_each_other() {
        let slow = || throttled(ThrottleReason::SoftwareThermal, 0.25);
        let mut idle = busy(0.0, 50.0, 200.0);
        idle.sensors.sm_clock_mhz = None;
        let text = of(vec![idle, slow(), slow()]).remove(0).rationale;
        assert!(text.contains("1,600 MHz of up to 1,980"), "{text}");
    }

    #[test]
    fn heat_beside_cool_gpus_is_named_without_reasons() {
        let healthy = || busy(1_970.0, 58.0, 450.0);
        let mut slow = busy(1_130.0, 79.0, 450.0);
        slow.sensors.max_sm_clock_mhz = Some(1_170.0);
        let response = recommend(&window(vec![healthy(), healthy(), slow]));
        let one = &response.recommendations[0];
        assert_eq!(one.code, "health.heat");
        assert!(one.rationale.contains("21 °C above the others"), "{}", one.rationale);
        assert_eq!(response.needs[0].missing, "clocks_event_reasons.active");
        assert_eq!(response.needs[0].gpus, ["GPU-2"]);
    }
}
