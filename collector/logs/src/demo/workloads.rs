//! The workloads of the demo fleet, as cycles of stages.

/// A cycle of stages that some GPUs, in order of index, repeat.
pub(super) struct Workload {
    /// Values of `service.name` and `phasemeter.workload`.
    pub(super) service: &'static str,
    pub(super) kind: &'static str,
    pub(super) gpus: usize,
    /// The pods that hold each of these GPUs while it has a process.
    pub(super) pods: &'static [DemoPod],
    pub(super) cycle: &'static [Stage],
}

/// A pod, and what it has of a GPU.
pub(super) struct DemoPod {
    pub(super) name: &'static str,
    /// It is granted one of so many replicas.
    pub(super) replicas: u32,
    pub(super) uses: DemoUse,
}

/// What a pod uses of a GPU that is used at all.
#[derive(Clone, Copy)]
pub(super) enum DemoUse {
    /// Minimum and maximum percent of it.
    Percent((u32, u32)),
    /// What the pods before it do not use.
    Rest,
    Nothing,
}

impl DemoUse {
    /// Whether it uses any.
    pub(super) const fn is_any(self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

const fn whole(name: &'static str) -> DemoPod {
    DemoPod { name, replicas: 1, uses: DemoUse::Rest }
}

const fn replica(name: &'static str, uses: DemoUse) -> DemoPod {
    DemoPod { name, replicas: 3, uses }
}

/// A period of constant behavior.
#[derive(Clone, Copy)]
pub(super) struct Stage {
    /// Minimum and maximum duration in seconds, at least 1.
    pub(super) seconds: (u32, u32),
    /// Minimum and maximum utilization in percent.
    pub(super) percent: (u32, u32),
    /// Memory used by a process in MiB; zero without a process.
    pub(super) memory: u64,
    pub(super) state: DemoState,
}

/// The response to a query.
#[derive(Clone, Copy)]
pub(super) enum DemoState {
    Responding,
    Lost,
    /// The GPU is not queried.
    Unpolled,
}

const fn working(seconds: (u32, u32), percent: (u32, u32), memory: u64) -> Stage {
    Stage { seconds, percent, memory, state: DemoState::Responding }
}

pub(super) const fn away(seconds: u32, state: DemoState) -> Stage {
    Stage { seconds: (seconds, seconds), percent: (0, 0), memory: 0, state }
}

pub(super) const WORKLOADS: [Workload; 6] = [
    // Training that waits for its data loader: a few batches, then no work.
    Workload {
        service: "vision",
        kind: "training",
        gpus: 2,
        pods: &[whole("train-0")],
        cycle: &[working((19, 25), (86, 98), 61_442), working((15, 21), (0, 2), 61_442)],
    },
    // Nearly the same mean, but steady: batches too small for the GPU.
    Workload {
        service: "speech",
        kind: "training",
        gpus: 1,
        pods: &[whole("train-0")],
        cycle: &[working((7_200, 7_200), (45, 57), 33_218)],
    },
    // Inference at one third, following the load of the day: a time-sliced GPU with three replicas, of which one
    // does nothing.
    Workload {
        service: "chat",
        kind: "serving",
        gpus: 1,
        pods: &[
            replica("chat-0", DemoUse::Percent((55, 70))),
            replica("rerank-0", DemoUse::Rest),
            replica("canary-0", DemoUse::Nothing),
        ],
        cycle: &[
            working((1_200, 1_200), (20, 28), 44_870),
            working((1_200, 1_200), (26, 36), 44_870),
            working((1_200, 1_200), (34, 43), 44_870),
            working((1_200, 1_200), (37, 45), 44_870),
            working((1_200, 1_200), (32, 42), 44_870),
            working((1_200, 1_200), (24, 34), 44_870),
        ],
    },
    // Compute-bound training with occasional checkpoints.
    Workload {
        service: "pretraining",
        kind: "training",
        gpus: 2,
        pods: &[whole("train-0")],
        cycle: &[working((560, 620), (96, 100), 72_306), working((5, 9), (3, 12), 72_306)],
    },
    // An open, idle notebook.
    Workload {
        service: "notebook",
        kind: "interactive",
        gpus: 1,
        pods: &[whole("ana-0")],
        cycle: &[working((280, 520), (0, 0), 30_720), working((3, 9), (30, 85), 30_720)],
    },
    // Training on a GPU that falls off the bus, is repaired while unobserved, and continues.
    Workload {
        service: "ranking",
        kind: "training",
        gpus: 1,
        pods: &[whole("train-0")],
        cycle: &[
            working((2_760, 2_760), (74, 88), 66_194),
            away(150, DemoState::Lost),
            away(540, DemoState::Unpolled),
            working((210, 210), (0, 0), 0),
            working((3_540, 3_540), (74, 88), 66_194),
        ],
    },
];
