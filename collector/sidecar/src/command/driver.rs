//! The source of readings of a live run: the agent of its node, or the driver of this machine. The only place that
//! names a vendor's.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use phasemeter_engine::agent::{self, AgentDriver, PodName};
use phasemeter_engine::detectors::{self, Container};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_sources::live::nvml::NvmlDriver;
use phasemeter_sources::live::{Driver, DriverError, DriverNames, OpenDriver};
use tracing::{debug, warn};

use super::load_trial;

/// The driver.
pub(super) fn installed() -> Arc<dyn Driver> {
    Arc::new(NvmlDriver::installed())
}

/// The same, whose library a child process loads before this one does.
pub(super) fn tried() -> Arc<dyn Driver> {
    Arc::new(NvmlDriver::installed().after(load_trial::load))
}

/// The agent of the node if one answers, else the driver of this machine. `attributes` name the pod, else what is
/// detected of it does.
pub(super) fn of_pod(attributes: &Attributes) -> Arc<dyn Driver> {
    let mut attributes = attributes.clone();
    detectors::add(&mut attributes, Container::Workload);
    let given = std::env::var_os(agent::VARIABLE).filter(|path| !path.is_empty());
    let is_given = given.is_some();
    let path = given.map_or_else(|| agent::DEFAULT_PATH.into(), PathBuf::from);
    let of = |key: &str| attributes.get(key).cloned();
    let pod = of("k8s.namespace.name").zip(of("k8s.pod.name"));
    let pod = pod.map(|(namespace, name)| PodName { namespace, name });
    Arc::new(AgentFirst {
        is_expected: is_given || path.exists(),
        agent: AgentDriver::new(path, pod),
        installed: tried(),
        has_answered: AtomicBool::new(false),
        has_warned: AtomicBool::new(false),
    })
}

/// The agent of the node, else another driver.
#[derive(Debug)]
struct AgentFirst {
    agent: AgentDriver,
    installed: Arc<dyn Driver>,
    /// Whether the user expects an agent.
    is_expected: bool,
    /// Whether the agent has answered. From then on only it is asked: it bills the GPUs.
    has_answered: AtomicBool,
    has_warned: AtomicBool,
}

impl Driver for AgentFirst {
    fn names(&self) -> DriverNames {
        self.installed.names()
    }

    /// Processes may identify the pod's GPUs.
    fn lists_processes(&self) -> bool {
        true
    }

    fn open(&self) -> Result<Arc<dyn OpenDriver>, DriverError> {
        match self.agent.open() {
            Ok(open) => {
                self.has_answered.store(true, Ordering::Relaxed);
                Ok(open)
            }
            Err(error) if self.has_answered.load(Ordering::Relaxed) => Err(error),
            Err(error) if self.is_expected && !self.has_warned.swap(true, Ordering::Relaxed) => {
                warn!("the driver of this container is used: {error}");
                self.installed.open()
            }
            Err(error) => {
                debug!("{error}");
                self.installed.open()
            }
        }
    }
}
