//! Sources of utilization that contradict each other, and power or memory that contradict all of them.

use phasemeter_diagnoses::{
    Contradiction, LITTLE_POWER, WORKING_POWER, confidence, contradictions, has_failed_counters,
    impossible_power, power_limit, unpowered_work, works_without_memory,
};
use phasemeter_policy::format::{decimal, duration, percent, subject};
use phasemeter_policy::{Evidence, Gpu, Recommendation, Window, evidence, groups, mean};

use crate::risk;

/// Warns of all.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    let found = window.gpus.iter().filter_map(|gpu| {
        let all: Vec<_> = contradictions(gpu).collect();
        (!all.is_empty()).then_some((gpu, all))
    });
    let sources = |all: &[Contradiction<'_>]| -> Vec<(String, String)> {
        all.iter().map(|it| (it.works.0.to_owned(), it.rests.0.to_owned())).collect()
    };
    let contradicted = groups(found, |a, b| sources(&a.1) == sources(&b.1));
    let sources = contradicted.iter().filter_map(|group| contradicting_sources(group));
    let wrong_power = |power: fn(&Gpu) -> Option<(f64, f64)>, why| {
        let found = window.gpus.iter().filter_map(|gpu| Some((gpu, power(gpu)?)));
        let groups = groups(found, |a: &(&Gpu, (f64, f64)), b| a.1.1 == b.1.1);
        groups.iter().map(|group| contradicting_power(group, why)).collect::<Vec<_>>()
    };
    let none = wrong_power(unpowered_work, "less than an idle GPU draws");
    let too_much = wrong_power(
        impossible_power,
        "more than a GPU can draw for long; a driver that believes its sensor keeps the clock low meanwhile",
    );
    let empty: Vec<_> = window.gpus.iter().filter(|gpu| works_without_memory(gpu)).collect();
    sources.chain(none).chain(too_much).chain(without_memory(&empty)).collect()
}

fn contradicting_sources(group: &[(&Gpu, Vec<Contradiction<'_>>)]) -> Option<Recommendation> {
    let (first, all) = group.first()?;
    let longest = all.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    // Each source once, with what it reported.
    let mut values: Vec<(&str, f64)> = Vec::new();
    for source in all.iter().flat_map(|it| [it.works, it.rests]) {
        if !values.iter().any(|(name, _)| *name == source.0) {
            values.push(source);
        }
    }
    let named: Vec<_> =
        values.iter().map(|(name, value)| [*name, " ", &percent(*value)].concat()).collect();
    let limit = power_limit(first);
    let share = longest.watts.zip(limit).map(|(watts, limit)| watts / limit);
    let draw = longest.watts.map_or_else(String::new, |watts| {
        let limit = limit.map_or_else(String::new, |limit| [" of ", &*decimal(limit, 0)].concat());
        [" at ", &*decimal(watts, 0), &limit, " W"].concat()
    });
    let cause = match share {
        Some(share) if share >= WORKING_POWER => {
            ". Only work draws that, so most likely the source that reports none has failed without an error."
        }
        Some(share) if share <= LITTLE_POWER => {
            ". That is little power for a GPU that works, so the source that reports work may be wrong, or little is \
             computed."
        }
        Some(_) => ". Power does not decide which of them is wrong.",
        None => ". Which of them is wrong is unknown without power and its limit.",
    };
    let (rests, action) = if has_failed_counters(first) {
        let others = first.vendor().tool(
            " (nsys, ncu, a second DCGM), run dcgmi profile --resume",
            " (rocprof, a second exporter)",
        );
        let action = format!(
            "Let one program read profiling counters at a time: end other profilers{others}, and restart the exporter. \
             Until then ignore activity of this GPU."
        );
        ("activity", action)
    } else {
        let action = "Do not stop or share anything here yet: kernels run that utilization misses. Look for partitions, \
                      virtual GPUs and the driver's version, and bill by the activity that was measured.";
        ("idle time", action.to_owned())
    };
    let time = duration(longest.seconds);
    let rationale = format!(
        "{} {time}, {}{draw}{cause} No recommendation here relies on its {rests}.",
        if group.len() == 1 { "For" } else { "Each: for" },
        named.join(" and "),
    );
    let title = format!("{} for {time}: measure again", named.join(" but "));
    let mut values: Vec<_> =
        values.iter().map(|(name, value)| Evidence::new(name, *value, "1")).collect();
    values.extend(evidence([("contradiction.time", longest.seconds, "s")]));
    values.extend(longest.watts.map(|watts| Evidence::new("power", watts, "W")));
    let is_decided = share.is_some_and(|share| share >= WORKING_POWER);
    Some(Recommendation {
        evidence: values,
        reversible: true,
        ..risk(
            "health.contradiction",
            "measure",
            group.iter().map(|(gpu, _)| *gpu),
            [&title, &action],
            rationale,
            if is_decided { confidence::VERY_LIKELY } else { confidence::EVEN },
        )
    })
}

/// GPUs that report work, but no memory in use.
fn without_memory(gpus: &[&Gpu]) -> Option<Recommendation> {
    let first = *gpus.first()?;
    let level = mean(gpus, |gpu| gpu.accounts.busy().level());
    let persistence = first.vendor().tool(" (nvidia-smi -pm 1)", "");
    Some(Recommendation {
        evidence: evidence([("utilization", level, "1")]),
        reversible: true,
        ..risk(
            "health.no-memory",
            "measure",
            gpus.iter().copied(),
            [
                &format!("{} busy without any memory in use: measure again", percent(level)),
                &format!(
                    "Keep the driver loaded{persistence} and read again: else each reading starts it, and shows that. If it \
                     is idle then, give it to other work, or return it."
                ),
            ],
            format!(
                "{} reports {} for {}, and no memory in use, which every process needs. One of both is wrong, so nothing else \
                 is recommended here.",
                subject(gpus.len()),
                percent(level),
                duration(mean(gpus, |gpu| gpu.accounts.busy().seconds)),
            ),
            confidence::VERY_LIKELY,
        )
    })
}

fn contradicting_power(group: &[(&Gpu, (f64, f64))], why: &str) -> Recommendation {
    let (first, (watts, limit)) = &group[0];
    let (busy, sms) = (first.accounts.busy(), first.sensors.sm_activity);
    let activity =
        sms.map_or_else(String::new, |sms| [" and SM activity ", &percent(sms)].concat());
    let draw = format!("{} of {} W", decimal(*watts, 0), decimal(*limit, 0));
    let level = percent(busy.level());
    let tool =
        first.vendor().tool("nvidia-smi -q -d POWER and with ", "amd-smi metric --power and with ");
    let mut values = evidence([("power", *watts, "W"), ("utilization", busy.level(), "1")]);
    values.extend(sms.map(|sms| Evidence::new("sm.activity", sms, "1")));
    Recommendation {
        evidence: values,
        reversible: true,
        ..risk(
            "health.power",
            "measure",
            group.iter().map(|(gpu, _)| *gpu),
            [
                &format!("{draw} at {level} utilization: power is wrong"),
                &format!(
                    "Compare with {tool}the power of the rack, and reset the GPU if they differ."
                ),
            ],
            format!(
                "For {}, utilization was {level}{activity} at {draw}, which is {why}. Most likely the power sensor is \
                 wrong, and so is the energy here.",
                duration(busy.seconds),
            ),
            confidence::VERY_LIKELY,
        )
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    fn found(pairs: &[(&str, &str, f64, f64)], watts: Option<f64>) -> Vec<Recommendation> {
        let mut gpu = steady(7_200, 0.99);
        for (works, rests, high, low) in pairs {
            let name = |what: &str| ["contradiction.", works, "/", rests, ".", what].concat();
            let values = [("seconds", 7_200.0), ("works", *high), ("rests", *low)];
            gpu.metrics.extend(values.map(|(what, value)| (name(what), value)));
            gpu.metrics.extend(watts.map(|watts| (name("watts"), watts)));
        }
        recommend(&window(vec![gpu; 2]))
    }

    #[test]
    fn sources_are_named_with_values_time_and_power() {
        let silent =
            [("dcgm.gpu", "dcgm.sm", 0.99, 0.0), ("dcgm.gpu", "dcgm.gr_engine", 0.99, 0.0)];
        let all = found(&silent, Some(640.0));
        let one = &all[0];
        assert_eq!((all.len(), &*one.code, one.gpus.len()), (1, "health.contradiction", 2));
        for part in ["dcgm.gpu 99%", "dcgm.sm 0.0%", "dcgm.gr_engine 0.0%", "2 h", "640 of 700 W"] {
            assert!(one.rationale.contains(part), "{part}: {}", one.rationale);
        }
        assert!(one.title.len() <= 120, "{}", one.title);
        let undecided = &found(&silent[..1], None)[0];
        assert!(undecided.confidence < one.confidence);
        assert!(undecided.rationale.contains("unknown without power"), "{}", undecided.rationale);
    }

    #[test]
    fn work_that_utilization_misses_is_not_stopped() {
        let one = &found(&[("dcgm.sm", "dcgm.gpu", 0.41, 0.0)], Some(480.0))[0];
        assert!(one.action.starts_with("Do not stop"), "{}", one.action);
        assert!(one.rationale.contains("dcgm.sm 41% and dcgm.gpu 0.0%"), "{}", one.rationale);
    }

    #[test]
    fn agreeing_sources_are_not_named() {
        assert!(recommend(&window(vec![steady(7_200, 0.99)])).is_empty());
    }

    #[test]
    fn power_far_above_its_limit_is_wrong() {
        let mut gpu = steady(7_200, 0.99);
        gpu.sensors.busy_power =
            Some(Percentiles { p5: 1_400.0, p50: 1_400.0, p95: 1_400.0, max: 1_400.0 });
        let one = &recommend(&window(vec![gpu; 2]))[0];
        assert_eq!((&*one.code, one.gpus.len()), ("health.power", 2));
        assert!(one.rationale.contains("at 1,400 of 700 W, which is more"), "{}", one.rationale);
        assert!(!one.rationale.contains("SM activity"), "{}", one.rationale);
    }
}
