//! Random plans of simulated runs, and the scripts of the driver that play them.

use std::collections::BTreeMap;
use std::fmt::Write;

use phasemeter_meter::phase::Account;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{Nanos, Timestamp};
use proptest::prelude::*;

pub(super) const GPUS: usize = 8;

/// GPUs without faults.
pub(super) const HEALTHY: [usize; 2] = [0, 4];

/// The power of each GPU.
pub(super) const WATTS: f64 = 300.0;

/// The start of the script, 2026-01-01T00:00:00Z.
pub(super) const START_MILLIS: u64 = 1_767_225_600_000;

pub(super) fn start() -> Timestamp {
    Timestamp::from_millis(START_MILLIS).unwrap()
}

/// A fault of one GPU.
#[derive(Clone, Debug)]
pub(super) struct ScriptedFault {
    pub(super) gpu: usize,
    pub(super) at_ms: u64,
    pub(super) for_ms: u64,
    pub(super) functions: &'static [&'static str],
    pub(super) effect: String,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) tick: Nanos,
    pub(super) length: Nanos,
    pub(super) faults: Vec<ScriptedFault>,
    /// Steps of the wall clock: when in milliseconds, and by how many.
    pub(super) steps: BTreeMap<u64, i64>,
    /// When the machine is suspended, and for how long, in milliseconds. The driver reports nothing of it.
    pub(super) suspensions: BTreeMap<u64, u64>,
}

pub(super) const UTILIZATION: &str = "nvmlDeviceGetUtilizationRates";

fn any_fault(length_ms: u64) -> impl Strategy<Value = ScriptedFault> {
    let faulty: Vec<_> = (0..GPUS).filter(|gpu| !HEALTHY.contains(gpu)).collect();
    let functions = prop::sample::select(vec![
        &[][..],
        &[UTILIZATION],
        &["nvmlDeviceGetSamples"],
        &[UTILIZATION, "nvmlDeviceGetSamples"],
        &["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage"],
        &["nvmlDeviceGetTotalEnergyConsumption"],
        &["nvmlDeviceGetComputeRunningProcesses_v3"],
        &["nvmlDeviceGetHandleByUUID", UTILIZATION],
    ]);
    let error = prop::sample::select(vec![
        "gpu_is_lost",
        "reset_required",
        "uninitialized",
        "not_supported",
        "no_permission",
        "timeout",
        "unknown",
        "no_data",
        "insufficient_size",
    ]);
    let effect = prop_oneof![
        4 => error.prop_map(|error| format!("error = \"{error}\"")),
        2 => (5_u64..950).prop_map(|millis| format!("delay_ms = {millis}")),
        1 => Just("hang = true".to_owned()),
        1 => prop_oneof![-3_600_000_i64..3_600_000, -5_000_i64..5_000]
            .prop_map(|millis| format!("shift_stamps_ms = {millis}")),
    ];
    let lasts = prop_oneof![50_u64..2_000, 2_000_u64..30_000, 30_000_u64..300_000];
    (prop::sample::select(faulty), 2_000..length_ms, lasts, functions, effect).prop_map(
        |(gpu, at_ms, for_ms, functions, effect)| ScriptedFault {
            gpu,
            at_ms,
            for_ms,
            functions,
            effect,
        },
    )
}

pub(super) fn any_plan() -> impl Strategy<Value = Plan> {
    let pace = prop_oneof![Just((1_000, 3_600_000)), Just((100, 600_000))];
    pace.prop_flat_map(|(tick_ms, length_ms): (u64, u64)| {
        let step = prop_oneof![
            Just(-10_000_i64),
            Just(3_600_000),
            Just(-7_200_000),
            Just(1_767_225_600_000),
            -60_000_i64..60_000
        ];
        let step =
            step.prop_map(|millis| if millis.abs() < 1_000 { millis + 2_000 } else { millis });
        let steps = prop::collection::btree_map(20..length_ms / 1_000 - 1, step, 0..4);
        let faults = prop::collection::vec(any_fault(length_ms), 1..24);
        (steps, faults).prop_map(move |(steps, faults)| Plan {
            tick: Nanos::from_millis(tick_ms),
            length: Nanos::from_millis(length_ms),
            faults,
            steps: steps.into_iter().map(|(second, millis)| (second * 1_000, millis)).collect(),
            suspensions: BTreeMap::new(),
        })
    })
}

impl Plan {
    /// A run at 10 Hz of this length, in which nothing happens.
    pub(super) fn of(length: Nanos) -> Self {
        Self { tick: Nanos::from_millis(100), length, ..Self::default() }
    }

    /// The utilization of a GPU in percent, which is constant: an account of its own or a neighbor's.
    pub(super) const fn percent(gpu: usize) -> u32 {
        [95, 5, 50, 80, 50, 95, 80, 5][gpu]
    }

    /// Its accounts: without a process list, whether it is held is another question.
    pub(super) const fn accounts(gpu: usize) -> &'static [Account] {
        match Self::percent(gpu) {
            95 => &[Account::ComputeBound],
            80 => &[Account::Productive],
            50 => &[Account::Underutilized],
            _ => &[Account::IdleHeld, Account::IdleFree, Account::IdleUnknown],
        }
    }

    pub(super) fn script(&self) -> String {
        let mut script = format!(
            "time = \"simulated\"\nstart_unix_ms = {START_MILLIS}\nlength_ms = {}\n\
             [driver]\nempty_when_idle = {}\n",
            self.length.0 / 1_000_000,
            !self.suspensions.is_empty()
        );
        for gpu in 0..GPUS {
            let percent = Self::percent(gpu);
            let busy = format!(
                "utilization = {percent}\npower_w = {WATTS}\nprocesses = [{{ pid = 7 }}]\n"
            );
            script += "[[device]]\n";
            let mut since = 0;
            for (at_ms, for_ms) in &self.suspensions {
                let awake = at_ms - since;
                write!(script, "[[device.phase]]\nfor_ms = {awake}\n{busy}").unwrap();
                write!(script, "[[device.phase]]\nfor_ms = {for_ms}\npower_w = 0\n").unwrap();
                since = at_ms + for_ms;
            }
            write!(script, "[[device.phase]]\n{busy}").unwrap();
        }
        // The driver stamps samples by the wall clock.
        for (at_ms, millis) in &self.steps {
            write!(script, "[[fault]]\nat_ms = {at_ms}\nshift_stamps_ms = {millis}\n").unwrap();
        }
        for ScriptedFault { gpu, at_ms, for_ms, functions, effect } in &self.faults {
            write!(script, "[[fault]]\ndevice = {gpu}\nat_ms = {at_ms}\nfor_ms = {for_ms}\n")
                .unwrap();
            write!(script, "functions = {functions:?}\n{effect}\n").unwrap();
        }
        script
    }

    pub(super) fn stale_after(&self) -> Nanos {
        StaleAfter::from_interval(self.tick).fixed().unwrap()
    }
}
