//! A volume that is full.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::backend::{Backend, Conduct};
use crate::node::{node, wait_until};
use crate::otelcol::Otelcol;
use crate::points::{read, sums, sums_of};
use crate::sent::{End, FILE, Sent, check};
use crate::volume::{Volume, send, status};

const POD: &str = "full";
const CONTAINER: &str = "phasemeter";
/// Logged by a run that cannot store requests.
const FULL: &str = "requests wait in memory";

/// Scenario: a run has stored requests on a volume that then is full, and is killed; for the next one it is full from its
/// start on; for the third one it is full again, after it has stored requests.
/// Guarantee: each says so once and goes on in memory. What the first had stored is delivered. Of the others nothing is
/// lost: also with a full volume all is delivered, from memory and from the volume.
#[test]
fn full_volume_is_reported_once_and_costs_nothing_that_was_stored() {
    let Some(node) = node() else { return };
    let Some(otelcol) = Otelcol::find() else { return };
    let volume = Volume::new(POD);
    let applied = node.apply(POD);
    let says_so = || {
        let log = || node.logs(POD, CONTAINER);
        wait_until("the full volume in the log", || log().contains(FULL));
        volume.wait_for_more(&node.find(POD).unwrap(), FILE);
        assert_eq!(log().matches(FULL).count(), 1, "{}", log());
    };
    let ends = |pod: &Value, signal| {
        let restarts = status(pod, CONTAINER)["restartCount"].as_u64().unwrap();
        let aside = volume.set_aside(pod, FILE);
        send(pod, CONTAINER, signal);
        let is_next = |pod: &Value| status(pod, CONTAINER)["restartCount"] == restarts + 1;
        wait_until("a restart", || is_next(&node.find(POD).unwrap()));
        aside
    };

    // The first one.
    let pod = volume.wait_for_rounds(node, POD, None, &[FILE]);
    let data = memory(&pod);
    let stored = Sent::of(&volume.sent(&pod, FILE), End::InOrder);
    fill(&data);
    says_so();
    let first = ends(&pod, Signal::KILL);

    // The second one. What the first had beside its requests may have been removed.
    let pod = volume.wait_for_rounds(node, POD, None, &[FILE]);
    fill(&data);
    says_so();
    let backend = Backend::start(&otelcol, 24318, &volume.file("arrived.jsonl"));
    let arrives = |sent: Sent| {
        wait_until("what was sent", || sent.has_arrived(&sums_of(backend.metrics())));
    };
    arrives(Sent::of(&volume.sent(&pod, FILE), End::InOrder));
    assert!(ballast(&data).exists(), "it is full");
    fs::remove_file(ballast(&data)).unwrap();
    let second = ends(&pod, Signal::TERM);

    // The third one.
    let pod = volume.wait_for_rounds(node, POD, None, &[FILE]);
    arrives(stored);
    backend.set(Conduct::Closes);
    volume.wait_for_more(&pod, FILE);
    fill(&data);
    says_so();
    backend.set(Conduct::Forwards);
    arrives(Sent::of(&volume.sent(&pod, FILE), End::InOrder));
    assert!(ballast(&data).exists(), "it is full");
    node.delete(POD);
    drop(applied);
    backend.stop();

    let third = Sent::of(&volume.sent(&pod, FILE), End::InOrder);
    let runs = [Sent::of(&first, End::LeftSome), Sent::of(&second, End::InOrder), third];
    check(&sums(&read(&volume.file("arrived.jsonl"))), &runs);
}

/// The directory of the node that has the volume in memory of a pod.
fn memory(pod: &Value) -> PathBuf {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    Path::new("/var/lib/kubelet/pods").join(uid).join("volumes/kubernetes.io~empty-dir/data")
}

fn ballast(data: &Path) -> PathBuf {
    data.join("ballast")
}

/// Leaves no space.
fn fill(data: &Path) {
    let mut ballast = File::options().create(true).append(true).open(ballast(data)).unwrap();
    let error = ballast.write_all(&vec![0; 64 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
}
