//! The histogram of utilization over all readings, with exemplars.

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint,
};
use phasemeter_meter::histogram::{self, Exponential, Readings};
use phasemeter_meter::units::PPM;
use phasemeter_meter::utilization_feed::UtilizationFeed;

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::instruments::UTILIZATION;
use super::settings::Aggregation;

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
