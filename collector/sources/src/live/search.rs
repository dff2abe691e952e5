//! The search for GPUs: the driver and each GPU answer on a thread of their own, so that one that hangs
//! delays nothing else.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::discovered::{DiscoveredGpu, UnresponsiveGpu, name_peers};
use super::driver::{Driver, OpenDriver};
use super::error::{DriverError, DriverNames};
use super::query_error::CallError;

/// Maximum number of GPUs of a machine: each takes threads and memory.
const MAX_GPUS: u32 = 256;

/// A search in progress. What hangs in the driver blocks a thread for good, but never the caller.
#[derive(Debug)]
pub struct Search {
    driver: DriverNames,
    began: Instant,
    answers: Receiver<Response>,
    opened: Option<InitializedDriver>,
    gpus: Vec<GpuAnswer>,
}

/// The driver, once it has been initialized.
#[derive(Clone, Debug)]
pub struct InitializedDriver {
    /// The driver itself.
    pub open: Arc<dyn OpenDriver>,
    /// Its version, for example `575.57.08`.
    pub version: Option<String>,
    /// The number of its GPUs.
    count: u32,
}

/// The answer of a GPU.
#[derive(Debug)]
pub enum GpuAnswer {
    /// Nothing yet.
    Waiting,
    /// Its identity.
    Found(Box<DiscoveredGpu>),
    /// An error.
    Failed(CallError),
}

/// The response of a thread.
#[derive(Debug)]
enum Response {
    Driver(Result<InitializedDriver, DriverError>),
    Gpu(usize, Result<Box<DiscoveredGpu>, CallError>),
}

impl GpuAnswer {
    const fn is_found(&self) -> bool {
        matches!(self, Self::Found(_))
    }
}

impl Search {
    /// Starts a search.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn start(driver: &Arc<dyn Driver>) -> Result<Self, DriverError> {
        let (sender, answers) = mpsc::channel();
        let (driver, names) = (Arc::clone(driver), driver.names());
        spawn("discovery", move || search(&*driver, &sender))
            .map_err(|source| DriverError::Thread { vendor: names.vendor, source })?;
        let (began, gpus) = (Instant::now(), Vec::new());
        Ok(Self { driver: names, began, answers, opened: None, gpus })
    }

    /// Waits until it is complete, at most for this long. Returns whether there was an answer.
    ///
    /// # Errors
    /// Returns an error if the driver is unusable. The search is then over.
    pub fn wait(&mut self, at_most: Duration) -> Result<bool, DriverError> {
        let (began, mut answered) = (Instant::now(), false);
        while !self.is_complete() {
            let left = at_most.saturating_sub(began.elapsed());
            // A thread may also end without an answer.
            let Ok(answer) = self.answers.recv_timeout(left) else { break };
            self.accept(answer)?;
            answered = true;
        }
        Ok(answered)
    }

    /// Whether the driver and all GPUs have answered.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let is_waiting = |gpu: &GpuAnswer| matches!(gpu, GpuAnswer::Waiting);
        self.opened.is_some() && !self.gpus.iter().any(is_waiting)
    }

    /// Whether any GPU has answered with its identity.
    #[must_use]
    pub fn has_found(&self) -> bool {
        self.gpus.iter().any(GpuAnswer::is_found)
    }

    /// The driver, if it has answered.
    #[must_use]
    pub const fn driver(&self) -> Option<&InitializedDriver> {
        self.opened.as_ref()
    }

    /// The GPUs by index, if the driver has answered.
    #[must_use]
    pub fn gpus(&self) -> &[GpuAnswer] {
        &self.gpus
    }

    /// The driver and the answers of its GPUs.
    ///
    /// # Errors
    /// Returns an error if none has answered with its identity.
    pub(super) fn finish(mut self) -> Result<(InitializedDriver, Vec<GpuAnswer>), DriverError> {
        match self.opened.take_if(|_| self.gpus.iter().any(GpuAnswer::is_found)) {
            Some(opened) => Ok((opened, self.gpus)),
            None => Err(self.into_error()),
        }
    }

    /// Why no GPU has answered with its identity, if none has.
    #[must_use]
    pub fn into_error(self) -> DriverError {
        if !self.is_complete() {
            return DriverError::Timeout {
                vendor: self.driver.vendor,
                waited: self.began.elapsed(),
            };
        }
        let unresponsive = (0..).zip(self.gpus).find_map(|(index, gpu)| match gpu {
            GpuAnswer::Failed(source) => Some(UnresponsiveGpu { index, source }),
            GpuAnswer::Waiting | GpuAnswer::Found(_) => None,
        });
        DriverError::NoGpus { driver: self.driver, unresponsive }
    }

    fn accept(&mut self, answer: Response) -> Result<(), DriverError> {
        match answer {
            Response::Driver(opened) => {
                let opened = opened?;
                self.gpus.extend((0..opened.count).map(|_| GpuAnswer::Waiting));
                self.opened = Some(opened);
            }
            Response::Gpu(index, found) => {
                let answer = found.map_or_else(GpuAnswer::Failed, GpuAnswer::Found);
                if let Some(gpu) = self.gpus.get_mut(index) {
                    *gpu = answer;
                }
                let found = self.gpus.iter_mut().filter_map(|gpu| match gpu {
                    GpuAnswer::Found(found) => Some(&mut **found),
                    GpuAnswer::Failed(_) | GpuAnswer::Waiting => None,
                });
                name_peers(found.collect());
            }
        }
        Ok(())
    }
}

/// Opens the driver, then asks each GPU.
fn search(driver: &dyn Driver, sender: &Sender<Response>) {
    let opened = open(driver);
    let started = opened.as_ref().ok().cloned();
    // The receiver may have been dropped, here and below.
    let _ = sender.send(Response::Driver(opened));
    let Some(InitializedDriver { open, version, count }) = started else { return };
    let lists_processes = driver.lists_processes();
    for (place, index) in (0..count).enumerate() {
        let (open, version, own) = (Arc::clone(&open), version.clone(), sender.clone());
        let ask = move || {
            let mut answer = open.identify(index, version).map(Box::new);
            if lists_processes
                && let Ok(found) = &mut answer
                && let Some(uuid) = &found.identity.uuid
            {
                found.processes = open.processes(uuid);
            }
            drop(open);
            let _ = own.send(Response::Gpu(place, answer));
        };
        // Without a thread of its own, a GPU that hangs delays those after it.
        if spawn("discovery-gpu", ask.clone()).is_err() {
            ask();
        }
    }
}

fn open(driver: &dyn Driver) -> Result<InitializedDriver, DriverError> {
    let open = driver.open()?;
    let (version, count) = (open.version(), open.gpu_count()?);
    if count > MAX_GPUS {
        return Err(DriverError::TooMany { driver: driver.names(), count, max: MAX_GPUS });
    }
    Ok(InitializedDriver { open, version, count })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}
