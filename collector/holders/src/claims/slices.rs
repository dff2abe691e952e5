//! `ResourceSlice` objects of `resource.k8s.io`: which devices drivers publish. Versions v1, v1beta2 and v1beta1, which
//! nests what describes a device under `basic`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::quantity::thousandths;
use super::{DeviceKey, PublishedDevice};

/// Devices that are taken from the slices of a node. What is over it is left out.
const MAX_DEVICES: usize = 4_096;

/// The longest value of an attribute that is kept, in bytes: Kubernetes allows 64.
const MAX_VALUE: usize = 256;

#[derive(Deserialize)]
struct SliceList {
    #[serde(default)]
    items: Vec<Slice>,
}

#[derive(Deserialize)]
struct Slice {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    driver: String,
    pool: Pool,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Pool {
    name: String,
    #[serde(default)]
    generation: i64,
}

#[derive(Deserialize)]
struct Device {
    name: String,
    #[serde(flatten)]
    properties: Properties,
    basic: Option<Properties>,
}

#[derive(Deserialize)]
struct Properties {
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
    #[serde(default)]
    capacity: BTreeMap<String, Capacity>,
}

#[derive(Deserialize)]
struct Capacity {
    value: Option<String>,
}

/// Other types of values are ignored.
#[derive(Deserialize)]
struct Value {
    string: Option<String>,
}

/// The devices in the text of a `ResourceSliceList`, or `None` if it is not one. Of a pool, the slices of the newest
/// generation count.
pub(crate) fn published(json: &[u8]) -> Option<BTreeMap<DeviceKey, PublishedDevice>> {
    let list: SliceList = serde_json::from_slice(json).ok()?;
    let mut newest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for Slice { spec } in &list.items {
        let generation = newest.entry((&spec.driver, &spec.pool.name)).or_insert(i64::MIN);
        *generation = spec.pool.generation.max(*generation);
    }
    let is_current = |spec: &Spec| {
        newest.get(&(spec.driver.as_str(), spec.pool.name.as_str())) == Some(&spec.pool.generation)
    };
    let current = list.items.iter().map(|slice| &slice.spec).filter(|spec| is_current(spec));
    let devices = current.flat_map(|spec| spec.devices.iter().map(move |device| (spec, device)));
    Some(devices.take(MAX_DEVICES).map(|(spec, device)| device_of(spec, device)).collect())
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
