//! The metadata of a pod, as far as it is read.

use std::collections::BTreeMap;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;
use serde::{Deserialize, Deserializer};

/// The longest name or value that is kept, in bytes: that of a name in Kubernetes. Values of labels have 63.
pub(super) const MAX_TEXT: usize = 253;

/// The members that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(deserialize_with = "null")]
    pub(super) name: String,
    #[serde(deserialize_with = "null")]
    pub(super) namespace: String,
    #[serde(deserialize_with = "null")]
    pub(super) uid: String,
    #[serde(deserialize_with = "null")]
    pub(super) resource_version: String,
    #[serde(rename = "creationTimestamp")]
    pub(super) created: Option<String>,
    #[serde(deserialize_with = "null")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null")]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(rename = "ownerReferences", deserialize_with = "null")]
    pub(super) owners: Vec<Owner>,
}

/// An owner of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
    /// Whether it manages the pod. One owner at most does.
    #[serde(deserialize_with = "null")]
    pub(super) controller: bool,
}

impl Metadata {
    /// The owner that manages the pod.
    pub(super) fn controller(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| owner.controller)
    }

    /// When the object was created, if that can be read.
    pub(super) fn created(&self) -> Option<Timestamp> {
        let Instant(at) = self.created.as_deref()?.parse().ok()?;
        Some(at)
    }
}

/// The default in place of `null`, as programs in Go write what is empty.
pub(super) fn null<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Whether a text can be kept and printed.
pub(super) fn is_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TEXT && !text.chars().any(char::is_control)
}
