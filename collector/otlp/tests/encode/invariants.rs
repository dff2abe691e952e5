//! Invariants for any readings and export interval.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::Request;
use phasemeter_otlp::encode::{ExportSettings, TemporalityPreference};
use phasemeter_otlp::experiment::{
    ExperimentKind, ExperimentRequest, TraceId, TraceMode, TraceParent,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::PARENT;
use crate::file::{Span, Stream, list, long, nanos, number, of, streams, text};
use crate::fixtures::{Run, TestGpu, any_gpus, any_settings, any_traces, run, run_as};

/// Sums never decrease and keep their start; timestamps increase.
pub(crate) fn check_points(run: &Run) -> Result<(), TestCaseError> {
    for stream in run.metrics() {
        for pair in stream.points.windows(2) {
            let time = |point: &Value| long(&point["timeUnixNano"]);
            prop_assert!(time(&pair[0]) < time(&pair[1]), "{:?}", stream);
            if stream.monotonic {
                let value = |point: &Value| number(&point["asDouble"]);
                prop_assert_eq!(&pair[0]["startTimeUnixNano"], &pair[1]["startTimeUnixNano"]);
                prop_assert!(value(&pair[0]) <= value(&pair[1]), "{:?}", stream);
            }
        }
    }
    Ok(())
}

/// Each exemplar references a span of its GPU that contains it. That of a cost has the dollars of its span in the
/// account. That of the histogram lies in a bucket that has counted it since the last export; at most one per bucket and
/// export.
fn check_exemplars(run: &Run) -> Result<(), TestCaseError> {
    let spans = run.spans();
    let by_id: BTreeMap<_, _> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    for stream in of(&run.metrics(), "phasemeter.gpu.cost") {
        let mut since = 0;
        for point in &stream.points {
            let exemplars = list(&point["exemplars"]);
            prop_assert!(exemplars.len() <= 1);
            for exemplar in exemplars {
                let at = long(&exemplar["timeUnixNano"]);
                prop_assert!(since < at && at <= long(&point["timeUnixNano"]), "ended since");
                let span = by_id[exemplar["spanId"].as_str().unwrap()];
                prop_assert_eq!(&span.trace, &text(&exemplar["traceId"]));
                prop_assert_eq!(&span.attributes["hw.id"], &stream.attributes["hw.id"]);
                prop_assert_eq!(span.to, at);
                let account = format!("phasemeter.cost.{}", stream.attributes["phasemeter.phase"]);
                let dollars: f64 = span.attributes[&account].parse().unwrap();
                prop_assert_eq!(nanos(number(&exemplar["asDouble"])), nanos(dollars));
                since = at;
            }
        }
    }
    for stream in of(&run.metrics(), "phasemeter.gpu.utilization") {
        // A silent GPU has points with the time of their round, and may continue before it.
        let (mut since, mut counted) = (0, Vec::new());
        for point in &stream.points {
            let exemplars = list(&point["exemplars"]);
            for exemplar in exemplars {
                let at = long(&exemplar["timeUnixNano"]);
                let until = long(&point["timeUnixNano"]);
                prop_assert!(since < at && at <= until, "only readings since the last point");
                let span = by_id[exemplar["spanId"].as_str().unwrap()];
                prop_assert_eq!(&span.trace, &text(&exemplar["traceId"]));
                prop_assert_eq!(&span.attributes["hw.id"], &stream.attributes["hw.id"]);
                prop_assert!(span.from <= at && at <= span.to);
            }
            if let Some(bounds) = point["explicitBounds"].as_array() {
                let counts: Vec<u64> = list(&point["bucketCounts"]).iter().map(long).collect();
                counted.resize(counts.len(), 0);
                for exemplar in exemplars {
                    let value = number(&exemplar["asDouble"]);
                    let bucket = bounds.iter().position(|bound| value <= number(bound)).unwrap();
                    prop_assert!(counts[bucket] > counted[bucket], "{} in {}", value, point);
                }
                counted = counts;
            }
            let values: BTreeSet<_> =
                exemplars.iter().map(|exemplar| exemplar["asDouble"].to_string()).collect();
            prop_assert_eq!(values.len(), exemplars.len(), "one per bucket");
            let times = exemplars.iter().map(|exemplar| long(&exemplar["timeUnixNano"]));
            since = times.max().unwrap_or(since);
        }
    }
    Ok(())
}

/// The increases of a stream sum to the last total of the cumulative one, without gaps in time.
fn check_increases(delta: &Stream, total: &Stream) -> Result<(), TestCaseError> {
    prop_assert_eq!(delta.points.len(), total.points.len());
    let mut since = long(&total.points[0]["startTimeUnixNano"]);
    for (delta, total) in delta.points.iter().zip(&total.points) {
        prop_assert_eq!(long(&delta["startTimeUnixNano"]), since, "{}", delta);
        prop_assert_eq!(&delta["timeUnixNano"], &total["timeUnixNano"]);
        prop_assert_eq!(&delta["exemplars"], &total["exemplars"]);
        since = long(&delta["timeUnixNano"]);
    }
    let last = total.points.last().unwrap();
    for name in ["asDouble", "sum"] {
        let value = |point: &Value| point.get(name).map(number);
        let sum: f64 = delta.points.iter().filter_map(value).sum();
        let total = value(last).unwrap_or_default();
        prop_assert!((sum - total).abs() <= 1e-9 * total.max(1.0), "{}: {} {}", name, sum, total);
    }
    for name in ["count", "zeroCount"] {
        let value = |point: &Value| point.get(name).map_or(0, long);
        prop_assert_eq!(delta.points.iter().map(value).sum::<u64>(), value(last), "{}", name);
    }
    let sums = delta.points.iter().flat_map(buckets).fold(BTreeMap::new(), |mut sums, bucket| {
        *sums.entry(bucket.0).or_insert(0) += bucket.1;
        sums
    });
    prop_assert_eq!(sums, buckets(last).into_iter().collect::<BTreeMap<_, _>>());
    Ok(())
}

/// The non-empty buckets of a histogram by index.
fn buckets(point: &Value) -> Vec<(i64, u64)> {
    let buckets = point.get("positive").unwrap_or(point);
    let offset = buckets.get("offset").map_or(0, |offset| offset.as_i64().unwrap());
    let counts = (offset..).zip(list(&buckets["bucketCounts"]).iter().map(long));
    counts.filter(|(_, count)| *count > 0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn increases_sum_to_totals(gpus in any_gpus(), settings in any_settings()) {
        let metrics = |temporality| {
            let settings = ExportSettings { temporality, ..settings };
            run(&gpus, ExperimentRequest::default(), settings).metrics()
        };
        let totals = metrics(TemporalityPreference::Cumulative);
        for temporality in [TemporalityPreference::Delta, TemporalityPreference::LowMemory] {
            let converted = metrics(temporality);
            prop_assert_eq!(converted.len(), totals.len());
            for (stream, total) in converted.iter().zip(&totals) {
                let is_histogram = stream.name == "phasemeter.gpu.utilization";
                let is_counter = stream.monotonic && temporality == TemporalityPreference::Delta;
                prop_assert_eq!(stream.delta, is_histogram || is_counter, "{}", &stream.name);
                prop_assert_eq!((&stream.name, &stream.attributes), (&total.name, &total.attributes));
                prop_assert!(!total.delta);
                if stream.delta {
                    check_increases(stream, total)?;
                } else {
                    prop_assert_eq!(&stream.points, &total.points);
                }
            }
        }
    }

    #[test]
    fn last_points_sum_to_bill_and_time(
        gpus in any_gpus(), settings in any_settings(),
    ) {
        let run = run(&gpus, ExperimentRequest::default(), settings);
        let streams = run.metrics();
        for (gpu, summary) in gpus.iter().zip(&run.summaries) {
            let id = gpu.identity.index.unwrap().to_string();
            let sum = |name| -> i128 {
                let mine = of(&streams, name).into_iter().filter(|it| it.attributes["hw.id"] == id);
                mine.map(|stream| nanos(stream.last())).sum()
            };
            prop_assert_eq!(NanoUsd(sum("phasemeter.gpu.cost")), summary.accounts.all().cost);
            prop_assert_eq!(sum("phasemeter.gpu.time"), i128::from(summary.length().0));
            let slack = sum("phasemeter.gpu.waste") - summary.accounts.waste().0;
            prop_assert!((0..1_000).contains(&slack), "less than a millionth of a dollar: {}", slack);
        }
    }

    #[test]
    fn sums_are_monotonic_and_timestamps_increase(gpus in any_gpus(), settings in any_settings()) {
        check_points(&run(&gpus, ExperimentRequest::default(), settings))?;
    }

    /// Prometheus refuses a request with a point that is older than the newest one of its resource.
    #[test]
    fn points_of_a_request_have_one_time_and_requests_are_in_its_order(
        gpus in any_gpus(), settings in any_settings(),
    ) {
        let mut last = 0;
        for line in run(&gpus, ExperimentRequest::default(), settings).lines() {
            let streams = streams(std::slice::from_ref(&line));
            let points = streams.iter().flat_map(|stream| &stream.points);
            let times: BTreeSet<u64> = points.map(|point| long(&point["timeUnixNano"])).collect();
            prop_assert!(times.len() <= 1, "{:?}", times);
            prop_assert!(times.iter().all(|time| last <= *time), "{} after {}", times.len(), last);
            last = times.last().copied().unwrap_or(last);
        }
    }

    #[test]
    fn readings_are_counted_once(gpus in any_gpus(), settings in any_settings()) {
        let streams = run(&gpus, ExperimentRequest::default(), settings).metrics();
        for stream in of(&streams, "phasemeter.gpu.utilization") {
            for point in &stream.points {
                let buckets = match point.get("positive") {
                    Some(positive) => &positive["bucketCounts"],
                    None => &point["bucketCounts"],
                };
                let zeros = point.get("zeroCount").map_or(0, long);
                let counted = zeros + list(buckets).iter().map(long).sum::<u64>();
                prop_assert_eq!(long(&point["count"]), counted);
            }
        }
        let counted = |gpu: &TestGpu| {
            gpu.readings.iter().filter(|reading| reading.utilization.is_ok()).count() as u64
        };
        let exported: u64 = of(&streams, "phasemeter.gpu.utilization")
            .iter()
            .map(|stream| long(&stream.points.last().unwrap()["count"]))
            .sum();
        prop_assert_eq!(exported, gpus.iter().map(counted).sum::<u64>());
    }

    #[test]
    fn spans_form_one_tree_and_phases_tile_it(gpus in any_gpus(), settings in any_settings()) {
        let request = ExperimentRequest::default().under(PARENT.parse::<TraceParent>().unwrap());
        let run = run(&gpus, request, settings);
        let spans = run.spans();
        let by_id: BTreeMap<_, _> = spans.iter().map(|span| (span.id.clone(), span)).collect();
        prop_assert_eq!(by_id.len(), spans.len(), "duplicate IDs");
        let sessions = gpus.iter().filter(|gpu| !gpu.readings.is_empty()).count();
        let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
        prop_assert_eq!(named("gpu session").len(), sessions);
        prop_assert_eq!(named("experiment").len(), usize::from(sessions > 0));

        for span in &spans {
            prop_assert_eq!(&span.trace, "0af7651916cd43dd8448eb211c80319c");
            prop_assert_eq!(&span.attributes["phasemeter.experiment.id"], &span.trace);
            let parent = span.parent.as_ref().unwrap();
            if span.name == "experiment" {
                prop_assert_eq!(parent, "b7ad6b7169203331");
                continue;
            }
            let parent = by_id[parent];
            let depth = if span.name == "gpu session" { "experiment" } else { "gpu session" };
            prop_assert_eq!(&parent.name, depth);
            prop_assert!(parent.from <= span.from && span.to <= parent.to);
        }
        for session in named("gpu session") {
            let mut phases: Vec<_> =
                spans.iter().filter(|span| span.parent.as_ref() == Some(&session.id)).collect();
            phases.sort_by_key(|span| span.from);
            let mut reached = session.from;
            for phase in phases {
                prop_assert_eq!(phase.from, reached);
                prop_assert_eq!(&phase.attributes["phasemeter.phase"], &phase.name);
                prop_assert_eq!(&phase.attributes["hw.id"], &session.attributes["hw.id"]);
                reached = phase.to;
            }
            prop_assert_eq!(reached, session.to);
        }
        let cost: i128 = named("experiment").iter().map(|span| span.cost()).sum();
        let bill: NanoUsd = run.summaries.iter().map(|summary| summary.accounts.all().cost).sum();
        prop_assert_eq!(NanoUsd(cost), bill);
    }

    #[test]
    fn exemplar_references_span_that_contains_it(gpus in any_gpus(), settings in any_settings()) {
        check_exemplars(&run(&gpus, ExperimentRequest::default(), settings))?;
    }

    /// A session has the bill of its hour; here an hour is shorter.
    #[test]
    fn sessions_tile_run_and_carry_their_bill(
        gpus in any_gpus(), settings in any_settings(), hour in 20..400_u64, under: bool, traces in any_traces(),
    ) {
        let given = PARENT.parse::<TraceParent>().ok().filter(|_| under);
        let request = ExperimentRequest { parent: given, traces, ..ExperimentRequest::default() };
        let config = MeterConfig { session_every: Nanos::from_secs(hour), ..MeterConfig::default() };
        let trace = TraceId::new([7; 16]).unwrap();
        let run = run_as(config, &gpus, settings, |first| {
            request.open(first, ExperimentKind::Sidecar { trace })
        });
        check_points(&run)?;
        check_exemplars(&run)?;

        let spans = run.spans();
        prop_assert!(spans.iter().all(|span| span.name != "experiment"), "no experiment span without a known end");
        let ids: BTreeSet<_> = spans.iter().map(|span| &span.attributes["phasemeter.experiment.id"]).collect();
        prop_assert!(ids.len() <= 1, "{:?}", ids);
        let given = given.map(|given| (given.trace_id.to_string(), given.span_id.to_string()));
        let shared = given.clone().filter(|_| traces == TraceMode::Shared);
        let mut seen = BTreeSet::new();
        for (gpu, summary) in gpus.iter().zip(&run.summaries) {
            let id = gpu.identity.index.unwrap().to_string();
            let mut own: Vec<_> = spans.iter().filter(|span| span.attributes["hw.id"] == id).collect();
            own.sort_by_key(|span| span.from);
            let (sessions, phases): (Vec<_>, Vec<_>) =
                own.into_iter().partition(|span| span.name == "gpu session");
            let mut before: Option<&Span> = None;
            for session in &sessions {
                let first = gpu.readings[0].at.as_nanos();
                prop_assert_eq!(session.from, before.map_or(first, |before| before.to));
                let follows = before.map(|before| (before.trace.clone(), before.id.clone()));
                let follows = follows.or_else(|| given.clone().filter(|_| shared.is_none()));
                prop_assert_eq!(session.links.first(), follows.as_ref());
                prop_assert_eq!(&session.parent, &shared.clone().map(|(_, parent)| parent));
                match &shared {
                    Some((trace, _)) => prop_assert_eq!(&session.trace, trace),
                    None => prop_assert!(seen.insert(session.trace.clone()), "its own trace"),
                }

                let (mut reached, mut cost) = (session.from, 0);
                for phase in phases.iter().filter(|span| span.parent.as_ref() == Some(&session.id)) {
                    prop_assert_eq!((&phase.trace, phase.from), (&session.trace, reached));
                    (reached, cost) = (phase.to, cost + phase.cost());
                }
                prop_assert_eq!(reached, session.to);
                let rate = summary.rate.unwrap().nano_usd_per_hour();
                let until = |at: u64| i128::from(rate) * i128::from(at - first) / 3_600_000_000_000;
                prop_assert_eq!(session.cost(), until(session.to) - until(session.from));
                prop_assert_eq!(cost, session.cost());
                before = Some(session);
            }
            let inner = sessions.split_last().map(|(_, inner)| inner).unwrap_or_default();
            prop_assert!(inner.iter().all(|session| session.to % (hour * 1_000_000_000) == 0));
            let end = gpu.readings.last().map(|last| last.at.as_nanos());
            prop_assert_eq!(before.map(|last| last.to), end);
        }
    }

    #[test]
    fn file_is_deterministic_and_decodes_to_the_requests(
        gpus in any_gpus(), settings in any_settings(),
    ) {
        let first = run(&gpus, ExperimentRequest::default(), settings);
        let file = first.file();
        prop_assert_eq!(&file, &run(&gpus, ExperimentRequest::default(), settings).file());
        prop_assert_eq!(file.lines().count(), first.requests.len());
        for (line, request) in file.lines().zip(&first.requests) {
            prop_assert!(!line.contains("null"));
            match request {
                Request::Metrics(request) => {
                    let read: ExportMetricsServiceRequest = serde_json::from_str(line).unwrap();
                    prop_assert_eq!(&read, request);
                }
                Request::Traces(request) => {
                    let read: ExportTraceServiceRequest = serde_json::from_str(line).unwrap();
                    prop_assert_eq!(&read, request);
                }
                Request::Logs(request) => {
                    let read: ExportLogsServiceRequest = serde_json::from_str(line).unwrap();
                    prop_assert_eq!(&read, request);
                }
            }
        }
    }

    #[test]
    fn unsampled_trace_does_not_change_metrics(
        gpus in any_gpus(), settings in any_settings(),
    ) {
        let parent = PARENT.replace("-01", "-00").parse::<TraceParent>().unwrap();
        let unsampled = run(&gpus, ExperimentRequest::default().under(parent), settings);
        prop_assert!(unsampled.spans().is_empty());
        let sampled = run(&gpus, ExperimentRequest::default(), settings);
        for (mut unsampled, mut sampled) in unsampled.metrics().into_iter().zip(sampled.metrics()) {
            prop_assert!(unsampled.points.iter().all(|point| point.get("exemplars").is_none()));
            for point in sampled.points.iter_mut().chain(&mut unsampled.points) {
                point.as_object_mut().unwrap().remove("exemplars");
            }
            prop_assert_eq!((unsampled.name, unsampled.points), (sampled.name, sampled.points));
        }
    }
}
