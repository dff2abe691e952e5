//! The socket from both ends.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_meter::holder::{Container, Share};
use phasemeter_meter::reading::{Basis, Interval, Reading};
use phasemeter_meter::units::{Nanos, Utilization};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::{Driver, LossReason, Metric, Observed, QueryError};

use super::client::{AgentError, Connection};
use super::protocol::Question;
use super::*;
use crate::pipeline::BilledTime;

/// An agent whose GPUs `GPU-0` and `GPU-1` are those of `ml/a` and `ml/b`; all pods are those that sidecars state.
struct Agent {
    socket: AgentSocket,
    path: PathBuf,
    clock: Clock,
    /// What it bills of each GPU.
    billed: BilledTime,
    _dir: tempfile::TempDir,
}

impl Agent {
    fn start() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    fn at(dir: tempfile::TempDir) -> Self {
        let (path, clock) = (dir.path().join("agent.sock"), Clock::start());
        // No processes: sidecars are not seen.
        let socket = AgentSocket::listen(&path, Path::new("/nonexistent"), clock).unwrap();
        let from = clock.now();
        let billed = BilledTime { from, until: from, next: from + Nanos::from_secs(60) };
        Self { socket, path, clock, billed, _dir: dir }
    }

    fn publish(&mut self, pods: &[&str]) {
        let gpus = pods.iter().enumerate().map(|(index, pod)| MeteredGpuState {
            gpu: AgentGpu {
                uuid: format!("GPU-{index}"),
                model: Some("NVIDIA H100 80GB HBM3".to_owned()),
                ..AgentGpu::default()
            },
            holders: vec![HolderState {
                container: Container {
                    namespace: "ml".to_owned(),
                    pod: (*pod).to_owned(),
                    container: "server".to_owned(),
                    uid: None,
                },
                share: Share::new(1, 2),
                accounts: vec![],
            }],
            is_shared: false,
            statement: None,
        });
        let gpus: Vec<_> = gpus.collect();
        let billed = gpus.iter().map(|it| (it.gpu.uuid.clone(), self.billed)).collect::<Vec<_>>();
        self.socket.publish(Some(gpus), billed);
    }
}

fn held_gpus(path: &Path, pod: Option<PodName>) -> Result<Vec<AgentGpu>, AgentError> {
    Connection::open(path, &Question::about(pod))?.gpus()
}

fn pod(name: &str) -> Option<PodName> {
    Some(PodName { namespace: "ml".to_owned(), name: name.to_owned() })
}

#[test]
fn pod_gets_its_own_gpus_only() {
    let mut agent = Agent::start();
    agent.publish(&["a", "b"]);
    let gpus = held_gpus(&agent.path, pod("b")).unwrap();
    assert_eq!(gpus.len(), 1);
    assert_eq!(gpus[0].uuid, "GPU-1");
    assert_eq!(gpus[0].grants[0].share, Some((1, 2)));
    assert_eq!(held_gpus(&agent.path, pod("c")).unwrap(), vec![]);
    let unknown = held_gpus(&agent.path, None).unwrap_err().to_string();
    assert!(unknown.contains("set POD_NAME and POD_NAMESPACE"), "{unknown}");
}

#[test]
fn question_waits_until_holders_are_known() {
    let mut agent = Agent::start();
    let path = agent.path.clone();
    let asked = std::thread::spawn(move || held_gpus(&path, pod("a")));
    agent.socket.publish(None, []);
    agent.publish(&["a"]);
    assert_eq!(asked.join().unwrap().unwrap().len(), 1);
    let silent = Agent::start();
    let error = held_gpus(&silent.path, pod("a")).unwrap_err().to_string();
    assert_eq!(error, "agent: holders of GPUs are not known yet; try again");
}

/// The file of an agent that was killed is replaced; that of one that listens is not.
#[test]
fn socket_of_a_killed_agent_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    drop(UnixListener::bind(&path).unwrap());
    let listen = || AgentSocket::listen(&path, Path::new("/proc"), Clock::start());
    let first = listen().unwrap();
    listen().unwrap_err();
    drop(first);
    assert!(!path.exists());
    fs::write(&path, "data").unwrap();
    listen().unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), "data", "only a socket is replaced");
    fs::remove_file(&path).unwrap();
    let error = held_gpus(&path, pod("a")).unwrap_err().to_string();
    assert!(error.ends_with("no agent listens; start one on this node, or mount its directory"));
}

/// The agent as a driver: readings and intervals of the pod's own GPU arrive, and it is lost once another pod has it.
#[test]
fn sidecar_reads_its_gpus_without_a_driver() {
    let mut agent = Agent::start();
    agent.publish(&["a", "b"]);
    let driver = AgentDriver::new(agent.path.clone(), pod("b"));
    let open = driver.open().unwrap();
    assert_eq!(open.gpu_count().unwrap(), 1);
    let identity = open.identify(0, None).unwrap().identity;
    assert_eq!(identity.uuid.as_deref(), Some("GPU-1"));
    assert_eq!(identity.model.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert!(matches!(open.find("GPU-0", Nanos::SECOND), Err(QueryError::Lost(LossReason::Gpu))));
    let mut device = open.find("GPU-1", Nanos::SECOND).unwrap();

    let clock = Clock::start();
    let mut values = Reading::at(clock.now());
    let mut intervals = Vec::new();
    let began = Instant::now();
    while values.utilization.is_err() || intervals.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "{values:?} {intervals:?}");
        let at = clock.now();
        for (gpu, percent) in [("GPU-0", 10), ("GPU-1", 80)] {
            let utilization = Utilization::from_percent(percent).unwrap();
            let reading = Reading { utilization: Ok(utilization), ..Reading::at(at) };
            agent.socket.observe(gpu, &Observed::Reading(reading));
            let from = at.saturating_sub(Nanos::from_millis(100));
            let interval = Interval { basis: Basis::NvmlSamples, from, to: at, utilization };
            agent.socket.observe(gpu, &Observed::Interval(interval));
        }
        agent.publish(&["a", "b"]);
        let _ = device.query(Metric::Utilization, &clock, &mut values, &mut |_| ());
        let mut emit = |observed| match observed {
            Observed::Interval(interval) => intervals.push(interval),
            other => panic!("{other:?}"),
        };
        device.query(Metric::Samples, &clock, &mut values, &mut emit).unwrap();
    }
    assert_eq!(values.utilization.unwrap().ppm(), 800_000);
    assert!(intervals.iter().all(
        |it| it.utilization.ppm() == 800_000 && it.to.since(it.from) == Nanos::from_millis(100)
    ));

    agent.publish(&["a", "c"]);
    while device.loss().is_none() {
        assert!(began.elapsed() < Duration::from_secs(20));
        agent.publish(&["a", "c"]);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(device.loss(), Some(LossReason::Gpu));
    drop(device);
    drop(open);
    drop(Arc::new(driver));
}

/// A sidecar follows what the agent bills, and notices its end.
#[test]
fn billed_time_is_followed_until_the_agent_ends() {
    let mut agent = Agent::start();
    let watch = AgentWatch::start(agent.path.clone(), pod("b")).unwrap();
    agent.publish(&["a", "b"]);
    let began = Instant::now();
    let wait_for = |condition: &dyn Fn(&WatchedAgent) -> bool| loop {
        let known = watch.agent(Duration::from_millis(20));
        if condition(&known) {
            return known;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{known:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    let known = wait_for(&|known| known.billed.len() == 2);
    let clock = agent.clock;
    let boot = |at| clock.boot_at(at).0;
    let BilledTime { from, until, next } = agent.billed;
    let expected = ["GPU-0", "GPU-1"].map(|gpu| AgentBilled {
        gpu: gpu.to_owned(),
        from_boot_ns: boot(from),
        until_boot_ns: boot(until),
        next_boot_ns: boot(next),
        alone: gpu == "GPU-1",
    });
    assert_eq!((&known.billed[..], known.absent), (&expected[..], None));

    agent.billed.until = next;
    agent.publish(&["a", "b"]);
    wait_for(&|known| known.billed[1].until_boot_ns == boot(next));
    let dir = agent._dir;
    drop(agent.socket);
    let known = wait_for(&|known| known.absent.is_some());
    assert_eq!(known.billed[1].until_boot_ns, boot(next), "what it billed last stays");
    let mut again = Agent::at(dir);
    again.publish(&["a", "b"]);
    let known =
        wait_for(&|known| known.absent.is_none() && known.billed[1].from_boot_ns > boot(from));
    assert!(known.billed[1].alone);
}
