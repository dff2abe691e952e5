//! State between the first `nvmlInit` and the last `nvmlShutdown`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use phasemeter_meter::units::{Nanos, Timestamp};

use super::handles::Handles;
use crate::error_code::ErrorCode;
use crate::install::SCRIPT_VARIABLE;
use crate::model::{Clock, Model};

/// One initialization of NVML.
pub(super) struct Session {
    pub(super) model: Model,
    start: Timestamp,
    /// The beginning of the session, and the time since the script's start by then. Setting the wall
    /// clock later does not change what the GPUs do.
    began: (Instant, Nanos),
    handles: Mutex<Handles>,
}

/// The session and its number of initializations.
static SESSION: RwLock<Option<(Arc<Session>, u64)>> = RwLock::new(None);

/// The script set by a test.
static SCRIPT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Virtual time, in nanoseconds since the script's start.
static VIRTUAL_NOW: AtomicU64 = AtomicU64::new(0);

/// Default start of a script in virtual time: 2026-01-01T00:00:00Z.
const VIRTUAL_START_MILLIS: u64 = 1_767_225_600_000;

/// Polling interval for virtual time.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Begins or joins the session.
pub(super) fn begin() -> Result<Arc<Session>, ErrorCode> {
    let mut session = SESSION.write().unwrap_or_else(PoisonError::into_inner);
    if let Some((session, users)) = session.as_mut() {
        *users += 1;
        return Ok(Arc::clone(session));
    }
    let begun = Arc::new(Session::load().map_err(|error| {
        // NVML cannot return the reason.
        eprintln!("fake-nvml: {error}");
        ErrorCode::Unknown
    })?);
    *session = Some((Arc::clone(&begun), 1));
    Ok(begun)
}

/// Leaves the session; the last to leave ends it.
pub(super) fn end() -> Result<(), ErrorCode> {
    let mut session = SESSION.write().unwrap_or_else(PoisonError::into_inner);
    let (_, users) = session.as_mut().ok_or(ErrorCode::Uninitialized)?;
    *users -= 1;
    if *users == 0 {
        *session = None;
    }
    Ok(())
}

/// The current session.
pub(super) fn current() -> Result<Arc<Session>, ErrorCode> {
    let session = SESSION.read().unwrap_or_else(PoisonError::into_inner);
    session.as_ref().map(|(session, _)| Arc::clone(session)).ok_or(ErrorCode::Uninitialized)
}

/// Sets the script of the next session.
pub(super) fn set_script(path: PathBuf) {
    *SCRIPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
}

/// Sets virtual time.
pub(super) fn set_virtual_time(nanos: u64) {
    VIRTUAL_NOW.store(nanos, Ordering::Release);
}

/// Virtual time.
pub(super) fn virtual_time() -> Nanos {
    Nanos(VIRTUAL_NOW.load(Ordering::Acquire))
}

impl Session {
    fn load() -> Result<Self, String> {
        let named = SCRIPT.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let path = named
            .or_else(|| std::env::var_os(SCRIPT_VARIABLE).map(PathBuf::from))
            .ok_or_else(|| format!("no script; set {SCRIPT_VARIABLE}"))?;
        let model = Model::load(&path).map_err(|error| error_chain(&error))?;
        let start = match (model.start, model.clock) {
            (Some(start), _) => start,
            (None, Clock::Virtual | Clock::Simulated) => {
                Timestamp::from_millis(VIRTUAL_START_MILLIS).unwrap_or_default()
            }
            (None, Clock::Real) => unix_now(),
        };
        let began = (Instant::now(), unix_now().since(start));
        Ok(Self { model, start, began, handles: Mutex::default() })
    }

    /// Time since the script's start.
    pub(super) fn now(&self) -> Nanos {
        match self.model.clock {
            Clock::Real => self.began.1 + Nanos::from(self.began.0.elapsed()),
            Clock::Virtual | Clock::Simulated => virtual_time(),
        }
    }

    /// Lets a call take this much longer.
    pub(super) fn delay(&self, by: Nanos) {
        match self.model.clock {
            Clock::Real | Clock::Virtual => thread::sleep(Duration::from_nanos(by.0)),
            Clock::Simulated => set_virtual_time((self.now() + by).0),
        }
    }

    /// Waits until `t` after the script's start, for at most `at_most` of real time.
    pub(super) fn wait_until(&self, t: Nanos, at_most: Duration) {
        if self.model.clock == Clock::Simulated {
            let left = (t - self.now()).min(Nanos::from(at_most));
            set_virtual_time((self.now() + left).0);
            return;
        }
        let began = Instant::now();
        loop {
            let missing = t - self.now();
            let left = at_most.saturating_sub(began.elapsed());
            if missing == Nanos::ZERO || left.is_zero() {
                return;
            }
            thread::sleep(left.min(match self.model.clock {
                Clock::Real => Duration::from_nanos(missing.0),
                Clock::Virtual | Clock::Simulated => POLL_INTERVAL,
            }));
        }
    }

    /// The driver's timestamp of an instant: microseconds since 1970 or since boot.
    pub(super) fn stamp(&self, t: Nanos) -> u64 {
        let at = match self.model.uptime {
            Some(uptime) => (uptime + t).0,
            None => (self.start + t).as_nanos(),
        };
        at / 1_000
    }

    /// The instant of a timestamp, but not before the script's start.
    pub(super) fn instant(&self, stamp: u64) -> Nanos {
        let zero = self.stamp(Nanos::ZERO);
        Nanos(stamp.saturating_sub(zero).saturating_mul(1_000))
    }

    /// The objects held by callers.
    pub(super) fn handles(&self) -> MutexGuard<'_, Handles> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unix_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).ok().and_then(Timestamp::from_nanos).unwrap_or_default()
}

/// An error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}
