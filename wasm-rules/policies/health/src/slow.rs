//! GPUs that run below their clock: capped, hot, short of power, or slower than others of their job.
//!
//! Must not depend on what the job computes.

use phasemeter_policy::format::{decimal, percent, subject};
use phasemeter_policy::{Gpu, Recommendation, Remediation, Window, evidence, groups, same_model};
use phasemeter_specs::{THROTTLED, capped_below, slowed_by_heat, slowed_by_power_supply};

use crate::risk;

/// Confidence in heat, power and limits, and in a slow clock. Assumptions.
const SURE: f64 = 0.8;
const SURE_SLOW: f64 = 0.7;

/// Power limit relative to the others from which a GPU is capped, and the power while busy relative to its limit
/// from which that slows it.
const CAPPED: f64 = 0.9;

/// Clock relative to the others, or to its own maximum, from which a GPU is slow.
const SLOW: f64 = 0.8;

/// Temperature from which a slow GPU is hot, in degrees Celsius. Data center GPUs slow down between 83
/// and 95.
const HOT: f64 = 83.0;

/// Difference of shares up to which GPUs get one recommendation. An assumption.
const SIMILAR: f64 = 0.2;

/// What slows a GPU.
#[derive(Clone, Copy)]
enum Cause<'a> {
    /// Its power limit, below that of others of its model, or of the model.
    Limit { limit: f64, highest: f64, of: &'static str },
    /// Heat, for a share of the time with work if that was recorded.
    Heat { share: Option<f64> },
    /// The power supply, for a share of the time with work.
    Supply { share: f64 },
    /// Unknown: its clock is below the median of the others.
    Unknown { others: f64, gpu: &'a Gpu },
}

impl Cause<'_> {
    fn is_like(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= SIMILAR;
        match (self, other) {
            (
                Self::Limit { limit, highest, .. },
                Self::Limit { limit: other, highest: others, .. },
            ) => limit == other && highest == others,
            (Self::Heat { share: a }, Self::Heat { share: b }) => {
                a.is_some() == b.is_some() && near(a.unwrap_or(0.0), b.unwrap_or(0.0))
            }
            (Self::Supply { share: a }, Self::Supply { share: b }) => near(*a, *b),
            (Self::Unknown { gpu: a, .. }, Self::Unknown { gpu: b, .. }) => a.id == b.id,
            _ => false,
        }
    }
}

/// Warns of slow GPUs: of each, the cause that explains the most.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    let clocks = window.gpus.iter().filter_map(|gpu| gpu.sensors.sm_clock_mhz);
    let fastest = clocks.fold(0.0, f64::max);
    let slow = window.gpus.iter().filter_map(|gpu| {
        let cause = supply(gpu).or_else(|| heat(gpu)).or_else(|| limit(gpu, window));
        Some((gpu, cause.or_else(|| straggler(gpu, window, fastest))?))
    });
    let groups = groups(slow, |a, b| a.1.is_like(&b.1));
    groups.iter().filter_map(|group| warn(group)).collect()
}

fn supply(gpu: &Gpu) -> Option<Cause<'_>> {
    let share = slowed_by_power_supply(gpu);
    (share >= THROTTLED).then_some(Cause::Supply { share })
}

/// Heat: recorded as the reason, or a hot GPU with a low clock.
fn heat(gpu: &Gpu) -> Option<Cause<'_>> {
    let share = slowed_by_heat(gpu);
    if share >= THROTTLED {
        return Some(Cause::Heat { share: Some(share) });
    }
    let sensors = &gpu.sensors;
    let (clock, highest) = (sensors.sm_clock_mhz?, sensors.max_sm_clock_mhz?);
    let is_hot = clock <= SLOW * highest && sensors.temperature_celsius? >= HOT;
    is_hot.then_some(Cause::Heat { share: None })
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

/// A clock below that of the others of its job; `fastest` is the highest clock of all.
fn straggler<'a>(gpu: &'a Gpu, window: &Window, fastest: f64) -> Option<Cause<'a>> {
    let clock = gpu.sensors.sm_clock_mhz.filter(|clock| *clock < SLOW * fastest)?;
    let others = window.gpus.iter().filter(|other| other.id != gpu.id && other.is_alike(gpu));
    let mut clocks: Vec<_> = others.filter_map(|other| other.sensors.sm_clock_mhz).collect();
    clocks.sort_by(f64::total_cmp);
    let others = *clocks.get(clocks.len() / 2)?;
    (clock < SLOW * others).then_some(Cause::Unknown { others, gpu })
}

fn warn(group: &[(&Gpu, Cause<'_>)]) -> Option<Recommendation> {
    let (_, cause) = *group.first()?;
    let braked = |gpu: &Gpu| Some(slowed_by_power_supply(gpu));
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let subject = subject(group.len());
    let clock = clock(group);
    Some(match cause {
        Cause::Limit { limit, highest, of } => Recommendation {
            evidence: evidence([
                ("power.limit", limit, "W"),
                ("power.highest_limit", highest, "W"),
            ]),
            remediation: Some(Remediation::new(
                "nvidia.power-limit",
                [("watts", decimal(highest, 0).replace(',', ""))],
            )),
            ..risk(
                "health.power-limit",
                "power_limit",
                gpus(),
                [
                    "Confirm or raise the power limit of these GPUs",
                    "Raise the limit with nvidia-smi --power-limit, or confirm that it is meant, for example \
                     by the power of the rack.",
                ],
                format!(
                    "{subject} runs at its limit of {} W, and {of} {} W{clock}: it is slower, and a job waits \
                     for its slowest GPU.",
                    decimal(limit, 0),
                    decimal(highest, 0),
                ),
                SURE,
            )
        },
        Cause::Heat { share } => {
            let share = share.map(|_| mean(group, |gpu| Some(slowed_by_heat(gpu))));
            let for_share = share.map_or_else(String::new, |share| {
                [" for ", &percent(share), " of the time with work"].concat()
            });
            let hottest = gpus().filter_map(|gpu| gpu.sensors.max_temperature_celsius);
            let celsius = hottest.fold(0.0, f64::max);
            let at = if celsius > 0.0 {
                [", at up to ", &decimal(celsius, 0), " °C"].concat()
            } else {
                String::new()
            };
            Recommendation {
                evidence: evidence([
                    ("heat.share_of_time", share.unwrap_or(0.0), "1"),
                    ("temperature.max", celsius, "Cel"),
                    ("clock", mean(group, |gpu| gpu.sensors.sm_clock_mhz), "MHz"),
                ]),
                ..risk(
                    "health.heat",
                    "other",
                    gpus(),
                    [
                        "Repair the cooling of these GPUs",
                        "Check fans, airflow and dust, or move the job to other GPUs. A lower power limit only \
                         makes them slow in a steadier way.",
                    ],
                    format!("{subject} lowered its clock because of heat{for_share}{at}{clock}."),
                    SURE,
                )
            }
        }
        Cause::Supply { .. } => Recommendation {
            evidence: evidence([("power_brake.share_of_time", mean(group, braked), "1")]),
            ..risk(
                "health.power-supply",
                "other",
                gpus(),
                [
                    "Repair the power supply of this node",
                    "Look for failed power supplies and for power budgets of the node and the rack, and move \
                     the job to another node until they are repaired.",
                ],
                format!(
                    "{subject} lowered its clock because the power supply asked for it (power brake), for {} \
                     of the time with work{clock}.",
                    percent(mean(group, braked))
                ),
                SURE,
            )
        },
        Cause::Unknown { others, gpu } => {
            let clock = gpu.sensors.sm_clock_mhz.unwrap_or(0.0);
            Recommendation {
                evidence: evidence([("clock", clock, "MHz"), ("clock.others", others, "MHz")]),
                ..risk(
                    "health.straggler",
                    "other",
                    gpus(),
                    [
                        "Find out why this GPU is slower than the others",
                        "Look at its cooling, its power supply and the reasons in nvidia-smi -q -d \
                         PERFORMANCE. Drain the node if they cannot be repaired.",
                    ],
                    format!(
                        "While busy it runs at {} MHz, and others of this model at {} MHz. In one job, the \
                         slowest GPU sets the pace.",
                        decimal(clock, 0),
                        decimal(others, 0),
                    ),
                    SURE_SLOW,
                )
            }
        }
    })
}

/// `; its clock was 1,100 MHz on average, of up to 1,980 MHz`, if it was recorded.
fn clock(group: &[(&Gpu, Cause<'_>)]) -> String {
    let clock = mean(group, |gpu| gpu.sensors.sm_clock_mhz);
    let highest = mean(group, |gpu| gpu.sensors.max_sm_clock_mhz);
    if clock <= 0.0 || clock >= highest {
        return String::new();
    }
    let [clock, highest] = [clock, highest].map(|mhz| decimal(mhz, 0));
    ["; its clock was ", &clock, " MHz on average, of up to ", &highest, " MHz"].concat()
}

/// The mean over the GPUs that have a value; 0 if none has.
fn mean(group: &[(&Gpu, Cause<'_>)], value: impl Fn(&Gpu) -> Option<f64>) -> f64 {
    let values: Vec<_> = group.iter().filter_map(|(gpu, _)| value(gpu)).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};
    use phasemeter_policy::{Percentiles, ThrottleReason, Throttling};

    use super::*;

    fn codes(gpus: Vec<Gpu>) -> Vec<String> {
        recommend(&window(gpus)).into_iter().map(|one| one.code).collect()
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
        let found = recommend(&window(vec![healthy(), healthy(), busy(1_200.0, 60.0, 450.0)]));
        assert_eq!((found[0].code.as_str(), &*found[0].gpus[0]), ("health.straggler", "GPU-2"));
        assert_eq!(codes(vec![busy(940.0, 88.0, 450.0)]), ["health.heat"]);
        let capped = Gpu { power_limit_watts: Some(460.0), ..busy(1_450.0, 60.0, 455.0) };
        let found = recommend(&window(vec![healthy(), capped.clone(), capped.clone()]));
        assert_eq!((found[0].code.as_str(), found[0].gpus.len()), ("health.power-limit", 2));
        assert_eq!(found.len(), 1);
        assert!(found[0].rationale.contains("others of this model"), "{}", found[0].rationale);
        let found = recommend(&window(vec![capped.clone(), capped.clone()]));
        assert!(found[0].rationale.contains("built for 700 W"), "{}", found[0].rationale);
        let below = Gpu { sensors: busy(1_450.0, 60.0, 300.0).sensors, ..capped };
        assert!(codes(vec![below]).is_empty(), "the limit is not reached");
        assert!(codes(vec![healthy(), healthy()]).is_empty());
    }

    #[test]
    fn recorded_reasons_are_risks_from_a_tenth_of_the_time() {
        let heat = |share| throttled(ThrottleReason::HardwareThermal, share);
        assert_eq!(codes(vec![heat(0.3), heat(0.35), heat(0.02)]), ["health.heat"]);
        let found = recommend(&window(vec![heat(0.3), heat(0.35)]));
        assert_eq!(found[0].gpus.len(), 2);
        assert!(found[0].rationale.contains("32% of the time with work"), "{}", found[0].rationale);
        assert_eq!(
            codes(vec![throttled(ThrottleReason::PowerBrake, 1.0)]),
            ["health.power-supply"]
        );
        assert!(codes(vec![throttled(ThrottleReason::PowerCap, 1.0)]).is_empty(), "as usual");
    }
}
