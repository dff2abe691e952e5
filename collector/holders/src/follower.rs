//! Follows objects of one kind at the API server on a thread of its own: a list, then a watch of what changes.

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use http::StatusCode;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::access::Access;
use crate::api::{self, ApiError, Lines, is_version};
use crate::assignments::Problem;
use crate::event::Effect;
use crate::options::ApiServer;

/// How long a watch lasts: the server ends it then.
const WATCH_SECONDS: u64 = 300;

/// How long nothing may come of a watch. Servers send a bookmark each minute.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 15);

/// How soon a watch is followed by the next one.
const AGAIN: Duration = Duration::from_secs(1);

/// How soon objects are listed again after an error: twice as late each time, up to the longest.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Objects that are followed.
pub(crate) trait Followed: fmt::Debug + Send + 'static {
    /// What it is, in messages.
    const LIST: Access;
    const WATCH: Access;
    const NAME: &'static str;
    /// The forms that are accepted of a list and of events.
    const LIST_FORM: &'static str;
    const EVENT_FORM: &'static str;

    /// The path of the list, with its query; `None` if it cannot be written in a request.
    fn path(&self) -> Option<String>;

    /// Takes the text of a list of all that there are; returns its resource version, or `None` if it is not one.
    fn replace(&mut self, list: &[u8]) -> Option<String>;

    /// Takes the text of an event.
    fn apply(&mut self, event: &[u8]) -> Effect;

    /// The server has no such path. Returns whether there is an older one to be tried.
    fn try_older(&mut self) -> bool {
        false
    }
}

/// What is followed, as it is found out.
#[derive(Debug)]
pub(crate) struct Follower<T> {
    shared: Arc<Shared<T>>,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// Notified of each list and each failure.
    tried: Condvar,
}

#[derive(Debug)]
struct State<T> {
    followed: T,
    /// What fails now.
    failure: Option<Problem>,
    /// Whether a list was requested, with an answer or without.
    is_tried: bool,
}

impl<T: Followed> Follower<T> {
    /// Begins to follow.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread or a file descriptor.
    pub(crate) fn start(followed: T, server: ApiServer) -> io::Result<Self> {
        let state = State { followed, failure: None, is_tried: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), tried: Condvar::new() });
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let follows = Arc::clone(&shared);
        thread::Builder::new().name(T::NAME.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = follows.follow(&server) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { shared, _stop: stop })
    }

    /// Reads what is known.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&mut T) -> R) -> R {
        read(&mut self.shared.lock().followed)
    }

    /// What fails now.
    pub(crate) fn failure(&self) -> Option<Problem> {
        self.shared.lock().failure.clone()
    }

    /// Waits for the first list or failure, at most for this long.
    pub(crate) fn wait(&self, at_most: Duration) {
        let state = self.shared.lock();
        let waited = self.shared.tried.wait_timeout_while(state, at_most, |it| !it.is_tried);
        drop(waited);
    }
}

impl<T: Followed> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Each change leaves it valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists and watches for ever.
    async fn follow(&self, server: &ApiServer) {
        let (mut retry, mut is_expired) = (RETRY, false);
        loop {
            let mut has_watched = false;
            match self.list_and_watch(server, is_expired, &mut has_watched).await {
                Ok(()) => is_expired = true,
                Err((access, ApiError::Status { status: StatusCode::NOT_FOUND }))
                    if access == T::LIST && self.lock().followed.try_older() =>
                {
                    continue;
                }
                Err((access, error)) => {
                    is_expired = false;
                    let reason = error.to_string();
                    self.note(|state| state.failure = Some(Problem::Api { access, reason }));
                }
            }
            if has_watched {
                retry = RETRY;
            }
            sleep(retry).await;
            retry = (retry * 2).min(LONGEST_RETRY);
        }
    }

    fn note<R>(&self, change: impl FnOnce(&mut State<T>) -> R) -> R {
        let mut state = self.lock();
        state.is_tried = true;
        let changed = change(&mut state);
        drop(state);
        self.tried.notify_all();
        changed
    }

    /// Lists, and watches until all must be listed anew. `is_fresh`: whether what the server has cached may be too old.
    async fn list_and_watch(
        &self,
        server: &ApiServer,
        is_fresh: bool,
        has_watched: &mut bool,
    ) -> Result<(), (Access, ApiError)> {
        let invalid = |text: &str| ApiError::Body(text.to_owned());
        let path = self.lock().followed.path();
        let path = path.ok_or_else(|| (T::LIST, invalid("invalid name of the node")))?;
        let with =
            |query: &str| format!("{path}{}{query}", if path.contains('?') { '&' } else { '?' });
        let from = if is_fresh { path.clone() } else { with("resourceVersion=0") };
        let body = api::get_as(server, &from, T::LIST_FORM).await;
        let body = body.map_err(|error| (T::LIST, error))?;
        let version = self.note(|state| state.followed.replace(&body).filter(|it| is_version(it)));
        drop(body);
        let mut version = version
            .ok_or_else(|| (T::LIST, ApiError::Body(format!("not a list of {}", T::NAME))))?;
        let path =
            with(&format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}"));
        loop {
            let path = format!("{path}&resourceVersion={version}");
            let lines = match api::watch(server, &path, T::EVENT_FORM).await {
                Ok(lines) => lines,
                Err(ApiError::Status { status: StatusCode::GONE }) => return Ok(()),
                Err(error) => return Err((T::WATCH, error)),
            };
            self.lock().failure = None;
            *has_watched = true;
            let watched = self.take_events(lines, &mut version).await;
            if !watched.map_err(|error| (T::WATCH, error))? {
                return Ok(());
            }
            sleep(AGAIN).await;
        }
    }

    /// Applies events until there are no more. Returns whether the watch can go on from the version of the last one.
    async fn take_events(&self, mut lines: Lines, version: &mut String) -> Result<bool, ApiError> {
        while let Some(line) = lines.next(SILENCE).await? {
            let effect = self.lock().followed.apply(&line);
            match effect {
                Effect::Version(newest) => *version = newest,
                Effect::Expired => return Ok(false),
                Effect::Failed(code) => {
                    let status = StatusCode::from_u16(code);
                    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    return Err(ApiError::Status { status });
                }
                Effect::Invalid => {
                    return Err(ApiError::Body(format!("not an event of {}", T::NAME)));
                }
            }
        }
        Ok(true)
    }
}
