//! The histogram of utilization over all readings, with exemplars.

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, exemplar,
};
use phasemeter_meter::histogram::{self, Exponential, Readings};
use phasemeter_meter::units::PPM;
use phasemeter_meter::utilization_feed::UtilizationFeed;

use super::batch::Batch;
use super::context::{GpuSnapshot, TraceContext};
use super::exemplars::Candidate;
use super::instruments::UTILIZATION;
use super::settings::Aggregation;
use super::values::text;
use crate::experiment::EXPERIMENT_ID;

/// Adds the histograms of all readings so far, one per basis. Exemplars are of the polled basis.
pub(super) fn add_points(
    export: &GpuSnapshot,
    exemplars: Vec<Exemplar>,
    aggregation: Aggregation,
    batch: &mut Batch,
) {
    if !batch.has(&UTILIZATION) {
        return;
    }
    let mut exemplars = Some(exemplars);
    for feed in export.meter.feeds() {
        let exemplars = exemplars.take().unwrap_or_default();
        add_feed_points(export, feed, exemplars, aggregation, batch);
    }
}

fn add_feed_points(
    export: &GpuSnapshot,
    feed: &UtilizationFeed,
    exemplars: Vec<Exemplar>,
    aggregation: Aggregation,
    batch: &mut Batch,
) {
    let histogram = feed.histogram();
    let Readings { count, sum_ppm } = histogram.readings();
    if count == 0 {
        return;
    }
    let is_billed = feed.basis() == export.meter.billed_basis();
    let attributes = export.attributes.basis(feed.basis(), is_billed);
    let sum = Some(sum_ppm as f64 / f64::from(PPM));
    let start_time_unix_nano = export.start().as_nanos();
    match aggregation {
        Aggregation::Explicit => batch.explicit.push(HistogramDataPoint {
            attributes,
            start_time_unix_nano,
            count,
            sum,
            bucket_counts: histogram.fixed().to_vec(),
            explicit_bounds: histogram::bounds(),
            exemplars,
            ..HistogramDataPoint::default()
        }),
        Aggregation::Exponential => {
            let Exponential { scale, zero_threshold, zeros, offset, counts } =
                histogram.exponential();
            batch.exponential.push(ExponentialHistogramDataPoint {
                attributes,
                start_time_unix_nano,
                count,
                sum,
                scale,
                zero_count: zeros,
                zero_threshold,
                positive: Some(Buckets { offset, bucket_counts: counts }),
                exemplars,
                ..ExponentialHistogramDataPoint::default()
            });
        }
    }
}

/// An exemplar refers to the phase span that contains its reading if that is final, else to its
/// session.
pub(super) fn exemplar(candidate: &Candidate, trace: &TraceContext) -> Exemplar {
    let session = trace.session;
    let span = candidate.span.map_or(session.span, |start| session.phase_span(trace.gpu, start));
    Exemplar {
        filtered_attributes: vec![text(EXPERIMENT_ID, &trace.experiment.id)],
        time_unix_nano: candidate.at.as_nanos(),
        span_id: span.span_id.as_bytes().to_vec(),
        trace_id: span.trace_id.as_bytes().to_vec(),
        value: Some(exemplar::Value::AsDouble(candidate.utilization.ratio())),
    }
}
