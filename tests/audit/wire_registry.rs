//! What an audit and the demo send is what the registry defines, in both directions.

use std::fs;
use std::path::Path;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;

use crate::otlp::{self, Captured};
use crate::phasemeter::Phasemeter;
use crate::registry::model::Registry;
use crate::registry::wire::WireCheck;

fn registry() -> Registry {
    Registry::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

/// The demo, and an audit of a log with the columns that it lacks.
fn captured() -> Vec<Captured> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.jsonl");
    let read = || otlp::read(&fs::read_to_string(&file).unwrap());
    let demo = Phasemeter::new("demo").args(["--format", "json", "--otlp-file"]).arg(&file);
    demo.report();
    let demo = read();
    fs::remove_file(&file).unwrap();
    let mut log = "timestamp, uuid, name, utilization.gpu [%], memory.used [MiB], \
                   memory.total [MiB], power.draw [W], temperature.gpu, clocks.sm [MHz], \
                   clocks.mem [MHz]\n"
        .to_owned();
    for second in 0..120 {
        let (minute, second, busy) = (second / 60, second % 60, second * 7 % 100);
        log += &format!(
            "2026/07/27 10:{minute:02}:{second:02}.000, GPU-1, NVIDIA H100 80GB HBM3, {busy}, \
             40000 MiB, 81559 MiB, 400.00 W, 55, 1755 MHz, 2619 MHz\n"
        );
    }
    let audit = Phasemeter::audit().stdin(log);
    audit.args(["-", "--price", "3.7", "--otlp-file"]).arg(&file).report();
    vec![demo, read()]
}

#[test]
fn audit_sends_what_the_registry_defines() {
    let registry = registry();
    let mut check = WireCheck::new(&registry, "audit");
    captured().iter().for_each(|captured| check.captured(captured));
    let problems = check.finish();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Every kind of difference is found: the check is not empty.
#[test]
fn each_difference_from_the_registry_is_found() {
    let registry = registry();
    let [demo, _] = &captured()[..] else { panic!() };
    let find = |change: &dyn Fn(&mut Captured)| {
        let mut changed = Captured {
            resources: demo.resources.clone(),
            metrics: demo.metrics.clone(),
            spans: demo.spans.clone(),
            events: demo.events.clone(),
        };
        change(&mut changed);
        let mut check = WireCheck::new(&registry, "audit");
        check.captured(&changed);
        check.finish().join("\n")
    };
    let time = "phasemeter.gpu.time";
    let metric = |captured: &mut Captured, change: &dyn Fn(&mut _)| {
        change(captured.metrics.iter_mut().find(|metric| metric.name == time).unwrap());
    };
    for (change, expected) in [
        (
            &(|it: &mut Captured| metric(it, &|metric| metric.name += "s")) as &dyn Fn(&mut _),
            "metric phasemeter.gpu.times: not in the registry",
        ),
        (
            &|it: &mut Captured| it.metrics.retain(|metric| metric.name != time),
            "phasemeter.gpu.time: in the registry, but not sent",
        ),
        (
            &|it: &mut Captured| metric(it, &|metric| metric.unit = "ms".to_owned()),
            "phasemeter.gpu.time: unit ms, not s",
        ),
        (
            &|it: &mut Captured| {
                metric(it, &|metric| {
                    if let Some(Data::Sum(sum)) = &mut metric.data {
                        sum.is_monotonic = false;
                    }
                });
            },
            "phasemeter.gpu.time: updowncounter, not counter",
        ),
        (
            &|it: &mut Captured| {
                metric(it, &|metric| {
                    if let Some(Data::Sum(sum)) = &mut metric.data {
                        sum.data_points[0].attributes.retain(|it| it.key != "hw.id");
                    }
                });
            },
            "phasemeter.gpu.time: lacks the required hw.id",
        ),
        (&|it: &mut Captured| it.spans[0].attributes[0].key += ".x", "unknown attribute"),
        (
            &|it: &mut Captured| {
                let phase = it.spans.iter_mut().flat_map(|span| &mut span.attributes);
                let phase = phase.into_iter().find(|it| it.key == "phasemeter.phase").unwrap();
                phase.value = None;
            },
            "None is not a member",
        ),
        (
            &|it: &mut Captured| it.events[0].event_name += ".x",
            "event phasemeter.recommendation.made.x: not in the registry",
        ),
    ] {
        let found = find(change);
        assert!(found.contains(expected), "no `{expected}` in\n{found}");
    }
}
