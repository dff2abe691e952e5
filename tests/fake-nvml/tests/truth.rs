//! Reported values agree with the ground truth of the script.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use fake_nvml::Model;
use fake_nvml::device::Device;
use fake_nvml::track::Rate;
use fake_nvml::truth::Picojoules;
use phasemeter_meter::units::Nanos;
use proptest::prelude::*;

const MILLISECOND: u64 = 1_000_000;

fn device(script: &str) -> Device {
    Model::parse(script, Path::new("script.toml")).unwrap().devices.remove(0)
}

fn seconds(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

/// A phase of a script: milliseconds, percent and watts, optionally a burst.
#[derive(Clone, Debug)]
struct PhaseSpec {
    for_ms: u64,
    utilization: u32,
    power_w: u32,
    burst: Option<(u64, u64, u32)>,
}

impl PhaseSpec {
    fn text(&self) -> String {
        let Self { for_ms, utilization, power_w, burst } = self;
        let rates = match burst {
            None => format!("utilization = {utilization}"),
            Some((period, on, off)) => {
                format!("burst = {{ period_ms = {period}, on_ms = {on}, off_power_w = {off} }}")
            }
        };
        format!("[[device.phase]]\nfor_ms = {for_ms}\npower_w = {power_w}\n{rates}\n")
    }

    /// Percent busy and watts in millisecond `ms` of the phase.
    fn at(&self, ms: u64) -> (u32, u32) {
        match self.burst {
            None => (self.utilization, self.power_w),
            Some((period, on, _)) if ms % period < on => (100, self.power_w),
            Some((_, _, off)) => (0, off),
        }
    }
}

fn script(phases: &[PhaseSpec], repeat: bool, driver: &str) -> String {
    let phases: String = phases.iter().map(PhaseSpec::text).collect();
    format!("[driver]\n{driver}\n[[device]]\nrepeat = {repeat}\n{phases}")
}

/// Every millisecond of `phases` until `end`: the reference model.
fn milliseconds(phases: &[PhaseSpec], repeat: bool, end: u64) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    loop {
        for (index, phase) in phases.iter().enumerate() {
            let endless = !repeat && index + 1 == phases.len();
            let length = if endless { end } else { phase.for_ms };
            all.extend((0..length).map(|ms| phase.at(ms)));
            if all.len() >= usize::try_from(end).unwrap() {
                all.truncate(usize::try_from(end).unwrap());
                return all;
            }
        }
    }
}

fn phase() -> impl Strategy<Value = PhaseSpec> {
    let burst = (1_u64..400, 0_u64..400, 0_u32..300);
    let burst = burst.prop_map(|(period, on, off)| (period, on.min(period), off));
    (1_u64..3_000, 0_u32..=100, 0_u32..800, proptest::option::of(burst)).prop_map(
        |(for_ms, utilization, power_w, burst)| PhaseSpec { for_ms, utilization, power_w, burst },
    )
}

proptest! {
    /// Guarantee: whatever the phases, the energy and the busy time between two instants are the
    /// sums over the milliseconds between them.
    #[test]
    fn integrals_equal_millisecond_sums(
        phases in proptest::collection::vec(phase(), 1..6),
        repeat: bool,
        a in 0_u64..8_000,
        width in 0_u64..8_000,
    ) {
        let device = device(&script(&phases, repeat, ""));
        let (from, to) = (Nanos(a * MILLISECOND), Nanos((a + width) * MILLISECOND));
        let all = milliseconds(&phases, repeat, a + width);
        let between = all.iter().skip(usize::try_from(a).unwrap());
        let (busy, power) = between.fold((0, 0), |(busy, power), (u, w)| {
            (busy + u128::from(*u), power + u128::from(*w))
        });
        // Watts × milliseconds are microjoules × 1000; percent × milliseconds, ppm × ns ÷ 10^10.
        prop_assert_eq!(device.true_energy(from, to), Picojoules(power * 1_000_000_000));
        prop_assert_eq!(device.track.between(Rate::Busy, from, to), busy * 10_000_000_000);
    }

    /// Guarantee: the energy counter is the integral of power, to the millijoule and the refresh.
    #[test]
    fn energy_counter_equals_integral(
        phases in proptest::collection::vec(phase(), 1..6),
        a in 0_u64..8_000,
        width in 0_u64..8_000,
        refresh in 1_u64..200,
    ) {
        let device = device(&script(&phases, false, &format!("energy_refresh_ms = {refresh}")));
        let held = |ms: u64| Nanos((ms - ms % refresh) * MILLISECOND);
        let reported = device.energy(Nanos((a + width) * MILLISECOND)).0
            - device.energy(Nanos(a * MILLISECOND)).0;
        let Picojoules(used) = device.true_energy(held(a), held(a + width));
        let off = u128::from(reported).abs_diff(used / Picojoules::IN_MILLIJOULE);
        prop_assert!(off <= 1, "{reported} mJ reported, {used} pJ used");
    }

    /// Guarantee: draining the ring often enough loses no sample, and the mean of the samples is the
    /// true mean, up to the rounding of samples to whole percent.
    #[test]
    fn drained_samples_average_to_true_mean(
        phases in proptest::collection::vec(phase(), 1..6),
        repeat: bool,
        period in 20_u64..400,
        drains in proptest::collection::vec(1_u64..2_000, 1..8),
    ) {
        let depth = 2_000 / period + 1;
        let driver = format!("sample_period_ms = {period}\nsample_depth = {depth}");
        let device = device(&script(&phases, repeat, &driver));
        let (mut now, mut last, mut drained) = (0, Nanos::ZERO, Vec::new());
        for wait in drains {
            now += wait;
            for sample in device.samples(Rate::Busy, Nanos(now * MILLISECOND)) {
                let at = sample.at.unwrap();
                if at > last {
                    prop_assert_eq!((at - last).0, period * MILLISECOND, "a sample was lost");
                    last = at;
                    drained.push(f64::from(sample.value));
                }
            }
        }
        prop_assume!(!drained.is_empty());
        let count = f64::from(u32::try_from(drained.len()).unwrap());
        let mean = drained.iter().sum::<f64>() / count;
        let truth = device.true_utilization(Nanos::ZERO, last).percent();
        prop_assert!((mean - truth).abs() <= 0.501, "{mean} drained, {truth} true");
    }

    /// Guarantee: the phases between two instants tile the time between them.
    #[test]
    fn phases_between_tile_the_interval(
        phases in proptest::collection::vec(phase(), 1..6),
        repeat: bool,
        a in 0_u64..8_000_000_000,
        width in 0_u64..8_000_000_000,
    ) {
        let device = device(&script(&phases, repeat, ""));
        let (from, to) = (Nanos(a), Nanos(a + width));
        let mut at = from;
        for (_, start, end) in device.track.phases_between(from, to) {
            prop_assert_eq!(start, at);
            prop_assert!(end > start);
            at = end;
        }
        prop_assert_eq!(at, to);
        prop_assert_eq!(device.true_time_in("", from, to), to - from);
    }
}

const BURSTS: &str = "
[driver]
window_ms = 200
sample_period_ms = 200
[[device]]
[[device.phase]]
name = 'bursts'
for_ms = 60000
burst = { period_ms = 1000, on_ms = 50, off_power_w = 100 }
power_w = 500
";

#[test]
fn utilization_is_held_over_the_window() {
    let device = device(BURSTS);
    // 50 ms of the window [0, 200 ms) are busy; the driver reports it during the next.
    let reported = |ms| device.utilization(Rate::Busy, Nanos(ms * MILLISECOND));
    assert_eq!(
        [reported(200), reported(399), reported(400), reported(1_199), reported(1_200)],
        [25, 25, 0, 0, 25]
    );
}

#[test]
fn drained_bursts_are_unbiased() {
    let device = device(BURSTS);
    let samples = device.samples(Rate::Busy, seconds(10));
    let total: u32 = samples.iter().map(|sample| sample.value).sum();
    assert_eq!((samples.len(), total), (50, 250));
    assert_eq!(device.true_utilization(Nanos::ZERO, seconds(10)).ppm(), 50_000);
    assert_eq!(device.true_energy(Nanos::ZERO, seconds(1)).0, 120 * 1_000_000_000_000);
}

#[test]
fn ring_may_be_unordered_and_empty_when_idle() {
    let driver = "sample_period_ms = 200\nempty_when_idle = true\nunordered = true";
    let device = device(&BURSTS.replace("sample_period_ms = 200", driver));
    let samples = device.samples(Rate::Busy, seconds(3));
    let at: Vec<Option<u64>> = samples.iter().map(|s| s.at.map(|at| at.0 / MILLISECOND)).collect();
    assert_eq!(at, [Some(2_200), Some(1_200), Some(200), None]);
}

#[test]
fn pcie_counter_wraps_at_its_width() {
    let device = device(
        "[driver]\npcie_counter_bits = 24\n[[device]]\n[[device.phase]]\npcie_tx_mib_s = 10\n",
    );
    assert_eq!(device.pcie_bytes(Rate::PcieTx, seconds(1)), 10 << 20);
    assert_eq!(device.pcie_bytes(Rate::PcieTx, seconds(2)), 4 << 20);
}

#[test]
fn replay_reproduces_recorded_rows() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let model = Model::load(&manifest.join("example.toml")).unwrap();
    let device = &model.devices[1];
    let reported = |ms| {
        let at = Nanos(ms * MILLISECOND);
        (device.utilization(Rate::Busy, at), device.power(at), device.state(at).temperature.0)
    };
    assert_eq!(reported(0), (20, 61_250, 41));
    assert_eq!(reported(999), (20, 61_250, 41));
    // This row has no power: the previous value holds.
    assert_eq!(reported(1_000), (90, 61_250, 42));
    assert_eq!(reported(2_999), (90, 61_250, 42));
    assert_eq!(reported(3_000), (0, 60_500, 40));
    assert_eq!(device.track.length(), seconds(5));
}
