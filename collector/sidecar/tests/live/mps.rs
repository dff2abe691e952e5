//! Processes that compute through the multi-process service.

use std::collections::BTreeSet;

use phasemeter_sources::live::{ComputeProcess, Observed, ProcessUse};

use crate::Rig;

/// Scenario: a process, and two clients of the multi-process service, one of which the driver lists twice.
/// Guarantee: all three compute, each once, and have their parts of what the GPU did.
#[test]
fn clients_of_the_multi_process_service_are_compute_processes() {
    let rig = Rig::new(
        "[[device]]
        [[device.phase]]
        for_ms = 600000
        utilization = 80
        processes = [
            { pid = 7, share = 25 },
            { pid = 8, share = 50 },
            { pid = 8, kind = \"mps\", share = 0 },
            { pid = 9, kind = \"mps\", share = 25 },
        ]",
    );
    let run = rig.sample_until(|run| run.uses(0).iter().any(|used| used.pid == 9));
    let processes = run.of(0).filter_map(|observed| match observed {
        Observed::Process(process) => Some(process),
        _ => None,
    });
    let expected = [7, 8, 9].map(|pid| ComputeProcess { pid, gpu_instance: None });
    assert_eq!(processes.collect::<BTreeSet<_>>(), BTreeSet::from(expected));
    let counts: BTreeSet<_> =
        run.readings(0).iter().filter_map(|it| it.compute_processes).collect();
    assert_eq!(counts, BTreeSet::from([3]));
    let used = |pid| {
        let uses = run.uses(0);
        let own: Vec<ProcessUse> = uses.into_iter().filter(|used| used.pid == pid).collect();
        own.last().unwrap().utilization.percent()
    };
    assert!(used(9) > 10.0 && used(9) < 30.0, "{}", used(9));
}

/// Scenario: a driver without the list of the multi-process service.
/// Guarantee: the others are listed as before.
#[test]
fn old_drivers_list_no_clients() {
    let rig = Rig::new(
        "[[device]]
        [[device.phase]]
        for_ms = 600000
        processes = [{ pid = 7 }, { pid = 9, kind = \"mps\" }]
        [[fault]]
        functions = [\"nvmlDeviceGetMPSComputeRunningProcesses_v3\"]
        error = \"function_not_found\"",
    );
    let is_counted =
        |count| move |it: &phasemeter_meter::reading::Reading| it.compute_processes == Some(count);
    let run = rig.sample_until(|run| run.readings(0).iter().any(is_counted(1)));
    assert!(!run.readings(0).iter().any(is_counted(2)));
}
