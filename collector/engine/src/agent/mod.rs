//! The Unix socket on which the agent of a node answers the sidecars on it.
//!
//! A sidecar learns which GPUs its pod holds, can read them without a driver of its own, and gets what its pod pays.

mod client;
mod driver;
mod peer;
mod price;
mod protocol;
mod server;
mod statement;
#[cfg(test)]
mod tests;
mod values;
mod watch;

pub use self::driver::AgentDriver;
pub use self::price::AgentPrice;
pub use self::protocol::{AgentAccount, AgentBilled, AgentGpu, AgentGrant, PodName};
pub use self::server::{AgentSocket, HolderState, MeteredGpuState};
pub use self::statement::{AgentHolder, AgentStatement, GpuStatement};
pub use self::watch::{AgentWatch, WatchedAgent};

/// The variable with the path of an agent's socket.
pub const VARIABLE: &str = "PHASEMETER_AGENT_SOCKET";

/// The path of an agent's socket, unless it is given.
pub const DEFAULT_PATH: &str = "/run/phasemeter/agent.sock";
