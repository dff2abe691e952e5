//! Watches for notices that the cloud will interrupt this machine, on a thread, until the run ends.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use phasemeter_engine::pipeline::PipelineError;
use phasemeter_work::interruption::{self, Cloud, MAX_RESPONSE, Notice, Response, Watch};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::interruption_log::LiveInterruptions;
use super::live::Live;
use super::supervision::Supervision;
use phasemeter_cli::{CommandSignal, InterruptionArgs};

/// Different errors that are logged, each once.
const MAX_LOGGED: usize = 16;

/// The notices of a cloud.
pub(super) struct Interruptions {
    cloud: Cloud,
    /// What to send to the command, until it is sent.
    signal: Option<CommandSignal>,
    notices: Receiver<Notice>,
    /// Dropped to stop.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    received: LiveInterruptions,
}

impl Interruptions {
    /// Watches as requested; `None` if it is not.
    pub(super) fn start(args: &InterruptionArgs) -> io::Result<Option<Self>> {
        let Some(cloud) = args.interruptions else { return Ok(None) };
        let service = args.metadata_service.as_deref().unwrap_or(Cloud::METADATA_SERVICE);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, notices) = mpsc::channel();
        let (running, stopped) = oneshot::channel();
        let service = service.to_owned();
        let thread = thread::Builder::new().name("interruptions".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = watch(cloud, &service, &sender) => {}
                }
            });
        })?;
        let signal = args.interruption_signal;
        let received = LiveInterruptions::default();
        let (running, thread) = (Some(running), Some(thread));
        Ok(Some(Self { cloud, signal, notices, running, thread, received }))
    }

    /// Takes new notices: the command receives its signal at the first one that ends it.
    pub(super) fn take(
        &mut self,
        live: &mut Live,
        command: Option<&Supervision>,
    ) -> Result<(), PipelineError> {
        while let Ok(notice) = self.notices.try_recv() {
            let command = command.filter(|_| notice.action.ends_command());
            let sent = command.and_then(|command| {
                let signal = self.signal.take()?;
                command.signal(signal.number).then_some(signal)
            });
            let event = self.received.receive(live.now(), self.cloud, &notice, sent);
            live.interrupt(event)?;
        }
        Ok(())
    }

    /// Stops watching, and returns the notices of the run.
    pub(super) fn stop(mut self) -> LiveInterruptions {
        std::mem::take(&mut self.received)
    }
}

impl Drop for Interruptions {
    fn drop(&mut self) {
        drop(self.running.take());
        // It ends at its next await; a panic has been reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Exchanges requests and answers with a metadata service, without an end.
async fn watch(cloud: Cloud, service: &str, notices: &Sender<Notice>) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut watch = Watch::new(cloud);
    let mut logged = BTreeSet::new();
    loop {
        let request = watch.request();
        sleep(request.after).await;
        let error = match timeout(request.timeout, exchange(&client, service, &request)).await {
            Ok(Ok(Answer { status, etag, body })) => {
                let answer = Response { status, etag: etag.as_deref(), body: &body };
                let (found, errors): (Vec<_>, Vec<_>) =
                    watch.answer(answer).into_iter().partition(Result::is_ok);
                // The receiver waits until this thread has ended.
                found.into_iter().flatten().for_each(|notice| drop(notices.send(notice)));
                errors.into_iter().find_map(Result::err).map(|error| error.to_string())
            }
            Ok(Err(error)) => {
                watch.unanswered();
                Some(error.to_string())
            }
            Err(_) => {
                watch.unanswered();
                Some(format!("no answer within {} s", request.timeout.as_secs()))
            }
        };
        if let Some(error) = error
            && logged.len() < MAX_LOGGED
            && logged.insert(error.clone())
        {
            let name = cloud.name();
            warn!("interruptions of {name}: {service}: {error}; requests continue");
        }
    }
}

/// An answer as received.
struct Answer {
    status: u16,
    etag: Option<String>,
    body: Bytes,
}

async fn exchange(
    client: &Client<HttpConnector, Empty<Bytes>>,
    service: &str,
    request: &interruption::Request,
) -> Result<Answer, Box<dyn Error + Send + Sync>> {
    let method = match request.method {
        interruption::Method::Get => Method::GET,
        interruption::Method::Put => Method::PUT,
    };
    let builder = Request::builder().method(method).uri(format!("{service}{}", request.path));
    let headers = request.headers.iter();
    let builder = headers.fold(builder, |builder, (name, value)| builder.header(*name, value));
    let response =
        client.request(builder.body(Empty::new())?).await.map_err(|error| innermost(&error))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_RESPONSE).collect().await?.to_bytes();
    Ok(Answer { status: head.status.as_u16(), etag: tag(&head.headers), body })
}

fn tag(headers: &HeaderMap) -> Option<String> {
    headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned)
}

/// The cause of an error, such as a refused connection, in place of where it occurred.
fn innermost(error: &dyn Error) -> Box<dyn Error + Send + Sync> {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    text.into()
}
