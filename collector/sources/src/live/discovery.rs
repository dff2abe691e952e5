//! Discovery of a driver's GPUs at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::discovered::{DiscoveredGpu, UnresponsiveGpu};
use super::driver::{Driver, OpenDriver};
use super::error::DriverError;
use super::search::{GpuAnswer, InitializedDriver, Search};

/// Timeout of discovery. The first start of a driver on a large machine takes a few seconds.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long discovery waits for all GPUs at a time, once it has found one.
const GPU_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of discovery.
#[derive(Debug)]
pub struct Discovery {
    /// The driver, to initialize it again.
    pub driver: Arc<dyn Driver>,
    /// The initialized driver, reused by the sampler.
    pub open: Arc<dyn OpenDriver>,
    /// The driver's version, for example `575.57.08`.
    pub version: Option<String>,
    /// The responding GPUs, by index.
    pub gpus: Vec<DiscoveredGpu>,
    /// The other GPUs.
    pub unresponsive: Vec<UnresponsiveGpu>,
}

/// Why a GPU has no identity.
#[derive(Debug, thiserror::Error)]
#[error("the provided timeout was reached")]
struct Timeout;

/// Lists the GPUs. GPUs that do not answer soon after the first are unresponsive.
///
/// # Errors
/// Returns an error if there is no driver, it does not respond, or no GPU responds.
pub fn discover(driver: Arc<dyn Driver>) -> Result<Discovery, DriverError> {
    let mut search = Search::start(&driver)?;
    let began = Instant::now();
    while !search.is_complete() && began.elapsed() < DISCOVERY_TIMEOUT {
        search.wait(GPU_TIMEOUT)?;
        if search.has_found() {
            break;
        }
    }
    let (InitializedDriver { open, version, .. }, answers) = search.finish()?;
    let (mut gpus, mut unresponsive) = (Vec::new(), Vec::new());
    for (index, answer) in (0..).zip(answers) {
        let source = match answer {
            GpuAnswer::Found(found) => {
                gpus.push(*found);
                continue;
            }
            GpuAnswer::Failed(source) => source,
            GpuAnswer::Waiting => Timeout.into(),
        };
        unresponsive.push(UnresponsiveGpu { index, source });
    }
    Ok(Discovery { driver, open, version, gpus, unresponsive })
}
