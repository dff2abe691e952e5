//! Answers one connection: the question, then what is published of the sidecar's pod.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use phasemeter_meter::holder::Share;

use super::super::peer::Peer;
use super::super::protocol::{AgentBilled, AgentGpu, AgentGrant, Answer, Question, VERSION};
use super::super::statement::AgentStatement;
use super::{Board, HolderState, MeteredGpuState};

/// Maximum length of a question in bytes.
const MAX_QUESTION: u64 = 4 << 10;

/// How long a sidecar may take to ask, or to read an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How long an answer waits until the agent has learned who holds the GPUs.
const START: Duration = Duration::from_millis(1_500);

/// Answers a question; then sends readings until the sidecar closes the connection.
pub(super) fn answer(connection: &UnixStream, board: &Board, procfs: &Path) -> io::Result<()> {
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(connection.take(MAX_QUESTION)).read_line(&mut line)?;
    let Ok(question) = serde_json::from_str(&line) else {
        return reject(connection, "unreadable question");
    };
    let Question { version, pod, readings, billed, accounts } = question;
    if version != VERSION {
        return reject(
            connection,
            &format!("version {version} of the protocol, expected {VERSION}"),
        );
    }
    let peer = Peer::of(connection, procfs, pod);
    if peer.is_unknown() {
        return reject(connection, "unknown pod: set POD_NAME and POD_NAMESPACE in the sidecar");
    }
    if billed {
        board.followers.fetch_add(accounts.into(), Ordering::AcqRel);
        let sent = send_billed(connection, board, &peer, accounts);
        board.followers.fetch_sub(accounts.into(), Ordering::AcqRel);
        return sent;
    }
    let mut published = board.lock();
    let began = Instant::now();
    while published.gpus.is_none() && began.elapsed() < START {
        published = board.wait(published, START.saturating_sub(began.elapsed()));
    }
    let Some(gpus) = published.gpus.clone() else {
        drop(published);
        return reject(connection, "holders of GPUs are not known yet; try again");
    };
    let seen = published.count;
    drop(published);
    let held = of_pod(&gpus, &peer);
    write(connection, &Answer::Gpus { version: VERSION, gpus: held.clone() })?;
    if !readings {
        return Ok(());
    }
    board.readers.fetch_add(1, Ordering::AcqRel);
    let sent = send_readings(connection, board, &peer, (held, seen));
    board.readers.fetch_sub(1, Ordering::AcqRel);
    sent
}

/// Sends what is published of a pod's GPUs, until the sidecar no longer reads it.
fn send_readings(
    connection: &UnixStream,
    board: &Board,
    peer: &Peer,
    (mut held, mut seen): (Vec<AgentGpu>, u64),
) -> io::Result<()> {
    loop {
        let mut published = board.lock();
        while published.count == seen {
            published = board.wait(published, TIMEOUT);
        }
        let missed = usize::try_from(published.count - seen).unwrap_or(usize::MAX);
        seen = published.count;
        let known = published.batches.len().saturating_sub(missed);
        let batches: Vec<_> = published.batches.range(known..).cloned().collect();
        let gpus = published.gpus.clone().unwrap_or_default();
        drop(published);
        let now = of_pod(&gpus, peer);
        if !has_same_grants(&held, &now) {
            write(connection, &Answer::Gpus { version: VERSION, gpus: now.clone() })?;
        }
        held = now;
        let is_held = |uuid: &str| held.iter().any(|gpu| gpu.uuid == uuid);
        for batch in batches {
            let readings = batch.readings.iter().filter(|it| is_held(&it.gpu)).cloned().collect();
            let intervals = batch.intervals.iter().filter(|it| is_held(&it.gpu)).cloned();
            write(connection, &Answer::Readings { readings, intervals: intervals.collect() })?;
        }
    }
}

/// Sends the time that is billed after each publication, and what the pod pays if that is requested, until the sidecar
/// no longer reads it.
fn send_billed(
    connection: &UnixStream,
    board: &Board,
    peer: &Peer,
    with_accounts: bool,
) -> io::Result<()> {
    let mut seen = None;
    loop {
        let mut published = board.lock();
        while seen == Some(published.count) || published.count == 0 {
            published = board.wait(published, TIMEOUT);
        }
        seen = Some(published.count);
        let (billed, held) = (Arc::clone(&published.billed), published.gpus.clone());
        let statements = Arc::clone(&published.statements);
        drop(published);
        let held = held.as_deref().map_or(&[][..], Vec::as_slice);
        if with_accounts {
            let holds = |uuid: &str| {
                let gpu = held.iter().find(|held| held.gpu.uuid == uuid);
                gpu.is_some_and(|gpu| gpu.holders.iter().any(|it| peer.has(&it.container)))
            };
            let gpus = statements.iter().map(|it| of_pod_only(it, peer, holds(&it.gpu)));
            write(connection, &Answer::Accounts { gpus: gpus.collect() })?;
        }
        let is_alone = |uuid: &str| {
            let mut gpus = held.iter().filter(|held| held.gpu.uuid == uuid);
            gpus.next().is_some_and(|gpu| gpu.is_held_by_containers_of(peer))
        };
        let gpus = billed.iter().map(|it| AgentBilled { alone: is_alone(&it.gpu), ..it.clone() });
        write(connection, &Answer::Billed { gpus: gpus.collect() })?;
    }
}

/// What the containers of a pod pay, and at which price, if they pay anything or hold the GPU now.
fn of_pod_only(statement: &AgentStatement, peer: &Peer, holds: bool) -> AgentStatement {
    let own = statement.holders.iter().filter(|holder| peer.has(&holder.container()));
    let holders: Vec<_> = own.cloned().collect();
    let pays = holds || !holders.is_empty();
    let price = statement.price.clone().filter(|_| pays);
    let unpriced = statement.unpriced.clone().filter(|_| pays);
    AgentStatement { gpu: statement.gpu.clone(), price, unpriced, holders, ..*statement }
}

impl MeteredGpuState {
    /// Whether a pod holds the GPU, and no other one does.
    fn is_held_by_containers_of(&self, peer: &Peer) -> bool {
        !self.is_shared
            && !self.holders.is_empty()
            && self.holders.iter().all(|holder| peer.has(&holder.container))
    }
}

/// The GPUs that a pod holds, with its own grants only.
fn of_pod(gpus: &[MeteredGpuState], peer: &Peer) -> Vec<AgentGpu> {
    let held = gpus.iter().filter_map(|MeteredGpuState { gpu, holders, .. }| {
        let own = holders.iter().filter(|holder| peer.has(&holder.container));
        let grants: Vec<_> = own.map(grant).collect();
        (!grants.is_empty()).then(|| AgentGpu { grants, ..gpu.clone() })
    });
    held.collect()
}

fn grant(holder: &HolderState) -> AgentGrant {
    AgentGrant {
        container: holder.container.container.clone(),
        share: holder.share.map(Share::ratio),
        accounts: holder.accounts.clone(),
    }
}

/// Whether the same containers hold the same parts of the same GPUs. Their accounts grow all the time.
fn has_same_grants(before: &[AgentGpu], now: &[AgentGpu]) -> bool {
    let is_same = |(before, now): (&AgentGrant, &AgentGrant)| {
        before.container == now.container && before.share == now.share
    };
    let has_same = |(before, now): (&AgentGpu, &AgentGpu)| {
        before.uuid == now.uuid
            && before.grants.len() == now.grants.len()
            && before.grants.iter().zip(&now.grants).all(is_same)
    };
    before.len() == now.len() && before.iter().zip(now).all(has_same)
}

fn reject(connection: &UnixStream, message: &str) -> io::Result<()> {
    write(connection, &Answer::Error { message: message.to_owned() })
}

fn write(mut connection: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    connection.write_all(&line)
}
