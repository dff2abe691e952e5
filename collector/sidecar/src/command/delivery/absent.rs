//! Replaces `delivery.rs` in builds without the feature `live`: nothing can be delivered.

use std::convert::Infallible;
use std::time::Duration;

use phasemeter_otlp::Request;

use super::delivery_report::DeliveryReport;
use super::error::CommandError;
use crate::cli::SendArgs;

/// Never exists.
pub(super) struct Delivery(Infallible);

impl Delivery {
    /// Returns `None`: no option requests delivery.
    pub(super) const fn open(_: &SendArgs) -> Result<Option<Self>, CommandError> {
        Ok(None)
    }

    pub(super) const fn send_waiting(&self, _: &Request, _: Duration) {
        match self.0 {}
    }

    pub(super) fn finish(self, _: Duration, _: impl Fn() -> bool) -> DeliveryReport {
        match self.0 {}
    }
}
