//! Who holds the GPUs of a node.

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use phasemeter_doctor::findings::Findings;
use phasemeter_doctor::holders;
use phasemeter_doctor::seen::Seen;
use phasemeter_holders::{NodeGpu, NodeHolders};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_sources::clock::Clock;

use crate::command::node_agent;
use crate::variables::variable;
use phasemeter_cli::NodeArgs;

/// Asks once who holds these GPUs, at the latest until then.
pub(super) fn check(
    (args, procfs): (&NodeArgs, Option<&Path>),
    gpus: &[GpuIdentity],
    seen: &Seen,
    (clock, until): (Clock, Instant),
    findings: &mut Findings,
) {
    let options = node_agent::options(args, procfs, variable);
    let mut asked: Vec<NodeGpu> = gpus.iter().map(node_agent::node_gpu).collect();
    for (place, gpu) in asked.iter_mut().enumerate() {
        gpu.processes =
            seen.gpus.get(&place).into_iter().flat_map(|it| &it.processes).copied().collect();
    }
    let (sender, answer) = channel();
    let ask = move || {
        let assignments = NodeHolders::new(options).map(|mut it| it.poll(clock.now(), &asked));
        // Nothing may wait for it any more.
        drop(sender.send(assignments));
    };
    let started = thread::Builder::new().name("holders".to_owned()).spawn(ask);
    let left = until.saturating_duration_since(Instant::now());
    match started.ok().and_then(|_| answer.recv_timeout(left).ok()) {
        Some(Ok(assignments)) => holders::describe(&assignments, gpus, findings),
        Some(Err(error)) => findings.note(format!("holders: {error}")),
        None => findings.note("holders: no answer in time; check the kubelet and the API server"),
    }
}
