//! A policy that returns its input: every field of a window comes back as text or number, so that a
//! test can compare it.

use exports::phasemeter::policy::policy::{self, Manifest, SettingError, Value};
use exports::phasemeter::policy::recommender::{
    self, Effort, Evidence, Need, Recommendation, RecommendationKind, Remediation, Response, Saving, Target, Window,
};
use std::cell::RefCell;
use std::fmt::Write;

wit_bindgen::generate!({ path: "../../wit/v0.1", world: "recommender-policy" });

struct Mirror;

thread_local! {
    static SETTINGS: RefCell<String> = const { RefCell::new(String::new()) };
}

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "flag": {"type": "boolean", "default": true},
        "nested": {"type": "object", "properties": {"number": {"type": "number", "minimum": 0}}},
        "texts": {"type": "array", "items": {"type": "string"}}
    }
}"#;

impl policy::Guest for Mirror {
    fn describe() -> Manifest {
        Manifest {
            name: "mirror".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Returns its input.".into(),
            settings_schema: SCHEMA.into(),
        }
    }

    fn configure(settings: Vec<(String, Value)>) -> Result<(), Vec<SettingError>> {
        let texts: Vec<_> = settings
            .iter()
            .map(|(path, value)| match value {
                Value::Flag(flag) => format!("{path}={flag}"),
                Value::Number(number) => format!("{path}={number}"),
                Value::Text(text) => format!("{path}={text}"),
            })
            .collect();
        SETTINGS.set(texts.join(" "));
        Ok(())
    }
}

fn evidence(name: &str, value: f64, unit: &str) -> Evidence {
    Evidence { name: name.into(), value, unit: unit.into() }
}

/// Mean and number of the observed points.
fn mean(column: &[f64]) -> (f64, usize) {
    let observed = column.iter().filter(|value| !value.is_nan());
    let (sum, count) = observed.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (if count == 0 { 0.0 } else { sum / count as f64 }, count)
}

impl recommender::Guest for Mirror {
    fn recommend(window: Window) -> Result<Response, String> {
        phasemeter::policy::log::log(phasemeter::policy::log::Level::Info, "evaluating");
        let Some(gpu) = window.gpus.first() else { return Err("there is no GPU".into()) };
        let mut input = SETTINGS.take();
        // Writing to a String cannot fail.
        let _ = write!(
            input,
            "\n{} {} {} {} {} {:?} {:?} {} {:?}\n{} {} {:?} {:?}\n{:?}\n{:?} {:?}\n{:?} {:?} {:?}\n\
             {:?} {:?} {}\n{:?} {:?} {} {:?} {:?} {:?} {:?} {:?} {:?} {:?}\n{} {:?}",
            window.start, window.end, window.is_final, window.experiment_id, window.trace_id,
            window.attributes, window.utc_offset_seconds, window.step_seconds, window.metrics,
            gpu.id, gpu.model, gpu.memory_total_bytes, gpu.power_limit_watts,
            gpu.accounts.idle_held,
            gpu.waste, gpu.pattern,
            gpu.price, gpu.work_done, gpu.metrics,
            gpu.attributes, gpu.workload, gpu.interruptible,
            gpu.activity.interval_seconds, gpu.activity.quiet, gpu.activity.stretches,
            gpu.activity.longest_seconds, gpu.activity.minutes_seconds,
            gpu.activity.ten_minutes_seconds, gpu.activity.hours_seconds,
            gpu.activity.before_work, gpu.activity.after_work, gpu.activity.pauses,
            gpu.activity.week.len(), gpu.activity.week.first(),
        );
        let accounts = &gpu.accounts;
        let seconds = [
            ("idle-free", accounts.idle_free.seconds),
            ("idle-unknown", accounts.idle_unknown.seconds),
            ("underutilized", accounts.underutilized.seconds),
            ("productive", accounts.productive.seconds),
            ("compute-bound", accounts.compute_bound.seconds),
            ("unobserved", accounts.unobserved.seconds),
        ];
        let columns = [
            ("utilization", mean(&gpu.utilization)),
            ("power", mean(&gpu.power)),
            ("memory", mean(&gpu.memory)),
        ];
        let mut all: Vec<_> = seconds.map(|(name, value)| evidence(name, value, "s")).into();
        for (name, (mean, count)) in columns {
            all.push(evidence(&format!("{name}.mean"), mean, "1"));
            all.push(evidence(&format!("{name}.points"), count as f64, "{point}"));
        }
        let recommendation = Recommendation {
            code: "mirror.input".into(),
            target: Target::Starvation,
            lever: "dali".into(),
            title: "The input".into(),
            action: format!("{:?}\n{:?}\n{:?}", window.offers, window.previous, window.load),
            rationale: input,
            saving: Saving { low: 0.0, expected: 0.25, high: 1.0 },
            confidence: 1.0,
            evidence: all,
            gpus: window.gpus.iter().map(|gpu| gpu.id.clone()).collect(),
            kind: RecommendationKind::Risk,
            effort: Effort::High,
            reversible: true,
            remediation: Some(Remediation {
                kind: "k8s.scale".into(),
                parameters: vec![("replicas".into(), "2".into())],
            }),
        };
        let of_gpu = Recommendation {
            code: "mirror.gpu".into(),
            rationale: format!("{:?}\n{:?}", gpu.sensors, gpu.holders),
            ..recommendation.clone()
        };
        let need = Need {
            missing: "power.draw".into(),
            reason: "What it would tell".into(),
            gpus: vec![gpu.id.clone()],
        };
        Ok(Response { recommendations: vec![recommendation, of_gpu], needs: vec![need] })
    }
}

export!(Mirror);
