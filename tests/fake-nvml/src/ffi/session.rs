//! What lives between the first `nvmlInit` and the last `nvmlShutdown`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use phasemeter_meter::units::{Nanos, Timestamp};

use super::events::EventSet;
use super::gpm::GpmSample;
use crate::install::SCRIPT_VARIABLE;
use crate::model::{Model, Time};
use crate::refusal::Refusal;

/// One initialization of NVML.
pub(super) struct Session {
    pub(super) model: Model,
    start: Timestamp,
    handles: Mutex<Handles>,
}

/// What callers hold, by the number that they hold it by.
#[derive(Default)]
pub(super) struct Handles {
    pub(super) event_sets: Table<EventSet>,
    pub(super) gpm_samples: Table<GpmSample>,
}

/// The session, and how many initializations it has.
static SESSION: RwLock<Option<(Arc<Session>, u64)>> = RwLock::new(None);

/// The script that a test named.
static SCRIPT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Virtual time, in nanoseconds since the script's start.
static VIRTUAL_NOW: AtomicU64 = AtomicU64::new(0);

/// When a script in virtual time starts unless it says so: 2026-01-01T00:00:00Z.
const VIRTUAL_START_MILLIS: u64 = 1_767_225_600_000;

/// How long virtual time is left alone between looks at it.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Begins a session or joins it.
pub(super) fn begin() -> Result<Arc<Session>, Refusal> {
    let mut session = SESSION.write().unwrap_or_else(PoisonError::into_inner);
    if let Some((session, users)) = session.as_mut() {
        *users += 1;
        return Ok(Arc::clone(session));
    }
    let begun = Arc::new(Session::load().map_err(|complaint| {
        // NVML has no way to say what is wrong with a script.
        eprintln!("fake-nvml: {complaint}");
        Refusal::Unknown
    })?);
    *session = Some((Arc::clone(&begun), 1));
    Ok(begun)
}

/// Leaves the session, and ends it where nobody else is in it.
pub(super) fn end() -> Result<(), Refusal> {
    let mut session = SESSION.write().unwrap_or_else(PoisonError::into_inner);
    let (_, users) = session.as_mut().ok_or(Refusal::Uninitialized)?;
    *users -= 1;
    if *users == 0 {
        *session = None;
    }
    Ok(())
}

/// The session that has begun.
pub(super) fn current() -> Result<Arc<Session>, Refusal> {
    let session = SESSION.read().unwrap_or_else(PoisonError::into_inner);
    session.as_ref().map(|(session, _)| Arc::clone(session)).ok_or(Refusal::Uninitialized)
}

/// Names the script of the next session.
pub(super) fn set_script(path: PathBuf) {
    *SCRIPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
}

/// Moves virtual time.
pub(super) fn set_virtual_time(nanos: u64) {
    VIRTUAL_NOW.store(nanos, Ordering::Release);
}

impl Session {
    fn load() -> Result<Self, String> {
        let named = SCRIPT.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let path = named
            .or_else(|| std::env::var_os(SCRIPT_VARIABLE).map(PathBuf::from))
            .ok_or_else(|| format!("set {SCRIPT_VARIABLE} to the script to play"))?;
        let model = Model::load(&path).map_err(|error| described(&error))?;
        let start = match (model.start, model.time) {
            (Some(start), _) => start,
            (None, Time::Virtual) => {
                Timestamp::from_millis(VIRTUAL_START_MILLIS).unwrap_or_default()
            }
            (None, Time::Real) => unix_now(),
        };
        Ok(Self { model, start, handles: Mutex::default() })
    }

    /// Time since the script's start.
    pub(super) fn now(&self) -> Nanos {
        match self.model.time {
            Time::Real => unix_now().since(self.start),
            Time::Virtual => Nanos(VIRTUAL_NOW.load(Ordering::Acquire)),
        }
    }

    /// Waits until `t` after the script's start, at most so long on the caller's clock.
    pub(super) fn wait_until(&self, t: Nanos, at_most: Duration) {
        let began = Instant::now();
        loop {
            let missing = t - self.now();
            let left = at_most.saturating_sub(began.elapsed());
            if missing == Nanos::ZERO || left.is_zero() {
                return;
            }
            thread::sleep(left.min(match self.model.time {
                Time::Real => Duration::from_nanos(missing.0),
                Time::Virtual => LOOK_AGAIN,
            }));
        }
    }

    /// An instant as the driver stamps it, in microseconds: since 1970, or since the machine was
    /// switched on.
    pub(super) fn stamp(&self, t: Nanos) -> u64 {
        let at = match self.model.uptime {
            Some(uptime) => (uptime + t).0,
            None => (self.start + t).as_nanos(),
        };
        at / 1_000
    }

    /// The instant of a stamp; the script's start where that is later.
    pub(super) fn instant(&self, stamp: u64) -> Nanos {
        let zero = self.stamp(Nanos::ZERO);
        Nanos(stamp.saturating_sub(zero).saturating_mul(1_000))
    }

    /// What callers hold.
    pub(super) fn handles(&self) -> MutexGuard<'_, Handles> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Things by number. Numbers are never used again, so that a handle freed twice is found out.
pub(super) struct Table<T> {
    entries: BTreeMap<usize, T>,
    last: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), last: 0 }
    }
}

impl<T> Table<T> {
    pub(super) fn insert(&mut self, entry: T) -> usize {
        self.last += 1;
        self.entries.insert(self.last, entry);
        self.last
    }

    pub(super) fn get(&mut self, handle: usize) -> Result<&mut T, Refusal> {
        self.entries.get_mut(&handle).ok_or(Refusal::InvalidArgument)
    }

    pub(super) fn remove(&mut self, handle: usize) -> Result<(), Refusal> {
        self.entries.remove(&handle).map(drop).ok_or(Refusal::InvalidArgument)
    }
}

fn unix_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).ok().and_then(Timestamp::from_nanos).unwrap_or_default()
}

/// An error with all that caused it.
fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}
