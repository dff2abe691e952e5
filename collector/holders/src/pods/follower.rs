//! Follows the pods of the node on a thread of its own: a list, then a watch of what changes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use http::StatusCode;
use phasemeter_meter::holder::Container;
use phasemeter_meter::holder_details::HolderDetails;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::object::list;
use super::table::{GroupedPod, Pods};
use super::watch::{Effect, apply};
use crate::access::Access;
use crate::api::{self, ApiError, Lines, is_name, is_version};
use crate::assignments::Problem;
use crate::options::PodSource;

/// Metadata alone is a tenth of a pod, and has no environment and no commands. A server that cannot leave out the rest
/// sends all of it.
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io, application/json";

/// How long a watch lasts: the server ends it then.
const WATCH_SECONDS: u64 = 300;

/// How long nothing may come of a watch. Servers send a bookmark each minute.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 15);

/// How soon a watch is followed by the next one.
const AGAIN: Duration = Duration::from_secs(1);

/// How soon pods are listed again after an error: twice as late each time, up to the longest.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The pods of the node, as they are found out.
#[derive(Debug)]
pub(crate) struct PodFollower {
    shared: Arc<Mutex<Shared>>,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct Shared {
    pods: Pods,
    /// What fails now.
    failure: Option<Problem>,
}

/// What is followed.
struct Follower {
    source: PodSource,
    shared: Arc<Mutex<Shared>>,
}

impl PodFollower {
    /// Begins to follow the pods of this node.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread or a file descriptor.
    pub(crate) fn start(source: PodSource) -> io::Result<Self> {
        let shared = Arc::<Mutex<Shared>>::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let follower = Follower { source, shared: Arc::clone(&shared) };
        thread::Builder::new().name("pods".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = follower.follow() => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { shared, _stop: stop })
    }

    /// What is known of the pod of a container.
    pub(crate) fn details(&self, container: &Container) -> Option<Arc<HolderDetails>> {
        lock(&self.shared).pods.details(container).cloned()
    }

    /// The pods that share GPUs which a scheduler divides, or reserve them.
    pub(crate) fn grouped(&self) -> Vec<GroupedPod> {
        lock(&self.shared).pods.grouped().collect()
    }

    /// Whether pods are missing that may come yet.
    pub(crate) fn is_healthy(&self) -> bool {
        lock(&self.shared).failure.is_none()
    }

    /// What is missing, for logs.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        let shared = lock(&self.shared);
        let count = shared.pods.omitted();
        let omitted = (count > 0).then_some(Problem::TooMany { what: "pods of the node", count });
        shared.failure.clone().into_iter().chain(omitted)
    }
}

impl Follower {
    /// Lists and watches pods for ever.
    async fn follow(&self) {
        let (mut retry, mut is_expired) = (RETRY, false);
        loop {
            let mut has_watched = false;
            match self.list_and_watch(is_expired, &mut has_watched).await {
                Ok(()) => is_expired = true,
                Err((access, error)) => {
                    is_expired = false;
                    let reason = error.to_string();
                    lock(&self.shared).failure = Some(Problem::Api { access, reason });
                }
            }
            if has_watched {
                retry = RETRY;
            }
            sleep(retry).await;
            retry = (retry * 2).min(LONGEST_RETRY);
        }
    }

    /// Lists pods, and watches them until they must be listed anew. `is_fresh`: whether what the server has cached may
    /// be too old.
    async fn list_and_watch(
        &self,
        is_fresh: bool,
        has_watched: &mut bool,
    ) -> Result<(), (Access, ApiError)> {
        let PodSource { server, node, labels } = &self.source;
        if !is_name(node) {
            return Err((Access::ListPods, ApiError::Body("invalid name of the node".to_owned())));
        }
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
        let from = if is_fresh { "" } else { "&resourceVersion=0" };
        let body = api::get_as(server, &format!("{path}{from}"), METADATA_LIST).await;
        let body = body.map_err(|error| (Access::ListPods, error))?;
        let invalid = || ApiError::Body("not a list of pods".to_owned());
        let listed = list(&body).filter(|(_, version)| is_version(version));
        let (pods, mut version) = listed.ok_or_else(|| (Access::ListPods, invalid()))?;
        lock(&self.shared).pods.replace(&pods, labels);
        drop((body, pods));
        let path =
            format!("{path}&watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}");
        loop {
            let path = format!("{path}&resourceVersion={version}");
            let lines = match api::watch(server, &path, METADATA).await {
                Ok(lines) => lines,
                Err(ApiError::Status { status: StatusCode::GONE }) => return Ok(()),
                Err(error) => return Err((Access::WatchPods, error)),
            };
            lock(&self.shared).failure = None;
            *has_watched = true;
            let watched = self.take_events(lines, &mut version).await;
            if !watched.map_err(|error| (Access::WatchPods, error))? {
                return Ok(());
            }
            sleep(AGAIN).await;
        }
    }

    /// Applies events until there are no more. Returns whether the watch can go on from the version of the last one.
    async fn take_events(&self, mut lines: Lines, version: &mut String) -> Result<bool, ApiError> {
        while let Some(line) = lines.next(SILENCE).await? {
            let effect = apply(&line, &self.source.labels, &mut lock(&self.shared).pods);
            match effect {
                Effect::Version(newest) => *version = newest,
                Effect::Expired => return Ok(false),
                Effect::Failed(code) => {
                    let status = StatusCode::from_u16(code);
                    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    return Err(ApiError::Status { status });
                }
                Effect::Invalid => return Err(ApiError::Body("not an event of a pod".to_owned())),
            }
        }
        Ok(true)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Each change leaves it valid.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
