//! The binary in a container: uid 65532, read-only root, no capabilities, the runtime's seccomp filter.

use crate::node::node;

/// As native sidecar that shares a claim with the server: it ends after the server, and reports the server's GPU.
#[test]
fn sidecar_reports_after_the_server_has_ended() {
    let Some(node) = node() else { return };
    let _applied = node.apply("sidecar");
    node.wait_succeeded("sidecar");

    let report = node.logs("sidecar", "phasemeter");

    assert!(
        report.contains("metering 1 of 1 GPUs, those whose devices this container has"),
        "{report}"
    );
    assert!(metered_seconds(&report) > 4.0, "{report}");
}

/// Around the command of the main container, which has a GPU of the device plugin.
#[test]
fn command_is_metered() {
    let Some(node) = node() else { return };
    let _applied = node.apply("command");
    node.wait_succeeded("command");

    let logs = node.logs("command", "server");

    assert!(logs.contains("the server has ended\n"), "{logs}");
    assert!(logs.contains("1 × NVIDIA H100 80GB HBM3"), "{logs}");
    assert!(metered_seconds(&logs) > 4.0, "{logs}");
}

/// Without a driver, the command runs to its end.
#[test]
fn command_runs_without_driver() {
    let Some(node) = node() else { return };
    let _applied = node.apply("no-driver");
    node.wait_succeeded("no-driver");

    let logs = node.logs("no-driver", "server");

    assert!(logs.contains("the server has ended\n"), "{logs}");
    assert!(logs.contains("cannot load libnvidia-ml.so.1"), "{logs}");
}

/// The seconds of compute-bound GPU time in a report.
pub(crate) fn metered_seconds(report: &str) -> f64 {
    let row = report.lines().find(|line| line.starts_with("compute-bound"));
    let row = row.unwrap_or_else(|| panic!("no compute-bound time: {report}"));
    row.split_whitespace().nth(1).unwrap().parse().unwrap()
}
