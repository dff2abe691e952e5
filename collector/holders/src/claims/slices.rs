//! `ResourceSlice` objects of `resource.k8s.io`: which devices drivers publish. Versions v1, v1beta2 and v1beta1, which
//! nests what describes a device under `basic`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::quantity::thousandths;
use super::{DeviceKey, PublishedDevice};
use crate::api::is_name;
use crate::event;

/// Devices that are taken from the slices of a node. What is over it is left out.
const MAX_DEVICES: usize = 4_096;

/// The longest value of an attribute that is kept, in bytes: Kubernetes allows 64.
const MAX_VALUE: usize = 256;

#[derive(Deserialize)]
struct SliceList {
    #[serde(default)]
    metadata: Metadata,
    // A list without it is another object.
    items: Option<Vec<Slice>>,
    kind: String,
}

/// A slice, or the status of an error in its place.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Slice {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    code: Option<u16>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

impl Slice {
    /// Its name; `None` if it is not a slice.
    pub(super) fn name(&self) -> Option<&str> {
        let name = self.metadata.name.as_str();
        (is_name(name) && name.len() <= MAX_VALUE).then_some(name)
    }
}

impl event::Object for Slice {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn code(&self) -> Option<u16> {
        self.code
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    driver: String,
    pool: Pool,
    devices: Vec<Device>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Pool {
    name: String,
    generation: i64,
}

#[derive(Clone, Debug, Deserialize)]
struct Device {
    name: String,
    #[serde(flatten)]
    properties: Properties,
    basic: Option<Properties>,
}

#[derive(Clone, Debug, Deserialize)]
struct Properties {
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
    #[serde(default)]
    capacity: BTreeMap<String, Capacity>,
}

#[derive(Clone, Debug, Deserialize)]
struct Capacity {
    value: Option<String>,
}

/// Other types of values are ignored.
#[derive(Clone, Debug, Deserialize)]
struct Value {
    string: Option<String>,
}

/// The slices in the text of a `ResourceSliceList`, and its resource version; `None` if it is not one.
pub(super) fn list(json: &[u8]) -> Option<(Vec<Slice>, String)> {
    let SliceList { metadata, items, kind } = serde_json::from_slice(json).ok()?;
    (kind == "ResourceSliceList").then(|| (items.unwrap_or_default(), metadata.resource_version))
}

/// The devices in the text of a list, for fuzz targets.
pub(crate) fn published_in(json: &[u8]) -> Option<BTreeMap<DeviceKey, PublishedDevice>> {
    Some(published(list(json)?.0.iter()))
}

/// The devices of slices. Of a pool, the slices of the newest generation count.
pub(super) fn published<'s>(
    slices: impl Iterator<Item = &'s Slice> + Clone,
) -> BTreeMap<DeviceKey, PublishedDevice> {
    let mut newest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for Slice { spec, .. } in slices.clone() {
        let generation = newest.entry((&spec.driver, &spec.pool.name)).or_insert(i64::MIN);
        *generation = spec.pool.generation.max(*generation);
    }
    let is_current = |spec: &&Spec| {
        newest.get(&(spec.driver.as_str(), spec.pool.name.as_str())) == Some(&spec.pool.generation)
    };
    let current = slices.map(|slice| &slice.spec).filter(is_current);
    let devices = current.flat_map(|spec| spec.devices.iter().map(move |device| (spec, device)));
    devices.take(MAX_DEVICES).map(|(spec, device)| device_of(spec, device)).collect()
}

fn device_of(spec: &Spec, device: &Device) -> (DeviceKey, PublishedDevice) {
    let key = DeviceKey {
        driver: spec.driver.clone(),
        pool: spec.pool.name.clone(),
        device: device.name.clone(),
    };
    let properties = || std::iter::once(&device.properties).chain(&device.basic);
    // A name without a domain is the driver's, and may also be written with it.
    let text = |name: &str| {
        let full = format!("{}/{name}", spec.driver);
        let of = |it: &Properties| {
            let value = it.attributes.get(name).or_else(|| it.attributes.get(&full))?;
            value.string.clone().filter(|value| value.len() <= MAX_VALUE)
        };
        properties().find_map(of)
    };
    let capacity = properties().flat_map(|it| &it.capacity);
    let capacity = capacity.filter_map(|(name, capacity)| {
        Some((name.clone(), thousandths(capacity.value.as_deref()?)?))
    });
    let published = PublishedDevice {
        uuid: text("uuid"),
        parent: text("parentUUID"),
        profile: text("profile"),
        capacity: capacity.collect(),
    };
    (key, published)
}
