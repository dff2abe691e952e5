//! The events of a watch of pods.

use serde::Deserialize;

use super::object::Object;
use super::table::Pods;
use crate::api::is_version;

/// An event. Its object is the pod as it is now, or as it last was; of a bookmark, only the resource version; of an
/// error, a status.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

/// What follows from an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The watch goes on after this resource version.
    Version(String),
    /// The version is too old: pods must be listed anew.
    Expired,
    /// The server ends the watch with this status.
    Failed(u16),
    /// It is not an event.
    Invalid,
}

/// Applies the text of an event.
pub(super) fn apply(line: &[u8], labels: &[String], pods: &mut Pods) -> Effect {
    let Ok(Event { kind, object }) = serde_json::from_slice(line) else { return Effect::Invalid };
    match kind.as_str() {
        "ADDED" | "MODIFIED" => _ = pods.insert(&object, labels),
        "DELETED" => pods.remove(&object),
        "ERROR" => {
            return match object.code {
                Some(410) => Effect::Expired,
                code => Effect::Failed(code.unwrap_or(500)),
            };
        }
        // A bookmark, or a kind that is not known yet.
        _ => {}
    }
    match object.metadata.resource_version {
        version if is_version(&version) => Effect::Version(version),
        _ => Effect::Invalid,
    }
}
