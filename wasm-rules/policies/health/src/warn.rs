//! Texts of risks of slow GPUs.

use phasemeter_diagnoses::{Lag, confidence, share, slowed_by_heat, slowed_by_power_supply};
use phasemeter_policy::column::percentile;
use phasemeter_policy::format::{decimal, percent, subject};
use phasemeter_policy::{Gpu, Recommendation, Remediation, Window, Workload, evidence};

use crate::cause::{Cause, HOTTER};
use crate::cost::{repair, while_waiting};
use crate::risk;

/// Clock, relative to a higher one, up to which the difference is mentioned. An assumption.
const LOWER: f64 = 0.95;

/// GPUs with the same cause.
type Group<'a> = [(&'a Gpu, Cause<'a>)];

pub(crate) fn warn(group: &Group<'_>, window: &Window) -> Option<Recommendation> {
    let (first, cause) = *group.first()?;
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let subject = subject(group.len());
    let clock = [&*clock(group, window), &*waiting(group, window), "."].concat();
    let power_limit = |limit: f64, highest: f64| {
        let [limit, highest] = [limit, highest].map(|watts| decimal(watts, 0));
        ["Power limit ", &*limit, " W instead of ", &highest, " W: confirm or raise it"].concat()
    };
    Some(match cause {
        Cause::Limit { limit, highest, of } => Recommendation {
            evidence: evidence([
                ("power.limit", limit, "W"),
                ("power.highest_limit", highest, "W"),
            ]),
            remediation: Some(Remediation::new(
                first.vendor().choose("nvidia.power-limit", "gpu.power-limit", "gpu.power-limit"),
                [("watts", decimal(highest, 0).replace(',', ""))],
            )
            .unless("the limit is meant, for the power or the cooling of the rack")),
            ..risk(
                "health.power-limit",
                "power_limit",
                gpus(),
                [
                    &power_limit(limit, highest),
                    first.vendor().choose(
                        "Raise the limit with nvidia-smi --power-limit, or confirm that it is meant, for example \
                         by the power of the rack.",
                        "Raise the limit with amd-smi set --power-cap, or confirm that it is meant, for example by \
                         the power of the rack.",
                        "Raise the limit, or confirm that it is meant, for example by the power of the rack.",
                    ),
                ],
                format!(
                    "{subject} runs at its limit of {} W, and {of} {} W{clock}",
                    decimal(limit, 0),
                    decimal(highest, 0),
                ),
                confidence::VERY_LIKELY,
            )
        },
        Cause::Heat { share } => heat(group, share.is_some(), &clock, window),
        Cause::Supply { .. } => {
            let share = mean(group, |gpu| Some(slowed_by_power_supply(gpu)));
            let action = repair(
                first,
                "Look for failed power supplies and for power budgets of the node and the rack, and move the \
                 job to another node until they are repaired.",
                first.vendor().choose(
                    "nvidia-smi -q -d PERFORMANCE shows the power brake.",
                    "The driver reports it.",
                    "The driver reports it.",
                ),
            );
            Recommendation {
                evidence: evidence([("power_brake.share_of_time", share, "1")]),
                ..risk(
                    "health.power-supply",
                    "other",
                    gpus(),
                    ["The power supply slows this node down", &action],
                    format!(
                        "{subject} lowered its clock because the power supply asked for it (power brake), for \
                         {} of the time with work{clock}",
                        percent(share)
                    ),
                    confidence::VERY_LIKELY,
                )
            }
        }
        Cause::Unknown { lag, .. } => straggler(group, lag, window),
    })
}

fn heat(group: &Group<'_>, is_recorded: bool, clock: &str, window: &Window) -> Recommendation {
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let share = mean(group, |gpu| Some(slowed_by_heat(gpu)));
    let (title, cause) = if is_recorded {
        let title = ["Heat slows the work down for ", &*percent(share), " of its time"].concat();
        (title, " slowed down because of heat")
    } else {
        ("Heat slows the work down".to_owned(), " most likely slowed down because of heat")
    };
    let hottest = gpus().filter_map(|gpu| gpu.sensors.max_temperature_celsius).fold(0.0, f64::max);
    let celsius = mean(group, |gpu| gpu.sensors.temperature_celsius);
    let others = median_of_others(group, window, |gpu| gpu.sensors.temperature_celsius);
    let others = others.filter(|others| celsius >= others + HOTTER);
    let than = others.map_or_else(String::new, |others| {
        [", ", &decimal(celsius - others, 0), " °C above the others"].concat()
    });
    let at = match hottest {
        0.0 => String::new(),
        hottest => [", at up to ", &decimal(hottest, 0), " °C", &than].concat(),
    };
    let action = repair(
        group[0].0,
        "Check fans, airflow and dust, or move the job to other GPUs.",
        "A lower power limit only makes them slow in a steadier way.",
    );
    Recommendation {
        evidence: evidence([
            ("heat.share_of_time", share, "1"),
            ("temperature.max", hottest, "Cel"),
            ("clock", mean(group, |gpu| gpu.sensors.sm_clock_mhz), "MHz"),
        ]),
        ..risk(
            "health.heat",
            "other",
            gpus(),
            [&*title, &*action],
            [subject(group.len()), cause, &*at, clock].concat(),
            confidence::VERY_LIKELY,
        )
    }
}

fn straggler(group: &Group<'_>, lag: Lag, window: &Window) -> Recommendation {
    let waiting = waiting(group, window);
    let title = |verb: &str, unit: &str, own: f64, others: f64| {
        let these = if group.len() == 1 { "This GPU " } else { "Each GPU " };
        let [own, others] = [own, others].map(|value| decimal(value, 0));
        [these, verb, &*own, unit, ", others ", &others, unit, ": find out why"].concat()
    };
    let (title, values, rationale, confidence) = match lag {
        Lag::Clock(clock, others) => (
            title("runs at ", " MHz", clock, others),
            evidence([("clock", clock, "MHz"), ("clock.others", others, "MHz")]),
            format!(
                "It runs at {} MHz while busy, and others of this model at {}{waiting}. In one job, the slowest GPU \
                 sets the pace.",
                decimal(clock, 0),
                decimal(others, 0),
            ),
            confidence::LIKELY,
        ),
        Lag::Power(watts, others) => (
            title("draws ", " W", watts, others),
            evidence([("power", watts, "W"), ("power.others", others, "W")]),
            format!(
                "It draws {} W while full, and others of this model {}{waiting}. Its clock is probably lower, or it \
                 has less to do.",
                decimal(watts, 0),
                decimal(others, 0),
            ),
            confidence::EVEN,
        ),
    };
    let action = group[0].0.vendor().choose(
        "Look at the reasons in nvidia-smi -q -d PERFORMANCE, at its locked clocks (nvidia-smi -rgc resets them), \
         cooling and power supply. Drain the node if they cannot be repaired.",
        "Look at its locked clocks (amd-smi reset --clocks resets them), cooling and power supply. Drain the node if \
         they cannot be repaired.",
        "Look at its locked clocks, cooling and power supply. Drain the node if they cannot be repaired.",
    );
    Recommendation {
        evidence: values,
        ..risk(
            "health.straggler",
            "other",
            group.iter().map(|(gpu, _)| *gpu),
            [&title, action],
            rationale,
            confidence,
        )
    }
}

/// `; its clock was 1,100 MHz, that of the others 1,960`, if it was recorded; of its own highest if there are no
/// others and it ran faster at times.
fn clock(group: &Group<'_>, window: &Window) -> String {
    let own = mean(group, |gpu| gpu.sensors.sm_clock_mhz);
    if own <= 0.0 {
        return String::new();
    }
    let others = median_of_others(group, window, |gpu| gpu.sensors.sm_clock_mhz);
    let highest = mean(group, |gpu| gpu.sensors.max_sm_clock_mhz);
    let beside = match others {
        Some(others) if own < LOWER * others => {
            [", that of the others ", &decimal(others, 0)].concat()
        }
        _ if own < LOWER * highest => [" of up to ", &decimal(highest, 0)].concat(),
        _ => String::new(),
    };
    ["; its clock was ", &decimal(own, 0), " MHz", &beside].concat()
}

/// The GPUs of a training job that keep pace with the slow ones, and what they cost.
fn waiting(group: &Group<'_>, window: &Window) -> String {
    let is_training = group.first().is_some_and(|(gpu, _)| gpu.workload == Workload::Training);
    if !is_training {
        return String::new();
    }
    let is_full = |gpu: &&Gpu| gpu.full_share() >= share::MOST;
    let others: Vec<_> = others(group, window).filter(is_full).collect();
    let own = mean(group, |gpu| gpu.sensors.sm_clock_mhz);
    let theirs = median_of_others(group, window, |gpu| gpu.sensors.sm_clock_mhz);
    let theirs = theirs.filter(|clock| own > 0.0 && own < LOWER * *clock);
    while_waiting(&others, theirs.map(|clock| 1.0 - own / clock))
}

/// The GPUs of the same kind of work that are not slow.
fn others<'a>(group: &'a Group<'_>, window: &'a Window) -> impl Iterator<Item = &'a Gpu> {
    let is_slow = |gpu: &Gpu| group.iter().any(|(slow, _)| slow.id == gpu.id);
    let first = group.first().map(|(gpu, _)| *gpu);
    let is_alike = move |gpu: &Gpu| first.is_some_and(|first| gpu.is_alike(first));
    window.gpus.iter().filter(move |gpu| is_alike(gpu) && !is_slow(gpu))
}

fn median_of_others(
    group: &Group<'_>,
    window: &Window,
    value: fn(&Gpu) -> Option<f64>,
) -> Option<f64> {
    let values: Vec<_> = others(group, window).filter_map(value).collect();
    percentile(&values, 50)
}

/// The mean over the GPUs that have a value; 0 if none has.
fn mean(group: &Group<'_>, value: impl Fn(&Gpu) -> Option<f64>) -> f64 {
    phasemeter_policy::mean(group.iter().filter_map(|(gpu, _)| value(gpu)), |value| value)
}
