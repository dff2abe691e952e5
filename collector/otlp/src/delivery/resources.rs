//! The resources of an encoded request, by hash: data of one resource must stay in order.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::wire::{Field, fields};

/// The tags of an element in a request, and of the resource in an element.
const ELEMENT: u32 = 1;
const RESOURCE: u32 = 1;

/// A hash of each resource, once. A malformed request is one of a resource of its own.
pub(super) fn resources(body: &[u8]) -> Vec<u64> {
    let elements = fields(body).flatten();
    let mut hashes: Vec<u64> =
        elements.filter_map(|it| value(&it, ELEMENT)).map(resource).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

fn resource(element: &[u8]) -> u64 {
    let resource = fields(element).flatten().find_map(|it| value(&it, RESOURCE));
    let resource = resource.unwrap_or_default();
    BuildHasherDefault::<DefaultHasher>::default().hash_one(resource)
}

fn value<'a>(field: &Field<'a>, tag: u32) -> Option<&'a [u8]> {
    field.value.filter(|_| field.tag == tag)
}

#[cfg(test)]
mod tests {
    use super::resources;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::KeyValue;
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
    use prost::Message;

    fn request(names: &[&str]) -> Vec<u8> {
        let group = |name: &&str| {
            let attributes = vec![KeyValue { key: (*name).to_owned(), ..KeyValue::default() }];
            let resource = Some(Resource { attributes, ..Resource::default() });
            ResourceSpans { resource, ..ResourceSpans::default() }
        };
        let resource_spans = names.iter().map(group).collect();
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    #[test]
    fn each_resource_has_one_hash() {
        let (a, b) = (resources(&request(&["a"])), resources(&request(&["b"])));
        assert!(a.len() == 1 && b.len() == 1 && a != b);
        let mut both = [a, b].concat();
        both.sort_unstable();
        assert_eq!(resources(&request(&["b", "a", "b"])), both);
        let without = ExportTraceServiceRequest { resource_spans: vec![ResourceSpans::default()] };
        assert_eq!(resources(&without.encode_to_vec()).len(), 1);
        assert!(resources(&[]).is_empty());
    }
}
