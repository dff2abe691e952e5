//! The demo source: two hours of one node with eight GPUs, generated from a seed.
//!
//! It demonstrates the report without a GPU. The same seed yields the same readings on every
//! machine, so all arithmetic is on integers.

mod gpu;
mod pods;
mod prng;
mod workloads;

use std::iter::repeat_n;

use phasemeter_meter::holder::HolderChange;
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos};

use self::gpu::{DemoGpu, STEP_MILLIS, STEPS_PER_SECOND};
use self::pods::DemoPods;
use self::prng::Prng;
use self::workloads::{WORKLOADS, Workload};
use super::{Source, SourceError};

/// Steps in two hours.
const STEPS: u32 = 7_200 * STEPS_PER_SECOND;

const MODEL: &str = "NVIDIA H100 80GB HBM3";
/// NVML's total memory of that model, in MiB.
const MEMORY_TOTAL: u64 = 81_559;
/// Power limit of that model, in milliwatts.
const POWER_LIMIT: u32 = 700_000;
/// PCI buses of the eight slots.
const BUSES: [&str; 8] = ["19", "3B", "4C", "5D", "9B", "BB", "CB", "DB"];

/// The demo fleet. Returns its readings in time order.
pub struct Demo {
    identities: Vec<GpuIdentity>,
    gpus: Vec<(DemoGpu, DemoPods)>,
    step: u32,
    gpu_index: usize,
    /// What the last reading changes, of the GPU before `gpu_index`.
    changes: Vec<HolderChange>,
}

impl Demo {
    /// Time from the first reading to the last.
    pub const LENGTH: Nanos = Nanos::from_millis(STEPS as u64 * STEP_MILLIS);

    /// The fleet generated from this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut names = Prng(seed);
        let numbered = (1..).zip(&WORKLOADS);
        let each = || numbered.clone().flat_map(|each| repeat_n(each, each.1.gpus));
        let named = (0..).zip(BUSES).zip(each());
        Self {
            identities: named
                .map(|((i, bus), (_, workload))| identity(i, bus, workload, &mut names))
                .collect(),
            gpus: (1..)
                .zip(each())
                .map(|(gpu, (number, workload))| {
                    let pods = DemoPods::new(seed ^ (number << 48), workload);
                    (DemoGpu::new(seed, gpu, workload.cycle), pods)
                })
                .collect(),
            step: 0,
            gpu_index: 0,
            changes: Vec::new(),
        }
    }
}

impl Source for Demo {
    fn next(&mut self) -> Result<Option<(usize, Reading)>, SourceError> {
        while self.step < STEPS {
            let gpu_index = self.gpu_index;
            let Some((gpu, pods)) = self.gpus.get_mut(gpu_index) else {
                self.step += 1;
                self.gpu_index = 0;
                continue;
            };
            self.gpu_index += 1;
            if let Some(reading) = gpu.read(self.step) {
                self.changes = pods.changes(self.step, self.step + 1 == STEPS, &reading);
                return Ok(Some((gpu_index, reading)));
            }
        }
        Ok(None)
    }

    fn gpus(&self) -> &[GpuIdentity] {
        &self.identities
    }

    fn take_holder_changes(&mut self) -> Vec<(usize, HolderChange)> {
        let gpu = self.gpu_index.saturating_sub(1);
        std::mem::take(&mut self.changes).into_iter().map(|change| (gpu, change)).collect()
    }

    /// Does nothing: readings are in order, so none is rejected.
    fn reject(&mut self, _reason: &str) {}
}

fn identity(index: u32, bus: &str, workload: &Workload, prng: &mut Prng) -> GpuIdentity {
    let attributes = [("service.name", workload.service), ("phasemeter.workload", workload.kind)];
    let uuid = format!("GPU-{}", uuid(prng));
    GpuIdentity {
        name: uuid.clone(),
        uuid: Some(uuid),
        bus_id: Some(format!("00000000:{bus}:00.0")),
        index: Some(index),
        model: Some(MODEL.to_owned()),
        memory_total: Bytes::from_mebibytes(MEMORY_TOTAL),
        power_limit: Milliwatts::new(POWER_LIMIT),
        attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..GpuIdentity::default()
    }
}

fn uuid(prng: &mut Prng) -> String {
    let (high, low) = (prng.next_u64(), prng.next_u64());
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff,
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use phasemeter_meter::holder::{Grant, Holder, HolderUse};
    use phasemeter_meter::reading::MissingReason;
    use phasemeter_meter::units::{Celsius, Timestamp};

    use super::gpu::{DRIVER_WINDOW_MILLIS, START_MILLIS};
    use super::*;

    const SEED: u64 = 7;

    /// All readings of a seed by GPU.
    fn fleet(seed: u64) -> Vec<Vec<Reading>> {
        let mut demo = Demo::new(seed);
        let mut all = vec![Vec::new(); demo.gpus().len()];
        while let Some((gpu, reading)) = demo.next().unwrap() {
            all[gpu].push(reading);
        }
        all
    }

    /// The measured utilizations of a GPU, in percent.
    fn percents(readings: &[Reading]) -> Vec<u32> {
        let of = |r: &Reading| r.utilization.ok().map(|u| u.ppm() / 10_000);
        readings.iter().filter_map(of).collect()
    }

    /// The fraction of values for which this holds, in tenths of a percent.
    fn part(percents: &[u32], holds: impl Fn(u32) -> bool) -> usize {
        1_000 * percents.iter().filter(|&&p| holds(p)).count() / percents.len()
    }

    fn mean(percents: &[u32]) -> usize {
        percents.iter().sum::<u32>() as usize / percents.len()
    }

    /// The durations in steps for which this holds, without the first and the last.
    fn stages(percents: &[u32], holds: impl Fn(u32) -> bool) -> Vec<usize> {
        let all: Vec<_> = percents.chunk_by(|&a, &b| holds(a) == holds(b)).collect();
        let inner = all.get(1..all.len() - 1).unwrap_or_default();
        inner.iter().filter(|run| holds(run[0])).map(|run| run.len()).collect()
    }

    /// A checksum that depends on every value and their order.
    fn digest(readings: &[Reading]) -> u64 {
        let mix = |sum: u64, value: u64| (sum ^ value).wrapping_mul(0x0100_0000_01b3);
        readings.iter().fold(0, |sum, r| {
            let values = [
                r.at.as_nanos(),
                r.utilization.map_or(u64::MAX, |u| u.ppm().into()),
                r.memory_used.map_or(u64::MAX, Bytes::get),
                r.power.map_or(u64::MAX, |p| p.get().into()),
                r.energy.map_or(u64::MAX, |e| e.0),
                r.temperature.map_or(u64::MAX, |t| t.0.unsigned_abs().into()),
                r.sm_clock.map_or(u64::MAX, |c| c.0.into()),
            ];
            values.into_iter().fold(sum, mix)
        })
    }

    #[test]
    fn seed_determines_fleet() {
        assert_eq!(digest(&fleet(SEED).concat()), 4_207_797_952_439_537_126);
        assert!(fleet(SEED).iter().zip(&fleet(SEED + 1)).all(|(a, b)| a != b));
        assert_ne!(Demo::new(SEED).gpus(), Demo::new(SEED + 1).gpus());
    }

    #[test]
    fn fleet_is_one_node_of_eight_gpus() {
        let demo = Demo::new(SEED);
        assert_eq!((demo.gpus().len(), demo.gpus.len()), (8, 8));
        let first = &demo.gpus()[0];
        assert_eq!(first.name, "GPU-63cbe1e4-5932-0dd7-044c-3cd7f43c661c");
        assert_eq!(first.bus_id.as_deref(), Some("00000000:19:00.0"));
        assert_eq!(first.model.as_deref(), Some(MODEL));
        assert_eq!(first.power_limit, Milliwatts::new(700_000));
    }

    #[test]
    fn readings_are_ordered_at_10_hz_for_two_hours() {
        let mut demo = Demo::new(SEED);
        let mut last = (Timestamp::default(), 0);
        let mut count = 0;
        while let Some((gpu, reading)) = demo.next().unwrap() {
            assert!((reading.at, gpu) > last);
            last = (reading.at, gpu);
            count += 1;
        }
        let end = Timestamp::from_millis(START_MILLIS + 7_200_000 - STEP_MILLIS).unwrap();
        assert_eq!(last, (end, 7));
        assert_eq!(count, 8 * STEPS - 540 * STEPS_PER_SECOND);
    }

    #[test]
    fn utilization_is_constant_within_driver_window() {
        for gpu in fleet(SEED) {
            let changes = percents(&gpu).windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(changes as u64 <= 7_200_000 / DRIVER_WINDOW_MILLIS + 1, "{changes} changes");
        }
    }

    #[test]
    fn starved_gpus_bounce_around_mean_of_steady_gpu() {
        let all = fleet(SEED);
        for starved in &all[..2] {
            let p = percents(starved);
            assert!((49..=52).contains(&mean(&p)), "mean {}", mean(&p));
            assert!((530..=570).contains(&part(&p, |p| p >= 70)));
            let (busy, idle) = (stages(&p, |p| p >= 70), stages(&p, |p| p < 10));
            assert!(busy.len() > 170, "{} cycles", busy.len());
            assert!(busy.iter().all(|steps| (18 * 10..=26 * 10).contains(steps)));
            assert!(idle.iter().all(|steps| (14 * 10..=22 * 10).contains(steps)));
        }
        let steady = percents(&all[2]);
        assert!((49..=52).contains(&mean(&steady)));
        assert!(steady.iter().all(|p| (45..=57).contains(p)));
    }

    #[test]
    fn inference_follows_daily_load() {
        let p = percents(&fleet(SEED)[3]);
        assert!((31..=35).contains(&mean(&p)));
        assert!(p.iter().all(|p| (20..=45).contains(p)));
        let (low, high) = (mean(&p[..12_000]), mean(&p[36_000..48_000]));
        assert!(high > low + 12, "from {low} to {high}");
    }

    #[test]
    fn compute_bound_gpus_dip_for_checkpoints_only() {
        for run in &fleet(SEED)[4..6] {
            let p = percents(run);
            assert!(mean(&p) >= 95);
            let dips = stages(&p, |p| p < 90);
            assert!((10..=13).contains(&dips.len()), "{} dips", dips.len());
            assert!(dips.iter().all(|&steps| steps <= 10 * STEPS_PER_SECOND as usize));
        }
    }

    #[test]
    fn notebook_is_idle_and_holds_memory() {
        let notebook = &fleet(SEED)[6];
        let p = percents(notebook);
        assert!(part(&p, |p| p == 0) > 970);
        assert!((13..=25).contains(&stages(&p, |p| p > 0).len()));
        assert!(notebook.iter().all(|r| r.memory_used == Bytes::from_mebibytes(30_720)));
        assert!(notebook.iter().all(|r| r.compute_processes == Some(1)));
    }

    #[test]
    fn lost_gpu_is_unobserved_then_recovers() {
        let gpu = &fleet(SEED)[7];
        let lost = gpu.iter().filter(|r| r.utilization == Err(MissingReason::Lost)).count();
        assert_eq!(lost, 150 * STEPS_PER_SECOND as usize);
        let gaps: Vec<_> = gpu.windows(2).map(|w| w[1].at.since(w[0].at)).collect();
        assert_eq!(
            gaps.iter().max(),
            Some(&(Nanos::from_secs(540) + Nanos::from_millis(STEP_MILLIS)))
        );
        assert!(gpu.last().unwrap().utilization.is_ok());
        assert!(gpu.iter().any(|r| r.compute_processes == Some(0)));
    }

    /// All holder changes of a GPU.
    fn holder_changes(gpu: usize) -> Vec<HolderChange> {
        let mut demo = Demo::new(SEED);
        let mut changes = Vec::new();
        while demo.next().unwrap().is_some() {
            let new = demo.take_holder_changes().into_iter();
            changes.extend(new.filter(|(of, _)| *of == gpu).map(|(_, change)| change));
        }
        changes
    }

    /// Names and UIDs of the pods at each assignment.
    fn assigned(changes: &[HolderChange]) -> Vec<Vec<(String, Option<String>)>> {
        let uid = |holder: &Holder| match holder {
            Holder::Container(container) => container.uid.clone(),
            _ => None,
        };
        let grants = changes.iter().filter_map(|change| match change {
            HolderChange::Assigned { grants, .. } => Some(grants),
            _ => None,
        });
        let named = |grant: &Grant| (grant.holder.to_string(), uid(&grant.holder));
        grants.map(|grants| grants.iter().map(named).collect()).collect()
    }

    #[test]
    fn pod_has_one_uid_on_all_its_gpus_and_another_when_it_returns() {
        let [first, second, .., ranking] = [0, 1, 7].map(|gpu| assigned(&holder_changes(gpu)));
        assert_eq!((first.len(), &first), (1, &second));
        assert_eq!(first[0][0].0, "vision/train-0");
        let [before, none, after] = ranking.as_slice() else { panic!("{ranking:?}") };
        assert!(none.is_empty());
        assert_eq!(before[0].0, after[0].0);
        assert_ne!(before[0].1, after[0].1);
    }

    #[test]
    fn pods_of_shared_gpu_use_all_of_its_utilization_and_one_uses_none() {
        let mut used: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for change in holder_changes(3) {
            if let HolderChange::Used(HolderUse { holder, utilization, .. }) = change {
                used.entry(holder.to_string()).or_default().push(utilization.ppm().into());
            }
        }
        let means: BTreeMap<_, _> = used
            .iter()
            .map(|(name, all)| (name.as_str(), all.iter().sum::<u64>() / all.len() as u64 / 10_000))
            .collect();
        let expected = [("chat/canary-0", 0), ("chat/chat-0", 20), ("chat/rerank-0", 12)];
        assert_eq!(means, expected.into());
        let seconds = used.values().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(seconds, [7_200; 3]);
    }

    #[test]
    fn power_clock_and_temperature_follow_utilization() {
        let all = fleet(SEED);
        let last = |gpu: usize| *all[gpu].last().unwrap();
        let (busy, idle) = (last(4), last(6));
        assert!(busy.power > Milliwatts::new(600_000) && busy.power < Milliwatts::new(700_000));
        assert!(idle.power > Milliwatts::new(100_000) && idle.power < Milliwatts::new(130_000));
        assert!(busy.temperature > Some(Celsius(55)) && idle.temperature < Some(Celsius(40)));
        assert!(busy.sm_clock < idle.sm_clock);
        for gpu in &all {
            let energy: Vec<_> = gpu.iter().filter_map(|r| r.energy).collect();
            assert!(energy.is_sorted());
        }
    }
}
