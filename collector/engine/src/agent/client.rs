//! The sidecar's end of the socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use phasemeter_terminal::escape::clean;

use super::protocol::{AgentGpu, Answer, MAX_LINE, Question, VERSION};

/// How long an agent may take to answer. Its socket has a thread of its own.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Why an agent gave no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AgentError {
    /// No agent listens.
    #[error("{}: no agent listens; start one on this node, or mount its directory", .path.display())]
    Connect {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The connection failed.
    #[error("agent: connection failed; check that it runs")]
    Connection(#[from] io::Error),
    /// The agent ended the connection.
    #[error("agent: closed the connection; it has ended, or has 512 connections already")]
    Closed,
    /// An answer cannot be read.
    #[error("agent: unreadable answer; use the same version for agent and sidecar")]
    Unreadable(#[from] serde_json::Error),
    /// The agent speaks another version of the protocol.
    #[error(
        "agent: version {0} of its protocol, expected {VERSION}; use the same version for agent and sidecar"
    )]
    Version(u32),
    /// The agent rejected the question.
    #[error("agent: {}", clean(.0))]
    Rejected(String),
}

/// A connection to an agent.
#[derive(Debug)]
pub(super) struct Connection {
    lines: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Connection {
    /// Connects, and asks.
    pub(super) fn open(path: &Path, question: &Question) -> Result<Self, AgentError> {
        let connect = |source| AgentError::Connect { path: path.to_owned(), source };
        let mut stream = UnixStream::connect(path).map_err(connect)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut question = serde_json::to_vec(question)?;
        question.push(b'\n');
        stream.write_all(&question)?;
        Ok(Self { lines: BufReader::new(stream), line: Vec::new() })
    }

    /// The next line.
    pub(super) fn next(&mut self) -> Result<Answer, AgentError> {
        self.line.clear();
        (&mut self.lines).take(MAX_LINE).read_until(b'\n', &mut self.line)?;
        if !self.line.ends_with(b"\n") {
            return Err(AgentError::Closed);
        }
        match serde_json::from_slice(&self.line)? {
            Answer::Gpus { version, .. } if version != VERSION => Err(AgentError::Version(version)),
            Answer::Error { message } => Err(AgentError::Rejected(message)),
            answer => Ok(answer),
        }
    }

    /// The GPUs of the first line.
    pub(super) fn gpus(&mut self) -> Result<Vec<AgentGpu>, AgentError> {
        loop {
            if let Answer::Gpus { gpus, .. } = self.next()? {
                return Ok(gpus);
            }
        }
    }

    /// A handle that can end the connection from another thread.
    pub(super) fn handle(&self) -> io::Result<UnixStream> {
        self.lines.get_ref().try_clone()
    }
}
