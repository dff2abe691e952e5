//! Attributes of one GPU on its points and spans.

use std::collections::VecDeque;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::device_metric::Component;
use phasemeter_meter::price::Price;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::units::{Bytes, Timestamp};
use phasemeter_meter::vendor::Vendor;

use super::values::{flag, text};
use crate::names::attribute;

const VENDOR: &str = "hw.vendor";
const MODEL: &str = "hw.model";

/// What is known of a GPU when its export starts.
#[derive(Clone, Copy, Debug)]
pub struct GpuDescription<'a> {
    /// Its identity.
    pub identity: &'a GpuIdentity,
    /// The memory size that its meter uses.
    pub memory_total: Option<Bytes>,
    /// Its price and the source of it; `None` if its meter has no rate.
    pub price: Option<&'a Price>,
}

/// The attributes of one GPU.
#[derive(Clone, Debug)]
pub(super) struct GpuAttributes {
    /// Its `hw.id` and `hw.name`.
    names: (String, Option<String>),
    id: KeyValue,
    hardware: Vec<KeyValue>,
    gpu: Vec<KeyValue>,
    /// The vendor, if its driver was read.
    vendor: Option<Vendor>,
    price: Option<Vec<KeyValue>>,
    /// Attributes of future prices, each from an instant on, within the allowed lateness.
    coming: VecDeque<(Timestamp, Vec<KeyValue>)>,
}

impl GpuAttributes {
    /// Attributes of the GPU with this wire ID.
    pub(super) fn new(id: String, gpu: &GpuDescription) -> Self {
        let identity = gpu.identity;
        let names = (id, identity.index.map(|index| format!("GPU {index}")));
        let id = text("hw.id", &names.0);
        let name = names.1.as_ref().map(|name| text("hw.name", name));
        let hardware: Vec<_> = [id.clone()].into_iter().chain(name).collect();
        let vendor = text(VENDOR, identity.vendor().name());
        let model = identity.model.as_deref().map(|model| text(MODEL, model));
        let board = &identity.board;
        let board_attributes = [
            ("hw.serial_number", &board.serial_number),
            ("hw.driver_version", &board.driver_version),
            ("hw.firmware_version", &board.firmware_version),
        ];
        let board_attributes = board_attributes
            .into_iter()
            .filter_map(|(key, value)| Some(text(key, value.as_deref()?)));
        let details = model.into_iter().chain([vendor]).chain(board_attributes);
        Self {
            gpu: hardware.iter().cloned().chain(details).collect(),
            hardware,
            id,
            names,
            vendor: identity.vendor,
            price: gpu.price.map(price_attributes),
            coming: VecDeque::new(),
        }
    }

    /// Sets the model.
    pub(super) fn set_model(&mut self, model: &str) {
        self.gpu.retain(|attribute| ![MODEL, VENDOR].contains(&attribute.key.as_str()));
        let vendor = self.vendor.unwrap_or_else(|| Vendor::of_model(model));
        let details = [text(MODEL, model), text(VENDOR, vendor.name())];
        self.gpu.splice(self.hardware.len()..self.hardware.len(), details);
    }

    /// Sets the price of all time so far.
    pub(super) fn set_price(&mut self, price: &Price) {
        self.price = Some(price_attributes(price));
    }

    /// Changes the price attributes from `at` on, after all known prices.
    pub(super) fn change_price(&mut self, at: Timestamp, price: &Price) {
        self.coming.push_back((at, price_attributes(price)));
    }

    /// Applies the price changes up to `at`.
    pub(super) fn reach(&mut self, at: Timestamp) {
        while let Some((_, price)) = self.coming.pop_front_if(|(from, _)| *from <= at) {
            self.price = Some(price);
        }
    }

    /// The identifying attribute alone.
    pub(super) fn id(&self) -> KeyValue {
        self.id.clone()
    }

    /// Whether it has a price.
    pub(super) const fn is_priced(&self) -> bool {
        self.price.is_some()
    }

    /// Attributes of a `hw.gpu.*` metric.
    pub(super) fn gpu(&self) -> Vec<KeyValue> {
        self.gpu.clone()
    }

    /// Attributes of a `hw.*` metric that applies to other hardware too.
    pub(super) fn hardware(&self, key: &str, value: &str) -> Vec<KeyValue> {
        self.hardware.iter().cloned().chain([text(key, value)]).collect()
    }

    /// Attributes that identify the GPU or a component of it, whose parent is the GPU.
    pub(super) fn component(&self, component: Component) -> Vec<KeyValue> {
        let (gpu, gpu_name) = &self.names;
        let (id, name) = match component {
            Component::Gpu => return self.hardware.clone(),
            Component::Mig(id) => (id.to_string(), None),
            Component::Pcie => (format!("{gpu}/pcie"), Some("PCIe".to_owned())),
            Component::NvLink(link) => {
                (format!("{gpu}/nvlink{link}"), Some(format!("NVLink {link}")))
            }
            Component::Fan(fan) => (format!("{gpu}/fan{fan}"), Some(format!("fan {fan}"))),
        };
        let name = gpu_name.as_ref().zip(name);
        let name = name.map(|(gpu, name)| text("hw.name", format!("{gpu} {name}")));
        [text("hw.id", id), text("hw.parent", gpu)].into_iter().chain(name).collect()
    }

    /// Attributes of a `phasemeter.*` metric.
    pub(super) fn own(&self, key: &str, value: &str) -> Vec<KeyValue> {
        vec![self.id.clone(), text(key, value)]
    }

    /// Attributes of a `phasemeter.*` metric that depends on the basis, and on whether the bill is by it.
    pub(super) fn basis(&self, basis: Basis, is_billed: bool) -> Vec<KeyValue> {
        let basis = text(attribute::UTILIZATION_BASIS, basis.name());
        vec![self.id.clone(), basis, flag(attribute::UTILIZATION_BILLED, is_billed)]
    }

    /// Attributes of its price; `None` if it has none.
    pub(super) fn price(&self) -> Option<Vec<KeyValue>> {
        let price = self.price.as_ref()?;
        Some([self.id.clone()].into_iter().chain(price.iter().cloned()).collect())
    }
}

fn price_attributes(price: &Price) -> Vec<KeyValue> {
    let plan = price.plan.map(|plan| text(attribute::PRICE_PLAN, plan.as_str()));
    let source = text(attribute::PRICE_SOURCE, &price.source);
    plan.into_iter().chain([source]).collect()
}
