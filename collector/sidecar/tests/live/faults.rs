//! What goes wrong is said, and costs nobody else.

use std::time::{Duration, Instant};

use phasemeter_meter::reading::MissingReason;
use phasemeter_meter::units::{Nanos, Utilization};
use phasemeter_sources::nvml::{Event, Lack, Loss, Metric};

use crate::{Rig, Run, watch};

/// Three GPUs that are told apart by their utilization.
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
    Rig::new(&format!("length_ms = 60000\n{THREE}\n[[fault]]\n{fault}"))
}

/// The others kept time and told their own utilization: but for what a busy machine does to them.
fn assert_undisturbed(run: &Run, gpus: &[usize]) {
    for gpu in gpus {
        let own = Utilization::from_percent(u32::try_from(*gpu + 1).unwrap() * 10).unwrap();
        assert!(run.readings(*gpu).iter().all(|reading| reading.utilization == Ok(own)));
        assert!(run.stats.gpus[*gpu].missed <= 2, "GPU {gpu} missed ticks");
        assert!(run.longest_gap(*gpu) < Nanos::from_millis(400), "{:?}", run.longest_gap(*gpu));
        assert_eq!(run.befell(*gpu), []);
    }
}

#[test]
fn a_lost_gpu_says_so_until_it_returns_to_its_place() {
    let rig = three("device = 1\nat_ms = 1000\nfor_ms = 1000\nerror = \"gpu_is_lost\"");
    let run = rig.sample(3.5);
    assert_eq!(run.befell(1), [Event::Lost(Loss::Gpu), Event::Returned]);
    let lost: Vec<_> =
        run.readings(1).into_iter().filter(|r| r.utilization == Err(MissingReason::Lost)).collect();
    assert!(lost.len() >= 6, "{} readings say that it is lost", lost.len());
    assert!(lost.iter().all(|r| r.memory_used.is_none() && r.energy.is_none()));
    let back = run.readings(1).last().copied().unwrap();
    assert_eq!(back.utilization, Ok(Utilization::from_percent(20).unwrap()));
    assert!(back.energy.is_some());
    assert!(run.longest_gap(1) < Nanos::from_millis(500), "{:?}", run.longest_gap(1));
    assert_undisturbed(&run, &[0, 2]);
}

#[test]
fn a_driver_that_was_reloaded_is_opened_again() {
    let rig = three("at_ms = 800\nfor_ms = 500\nerror = \"uninitialized\"");
    let run = rig.sample(3.0);
    for gpu in 0..3 {
        assert_eq!(run.befell(gpu), [Event::Lost(Loss::Driver), Event::Returned]);
        assert!(run.readings(gpu).last().unwrap().utilization.is_ok());
    }
}

#[test]
fn a_call_that_hangs_is_said_and_costs_the_others_nothing() {
    let rig = three("device = 1\nat_ms = 800\nfor_ms = 2000\nhang = true");
    let run = rig.sample(4.0);
    let events = run.befell(1);
    let [Event::Stuck(metric), Event::Unstuck(same)] = events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(metric, same);
    assert!(run.longest_gap(1) > Nanos::from_millis(1_900));
    assert!(run.readings(1).last().unwrap().utilization.is_ok());
    assert!(run.stats.gpus[1].missed >= 15);
    assert_undisturbed(&run, &[0, 2]);
}

#[test]
fn stopping_does_not_wait_for_a_call_that_hangs() {
    let rig = three("device = 2\nat_ms = 500\nfor_ms = 3000\nhang = true");
    let mut sampler = rig.sampler();
    let mut observations = Vec::new();
    watch(&mut sampler, 1.0, &mut observations);
    let began = Instant::now();
    assert_eq!(sampler.stop(Duration::from_millis(300)), [2]);
    assert!(began.elapsed() < Duration::from_millis(800), "{:?}", began.elapsed());
}

#[test]
fn slow_calls_are_made_less_often_and_cost_the_others_nothing() {
    let rig = three(
        "device = 0
        functions = [\"nvmlDeviceGetPowerUsage\"]
        delay_ms = 20",
    );
    let run = rig.sample(3.0);
    let power = run.stats.gpus[0].metrics[Metric::Power as usize];
    assert!(power.period >= Nanos::from_millis(800), "{power:?}");
    assert!(power.calls < 10 && power.max >= Nanos::from_millis(20), "{power:?}");
    let longer: Vec<_> = run
        .events(0)
        .into_iter()
        .filter_map(|event| match event {
            Event::Cadence(Metric::Power, period) => Some(period),
            _ => None,
        })
        .collect();
    assert_eq!(run.befell(0), []);
    assert!(longer.is_sorted() && longer.last() == Some(&power.period), "{longer:?}");
    let utilization = run.stats.gpus[0].metrics[Metric::Utilization as usize];
    assert_eq!(utilization.period, Nanos::from_millis(100));
    assert_undisturbed(&run, &[1, 2]);
}

/// The first reading waits for the process list, and nobody else does.
#[test]
fn a_slow_process_list_holds_back_its_reading_and_nothing_else() {
    let rig = Rig::new(&format!(
        "length_ms = 60000
        {}
        [[fault]]
        device = 0
        functions = [\"nvmlDeviceGetComputeRunningProcesses_v3\"]
        delay_ms = 300",
        THREE.replacen("utilization = 10", "utilization = 10\nprocesses = [{ pid = 1 }]", 1)
    ));
    let run = rig.sample(2.0);
    let readings = run.readings(0);
    assert!(readings.iter().all(|reading| reading.compute_processes == Some(1)), "{readings:?}");
    assert!(readings.is_sorted_by_key(|reading| reading.at));
    // It has the time of its utilization, not that of the list.
    let [first, second] = [0, 1].map(|number| rig.since(readings[number].at));
    assert!((second - first) >= Nanos::from_millis(280), "{first:?}, {second:?}");
    assert_undisturbed(&run, &[1, 2]);
}

#[test]
fn what_a_driver_lacks_is_said_once() {
    let rig = three(
        "device = 0
        functions = [\"nvmlDeviceGetTotalEnergyConsumption\"]
        error = \"function_not_found\"",
    );
    let run = rig.sample(2.5);
    assert_eq!(run.befell(0), [Event::Unsupported(Metric::Energy, Lack::Driver)]);
    assert!(run.readings(0).iter().all(|r| r.energy.is_none() && r.utilization.is_ok()));
    assert_eq!(run.stats.gpus[0].metrics[Metric::Energy as usize].calls, 1);
    assert_undisturbed(&run, &[1, 2]);
}

#[test]
fn an_xid_is_told_by_the_gpu_that_had_it() {
    let rig = three("device = 2\nat_ms = 1200\nxid = 79");
    let run = rig.sample(2.5);
    assert_eq!(run.befell(2), [Event::Xid(79)]);
    assert_undisturbed(&run, &[0, 1]);
}
