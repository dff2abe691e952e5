//! Who holds each GPU of a node: evidence of the kubelet, of claims, of control groups and of Slurm, and which counts if
//! they disagree.
//!
//! [`NodeHolders::poll`] collects the evidence and returns [`Assignments`]: the grants of every GPU and MIG instance. It
//! waits for sockets, so it belongs on a thread of its own.
//!
//! The kubelet (device plugins, claims) decides who holds a GPU. A GPU that it gave to nobody is held by the jobs of
//! Slurm's prolog files, else of job-mapping files. Control groups of its processes decide if no file names a job, or if
//! only other holders have processes on it; they name pods only if no list of the kubelet counts. Other evidence is a
//! [`Disagreement`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access;
mod administration;
mod api;
mod api_source;
mod assignments;
mod candidate;
mod cgroup;
mod claims;
mod decision;
mod device_id;
mod event;
mod follower;
mod formats;
mod fraction_problem;
mod fractions;
mod gpus;
mod jobs;
mod kubelet;
mod node;
mod node_labels;
mod options;
mod pod_logs;
mod pods;
mod processes;
#[cfg(test)]
mod properties;
mod settled;
mod uids;
mod unlisted;

pub use access::Access;
pub use assignments::{Assignment, Assignments, Disagreement, Held, Problem, Source};
pub use claims::Unresolved;
#[doc(hidden)]
pub use formats::Format;
pub use fraction_problem::FractionProblem;
pub use gpus::{NodeGpu, NodeInstance};
pub use kubelet::messages;
pub use node::{NodeHolders, StartError};
pub use node_labels::{Node, NodeError};
pub use options::{ApiServer, Options, PodName, PodSource};
