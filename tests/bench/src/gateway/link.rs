//! 10,000 spans per second over a link with a round trip of 50 ms between gateway and backend.

use std::time::Duration;

use phasemeter_otlp::EncodedRequest;

use super::{Backend, Delays, Gateway, INTERVAL, SPANS, delays};
use crate::BenchError;
use crate::paths::Paths;
use crate::relay::Relay;

/// How long a request and its response take together.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Sends requests over the link, and prints how many spans passed, and what was added to the time on the link.
pub(super) fn bench(
    paths: &Paths,
    requests: &[EncodedRequest],
    direct: &Delays,
) -> Result<(), BenchError> {
    let mut backend = Backend::start()?;
    let relay = Relay::delayed(backend.address(), ROUND_TRIP).map_err(BenchError::Network)?;
    let gateway = Gateway::start(paths, &format!("http://{}", relay.address), &[])?;
    let through = delays(&mut backend, &gateway.endpoint(), requests)?;
    gateway.stop()?;
    let offered = SPANS as f64 / INTERVAL.as_secs_f64();
    let passed = requests.len() as f64 * SPANS as f64 / through.took.as_secs_f64();
    let one_way = ROUND_TRIP.as_secs_f64() * 500.0;
    let added = |percent| through.millis(percent) - direct.millis(percent) - one_way;
    println!(
        "link of {ROUND_TRIP:?} round trip to the backend: {passed:.0} of {offered:.0} spans/s passed, p50 {:.1} ms \
         and p99 {:.1} ms added to the {one_way:.0} ms on the link\n",
        added(50),
        added(99)
    );
    Ok(())
}
