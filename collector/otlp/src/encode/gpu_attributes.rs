//! The names of one GPU on the wire: the attributes of its points and spans.
//!
//! This room must not know of any value.

use std::collections::VecDeque;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::price::Price;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::units::{Bytes, Timestamp};

use super::values::text;

/// Whose GPUs these are. Every source there is reads them through the driver of one vendor.
const VENDOR: &str = "NVIDIA";

/// What is known of a GPU when its export begins.
#[derive(Clone, Copy, Debug)]
pub struct GpuDescription<'a> {
    /// Who it is.
    pub identity: &'a GpuIdentity,
    /// The memory that its meter was told.
    pub memory_total: Option<Bytes>,
    /// What it costs, and how that is known; `None` where its meter has no rate.
    pub price: Option<&'a Price>,
}

/// The attributes of one GPU.
#[derive(Clone, Debug)]
pub(super) struct GpuAttributes {
    id: KeyValue,
    hardware: Vec<KeyValue>,
    gpu: Vec<KeyValue>,
    price: Option<Vec<KeyValue>>,
    /// Those of prices to come, each from when on: of as much time as readings may be late.
    coming: VecDeque<(Timestamp, Vec<KeyValue>)>,
}

impl GpuAttributes {
    /// Of the GPU that is called `id` on the wire.
    pub(super) fn new(id: String, gpu: &GpuDescription) -> Self {
        let identity = gpu.identity;
        let id = text("hw.id", id);
        let name = identity.index.map(|index| text("hw.name", format!("GPU {index}")));
        let hardware: Vec<_> = [id.clone()].into_iter().chain(name).collect();
        let model = identity.model.as_deref().map(|model| text("hw.model", model));
        let board = &identity.board;
        let told = [
            ("hw.serial_number", &board.serial_number),
            ("hw.driver_version", &board.driver_version),
            ("hw.firmware_version", &board.firmware_version),
        ];
        let told = told.into_iter().filter_map(|(key, value)| Some(text(key, value.as_deref()?)));
        let details = model.into_iter().chain([text("hw.vendor", VENDOR)]).chain(told);
        Self {
            gpu: hardware.iter().cloned().chain(details).collect(),
            hardware,
            id,
            price: gpu.price.map(of_price),
            coming: VecDeque::new(),
        }
    }

    /// From `at` on, after all prices that are known, it has this one.
    pub(super) fn change_price(&mut self, at: Timestamp, price: &Price) {
        self.coming.push_back((at, of_price(price)));
    }

    /// What follows is told of this instant.
    pub(super) fn reach(&mut self, at: Timestamp) {
        while let Some((_, price)) = self.coming.pop_front_if(|(from, _)| *from <= at) {
            self.price = Some(price);
        }
    }

    /// Its name alone.
    pub(super) fn id(&self) -> KeyValue {
        self.id.clone()
    }

    /// Whether it has a price.
    pub(super) const fn is_priced(&self) -> bool {
        self.price.is_some()
    }

    /// Of a `hw.gpu.*` metric.
    pub(super) fn gpu(&self) -> Vec<KeyValue> {
        self.gpu.clone()
    }

    /// Of a `hw.*` metric that other hardware has too.
    pub(super) fn hardware(&self, key: &str, value: &str) -> Vec<KeyValue> {
        self.hardware.iter().cloned().chain([text(key, value)]).collect()
    }

    /// Of a metric of ours.
    pub(super) fn own(&self, key: &str, value: &str) -> Vec<KeyValue> {
        vec![self.id.clone(), text(key, value)]
    }

    /// Of a metric of ours that depends on how utilization is measured.
    pub(super) fn basis(&self, basis: Basis) -> Vec<KeyValue> {
        vec![self.id.clone(), text("phasemeter.utilization.basis", basis.name())]
    }

    /// Of its rate; `None` where it has no price.
    pub(super) fn price(&self) -> Option<Vec<KeyValue>> {
        let price = self.price.as_ref()?;
        Some([self.id.clone()].into_iter().chain(price.iter().cloned()).collect())
    }
}

fn of_price(price: &Price) -> Vec<KeyValue> {
    let plan = price.plan.map(|plan| text("phasemeter.price.plan", plan.as_str()));
    let source = text("phasemeter.price.source", &price.source);
    plan.into_iter().chain([source]).collect()
}
