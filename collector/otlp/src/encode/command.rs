//! How the command of an experiment ended, by the conventions for command-line programs.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Status;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::values::{text, whole};

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandExit {
    /// Name of its executable, without the directory.
    pub executable: String,
    /// Its process ID.
    pub pid: u32,
    /// Its exit code, as a shell reports it: above 128 if a signal ended it.
    pub code: u8,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
}

impl CommandExit {
    /// The attributes of the experiment's span.
    pub(super) fn attributes(&self) -> Vec<KeyValue> {
        let mut attributes = vec![
            text("process.executable.name", &self.executable),
            whole("process.pid", self.pid.into()),
            whole("process.exit.code", self.code.into()),
        ];
        if self.code != 0 {
            attributes.push(text("error.type", self.code.to_string()));
        }
        attributes
    }

    /// The status of the experiment's span; `None`, and thus unset, if the command succeeded.
    pub(super) fn status(&self) -> Option<Status> {
        let by_signal = |signal| format!("ended by signal {signal}");
        let message = self.signal.map(by_signal).unwrap_or_default();
        (self.code != 0).then_some(Status { message, code: StatusCode::Error as i32 })
    }
}
