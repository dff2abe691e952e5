//! Keeps some resources of a request, with their bytes.

use super::counters::resource_id;
use super::filter::{Remaining, filter};
use super::held_span::RESOURCE_SPANS;
use super::inspect::read_element;
use phasemeter_otlp::EncodedRequest;

/// The tag of a request's resources, whatever its signal.
const RESOURCES: u32 = RESOURCE_SPANS;

/// What is left of a request without the resources that are not kept, by their identity; `None` if nothing is.
#[must_use]
pub fn keep_resources(
    request: EncodedRequest,
    is_kept: &dyn Fn(&[u8]) -> bool,
) -> Option<EncodedRequest> {
    let signal = request.signal();
    let mut items = 0;
    let remaining = filter(request.body(), RESOURCES, &mut |element| {
        let (resource, count) = read_element(signal, element).ok()?;
        let attributes = resource.map(|resource| resource.attributes).unwrap_or_default();
        if is_kept(&resource_id(&attributes)) {
            items += count;
            Some(Remaining::All)
        } else {
            Some(Remaining::Nothing)
        }
    });
    // An accepted request is not malformed.
    remaining.unwrap_or(Remaining::All).of(request, items)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use opentelemetry_proto::tonic::common::v1::KeyValue;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use prost::Message;

    use super::*;
    use phasemeter_otlp::Signal;
    use phasemeter_otlp::items::Items;

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
        let request = EncodedRequest::new(Signal::Logs, 15, whole.encode_to_vec().into());
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
            let decoded = ExportLogsServiceRequest::decode(&left.body()[..]).unwrap();
            assert_eq!(left.items(), decoded.count() as u64);
            assert_eq!(decoded.resource_logs, expected);
        }
    }
}
