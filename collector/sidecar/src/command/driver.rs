//! The source of readings of a live run: the agent of its node, or the driver of this machine. The only place that
//! names a vendor's.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use phasemeter_engine::agent::{self, AgentDriver, PodName};
use phasemeter_environment::detectors::{self, Container};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_sources::live::nvml::NvmlDriver;
use phasemeter_sources::live::{Driver, DriverError, DriverNames, OpenDriver};
use tracing::{debug, warn};

use super::load_trial;

/// How long after its end only the agent of the node is queried: it may be restarted.
const PATIENCE: Duration = Duration::from_secs(30);

/// The driver.
pub(super) fn installed() -> Arc<dyn Driver> {
    Arc::new(NvmlDriver::installed())
}

/// The same, whose library a child process loads before this one does.
pub(super) fn tried() -> Arc<dyn Driver> {
    Arc::new(NvmlDriver::installed().after(load_trial::load))
}

/// Where the agent of the node listens, if there is one.
#[derive(Clone, Debug)]
pub(super) struct AgentOfNode {
    pub(super) socket: PathBuf,
    /// The pod of this process.
    pub(super) pod: Option<PodName>,
    /// Whether the user expects an agent.
    is_expected: bool,
}

impl AgentOfNode {
    /// The socket that is given, else the usual one. `attributes` name the pod, else what is detected of it does.
    pub(super) fn find(attributes: &Attributes) -> Self {
        let mut attributes = attributes.clone();
        detectors::add(&mut attributes, Container::Workload);
        let given = std::env::var_os(agent::VARIABLE).filter(|path| !path.is_empty());
        let is_given = given.is_some();
        let socket = given.map_or_else(|| agent::DEFAULT_PATH.into(), PathBuf::from);
        let of = |key: &str| attributes.get(key).cloned();
        let pod = of("k8s.namespace.name").zip(of("k8s.pod.name"));
        let pod = pod.map(|(namespace, name)| PodName { namespace, name });
        Self { is_expected: is_given || socket.exists(), socket, pod }
    }
}

/// The agent of the node if it answers, else the driver of this machine.
pub(super) fn beside(agent: &AgentOfNode) -> Arc<dyn Driver> {
    let AgentOfNode { socket, pod, is_expected } = agent.clone();
    Arc::new(AgentFirst {
        is_expected,
        agent: AgentDriver::new(socket, pod),
        installed: tried(),
        answers: Mutex::default(),
        has_warned: AtomicBool::new(false),
    })
}

/// The agent of the node, else another driver.
#[derive(Debug)]
struct AgentFirst {
    agent: AgentDriver,
    installed: Arc<dyn Driver>,
    is_expected: bool,
    answers: Mutex<Answers>,
    has_warned: AtomicBool,
}

/// What has become of the agent.
#[derive(Debug, Default)]
struct Answers {
    has_answered: bool,
    /// Since when it does not answer any more.
    ended: Option<Instant>,
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
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match self.agent.open() {
            Ok(open) => {
                *answers = Answers { has_answered: true, ended: None };
                Ok(open)
            }
            Err(error) if answers.has_answered => {
                let ended = *answers.ended.get_or_insert_with(Instant::now);
                if ended.elapsed() < PATIENCE {
                    return Err(error);
                }
                // Without a driver of its own, this container waits for the agent.
                self.installed.open().map_err(|_| error)
            }
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
