//! What pods that end in any way have not delivered, on a volume of the node.
//!
//! ```text
//! fake driver ─→ phasemeter in a pod ─┬→ data directory ─→ the next pod ─→ front ─→ otelcol ─→ file ─┐
//!                                     └→ file ───────────────────────────────────────────────────────┴─→ equal
//! ```

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::backend::Backend;
use crate::first_format;
use crate::node::{kubectl, node, wait_until};
use crate::otelcol::Otelcol;
use crate::plugin::uuid;
use crate::points::{Key, Points, read, sums, sums_of};
use crate::sent::{End, FILE, Sent, check, cost, gaps, whole};
use crate::volume::{Volume, send, status};

/// The sidecars of the pod, and their GPUs. The second one has a data directory of its own, and so claims.
const PLAIN: &str = "plain";
const CLAIMS: &str = "claims";
/// Gaps have the length of the clock that counts since boot; starts and ends are of the wall clock, which is adjusted.
const ADJUSTED: u64 = 1_000_000;
const SIDECARS: [(&str, usize); 2] = [(PLAIN, 0), (CLAIMS, 1)];

/// Scenario: nothing listens at the endpoint. A pod with sidecars is deleted, the next one is deleted without grace, the
/// sidecars of the third are killed and started again. Then a Collector is there.
/// Guarantee: the last ones deliver what all have left. Each sum arrives unchanged, those of each run are all of its time
/// and what that costs, and the data directory has the report of it, even if the run was killed while it waited for the
/// backend. A run that was killed before goes on. With claims, all of the time from the first start on is in a sum or a gap.
#[test]
fn next_pod_delivers_what_pods_left_that_were_deleted_or_killed() {
    let Some(node) = node() else { return };
    let Some(otelcol) = Otelcol::find() else { return };
    let volume = Volume::new("kept");
    let applied = node.apply("kept");
    let files = SIDECARS.map(|(sidecar, _)| format!("{sidecar}.jsonl"));
    let files = files.each_ref().map(String::as_str);

    let first = volume.wait_for_rounds(node, "kept-0", None, &files);
    node.delete("kept-0");
    let second = volume.wait_for_rounds(node, "kept-0", Some(&first), &files);
    kubectl(&["delete", "pod", "kept-0", "--grace-period=0", "--force"]);
    let third = volume.wait_for_rounds(node, "kept-0", Some(&second), &files);
    let killed = SIDECARS.map(|(sidecar, _)| {
        let aside = volume.set_aside(&third, &format!("{sidecar}.jsonl"));
        send(&third, sidecar, Signal::KILL);
        aside
    });
    let again = volume.wait_for_rounds(node, "kept-0", Some(&second), &files);
    for (sidecar, _) in SIDECARS {
        let status = status(&again, sidecar);
        assert_eq!(status["restartCount"], 1, "{status:#}");
        assert_eq!(status["lastState"]["terminated"]["exitCode"], 137, "{status:#}");
    }

    let backend = Backend::start(&otelcol, 14318, &volume.file("arrived.jsonl"));
    let sent = |pod: &Value, file: &str, end| Sent::of(&volume.sent(pod, file), end);
    wait_until("the backlog", || {
        let arrived = sums_of(backend.metrics());
        files.iter().all(|file| sent(&third, file, End::InOrder).has_arrived(&arrived))
    });
    kubectl(&["delete", "statefulset", "kept", "--wait=true"]);
    wait_until("the end of the last pod", || node.find("kept-0").is_none());
    drop(applied);
    backend.stop();

    let captured = read(&volume.file("arrived.jsonl"));
    let arrived = sums(&captured);
    for (((sidecar, gpu), file), aside) in SIDECARS.into_iter().zip(files).zip(&killed) {
        let own = |point: &Key| point.1.contains(&uuid(gpu));
        let arrived: Points =
            arrived.iter().filter(|(point, _)| own(point)).map(|(k, v)| (k.clone(), *v)).collect();
        let runs = [
            sent(&first, file, End::InOrder),
            sent(&second, file, End::Killed),
            Sent::of(aside, End::Killed),
            sent(&third, file, End::InOrder),
        ];
        check(&arrived, &runs);
        let runs: Vec<_> = whole(&arrived).into_values().collect();
        assert_eq!(runs.len(), 3, "the run that was killed goes on: {runs:?}");
        let cost = |pod| cost(&volume.sent(pod, &format!("{sidecar}.json")));
        assert_eq!(cost(&first), Some(runs[0].cost), "{runs:?}");
        assert_eq!(cost(&second), None, "it was killed before its end");
        assert_eq!(cost(&third), Some(runs[runs.len() - 1].cost), "{runs:?}");
        let gaps = gaps(&captured, &uuid(gpu));
        let time: u64 = runs.iter().map(|run| run.time).sum();
        println!("{sidecar}: {runs:?}, gaps {gaps:?}");
        let all = runs[runs.len() - 1].until - runs[0].start;
        if sidecar == CLAIMS {
            let found = time + gaps.iter().sum::<u64>();
            assert!(found.abs_diff(all) < ADJUSTED, "{found} of {all} ns: {runs:?} {gaps:?}");
        }
        let data = if sidecar == CLAIMS { volume.data().join(CLAIMS) } else { volume.data() };
        let reports = fs::read_dir(data.join("reports")).unwrap().flatten();
        let mut reports: Vec<_> =
            reports.filter_map(|file| crate::sent::cost(&file.path())).collect();
        let mut billed: Vec<_> = runs.iter().map(|run| run.cost).collect();
        reports.sort_unstable();
        billed.sort_unstable();
        assert_eq!(reports, billed);
        assert_eq!(fs::read_dir(data.join("outbox")).unwrap().count(), 0);
    }
}

/// Scenario: nothing listens at the endpoint of an agent. Before it is replaced, its data directory gets that of an agent
/// with the first format, as it was committed. Then a Collector is there.
/// Guarantee: the next agent delivers what both have left, and its own: each stored request of the first format once, in
/// order per signal, with the bytes that were stored.
#[test]
fn next_agent_delivers_a_data_directory_of_the_first_format() {
    let Some(node) = node() else { return };
    let Some(otelcol) = Otelcol::find() else { return };
    let volume = Volume::new("before");
    let applied = node.apply("before");
    let first = volume.wait_for_rounds(node, "before", None, &[FILE]);
    node.delete("before");
    drop(applied);
    let left = first_format::copy(&volume.data());
    let backend = Backend::start(&otelcol, 4318, &volume.file("arrived.jsonl"));

    let applied = node.apply("before");
    let second = volume.wait_for_rounds(node, "before", Some(&first), &[FILE]);
    // Of each signal those that were stored, as often as they arrive.
    let delivered = || -> BTreeMap<&str, Vec<Vec<u8>>> {
        let received = backend.received();
        let of_signal = |(signal, stored): (&&'static str, &Vec<Vec<u8>>)| {
            let path = format!(" /v1/{signal} ");
            let own =
                received.iter().filter(|it| it.head.contains(&path)).map(|it| it.body.clone());
            (*signal, own.filter(|body| stored.contains(body)).collect())
        };
        left.iter().map(of_signal).collect()
    };
    let count = |of: &BTreeMap<&str, Vec<Vec<u8>>>| of.values().map(Vec::len).sum::<usize>();
    wait_until("the requests of the first format", || count(&delivered()) >= count(&left));
    node.delete("before");
    drop(applied);

    assert_eq!(delivered(), left);
    assert_eq!(count(&left), 17);
    backend.stop();
    let captured = read(&volume.file("arrived.jsonl"));
    let runs = [&first, &second].map(|pod| Sent::of(&volume.sent(pod, FILE), End::InOrder));
    check(&sums(&captured), &runs);
    let spans = captured.spans.iter().filter(|span| span.name.starts_with("span "));
    assert_eq!(spans.count(), 9);
    assert_eq!(fs::read_dir(volume.data().join("outbox")).unwrap().count(), 0);
}
