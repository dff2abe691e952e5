//! Causes of slow GPUs, and what is written about them.

use phasemeter_diagnoses::{
    Lag, SIMILAR, confidence, share, slowed_by_heat, slowed_by_power_supply,
};
use phasemeter_policy::column::percentile;
use phasemeter_policy::format::{decimal, percent, subject};
use phasemeter_policy::{Evidence, Gpu, Recommendation, Remediation, Window, Workload, evidence};

use crate::cost::{repair, while_waiting};
use crate::risk;

/// Temperature from which a slow GPU is hot, in degrees Celsius. Data center GPUs slow down between 83
/// and 95.
pub(crate) const HOT: f64 = 83.0;

/// Difference from the others, in kelvins, from which a slow GPU is hot. An assumption.
pub(crate) const HOTTER: f64 = 15.0;

/// What slows a GPU.
#[derive(Clone, Copy)]
pub(crate) enum Cause<'a> {
    /// Its power limit, below that of others of its model, or of the model.
    Limit { limit: f64, highest: f64, of: &'static str },
    /// Heat, for a share of the time with work if that was recorded.
    Heat { share: Option<f64> },
    /// The power supply, for a share of the time with work.
    Supply { share: f64 },
    /// Unknown: it is behind the others.
    Unknown { lag: Lag, gpu: &'a Gpu },
}

impl Cause<'_> {
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= SIMILAR;
        match (self, other) {
            (
                Self::Limit { limit: a, highest: most, .. },
                Self::Limit { limit: b, highest, .. },
            ) => a == b && most == highest,
            (Self::Heat { share: a }, Self::Heat { share: b }) => {
                a.is_some() == b.is_some() && near(a.unwrap_or(0.0), b.unwrap_or(0.0))
            }
            (Self::Supply { share: a }, Self::Supply { share: b }) => near(*a, *b),
            (Self::Unknown { lag: a, gpu }, Self::Unknown { lag: b, gpu: other }) => {
                let ratio = match (a, b) {
                    (Lag::Clock(a, _), Lag::Clock(b, _))
                    | (Lag::Power(a, _), Lag::Power(b, _))
                    | (Lag::Held(a), Lag::Held(b)) => a / b,
                    _ => f64::INFINITY,
                };
                near(ratio, 1.0) && gpu.is_alike(other)
            }
            _ => false,
        }
    }
}

/// GPUs with the same cause.
type Group<'a> = [(&'a Gpu, Cause<'a>)];

pub(crate) fn warn(group: &Group<'_>, window: &Window) -> Recommendation {
    let (_, cause) = group[0];
    let clock = [&*clock(group, window), &*waiting(group, window), "."].concat();
    match cause {
        Cause::Limit { limit, highest, of } => capped(group, [limit, highest], of, &clock),
        Cause::Heat { share } => heat(group, share.is_some(), &clock, window),
        Cause::Supply { .. } => short_of_power(group, &clock),
        Cause::Unknown { lag, .. } => straggler(group, lag, window),
    }
}

fn capped(group: &Group<'_>, watts: [f64; 2], of: &str, clock: &str) -> Recommendation {
    let vendor = group[0].0.vendor();
    let [limit, highest] = watts.map(|watts| decimal(watts, 0));
    let with = vendor.tool(" with nvidia-smi --power-limit", " with amd-smi set --power-cap");
    let raise = Remediation::new(
        vendor.choose("nvidia.power-limit", "gpu.power-limit", "gpu.power-limit"),
        [("watts", highest.replace(',', ""))],
    );
    Recommendation {
        evidence: evidence([
            ("power.limit", watts[0], "W"),
            ("power.highest_limit", watts[1], "W"),
        ]),
        remediation: Some(
            raise.unless("the limit is meant, for the power or the cooling of the rack"),
        ),
        ..risk(
            "health.power-limit",
            "power_limit",
            gpus(group),
            [
                &format!("Power limit {limit} W instead of {highest} W: confirm or raise it"),
                &format!(
                    "Raise the limit{with}, or confirm that it is meant, for example by the power of the rack."
                ),
            ],
            format!(
                "{} runs at its limit of {limit} W, and {of} {highest} W{clock}",
                subject(group.len())
            ),
            confidence::VERY_LIKELY,
        )
    }
}

fn short_of_power(group: &Group<'_>, clock: &str) -> Recommendation {
    let share = mean(group, |gpu| Some(slowed_by_power_supply(gpu)));
    let action = repair(
        group[0].0,
        "Look for failed power supplies and for power budgets of the node and the rack, and move the job to another \
         node until they are repaired.",
        group[0].0.vendor().choose(
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
            gpus(group),
            ["The power supply slows this node down", &action],
            format!(
                "{} lowered its clock because the power supply asked for it (power brake), for {} of the time with \
                 work{clock}",
                subject(group.len()),
                percent(share)
            ),
            confidence::VERY_LIKELY,
        )
    }
}

fn heat(group: &Group<'_>, is_recorded: bool, clock: &str, window: &Window) -> Recommendation {
    let share = mean(group, |gpu| Some(slowed_by_heat(gpu)));
    let (time, likely) = match is_recorded {
        true => ([" for ", &*percent(share), " of its time"].concat(), ""),
        false => (String::new(), " most likely"),
    };
    let temperatures = gpus(group).filter_map(|gpu| gpu.sensors.max_temperature_celsius);
    let hottest = temperatures.fold(0.0, f64::max);
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
    let memory = match is_recorded && hottest > 0.0 && hottest < HOT {
        true => ", at which the core is not hot, but its memory may be",
        false => "",
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
            gpus(group),
            [&["Heat slows the work down", &*time].concat(), &*action],
            format!(
                "{}{likely} slowed down because of heat{at}{memory}{clock}",
                subject(group.len())
            ),
            confidence::VERY_LIKELY,
        )
    }
}

fn straggler(group: &Group<'_>, lag: Lag, window: &Window) -> Recommendation {
    let (name, unit, verb, own, others, why, sure) = match lag {
        Lag::Clock(own, others) => {
            let why = "In one job, the slowest GPU sets the pace";
            ("clock", "MHz", "runs at", own, Some(others), why, confidence::LIKELY)
        }
        Lag::Power(own, others) => {
            let why = "Its clock is probably lower, or it has less to do";
            ("power", "W", "draws", own, Some(others), why, confidence::EVEN)
        }
        Lag::Held(own) => {
            let why = "Something holds its clock: a power cap, power connectors or a supply that failed, or a locked clock";
            ("clock", "MHz", "runs at", own, None, why, confidence::VERY_LIKELY)
        }
    };
    let others_number = others.map(|value| decimal(value, 0));
    let value = decimal(own, 0);
    let waiting = waiting(group, window);
    let subject = subject(group.len());
    let vendor = group[0].0.vendor();
    let action = format!(
        "Look at {}its locked clocks{}, cooling and power supply. Drain the node if they cannot be repaired.",
        vendor.tool("the reasons in nvidia-smi -q -d PERFORMANCE, at ", ""),
        vendor.tool(" (nvidia-smi -rgc resets them)", " (amd-smi reset --clocks resets them)"),
    );
    Recommendation {
        evidence: [Evidence::new(name, own, unit)]
            .into_iter()
            .chain(others.map(|others| Evidence::new(&[name, ".others"].concat(), others, unit)))
            .collect(),
        ..risk(
            "health.straggler",
            "other",
            gpus(group),
            [
                &match &others_number {
                    Some(others) => {
                        format!(
                            "{subject} {verb} {value} {unit}, others {others} {unit}: find out why"
                        )
                    }
                    None => format!("{subject} {verb} {value} {unit} at full load: find out why"),
                },
                &action,
            ],
            match &others_number {
                Some(others) => format!(
                    "{subject} {verb} {value} {unit} while busy, and others of this model {others} {unit}{waiting}. {why}."
                ),
                None => format!("{subject} {verb} {value} {unit} while busy{waiting}. {why}."),
            },
            sure,
        )
    }
}

fn gpus<'a>(group: &Group<'a>) -> impl Iterator<Item = &'a Gpu> {
    group.iter().map(|(gpu, _)| *gpu)
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
        Some(others) if own < share::NEARLY_ALL * others => {
            [", that of the others ", &decimal(others, 0)].concat()
        }
        _ if own < share::NEARLY_ALL * highest => [" of up to ", &decimal(highest, 0)].concat(),
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
    let theirs = theirs.filter(|clock| own > 0.0 && own < share::NEARLY_ALL * *clock);
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
