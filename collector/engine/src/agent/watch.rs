//! Follows, for a sidecar, what the agent of its node bills, from the agent's start to its end, and whether an agent
//! listens at all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{AgentError, Connection};
use super::protocol::{AgentBilled, Answer, PodName, Question};
use super::statement::AgentStatement;

/// How often it is tried to connect. An agent exports the first time of its accounts 15 s after their start.
const PERIOD: Duration = Duration::from_secs(1);

/// What is known of the agent.
#[derive(Clone, Debug, Default)]
pub struct WatchedAgent {
    /// The time that it bills, as of its last line.
    pub billed: Arc<Vec<AgentBilled>>,
    /// What this pod pays, as of its last line about that.
    pub accounts: Arc<Vec<AgentStatement>>,
    /// Whether it sends accounts; `None` if that is not known. An older one does not.
    pub sends_accounts: Option<bool>,
    /// Since when none listens; `None` if one does.
    pub absent: Option<Instant>,
    /// Whether it is known if one listens, and what it bills then.
    is_known: bool,
}

/// Follows the agent, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct AgentWatch(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    agent: Mutex<WatchedAgent>,
    changed: Condvar,
}

impl AgentWatch {
    /// Follows the agent at this socket. `pod` counts if it cannot see in which pod this process is.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread.
    pub fn start(path: PathBuf, pod: Option<PodName>) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let own = Arc::downgrade(&shared);
        let thread = thread::Builder::new().name("agent-watch".to_owned());
        let question = Question { billed: true, accounts: true, ..Question::about(pod) };
        thread.spawn(move || watch(&path, &question, &own))?;
        Ok(Self(shared))
    }

    /// What is known now; waits until anything is, but at most this long.
    #[must_use]
    pub fn agent(&self, at_most: Duration) -> WatchedAgent {
        let agent = self.0.lock();
        let waited = self.0.changed.wait_timeout_while(agent, at_most, |agent| !agent.is_known);
        waited.map_or_else(|poisoned| poisoned.into_inner().0.clone(), |(agent, _)| agent.clone())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WatchedAgent> {
        // It is valid after each change.
        self.agent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut WatchedAgent)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// Connects again and again, and follows what arrives.
fn watch(path: &Path, question: &Question, shared: &Weak<Shared>) {
    loop {
        let opened = Connection::open(path, question);
        let Some(known) = shared.upgrade() else { return };
        match opened {
            // One that does not answer exists, and may bill.
            Ok(mut connection) => {
                known.change(|agent| agent.absent = None);
                drop(known);
                let mut sends_accounts = false;
                while let Ok(answer) = connection.next() {
                    let Some(known) = shared.upgrade() else { return };
                    match answer {
                        Answer::Accounts { gpus } => {
                            sends_accounts = true;
                            known.change(|agent| agent.accounts = Arc::new(gpus));
                        }
                        Answer::Billed { gpus } => known.change(|agent| {
                            (agent.billed, agent.is_known) = (Arc::new(gpus), true);
                            agent.sends_accounts = Some(sends_accounts);
                        }),
                        _ => break,
                    }
                }
            }
            Err(AgentError::Connect { .. }) => known.change(|agent| {
                agent.absent = agent.absent.or_else(|| Some(Instant::now()));
                agent.is_known = true;
            }),
            Err(_) => {}
        }
        thread::sleep(PERIOD);
    }
}
