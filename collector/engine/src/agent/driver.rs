//! The agent of the node as a driver: a sidecar reads its GPUs without a library of their vendor.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use phasemeter_meter::holder::{Container, Grant, Holder, Share};
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Bytes, Nanos};
use phasemeter_meter::vendor::Vendor;
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::{
    CallError, Device, DiscoveredGpu, Driver, DriverError, DriverNames, LossReason, Metric,
    Observed, OpenDriver, QueryError, UnsupportedReason,
};

use super::client::{AgentError, Connection};
use super::protocol::{
    AgentGpu, AgentGrant, AgentInterval, AgentReading, Answer, PodName, Question,
};
use super::values;

/// Intervals of a GPU that wait to be queried: those of a minute of driver samples at 6 Hz.
const MAX_INTERVALS: usize = 512;

/// How often intervals are taken. The agent sends them about twice per second.
const PERIOD: Nanos = Nanos::from_millis(500);

/// How old a reading of the agent may be. Older values are missing: the agent may have lost the GPU.
const MAX_AGE: Nanos = Nanos::from_secs(5);

/// The agent of this node, as a driver of the GPUs that a pod holds.
#[derive(Debug)]
pub struct AgentDriver {
    path: PathBuf,
    pod: Option<PodName>,
}

impl AgentDriver {
    /// The agent at this socket. `pod` counts if it cannot see in which pod this process is.
    #[must_use]
    pub const fn new(path: PathBuf, pod: Option<PodName>) -> Self {
        Self { path, pod }
    }

    fn connect(&self) -> Result<OpenAgent, AgentError> {
        let question = Question { readings: true, ..Question::about(self.pod.clone()) };
        let mut connection = Connection::open(&self.path, &question)?;
        let gpus = connection.gpus()?;
        let handle = connection.handle()?;
        let shared = Arc::new(Mutex::new(Received::new(&gpus)));
        let received = Arc::clone(&shared);
        let listener = thread::Builder::new().name("agent-readings".to_owned());
        listener.spawn(move || {
            while let Ok(answer) = connection.next() {
                lock(&received).take(answer);
            }
            lock(&received).is_closed = true;
        })?;
        Ok(OpenAgent { pod: self.pod.clone(), gpus, shared, handle })
    }
}

impl Driver for AgentDriver {
    fn names(&self) -> DriverNames {
        DriverNames { vendor: Vendor::Nvidia, list_command: "phasemeter agent" }
    }

    fn open(&self) -> Result<Arc<dyn OpenDriver>, DriverError> {
        let open = self.connect().map_err(|error| DriverError::Unusable(error.into()))?;
        Ok(Arc::new(open))
    }
}

/// What has arrived on a connection.
#[derive(Debug, Default)]
struct Received {
    /// The UUIDs of the GPUs that the pod holds now.
    held: BTreeSet<String>,
    readings: BTreeMap<String, AgentReading>,
    intervals: BTreeMap<String, VecDeque<AgentInterval>>,
    is_closed: bool,
}

impl Received {
    fn new(gpus: &[AgentGpu]) -> Self {
        Self { held: uuids(gpus), ..Self::default() }
    }

    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Gpus { gpus, .. } => {
                self.held = uuids(&gpus);
                let held = &self.held;
                self.readings.retain(|gpu, _| held.contains(gpu));
                self.intervals.retain(|gpu, _| held.contains(gpu));
            }
            Answer::Readings { readings, intervals } => {
                for reading in readings {
                    if self.held.contains(&reading.gpu) {
                        self.readings.insert(reading.gpu.clone(), reading);
                    }
                }
                for interval in intervals {
                    if self.held.contains(&interval.gpu) {
                        let waiting = self.intervals.entry(interval.gpu.clone()).or_default();
                        waiting.push_back(interval);
                        if waiting.len() > MAX_INTERVALS {
                            waiting.pop_front();
                        }
                    }
                }
            }
            Answer::Billed { .. } | Answer::Accounts { .. } => {}
            Answer::Error { .. } => self.is_closed = true,
        }
    }

    /// Whether a GPU can be read.
    fn loss(&self, uuid: &str) -> Option<LossReason> {
        match self.held.contains(uuid) {
            _ if self.is_closed => Some(LossReason::Driver),
            true => None,
            false => Some(LossReason::Gpu),
        }
    }
}

fn uuids(gpus: &[AgentGpu]) -> BTreeSet<String> {
    gpus.iter().map(|gpu| gpu.uuid.clone()).collect()
}

fn lock(shared: &Mutex<Received>) -> MutexGuard<'_, Received> {
    // It is valid after each line.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection on which readings arrive. It is closed when this is dropped.
#[derive(Debug)]
struct OpenAgent {
    pod: Option<PodName>,
    gpus: Vec<AgentGpu>,
    shared: Arc<Mutex<Received>>,
    handle: UnixStream,
}

impl OpenDriver for OpenAgent {
    fn version(&self) -> Option<String> {
        None
    }

    fn lists_own_only(&self) -> bool {
        true
    }

    fn grants(&self, uuid: &str) -> Vec<Grant> {
        let (Some(pod), Some(gpu)) = (&self.pod, self.gpus.iter().find(|gpu| gpu.uuid == uuid))
        else {
            return Vec::new();
        };
        let grant = |grant: &AgentGrant| Grant {
            holder: Holder::Container(Container {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                uid: None,
                container: grant.container.clone(),
            }),
            share: grant.share.and_then(|(parts, of)| Share::new(parts, of)),
        };
        gpu.grants.iter().map(grant).collect()
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        Ok(u32::try_from(self.gpus.len()).unwrap_or(u32::MAX))
    }

    fn identify(&self, index: u32, _: Option<String>) -> Result<DiscoveredGpu, CallError> {
        let gpu = usize::try_from(index).ok().and_then(|index| self.gpus.get(index));
        let gpu = gpu.ok_or("the pod holds no GPU with this index")?;
        let identity = GpuIdentity {
            name: gpu.uuid.clone(),
            uuid: Some(gpu.uuid.clone()),
            index: gpu.index.or(Some(index)),
            model: gpu.model.clone(),
            memory_total: gpu.memory_total_bytes.and_then(Bytes::new),
            ..GpuIdentity::default()
        };
        let (processes, missing) = (Vec::new(), Vec::new());
        Ok(DiscoveredGpu { identity, links: BTreeSet::new(), processes, missing })
    }

    fn find<'d>(&'d self, uuid: &str, _: Nanos) -> Result<Box<dyn Device + Send + 'd>, QueryError> {
        match lock(&self.shared).loss(uuid) {
            Some(loss) => Err(QueryError::Lost(loss)),
            None => Ok(Box::new(AgentDevice { uuid: uuid.to_owned(), shared: &self.shared })),
        }
    }
}

impl Drop for OpenAgent {
    fn drop(&mut self) {
        // It may be closed already.
        let _ = self.handle.shutdown(Shutdown::Both);
    }
}

/// A GPU of the agent.
#[derive(Debug)]
struct AgentDevice<'d> {
    uuid: String,
    shared: &'d Mutex<Received>,
}

impl Device for AgentDevice<'_> {
    fn loss(&self) -> Option<LossReason> {
        lock(self.shared).loss(&self.uuid)
    }

    fn period(&self, metric: Metric) -> Nanos {
        match metric {
            Metric::Samples => PERIOD,
            other => other.period(),
        }
    }

    fn is_incomplete(&self, _: Metric) -> bool {
        false
    }

    fn query(
        &mut self,
        metric: Metric,
        clock: &Clock,
        values: &mut Reading,
        emit: &mut dyn FnMut(Observed),
    ) -> Result<(), QueryError> {
        metric.clear(values);
        let mut received = lock(self.shared);
        if let Some(loss) = received.loss(&self.uuid) {
            return Err(QueryError::Lost(loss));
        }
        match metric {
            Metric::Samples => {
                let waiting = received.intervals.remove(&self.uuid).unwrap_or_default();
                drop(received);
                let intervals = waiting.iter().filter_map(|it| values::interval_of(it, clock));
                intervals.for_each(|interval| emit(Observed::Interval(interval)));
                Ok(())
            }
            _ if !values::is_carried(metric) => {
                Err(QueryError::Unsupported(UnsupportedReason::Driver))
            }
            _ => {
                let age = |it: &AgentReading| clock.now().since(clock.at_boot(Nanos(it.boot_ns)));
                let reading = received.readings.get(&self.uuid).filter(|it| age(it) <= MAX_AGE);
                let is_there = reading.is_some_and(|it| values::store(metric, it, values));
                if is_there { Ok(()) } else { Err(QueryError::Failed) }
            }
        }
    }
}
