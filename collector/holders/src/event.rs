//! The events of a watch.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::api::is_version;

/// An object, or in its place a status if the watch fails.
pub(crate) trait Object: DeserializeOwned {
    /// Its resource version.
    fn version(&self) -> &str;

    /// The code of a status.
    fn code(&self) -> Option<u16>;
}

/// An event. Its object is as it is now, or as it last was; of a bookmark, only the resource version; of an error, a
/// status.
#[derive(Deserialize)]
struct Event<T> {
    #[serde(rename = "type")]
    kind: String,
    object: T,
}

/// What follows from an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The watch goes on after this resource version.
    Version(String),
    /// The version is too old: all must be listed anew.
    Expired,
    /// The server ends the watch with this status.
    Failed(u16),
    /// It is not an event.
    Invalid,
}

/// A change of an object.
pub(crate) enum Change {
    /// It is new or another one.
    Set,
    Removed,
}

/// Applies the text of an event.
pub(crate) fn apply<T: Object>(line: &[u8], change: impl FnOnce(Change, &T)) -> Effect {
    let Ok(Event { kind, object }) = serde_json::from_slice::<Event<T>>(line) else {
        return Effect::Invalid;
    };
    match kind.as_str() {
        "ADDED" | "MODIFIED" => change(Change::Set, &object),
        "DELETED" => change(Change::Removed, &object),
        "ERROR" => {
            return match object.code() {
                Some(410) => Effect::Expired,
                code => Effect::Failed(code.unwrap_or(500)),
            };
        }
        // A bookmark, or a kind that is not known yet.
        _ => {}
    }
    match object.version() {
        version if is_version(version) => Effect::Version(version.to_owned()),
        _ => Effect::Invalid,
    }
}
