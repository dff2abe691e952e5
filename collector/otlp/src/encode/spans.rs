//! Spans: the experiment, its GPU sessions, and their phases.
//!
//! ```text
//! experiment → gpu session → idle | underutilized | productive | compute_bound | mixed | unobserved
//! ```

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, SpanFlags, Status};
use phasemeter_meter::accounts::Accounts;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallTime;

use super::limits::{Limits, truncate};
use super::values::{number, scope, text, weighted_seconds};
use crate::experiment::{
    EXPERIMENT_ID, Experiment, SpanId, SpanPlacement, TraceFlags, TraceParent,
};
use crate::names::{SCHEMA_URL, attribute};

/// Maximum number of spans per request, as in the SDKs.
pub(super) const MAX_SPANS: usize = 512;

/// Time and accounts of a span.
#[derive(Clone, Debug)]
pub(super) struct SpanTotals {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) accounts: Accounts,
    /// Whether all of it is priced: a cost of zero is exported, a missing cost is not.
    pub(super) priced: bool,
}

impl SpanTotals {
    /// The same in wall time.
    pub(super) fn labeled(&self, wall: &WallTime) -> Self {
        let (from, to) = (wall.start_label(self.from), wall.end_label(self.to));
        Self { from, to, accounts: self.accounts, priced: self.priced }
    }

    /// Adds another, which can be concurrent.
    pub(super) fn join(&mut self, other: &Self) {
        self.from = self.from.min(other.from);
        self.to = self.to.max(other.to);
        self.accounts += &other.accounts;
        self.priced &= other.priced;
    }

    /// Seconds and dollars of each non-empty account, waste, and mean utilization.
    fn attributes(&self) -> Vec<KeyValue> {
        let mut attributes = Vec::new();
        let used = |account: &Account| self.accounts[*account].time > Nanos::ZERO;
        for account in Account::ALL.into_iter().filter(used) {
            let (name, balance) = (account.name(), self.accounts[account]);
            attributes.push(number(format!("phasemeter.time.{name}"), balance.time.as_secs_f64()));
            if self.priced {
                attributes.push(number(format!("phasemeter.cost.{name}"), balance.cost.as_f64()));
            }
        }
        if self.priced {
            attributes.push(number(attribute::WASTE, self.accounts.waste().as_f64()));
        }
        let observed = self.accounts.observed();
        if observed.time > Nanos::ZERO {
            let mean = weighted_seconds(observed.weighted) / observed.time.as_secs_f64();
            attributes.push(number(attribute::UTILIZATION_MEAN, mean));
        }
        attributes
    }
}

/// What a span describes.
#[derive(Clone, Debug)]
pub(super) struct SpanDescription {
    pub(super) name: &'static str,
    /// The attributes beside the common ones.
    pub(super) attributes: Vec<KeyValue>,
    /// `None` unless it failed.
    pub(super) status: Option<Status>,
}

impl SpanDescription {
    pub(super) const fn new(name: &'static str, attributes: Vec<KeyValue>) -> Self {
        Self { name, attributes, status: None }
    }
}

/// A span.
pub(super) fn span(
    experiment: &Experiment,
    placement: &SpanPlacement,
    description: SpanDescription,
    totals: &SpanTotals,
    limits: &Limits,
) -> Span {
    let SpanDescription { name, mut attributes, status } = description;
    attributes.push(text(EXPERIMENT_ID, &experiment.id));
    attributes.extend(totals.attributes());
    let dropped_attributes_count = limits.span.apply(&mut attributes);
    let TraceParent { trace_id, span_id, flags: own } = placement.span;
    // The flags of a parent or link say whether it is in another process.
    let flags = |flags: TraceFlags, other: Option<SpanId>| {
        let is_remote = other.is_some() && other == experiment.parent;
        let remote = if is_remote { SpanFlags::ContextIsRemoteMask as u32 } else { 0 };
        u32::from(flags.bits()) | SpanFlags::ContextHasIsRemoteMask as u32 | remote
    };
    let link = |link: TraceParent| Link {
        trace_id: link.trace_id.as_bytes().to_vec(),
        span_id: link.span_id.as_bytes().to_vec(),
        flags: flags(link.flags, Some(link.span_id)),
        ..Link::default()
    };
    let mut links = placement.link.map(link).into_iter().collect();
    let dropped_links_count = truncate(&mut links, limits.span_links);
    Span {
        trace_id: trace_id.as_bytes().to_vec(),
        span_id: span_id.as_bytes().to_vec(),
        trace_state: placement.state.as_ref().map_or("", |state| state.as_str()).to_owned(),
        parent_span_id: placement.parent.map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        flags: flags(own, placement.parent),
        name: name.to_owned(),
        kind: SpanKind::Internal as i32,
        start_time_unix_nano: totals.from.as_nanos(),
        end_time_unix_nano: totals.to.as_nanos(),
        attributes,
        dropped_attributes_count,
        links,
        dropped_links_count,
        status,
        ..Span::default()
    }
}

/// The request for these spans.
pub(super) fn request(spans: Vec<Span>, workload: &Resource) -> ExportTraceServiceRequest {
    let scope_spans =
        vec![ScopeSpans { scope: Some(scope()), spans, schema_url: SCHEMA_URL.to_owned() }];
    let resource = Some(workload.clone());
    let spans = ResourceSpans { resource, scope_spans, ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![spans] }
}
