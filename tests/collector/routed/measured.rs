//! What the gateways reported and exported.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use serde_json::Value;

use super::stays::Accounts;
use crate::fleet::{metrics, requests};
use crate::otlp;
use crate::otlp::billionths;
use crate::run::nano_usd;

/// The sums of a metric by GPU and phase in the file of a gateway, in billionths: of each start the last, since a restart
/// begins new ones. Panics if a sum falls.
pub(super) fn sums(archive: &[u8], name: &str) -> Accounts {
    let mut last = BTreeMap::<_, BTreeMap<u64, (u64, u64)>>::new();
    for metric in metrics(archive, name) {
        let Some(Data::Sum(sum)) = metric.data else { panic!("{metric:?}") };
        for point in sum.data_points {
            let mut attributes = otlp::attributes(&point.attributes);
            let key = ["hw.id", "phasemeter.phase"].map(|key| attributes.remove(key).unwrap());
            let Some(Number::AsDouble(value)) = point.value else { panic!("{point:?}") };
            let starts = last.entry(key.into()).or_default();
            let known = starts.entry(point.start_time_unix_nano).or_default();
            // A request may arrive twice.
            if known.0 <= point.time_unix_nano {
                assert!(known.1 <= billionths(value), "a sum falls: {known:?} {point:?}");
                *known = (point.time_unix_nano, billionths(value));
            }
        }
    }
    let sum = |starts: BTreeMap<u64, (u64, u64)>| starts.values().map(|(_, value)| value).sum();
    last.into_iter().map(|(key, starts)| (key, sum(starts))).collect()
}

/// The cost of each account of each GPU of a report, in nano-dollars.
pub(super) fn reported(report: &Value) -> Accounts {
    let mut accounts = Accounts::new();
    for gpu in report["gpus"].as_array().unwrap() {
        let id = gpu["id"].as_str().unwrap();
        for account in ["idle_held", "idle_free", "underutilized", "productive", "compute_bound"] {
            let cost = nano_usd(&gpu["phases"][account]["cost_usd"]);
            accounts.insert((id.to_owned(), account.to_owned()), cost);
        }
        let cost = nano_usd(&gpu["unobserved_usd"]);
        accounts.insert((id.to_owned(), "unobserved".to_owned()), cost);
    }
    accounts.retain(|_, cost| *cost > 0);
    accounts
}

/// Nanoseconds of gaps by GPU, as events state them; of one that was sent twice once.
pub(super) fn gaps(archive: &[u8]) -> BTreeMap<String, u64> {
    let mut found = BTreeSet::new();
    let requests = requests::<ExportLogsServiceRequest>(archive);
    let scopes = requests.flat_map(|it| it.resource_logs).flat_map(|it| it.scope_logs);
    for event in scopes.flat_map(|scope| scope.log_records) {
        if event.event_name == "phasemeter.gpu.gap.found" {
            let mut of = otlp::attributes(&event.attributes);
            let seconds: f64 = of["phasemeter.gpu.gap.duration"].parse().unwrap();
            let gpu = of.remove("hw.id").unwrap();
            found.insert((gpu, event.time_unix_nano, billionths(seconds)));
        }
    }
    let mut gaps = BTreeMap::new();
    for (gpu, _, nanos) in found {
        *gaps.entry(gpu).or_default() += nanos;
    }
    gaps
}

/// The number of spans in a file.
pub(super) fn spans(archive: &[u8]) -> usize {
    let requests = requests::<ExportTraceServiceRequest>(archive);
    let scopes = requests.flat_map(|it| it.resource_spans).flat_map(|it| it.scope_spans);
    scopes.map(|scope| scope.spans.len()).sum()
}
