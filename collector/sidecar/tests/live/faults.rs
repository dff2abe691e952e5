//! Faults are reported, and do not affect other GPUs.
//!
//! Script time advances only when a test has observed the effect of a fault, so that no outcome
//! depends on how fast this machine is.

use std::time::Duration;

use phasemeter_meter::reading::{Basis, MissingReason};
use phasemeter_meter::units::{Nanos, Utilization};
use phasemeter_sources::live::{DriverCall, Event, LossReason, Metric, UnsupportedReason};

use crate::{Rig, Run};

/// Three GPUs with different utilization.
const THREE: &str = "
    [[device]]
    [[device.phase]]
    utilization = 10
    [[device]]
    [[device.phase]]
    utilization = 20
    [[device]]
    [[device.phase]]
    utilization = 30
";

fn three(fault: &str) -> Rig {
    Rig::stepped(&format!("length_ms = 60000\n{THREE}\n[[fault]]\n{fault}"))
}

/// At least this many readings of each of these GPUs.
fn have_readings(run: &Run, gpus: &[usize], count: usize) -> bool {
    gpus.iter().all(|gpu| run.readings(*gpu).len() >= count)
}

/// The other GPUs reported their own utilization and no fault.
fn assert_unaffected(run: &Run, gpus: &[usize]) {
    for gpu in gpus {
        let own = Utilization::from_percent(u32::try_from(*gpu + 1).unwrap() * 10).unwrap();
        assert!(run.readings(*gpu).iter().all(|reading| reading.utilization == Ok(own)));
        assert_eq!(run.faults(*gpu), []);
    }
}

#[test]
fn lost_gpu_reports_loss_until_it_returns() {
    let rig = three("device = 1\nat_ms = 1000\nfor_ms = 1000\nerror = \"gpu_is_lost\"");
    let mut sampling = rig.sample();
    let before = sampling.until(|run| have_readings(run, &[0, 1, 2], 3)).readings(0).len();
    rig.set_time(1_000);
    let lost = |run: &Run| {
        let readings = run.readings(1).into_iter();
        readings
            .filter(|reading| reading.utilization == Err(MissingReason::Lost))
            .collect::<Vec<_>>()
    };
    // The others are read meanwhile.
    sampling.until(|run| lost(run).len() >= 6 && have_readings(run, &[0, 2], before + 6));
    rig.set_time(2_000);
    let is_back = |run: &Run| run.readings(1).last().is_some_and(|it| it.energy.is_some());
    sampling.until(|run| run.faults(1).len() >= 2 && is_back(run));
    let run = sampling.stop();
    assert_eq!(run.faults(1), [Event::Lost(LossReason::Gpu), Event::Recovered]);
    assert!(lost(&run).iter().all(|r| r.memory_used.is_none() && r.energy.is_none()));
    let back = run.readings(1).last().copied().unwrap();
    assert_eq!(back.utilization, Ok(Utilization::from_percent(20).unwrap()));
    assert_unaffected(&run, &[0, 2]);
}

/// Scenario: of one GPU a single metric is answered as if the GPU or the driver was lost.
/// Guarantee: the GPU is observed, and lacks that metric only.
#[test]
fn single_metric_that_reports_loss_does_not_lose_gpu() {
    for (function, error) in [
        ("nvmlDeviceGetTotalEnergyConsumption", "uninitialized"),
        ("nvmlDeviceGetTemperature", "reset_required"),
        ("nvmlDeviceGetPowerUsage", "gpu_is_lost"),
    ] {
        let rig = three(&format!("device = 1\nfunctions = [\"{function}\"]\nerror = \"{error}\""));
        let run = rig.sample_until(|run| have_readings(run, &[0, 1, 2], 25));
        assert_eq!(run.faults(1), [], "{function}");
        for reading in run.readings(1) {
            assert_eq!(reading.utilization, Ok(Utilization::from_percent(20).unwrap()));
            let lacks = match function {
                "nvmlDeviceGetPowerUsage" => reading.power.is_none(),
                "nvmlDeviceGetTemperature" => reading.temperature.is_none(),
                _ => reading.energy.is_none(),
            };
            assert!(lacks && reading.memory_used.is_some(), "{function}: {reading:?}");
        }
        assert_unaffected(&run, &[0, 2]);
    }
}

/// Scenario: one GPU answers every query with an error that names no loss, as GPUs off the bus do.
/// Guarantee: it is lost all the same, until it answers again.
#[test]
fn gpu_that_answers_no_query_is_lost_whatever_the_error() {
    for error in ["unknown", "timeout", "invalid_argument", "no_data", "insufficient_size"] {
        let rig = three(&format!("device = 1\nat_ms = 1000\nfor_ms = 1000\nerror = \"{error}\""));
        let mut sampling = rig.sample();
        sampling.until(|run| have_readings(run, &[0, 1, 2], 3));
        rig.set_time(1_000);
        sampling.until(|run| !run.faults(1).is_empty());
        rig.set_time(2_000);
        sampling.until(|run| run.faults(1).len() >= 2);
        let run = sampling.stop();
        let expected = [Event::Lost(LossReason::Unanswered), Event::Recovered];
        assert_eq!(run.faults(1), expected, "{error}");
        assert_unaffected(&run, &[0, 2]);
    }
}

/// The functions that are called of a GPU, except those that find it.
const FUNCTIONS: [&str; 33] = [
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetSamples",
    "nvmlDeviceRegisterEvents",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleGet",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetNumFans",
    "nvmlDeviceGetFanSpeed_v2",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetName",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetTemperatureThreshold",
];

/// Scenario: a GPU per function, which answers that one with an error from the start, permission denied among them.
/// Guarantee: whatever the call and the error, the GPU is found, is not lost, lacks what that call tells, and says so
/// once per metric.
#[test]
fn any_call_may_fail_alone() {
    for error in ["no_permission", "not_supported", "function_not_found", "gpu_is_lost", "unknown"]
    {
        let mut script = "length_ms = 600000\n".to_owned();
        for (device, function) in FUNCTIONS.iter().enumerate() {
            let fans = "[[device]]\n[[device.phase]]\nutilization = 20\nfans_percent = [40]\nprocesses = [{ pid = 1 }]";
            script += &format!(
                "{fans}\n[[fault]]\ndevice = {device}\nfunctions = [\"{function}\"]\nerror = \"{error}\"\n"
            );
        }
        let rig = Rig::new(&script);
        let all: Vec<_> = (0..FUNCTIONS.len()).collect();
        let run = rig.sample_until(|run| have_readings(run, &all, 12));
        for (gpu, function) in FUNCTIONS.iter().enumerate() {
            let readings = run.readings(gpu);
            let own = Utilization::from_percent(20).unwrap();
            let has_utilization = readings.iter().all(|reading| reading.utilization == Ok(own));
            assert_eq!(
                has_utilization,
                *function != "nvmlDeviceGetUtilizationRates",
                "{function}: {error}"
            );
            let faults = run.faults(gpu);
            let mut unsupported = Vec::new();
            for event in &faults {
                let Event::Unsupported(metric, _) = event else {
                    panic!("{function}: {error}: {faults:?}")
                };
                assert!(!unsupported.contains(metric), "{function}: {error}: {faults:?}");
                unsupported.push(*metric);
            }
        }
    }
}

/// Scenario: lists of processes, samples, fans and MIG instances claim billions of entries.
/// Guarantee: no memory is requested for them; the GPU is observed, and lacks what the list would have had.
#[test]
fn false_number_of_entries_costs_its_list_only() {
    for entries in [u32::MAX, u32::MAX - 7, 1 << 20] {
        let rig = Rig::new(&format!(
            "length_ms = 600000
            [[device]]
            mig = true
            [[device]]
            [[device.phase]]
            for_ms = 600000
            utilization = 20
            fans_percent = [40]
            processes = [{{ pid = 1 }}, {{ pid = 2 }}]
            [[device]]
            [[device.phase]]
            for_ms = 600000
            utilization = 30
            [[fault]]
            functions = [
                \"nvmlDeviceGetComputeRunningProcesses_v3\", \"nvmlDeviceGetMPSComputeRunningProcesses_v3\",
                \"nvmlDeviceGetProcessUtilization\", \"nvmlDeviceGetSamples\", \"nvmlDeviceGetNumFans\",
                \"nvmlDeviceGetMaxMigDeviceCount\",
            ]
            device = 1
            entries = {entries}
            [[fault]]
            functions = [\"nvmlDeviceGetMaxMigDeviceCount\", \"nvmlDeviceGetComputeRunningProcesses_v3\"]
            device = 0
            entries = {entries}"
        ));
        let run = rig.sample_until(|run| have_readings(run, &[0, 1, 2], 25));
        let readings = run.readings(1);
        let own = Utilization::from_percent(20).unwrap();
        assert!(
            readings.iter().all(|it| it.utilization == Ok(own) && it.compute_processes.is_none())
        );
        assert_eq!(run.intervals(1).iter().filter(|it| it.basis == Basis::NvmlSamples).count(), 0);
        assert_unaffected(&run, &[2]);
    }
}

/// Scenario: a query that every tick needs fails for good, alone.
/// Guarantee: the GPU is not lost.
#[test]
fn gpu_that_answers_any_query_is_not_lost() {
    let functions = "[\"nvmlDeviceGetUtilizationRates\", \"nvmlDeviceGetMemoryInfo\", \
                     \"nvmlDeviceGetMemoryInfo_v2\", \"nvmlDeviceGetPowerUsage\"]";
    let rig = three(&format!("device = 1\nfunctions = {functions}\nerror = \"unknown\""));
    let run = rig.sample_until(|run| have_readings(run, &[0, 1, 2], 25));
    assert_eq!(run.faults(1), []);
    let temperatures = run.readings(1).iter().filter(|it| it.temperature.is_some()).count();
    assert!(temperatures > 0);
    assert_unaffected(&run, &[0, 2]);
}

#[test]
fn reloaded_driver_is_reopened() {
    let rig = three("at_ms = 800\nfor_ms = 500\nerror = \"uninitialized\"");
    let mut sampling = rig.sample();
    sampling.until(|run| have_readings(run, &[0, 1, 2], 3));
    rig.set_time(800);
    sampling.until(|run| (0..3).all(|gpu| !run.faults(gpu).is_empty()));
    rig.set_time(1_300);
    let is_back = |run: &Run, gpu| {
        let last = run.readings(gpu).last().copied();
        run.faults(gpu).len() >= 2 && last.is_some_and(|reading| reading.utilization.is_ok())
    };
    sampling.until(|run| (0..3).all(|gpu| is_back(run, gpu)));
    let run = sampling.stop();
    for gpu in 0..3 {
        assert_eq!(run.faults(gpu), [Event::Lost(LossReason::Driver), Event::Recovered]);
    }
}

#[test]
fn hung_call_is_reported_and_does_not_block_other_gpus() {
    let rig = three("device = 1\nat_ms = 800\nfor_ms = 2000\nhang = true");
    let mut sampling = rig.sample();
    sampling.until(|run| have_readings(run, &[0, 1, 2], 3));
    rig.set_time(800);
    let at_fault = sampling.until(|run| run.faults(1).len() == 1);
    let [others, hung] = [0, 1].map(|gpu| at_fault.readings(gpu).len());
    let run = sampling.until(|run| have_readings(run, &[0, 2], others + 10));
    assert_eq!(run.readings(1).len(), hung, "the call has not returned");
    rig.set_time(2_800);
    sampling.until(|run| run.faults(1).len() == 2 && have_readings(run, &[1], hung + 1));
    let run = sampling.stop();
    let events = run.faults(1);
    let [Event::CallHung(metric), Event::CallRecovered(same)] = events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(metric, same);
    assert!(run.readings(1).last().unwrap().utilization.is_ok());
    // Ten readings of another GPU are at least nine ticks.
    assert!(run.stats.gpus[1].missed >= 8, "{}", run.stats.gpus[1].missed);
    assert_unaffected(&run, &[0, 2]);
}

/// Scenario: utilization is refused for 150 ms, after it has answered.
/// Guarantee: it is read again at a tick soon after, and both are reported.
#[test]
fn transient_refusal_is_retried_and_reported() {
    let rig = three(
        "device = 1
        at_ms = 1000
        for_ms = 150
        functions = [\"nvmlDeviceGetUtilizationRates\"]
        error = \"not_supported\"",
    );
    let mut sampling = rig.sample();
    sampling.until(|run| have_readings(run, &[0, 1, 2], 3));
    rig.set_time(1_000);
    sampling.until(|run| run.faults(1).len() == 1);
    rig.set_time(1_150);
    let before = sampling.run.readings(0).len();
    sampling.until(|run| run.faults(1).len() == 2 && have_readings(run, &[0], before + 8));
    let run = sampling.stop();
    let refused = Event::Refused(Metric::Utilization, UnsupportedReason::Device);
    assert_eq!(run.faults(1), [refused, Event::Supported(Metric::Utilization)]);
    let of_one = run.readings(1);
    assert_eq!(
        of_one.last().unwrap().utilization,
        Utilization::from_percent(20).ok_or(MissingReason::Lost)
    );
    assert_unaffected(&run, &[0, 2]);
}

/// Scenario: a GPU is lost, and the call that searches for it hangs.
/// Guarantee: the hang is reported, and so is its end.
#[test]
fn hang_in_search_for_lost_gpu_is_reported() {
    let rig = Rig::stepped(&format!(
        "length_ms = 60000
        {THREE}
        [[fault]]
        device = 1
        at_ms = 1000
        for_ms = 1000
        functions = [
            \"nvmlDeviceGetUtilizationRates\", \"nvmlDeviceGetMemoryInfo_v2\",
            \"nvmlDeviceGetPowerUsage\",
        ]
        error = \"gpu_is_lost\"
        [[fault]]
        device = 1
        at_ms = 1000
        for_ms = 1000
        functions = [\"nvmlDeviceGetHandleByUUID\"]
        hang = true"
    ));
    let mut sampling = rig.sample();
    sampling.until(|run| have_readings(run, &[0, 1, 2], 3));
    rig.set_time(1_000);
    sampling.until(|run| run.faults(1).len() == 2);
    rig.set_time(2_000);
    sampling.until(|run| run.faults(1).len() == 4);
    let run = sampling.stop();
    let events = run.faults(1);
    let hung = Event::CallHung(DriverCall::Search);
    assert_eq!(events[..2], [Event::Lost(LossReason::Gpu), hung]);
    // The thread of the GPU reports its recovery, another one the end of the hang.
    let returned = Event::CallRecovered(DriverCall::Search);
    assert!(events.contains(&returned) && events.contains(&Event::Recovered), "{events:?}");
    assert_unaffected(&run, &[0, 2]);
}

#[test]
fn stop_does_not_wait_for_hung_call() {
    let rig = three("device = 2\nat_ms = 500\nhang = true");
    let mut sampling = rig.sample();
    sampling.until(|run| have_readings(run, &[0, 1, 2], 1));
    rig.set_time(500);
    sampling.until(|run| run.faults(2).len() == 1);
    // The call hangs until the script ends, which it does only below.
    assert_eq!(sampling.sampler.stop(Duration::from_secs(5)), [2]);
    rig.set_time(60_000);
}

#[test]
fn slow_call_is_made_less_often_and_does_not_affect_other_gpus() {
    let rig = three(
        "device = 0
        functions = [\"nvmlDeviceGetPowerUsage\"]
        delay_ms = 20",
    );
    let calls = |run: &Run, metric: Metric| run.stats.gpus[0].metrics[metric as usize];
    let run = rig.sample_until(|run| {
        let power = calls(run, Metric::Power);
        power.period >= Nanos::from_millis(800)
            && calls(run, Metric::Utilization).calls >= 2 * power.calls
            && have_readings(run, &[1, 2], 5)
    });
    let power = calls(&run, Metric::Power);
    assert!(power.max >= Nanos::from_millis(20), "{power:?}");
    assert!(calls(&run, Metric::Utilization).period < power.period);
    let longer: Vec<_> = run
        .events(0)
        .into_iter()
        .filter_map(|event| match event {
            Event::PollPeriod(Metric::Power, period) => Some(period),
            _ => None,
        })
        .collect();
    assert_eq!(run.faults(0), []);
    assert!(longer.is_sorted() && longer.last() == Some(&power.period), "{longer:?}");
    assert_unaffected(&run, &[1, 2]);
}

/// The first reading waits for the process list; those of other GPUs do not.
#[test]
fn slow_process_list_delays_only_its_own_reading() {
    const DELAY: Nanos = Nanos::from_millis(3_000);
    let rig = Rig::new(&format!(
        "length_ms = 60000
        {}
        [[fault]]
        device = 0
        functions = [\"nvmlDeviceGetComputeRunningProcesses_v3\"]
        delay_ms = 3000",
        THREE.replacen("utilization = 10", "utilization = 10\nprocesses = [{ pid = 1 }]", 1)
    ));
    let run = rig.sample_until(|run| have_readings(run, &[0], 2));
    let readings = run.readings(0);
    assert!(readings.iter().all(|reading| reading.compute_processes == Some(1)), "{readings:?}");
    assert!(readings.is_sorted_by_key(|reading| reading.at));
    // It has the time of its utilization, not that of the list.
    let (first, second) = (readings[0].at, readings[1].at);
    assert!(second.since(first) >= DELAY, "{first:?}, {second:?}");
    for gpu in [1, 2] {
        let meanwhile =
            run.readings(gpu).into_iter().filter(|it| (first..first + DELAY).contains(&it.at));
        assert!(meanwhile.count() >= 2, "GPU {gpu} waited");
    }
    assert_unaffected(&run, &[1, 2]);
}

#[test]
fn function_missing_in_driver_is_reported_once() {
    let rig = three(
        "device = 0
        functions = [\"nvmlDeviceGetTotalEnergyConsumption\"]
        error = \"function_not_found\"",
    );
    let run = rig.sample_until(|run| have_readings(run, &[0, 1, 2], 20));
    assert_eq!(run.faults(0), [Event::Unsupported(Metric::Energy, UnsupportedReason::Driver)]);
    assert!(run.readings(0).iter().all(|r| r.energy.is_none() && r.utilization.is_ok()));
    assert_eq!(run.stats.gpus[0].metrics[Metric::Energy as usize].calls, 1);
    assert_unaffected(&run, &[1, 2]);
}
