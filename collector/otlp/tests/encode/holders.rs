//! Points by holder: they are those of the GPU, divided, and end with their holder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phasemeter_meter::accounts::Accounts;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::holder::{Container, Grant, Holder, HolderChange, Share};
use phasemeter_meter::holder_details::{HolderDetails, Workload};
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::encode::{
    Aggregation, ExportSettings, Exporter, GpuDescription, TemporalityPreference,
};
use phasemeter_otlp::experiment::{Attributes, ExperimentKind, ExperimentRequest, TraceId};
use serde_json::Value;

use crate::file::{Stream, long, nanos, number, of};
use crate::fixtures::{Run, TestGpu, at, reading, settings};

/// The attributes of each point beside `hw.id` and the phase.
const ATTRIBUTES: [&str; 8] = [
    "k8s.container.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "phasemeter.allocation.account",
    "phasemeter.allocation.holder",
    "phasemeter.allocation.job",
    "phasemeter.allocation.method",
];

/// Seconds between exports.
const EVERY: u64 = 10;

fn pod(name: &str, uid: &str) -> Holder {
    Holder::Container(Container {
        namespace: "ml".to_owned(),
        pod: name.to_owned(),
        uid: Some(uid.to_owned()),
        container: "server".to_owned(),
    })
}

/// What becomes known at a second besides: of `b` when it gets the GPU, of the first `a` long after its first export.
fn described(second: u64) -> Option<HolderChange> {
    let holder = match second {
        47 => pod("b", "2"),
        118 => pod("a", "1"),
        _ => return None,
    };
    let workload = Workload { kind: "Deployment".to_owned(), name: "chat".to_owned() };
    let details = HolderDetails {
        workload: Some(workload),
        queue: Some("research".to_owned()),
        labels: [("team".to_owned(), "vision".to_owned())].into(),
        ..HolderDetails::default()
    };
    Some(HolderChange::Described { holder, details: Arc::new(details) })
}

fn grants(holders: &[Holder]) -> Vec<Grant> {
    let of = u32::try_from(holders.len()).unwrap();
    let grant = |holder: &Holder| Grant { holder: holder.clone(), share: Share::new(1, of.max(1)) };
    holders.iter().map(grant).collect()
}

/// Meters this many seconds of a GPU at 3 dollars per hour, one reading each. `holders`: those that hold it from a second on, if
/// that changes then.
fn run(
    seconds: u64,
    temporality: TemporalityPreference,
    percent: impl Fn(u64) -> u32,
    holders: impl Fn(u64) -> Option<Vec<Holder>>,
) -> (Run, Accounts) {
    let gpu = TestGpu::new(0, "3", Vec::new());
    let trace = TraceId::new([7; 16]).unwrap();
    let experiment = ExperimentRequest::default().open(at(0), ExperimentKind::Command { trace });
    let settings = settings(EVERY, Aggregation::Explicit);
    let settings = ExportSettings { by_holder: true, temporality, ..settings };
    let mut exporter = Exporter::new(experiment, &Attributes::new(), settings);
    let price = gpu.price.as_ref();
    let memory_total = gpu.memory_total;
    let mut export =
        exporter.begin(&GpuDescription { identity: &gpu.identity, memory_total, price });
    let config = MeterConfig { boundary_every: settings.every, ..MeterConfig::default() };
    let mut meter = GpuMeter::new(config, price.map(|price| price.rate), memory_total);
    let mut requests = Vec::new();
    for second in 0..seconds {
        if let Some(holders) = holders(second) {
            meter.assign(at(second * 1_000), grants(&holders));
        }
        described(second).into_iter().for_each(|change| meter.change_holders(change));
        let reading = reading(second * 1_000, percent(second));
        meter.push(reading, &mut exporter.observe(&mut export)).unwrap();
        requests.extend(exporter.outgoing().flat_map(|it| it.requests));
    }
    meter.finish(&mut exporter.observe(&mut export));
    let accounts = *meter.accounts();
    exporter.end(export);
    requests.extend(exporter.finish().flat_map(|it| it.requests));
    (Run { requests, summaries: Vec::new() }, accounts)
}

/// A GPU that nobody has, then `a`, then `b` and `c`, then another `a`.
fn shared(temporality: TemporalityPreference) -> (Run, Accounts) {
    let percent = |second| if second % 40 < 25 { 80 } else { 0 };
    run(120, temporality, percent, |second| match second {
        13 => Some(vec![pod("a", "1")]),
        38 => Some(vec![]),
        47 => Some(vec![pod("b", "2"), pod("c", "3")]),
        71 => Some(vec![pod("c", "3"), pod("a", "4")]),
        _ => None,
    })
}

/// The sums of the last values by phase.
fn sums(streams: &[&Stream]) -> BTreeMap<String, i128> {
    let mut sums = BTreeMap::new();
    for stream in streams {
        let phase = stream.attributes["phasemeter.phase"].clone();
        *sums.entry(phase).or_default() += nanos(stream.last());
    }
    sums.retain(|_, sum| *sum > 0);
    sums
}

fn named(streams: &[Stream], name: &str) -> Vec<usize> {
    (0..streams.len()).filter(|place| streams[*place].name == name).collect()
}

#[test]
fn points_of_holders_sum_to_those_of_the_gpu() {
    let (run, accounts) = shared(TemporalityPreference::Cumulative);
    let streams = run.metrics();
    type Value = fn(&Accounts, Account) -> i128;
    let metrics: [(&str, Value); 3] = [
        ("phasemeter.gpu.time", |accounts, account| accounts[account].time.0.into()),
        ("phasemeter.gpu.cost", |accounts, account| accounts[account].cost.0),
        ("phasemeter.gpu.waste", |accounts, account| match account.phase() {
            Some(_) => accounts[account].waste().0,
            None => 0,
        }),
    ];
    for (name, value) in metrics {
        let expected = Account::ALL.map(|it| (it.name().to_owned(), value(&accounts, it)));
        let expected: BTreeMap<_, _> = expected.into_iter().filter(|(_, sum)| *sum > 0).collect();
        let own = of(&streams, name);
        let sums = sums(&own);
        // What was wasted is rounded down in each part.
        let rounding = if name.ends_with("waste") { 12 } else { 0 };
        assert_eq!(sums.len(), expected.len(), "{name}: {sums:?} {expected:?}");
        for (phase, sum) in &sums {
            assert!(
                (sum - expected[phase]).abs() <= rounding,
                "{name} {phase}: {sum} {expected:?}"
            );
        }
    }
}

/// No point is of the GPU as a whole, and all have the same attributes; those of a holder whose workload and queue are
/// known at its first export have these too. A holder of which they are known later has no second series.
#[test]
fn all_points_have_the_attributes_of_holders() {
    let (run, _) = shared(TemporalityPreference::Cumulative);
    let streams = run.metrics();
    for name in ["phasemeter.gpu.time", "phasemeter.gpu.cost", "phasemeter.gpu.waste"] {
        let places = named(&streams, name);
        assert!(places.len() > 20, "{name}: {}", places.len());
        for place in places {
            let keys: Vec<_> = streams[place].attributes.keys().map(String::as_str).collect();
            let mut expected = ATTRIBUTES.to_vec();
            expected.extend(["hw.id", "phasemeter.phase"]);
            if streams[place].attributes["k8s.pod.name"] == "b" {
                expected.extend(["k8s.deployment.name", "phasemeter.allocation.queue"]);
            }
            expected.sort_unstable();
            assert_eq!(keys, expected, "{name}");
        }
    }
    let pods: BTreeSet<_> = of(&streams, "phasemeter.gpu.cost")
        .into_iter()
        .map(|it| it.attributes["k8s.pod.name"].clone())
        .collect();
    assert_eq!(pods, ["", "a", "b", "c"].map(str::to_owned).into());
    let own = of(&streams, "phasemeter.gpu.cost");
    let b = own.iter().find(|it| it.attributes["k8s.pod.name"] == "b").unwrap();
    assert_eq!(b.attributes["k8s.deployment.name"], "chat");
    assert_eq!(b.attributes["phasemeter.allocation.queue"], "research");
}

/// A pod of the same name with another UID is another series, and those of the first one have ended.
#[test]
fn series_end_with_their_holder() {
    let (run, _) = shared(TemporalityPreference::Cumulative);
    let streams = run.metrics();
    let end = |uid: &str| {
        let own = of(&streams, "phasemeter.gpu.cost");
        let own = own.into_iter().filter(|stream| stream.attributes["k8s.pod.uid"] == uid);
        let last = own.map(|stream| long(&stream.points.last().unwrap()["timeUnixNano"]));
        let last: BTreeSet<u64> = last.collect();
        last.into_iter().map(|it| Timestamp::from_nanos(it).unwrap()).collect::<Vec<_>>()
    };
    // Exports are at whole multiples of ten seconds; the first reading is five seconds before one.
    let final_exports = |ended: u64| {
        let first = at(ended * 1_000).floor(Nanos::from_secs(EVERY)) + Nanos::from_secs(EVERY);
        vec![first + Nanos::from_secs(EVERY)]
    };
    assert_eq!(end("1"), final_exports(38));
    assert_eq!(end("2"), final_exports(71));
    let last = at(119_000);
    for uid in ["3", "4", ""] {
        assert!(end(uid).iter().all(|it| *it >= last), "{uid}");
    }
}

/// Without a source that names a holder, all is nobody's.
#[test]
fn gpu_without_holders_is_nobodys() {
    let (run, accounts) = run(60, TemporalityPreference::Cumulative, |_| 50, |_| None);
    let streams = run.metrics();
    let own = of(&streams, "phasemeter.gpu.cost");
    assert!(own.iter().all(|it| it.attributes["phasemeter.allocation.account"] == "nobody"));
    let expected = [("underutilized".to_owned(), accounts[Account::Underutilized].cost.0)].into();
    assert_eq!(sums(&own), expected);
}

/// Increases sum to the totals.
#[test]
fn increases_of_holders_sum_to_their_totals() {
    let totals = shared(TemporalityPreference::Cumulative).0.metrics();
    let increases = shared(TemporalityPreference::Delta).0.metrics();
    let key = |stream: &Stream| (stream.name.clone(), stream.attributes.clone());
    let cost = |point: &Value| number(&point["asDouble"]);
    let last: BTreeMap<_, _> = of(&totals, "phasemeter.gpu.cost")
        .into_iter()
        .map(|it| (key(it), nanos(it.last())))
        .collect();
    assert!(!last.is_empty());
    for stream in of(&increases, "phasemeter.gpu.cost") {
        let sum = nanos(stream.points.iter().map(cost).sum());
        assert!((sum - last[&key(stream)]).abs() <= 1, "{stream:?}");
    }
}

/// Three hundred pods, one after another, each for two seconds: no request has points of pods that ended long before.
#[test]
fn points_do_not_grow_with_the_number_of_pods_so_far() {
    let pods = 300;
    let (run, accounts) = run(
        2 * pods,
        TemporalityPreference::Delta,
        |_| 80,
        |second| (second % 2 == 0).then(|| vec![pod("train-0", &(second / 2).to_string())]),
    );
    let mut at_time: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    let mut sum = 0.0;
    let streams = run.metrics();
    for stream in of(&streams, "phasemeter.gpu.cost") {
        for point in &stream.points {
            let pods = at_time.entry(long(&point["timeUnixNano"])).or_default();
            pods.insert(stream.attributes["k8s.pod.uid"].clone());
            sum += number(&point["asDouble"]);
        }
    }
    let most = at_time.values().map(BTreeSet::len).max().unwrap();
    // Those of two intervals, one that has begun, and nobody.
    assert!(most <= 13, "{most}");
    assert!((nanos(sum) - accounts.all().cost.0).abs() < 1_000, "{sum}");
}
