//! Keeps some resources of a request, with their bytes.

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
use prost::Message;

use super::counters::resource_id;
use super::held_span::RESOURCE_SPANS;
use super::received::Received;
use super::take_spans::{Remaining, Rest, filter};
use crate::items::Items;
use crate::signal::Signal;

/// The tag of a request's resources, whatever its signal.
const RESOURCES: u32 = RESOURCE_SPANS;

/// What is left of a request without the resources that are not kept, by their identity; `None` if nothing is.
#[must_use]
pub fn keep_resources(request: Received, is_kept: &dyn Fn(&[u8]) -> bool) -> Option<Received> {
    let signal = request.signal;
    let mut items = 0;
    let remaining = filter(&request.body, RESOURCES, &mut |element| {
        let (attributes, count) = read(signal, element)?;
        if is_kept(&resource_id(&attributes)) {
            items += count as u64;
            Some(Remaining::All)
        } else {
            Some(Remaining::Nothing)
        }
    });
    match remaining {
        // An accepted request is not malformed.
        None | Some(Remaining::All) => Some(request),
        Some(Remaining::Nothing) => None,
        Some(Remaining::Part(bytes)) => {
            let body = Bytes::from_owner(Rest::new(bytes, request.body));
            Some(Received { signal, items, body })
        }
    }
}

/// The attributes of a resource, and the number of its items.
fn read(signal: Signal, element: &[u8]) -> Option<(Vec<KeyValue>, usize)> {
    let (resource, count): (Option<Resource>, usize) = match signal {
        Signal::Traces => {
            let group = ResourceSpans::decode(element).ok()?;
            let count = group.count();
            (group.resource, count)
        }
        Signal::Metrics => {
            let group = ResourceMetrics::decode(element).ok()?;
            let count = group.count();
            (group.resource, count)
        }
        Signal::Logs => {
            let group = ResourceLogs::decode(element).ok()?;
            let count = group.count();
            (group.resource, count)
        }
    };
    Some((resource.map(|resource| resource.attributes).unwrap_or_default(), count))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ScopeLogs};

    use super::*;

    /// Logs of five resources, the n-th with n records.
    fn logs() -> ExportLogsServiceRequest {
        let group = |number: usize| {
            let value = Some(AnyValue { value: Some(Value::StringValue(number.to_string())) });
            let attribute = KeyValue { key: "host.name".to_owned(), value, ..KeyValue::default() };
            let resource = Resource { attributes: vec![attribute], ..Resource::default() };
            let records = vec![LogRecord::default(); number];
            let scope = ScopeLogs { log_records: records, ..ScopeLogs::default() };
            ResourceLogs { resource: Some(resource), scope_logs: vec![scope], ..Default::default() }
        };
        ExportLogsServiceRequest { resource_logs: (1..=5).map(group).collect() }
    }

    #[test]
    fn each_resource_is_kept_or_left_out_whole() {
        let whole = logs();
        let body = Bytes::from(whole.encode_to_vec());
        let request = Received { signal: Signal::Logs, items: 15, body };
        let ids: Vec<_> = whole
            .resource_logs
            .iter()
            .map(|group| resource_id(&group.resource.as_ref().unwrap().attributes))
            .collect();
        for kept in [&[][..], &[1, 3], &[0, 1, 2, 3, 4]] {
            let kept_ids: BTreeSet<_> = kept.iter().map(|&index| ids[index]).collect();
            let left = keep_resources(request.clone(), &|id| kept_ids.iter().any(|it| it == id));
            let expected: Vec<_> =
                kept.iter().map(|&index| whole.resource_logs[index].clone()).collect();
            let Some(left) = left else {
                assert!(expected.is_empty());
                continue;
            };
            let decoded = ExportLogsServiceRequest::decode(&left.body[..]).unwrap();
            assert_eq!(left.items, decoded.count() as u64);
            assert_eq!(decoded.resource_logs, expected);
        }
    }
}
