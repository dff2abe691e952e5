//! The sampler reports the values of the driver.

use std::io::{self, Write};

use phasemeter_engine::sampler::SamplerConfig;
use phasemeter_meter::device_metric::DeviceValue;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, Interval, MissingReason};
use phasemeter_meter::units::{Bytes, Celsius, Megahertz, Milliwatts, Nanos, Utilization};
use phasemeter_sources::live::{Event, Metric, Observed, UnsupportedReason};

use crate::{Rig, Run, unless_stalled};

fn percent(percent: u32) -> Utilization {
    Utilization::from_percent(percent).unwrap()
}

#[test]
fn readings_match_driver() {
    unless_stalled(|| {
        let rig = Rig::new(
            "[[device]]
        [[device.phase]]
        utilization = 80
        power_w = 400
        memory_used_mib = 4000
        temperature_c = 61
        sm_clock_mhz = 1755
        memory_clock_mhz = 2619
        processes = [{ pid = 1, memory_mib = 3000 }, { pid = 2 }]",
        );
        let run = rig.sample_until(|run| run.readings(0).len() >= 11);
        let readings = run.readings(0);
        assert!(readings.is_sorted_by_key(|reading| reading.at));
        let first = readings[0];
        assert_eq!(
            first.compute_processes,
            Some(2),
            "processes are known from the first reading on"
        );
        let last = *readings.last().unwrap();
        assert_eq!(last.utilization, Ok(percent(80)));
        assert_eq!(last.memory_used, Bytes::from_mebibytes(4_000));
        assert_eq!(last.power, Milliwatts::new(400_000));
        assert_eq!(last.temperature, Some(Celsius(61)));
        assert_eq!(last.sm_clock, Some(Megahertz(1_755)));
        assert_eq!(last.memory_clock, Some(Megahertz(2_619)));
        assert_eq!(last.compute_processes, Some(2));
        // 400 W × the time between; the counter is refreshed every 100 ms.
        let joules = last.energy.unwrap().joules() - first.energy.unwrap().joules();
        let truth = 400.0 * last.at.since(first.at).as_secs_f64();
        assert!((joules - truth).abs() <= 80.0, "{joules} J, expected {truth} J");
        assert_eq!(run.faults(0), []);
        assert_eq!(run.stats.dropped(), 0);
    });
}

#[test]
fn metrics_are_polled_at_their_period() {
    let rig = Rig::new("[[device]]");
    let mut sampling = rig.sample();
    let utilization = Metric::Utilization as usize;
    sampling.until(|run| run.stats.gpus[0].metrics[utilization].calls >= 25);
    let began = sampling.began;
    let run = sampling.stop();
    let elapsed = began.elapsed().as_secs_f64();
    let calls = |metric: Metric| run.stats.gpus[0].metrics[metric as usize].calls;
    for metric in Metric::ALL {
        let period = metric.period().max(SamplerConfig::DEFAULT_TICK).as_secs_f64();
        let (calls, most) = (calls(metric), elapsed / period + 3.0);
        assert!(calls >= 1 && calls as f64 <= most, "{}: {calls} calls", metric.name());
    }
    assert!(run.stats.gpus[0].metrics.iter().all(|metric| metric.failed == 0));
}

/// 50 ms of work in every second: 5.0%.
fn bursts(driver: &str) -> String {
    format!(
        "{driver}
        [[device]]
        gpm = false
        [[device.phase]]
        burst = {{ period_ms = 1000, on_ms = 50 }}"
    )
}

/// The time-weighted mean of intervals in percent.
fn mean(intervals: &[Interval]) -> f64 {
    let lasts = |interval: &Interval| interval.to.since(interval.from).as_secs_f64();
    let busy: f64 = intervals.iter().map(|i| i.utilization.percent() * lasts(i)).sum();
    busy / intervals.iter().map(lasts).sum::<f64>()
}

fn check_drained_mean(driver: &str) {
    let rig = Rig::started(&bursts(driver));
    let covered = |run: &Run| {
        let samples = run.intervals(0);
        let ends = samples.first().zip(samples.last());
        ends.map_or(Nanos::ZERO, |(first, last)| last.to.since(first.from))
    };
    let run = rig.sample_until(|run| covered(run) >= Nanos::from_millis(13_500));
    let samples = run.intervals(0);
    assert!(samples.iter().all(|interval| interval.basis == Basis::NvmlSamples));
    assert!(samples.windows(2).all(|two| two[0].to <= two[1].from));

    // From the middle of a second to the middle of another: timestamps that count from boot may be off
    // by a part of a sample, which must not move a burst across the limits.
    let in_the_middle = |at| {
        let into = rig.since(at).0 % Nanos::SECOND.0;
        (400_000_000..700_000_000).contains(&into)
    };
    let first = samples.iter().position(|interval| in_the_middle(interval.from)).unwrap();
    let last = samples.iter().rposition(|interval| in_the_middle(interval.to)).unwrap();
    let samples = &samples[first..=last];
    let (from, to) = (rig.since(samples[0].from), rig.since(samples[samples.len() - 1].to));
    assert!((to - from).as_secs_f64() > 12.0, "{from:?} to {to:?}");

    // Polled over the same time: before its first window ends a driver reports no mean.
    let mut readings = run.readings(0);
    readings.retain(|reading| (from..to).contains(&rig.since(reading.at)));
    let polled: f64 = readings.iter().map(|r| r.utilization.unwrap().percent()).sum();
    let polled = polled / f64::from(u32::try_from(readings.len()).unwrap());
    let truth = rig.model().devices[0].true_utilization(from, to).percent();
    let drained = mean(samples);
    // Not `eprintln!`: the test runner captures it.
    let mut stderr = io::stderr();
    writeln!(stderr, "true {truth:.2}%, drained {drained:.2}%, polled {polled:.2}%").unwrap();
    assert!((drained - truth).abs() < 0.1, "drained {drained}%, true {truth}%");
}

#[test]
fn drained_samples_match_ground_truth() {
    check_drained_mean("");
}

#[test]
fn drained_samples_match_ground_truth_if_unordered_since_boot() {
    check_drained_mean("uptime_s = 86400\n[driver]\nunordered = true");
}

#[test]
fn activity_intervals_are_contiguous() {
    let rig = Rig::new(
        "[[device]]
        [[device.phase]]
        utilization = 90
        sm = 75
        tensor = 40
        dram = 20
        fp64 = 8
        fp32 = 15",
    );
    let activity = |observed: &Observed| matches!(observed, Observed::Activity(_));
    let run = rig.sample_until(|run| run.of(0).filter(activity).count() >= 5);
    let activities: Vec<_> = run
        .of(0)
        .filter_map(|observed| match observed {
            Observed::Activity(activity) => Some(activity),
            _ => None,
        })
        .collect();
    assert!(activities.windows(2).all(|two| two[0].to == two[1].from));
    for activity in &activities {
        assert_eq!(activity.shares, [75, 40, 20, 8, 15, 0].map(|share| Some(percent(share))));
    }
    let bases: Vec<_> = activities[0].intervals().map(|interval| interval.basis).collect();
    assert_eq!(bases, [Basis::GpmSm, Basis::GpmTensor]);
}

#[test]
fn counters_match_driver() {
    unless_stalled(|| {
        let rig = Rig::new(
            "[[device]]
        [[device.phase]]
        throttle = [\"hw_thermal\"]
        pcie_rx_mib_s = 100
        ecc_corrected = 7
        encoder = 12
        decoder = 34",
        );
        let polled = |run: &Run| {
            let metrics = run.device_metrics(0);
            [Quantity::HardwareThermal, Quantity::PcieReceived]
                .map(|quantity| metrics.iter().filter(|it| it.quantity == quantity).count())
                .into_iter()
                .min()
        };
        let run = rig.sample_until(|run| polled(run) >= Some(3));
        let stood = |wanted: Quantity| -> Vec<_> {
            let mine = run.device_metrics(0).into_iter().filter_map(|it| match it.value {
                DeviceValue::Total(total) if it.quantity == wanted => Some((it.at, total)),
                _ => None,
            });
            mine.collect()
        };
        // The increase per second. A reading and its counter are two calls.
        for (counter, second) in
            [(Quantity::HardwareThermal, 1e9), (Quantity::PcieReceived, 100.0 * 1024.0 * 1024.0)]
        {
            let stood = stood(counter);
            let (first, last) = (stood[0], *stood.last().unwrap());
            let truth = last.0.since(first.0).as_secs_f64() * second;
            let rose = (last.1 - first.1) as f64;
            assert!(stood.len() >= 2 && truth > 0.0, "{counter:?}: {stood:?}");
            assert!((rose - truth).abs() < 0.02 * second, "{counter:?}: {rose}, expected {truth}");
        }
        for (counter, at) in
            [(Quantity::PowerCap, 0), (Quantity::CorrectedErrors, 7), (Quantity::MemoryErrors, 0)]
        {
            assert!(stood(counter).iter().all(|(_, stood)| *stood == at), "{counter:?}");
        }
        let video = |wanted: Quantity| {
            run.device_metrics(0).into_iter().find_map(|it| match it.value {
                DeviceValue::Mean { share, .. } if it.quantity == wanted => Some(share),
                _ => None,
            })
        };
        assert_eq!(
            [Quantity::Encoder, Quantity::Decoder].map(video),
            [Some(percent(12)), Some(percent(34))]
        );
    });
}

/// Two processes share one GPU, another is alone on the second, and nothing computes on the third.
#[test]
fn use_of_each_process_is_observed() {
    let rig = Rig::new(
        "[[device]]
        [[device.phase]]
        utilization = 80
        processes = [{ pid = 1, share = 75 }, { pid = 2, share = 25 }, { pid = 3, share = 0 }]
        [[device]]
        [[device.phase]]
        utilization = 30
        processes = [{ pid = 4 }]
        [[device]]
        [[device.phase]]
        utilization = 50",
    );
    let run = rig.sample_until(|run| run.uses(0).len() >= 9 && run.uses(1).len() >= 3);
    let uses = run.uses(0);
    for used in &uses {
        let expected = [60, 20, 0][used.pid as usize - 1];
        assert_eq!(used.utilization, Utilization::from_percent(expected).unwrap(), "{used:?}");
    }
    let queries = uses.chunk_by(|a, b| a.to == b.to).collect::<Vec<_>>();
    assert!(queries.windows(2).all(|two| two[0][0].to == two[1][0].from), "{uses:?}");
    assert!(run.uses(1).iter().all(|it| (it.pid, it.utilization) == (4, Utilization::FULL)));
    assert_eq!(run.uses(2), []);
}

/// What they used is known up to the query that finds them gone: else it would be unknown whose that time is.
#[test]
fn use_of_processes_that_have_ended_is_observed() {
    let rig = Rig::new(
        "[[device]]
        [[device.phase]]
        for_ms = 2500
        utilization = 80
        processes = [{ pid = 1, share = 50 }, { pid = 2, share = 50 }]
        [[device.phase]]
        for_ms = 60000
        utilization = 40
        processes = [{ pid = 3 }]",
    );
    let run = rig.sample_until(|run| run.uses(0).iter().filter(|used| used.pid == 3).count() >= 3);
    let uses = run.uses(0);
    let queries = uses.chunk_by(|a, b| a.to == b.to).collect::<Vec<_>>();
    assert!(queries.windows(2).all(|two| two[0][0].to == two[1][0].from), "{uses:?}");
    let pids = queries.iter().map(|query| query.iter().map(|used| used.pid).collect::<Vec<_>>());
    let mut pids: Vec<_> = pids.collect();
    pids.dedup();
    assert_eq!(pids, [vec![1, 2], vec![1, 2, 3], vec![3]]);
}

/// Old drivers lack these fields, and some GPUs lack video engines.
#[test]
fn unsupported_metrics_are_not_reported() {
    let rig = Rig::new(
        "[[device]]
        [[fault]]
        functions = [
            \"nvmlDeviceGetFieldValues\", \"nvmlDeviceGetEncoderUtilization\",
            \"nvmlDeviceGetEnforcedPowerLimit\", \"nvmlDeviceGetPowerManagementLimit\",
        ]
        error = \"not_supported\"",
    );
    let run = rig.sample_until(|run| run.faults(0).len() >= 4 && run.readings(0).len() >= 5);
    let expected = [Metric::Counters, Metric::Video, Metric::PowerLimit, Metric::NvLinks]
        .map(|it| Event::Unsupported(it, UnsupportedReason::Device));
    assert_eq!(run.faults(0), expected);
    assert_eq!(run.device_metrics(0), []);
}

#[test]
fn mig_gpu_reports_everything_but_utilization() {
    let rig = Rig::new(
        "[[device]]
        mig = true
        [[device.phase]]
        utilization = 50
        memory_used_mib = 1000
        [[device]]
        mig = true
        gpm = false",
    );
    let discovery = rig.discover().unwrap();
    assert!(discovery.gpus.iter().all(|found| found.identity.is_in_mig_mode()));
    drop(discovery);

    let measured = |run: &Run, gpu| run.intervals(gpu).iter().any(|i| i.basis == Basis::GpmSm);
    let run = rig.sample_until(|run| {
        [0, 1].iter().all(|gpu| run.readings(*gpu).len() >= 7) && measured(run, 0)
    });
    for gpu in [0, 1] {
        let readings = run.readings(gpu);
        assert!(readings.iter().all(|r| r.utilization == Err(MissingReason::NotSupported)));
    }
    assert_eq!(run.readings(0).last().unwrap().memory_used, Bytes::from_mebibytes(1_000));
    assert_eq!([0, 1].map(|gpu| measured(&run, gpu)), [true, false]);
}
