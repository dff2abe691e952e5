//! Pages of metrics whose sources contradict each other: what the default policies report.

use std::fmt::Write;

use serde_json::Value;

use crate::phasemeter::Phasemeter;
use crate::report::{self, list};

/// A page of dcgm-exporter each minute, of these GPUs: labels and values of metrics, by the minute.
fn pages(
    minutes: u32,
    gpus: impl Fn(u32) -> Vec<(&'static str, Vec<(&'static str, f64)>)>,
) -> String {
    let mut log = String::new();
    for minute in 0..minutes {
        writeln!(log, "# 2026-07-27T{:02}:{:02}:00Z", minute / 60, minute % 60).unwrap();
        for (labels, metrics) in gpus(minute) {
            for (name, value) in metrics {
                writeln!(log, "{name}{{{labels},Hostname=\"node-1\"}} {value}").unwrap();
            }
        }
    }
    log
}

/// Labels of a GPU: its UUID and its model.
const A: &str = "gpu=\"0\",UUID=\"GPU-aaaaaaaa-0000-4000-8000-000000000000\",\
                 modelName=\"NVIDIA H100 80GB HBM3\"";
/// Utilization, the engine and the SMs in percent, power in watts, memory in use in MiB of 81,559.
fn metrics(gpu: f64, engine: f64, sms: f64, watts: f64, memory: f64) -> Vec<(&'static str, f64)> {
    vec![
        ("DCGM_FI_DEV_GPU_UTIL", gpu),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", engine / 100.0),
        ("DCGM_FI_PROF_SM_ACTIVE", sms / 100.0),
        ("DCGM_FI_DEV_POWER_USAGE", watts),
        ("DCGM_FI_DEV_FB_USED", memory),
        ("DCGM_FI_DEV_FB_FREE", 81_559.0 - memory),
    ]
}

fn audited(log: String) -> Value {
    let report = Phasemeter::audit().args(["--price", "3.60", "-"]).stdin(log).report();
    report::check(&report);
    report
}

fn with_code<'a>(report: &'a Value, code: &str) -> Option<&'a Value> {
    list(&report["recommendations"]).iter().find(|one| one["code"] == code)
}

/// Scenario: profiling counters stay at 0 for three hours while utilization is 99% at 640 W, as they do while another
/// profiler holds them; or utilization is 0% while they are active.
/// Guarantee: a risk names all sources with their values, the time and the power; agreeing sources are no risk.
#[test]
fn sources_that_contradict_each_other_are_a_risk() {
    let of = |gpu: f64, engine: f64, sms: f64, watts: f64| {
        let at = |_| vec![(A, metrics(gpu, engine, sms, watts, 60_000.0))];
        audited(pages(180, at))
    };
    let silent = of(99.0, 0.0, 0.0, 640.0);
    let risk = with_code(&silent, "health.contradiction").unwrap();
    let text = risk["rationale"].as_str().unwrap();
    for part in
        ["dcgm.gpu 99%", "dcgm.gr_engine 0.0%", "dcgm.sm 0.0%", "2 h 59 min", "640 of 700 W"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(risk["kind"], "risk");
    let missed = of(0.0, 70.0, 40.0, 480.0);
    let text = with_code(&missed, "health.contradiction").unwrap()["rationale"].to_string();
    assert!(text.contains("dcgm.gpu 0.0%") && text.contains("dcgm.sm 40%"), "{text}");
    let codes = list(&missed["recommendations"]).iter().map(|it| it["code"].to_string());
    assert!(codes.into_iter().all(|it| it.contains("health")), "nothing of its idle time");
    assert!(with_code(&of(97.0, 96.0, 55.0, 640.0), "health.contradiction").is_none());
    assert!(with_code(&of(100.0, 100.0, 1.0, 150.0), "health.contradiction").is_none(), "one SM");
}

/// Scenario: two GPUs work for two hours at 620 W, and then for two at 100% and 126 W, in the usual fields of
/// dcgm-exporter, which have no power limit.
/// Guarantee: the hang is a risk with the limit of the model; the same at 620 W to the end is none.
#[test]
fn hang_is_seen_in_the_usual_fields_of_dcgm() {
    const B: &str = "gpu=\"1\",UUID=\"GPU-bbbbbbbb-0000-4000-8000-000000000000\",\
                     modelName=\"NVIDIA H100 80GB HBM3\"";
    let of = |hung: f64, sms: f64| {
        audited(pages(240, |minute| {
            // Work varies, as it does.
            let work = metrics(97.0, 96.0, 61.0, 600.0 + f64::from(minute % 7) * 6.0, 68_000.0);
            let hang = metrics(100.0, 100.0, sms, hung, 68_000.0);
            let now = || if minute < 120 { work.clone() } else { hang.clone() };
            vec![(A, now()), (B, now())]
        }))
    };
    let hung = of(126.0, 12.0);
    let risk = with_code(&hung, "health.hang").unwrap();
    assert_eq!(list(&risk["gpus"]).len(), 2);
    assert!(risk["rationale"].to_string().contains("126 of 700 W"), "{risk:#}");
    assert_eq!(risk["remediation"]["kind"], "job.restart");
    assert!(with_code(&of(620.0, 60.0), "health.hang").is_none());
}
