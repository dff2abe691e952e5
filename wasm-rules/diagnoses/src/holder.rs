//! What has an idle GPU: nothing, something unknown, or a pod or job that a scheduler allocated it to. Unknown is not
//! free, and neither is an allocation: its scheduler places nothing else there.

use crate::share;
use phasemeter_policy::{Gpu, Holder, Window};

/// Share of the memory in use up to which no process holds a GPU, as the meter defines it.
const CONTEXT: f64 = 0.01;

/// Attributes that name it if the source has no allocations: of the GPU, or of a run within its pod or job.
const POD: &str = "k8s.pod.name";
const NAMESPACE: &str = "k8s.namespace.name";
const JOB: &str = "slurm.job.id";

/// How holders are named that are no pods.
const CLAIM_NAME: &str = "claim ";
const JOB_NAME: &str = "job ";

/// Whether the source names what holds GPUs, as an agent of the node does. Else nothing shows what their host computes while
/// they do nothing.
pub fn names_holders(window: &Window) -> bool {
    window.gpus.iter().any(|gpu| !gpu.holders.is_empty())
}

/// What a scheduler allocated a GPU to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its name, or several: `vision/trainer-0`, `claim vision/two-gpus` or `job 4711`.
    pub name: String,
}

impl Allocation {
    /// The allocation of a GPU, as its attributes or those of the run name it; `None` if they name none.
    pub fn of(gpu: &Gpu, window: &Window) -> Option<Self> {
        let value = |name: &str| gpu.attribute(name).or_else(|| window.attribute(name));
        let pod = |name: &str| match value(NAMESPACE) {
            Some(namespace) => [namespace, "/", name].concat(),
            None => name.to_owned(),
        };
        let names = gpu.holder_names();
        let name = (!names.is_empty()).then(|| names.join(", "));
        let name = name.or_else(|| value(POD).map(pod));
        let name = name.or_else(|| value(JOB).map(|id| [JOB_NAME, id].concat()));
        name.map(|name| Self { name })
    }

    /// Whether it is a job of a queue.
    pub fn is_job(&self) -> bool {
        self.name.starts_with(JOB_NAME)
    }

    /// How it is released.
    pub fn release(&self) -> &'static str {
        if self.is_job() {
            "cancel the job (scancel), or request it with a shorter time limit"
        } else if self.name.starts_with(CLAIM_NAME) {
            "delete the claim and the pods that use it"
        } else {
            "delete the pod or scale its workload to zero"
        }
    }
}

/// An allocation of a GPU, or of a part of it, that nothing has touched: it never worked, and no process took memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Untouched {
    /// Its holder, or several.
    pub allocation: Allocation,
    /// For how long it was allocated, by its part of the GPU now; without one, at least so long.
    pub seconds: f64,
    /// The same times the part of the GPU.
    pub gpu_seconds: f64,
    /// What that cost, in nano-USD.
    pub cost: u64,
}

impl Untouched {
    /// That of the holders of a GPU that never touched it.
    fn of_holders(gpu: &Gpu) -> Option<Self> {
        let never = |holder: &&Holder| {
            holder.is_current && holder.first_touch.is_none() && holder.never_touched.seconds > 0.0
        };
        let holders = || gpu.holders.iter().filter(never);
        // Parts may have changed: it cannot be longer than the GPU was metered.
        let all = gpu.accounts.observed().seconds + gpu.accounts.unobserved.seconds;
        let part = |holder: &Holder| holder.granted.filter(|part| *part > 0.0).unwrap_or(1.0);
        let seconds =
            holders().map(|holder| (holder.never_touched.seconds / part(holder)).min(all));
        let mut names: Vec<&str> = holders().map(|holder| holder.name.as_str()).collect();
        names.dedup();
        Some(Self {
            allocation: Allocation { name: names.join(", ") },
            seconds: seconds.reduce(f64::max)?,
            gpu_seconds: holders().map(|holder| holder.never_touched.seconds).sum(),
            cost: holders().map(|holder| holder.never_touched.cost).sum(),
        })
    }

    /// That of a whole GPU, for all of its idle time.
    fn of_gpu(gpu: &Gpu, allocation: Allocation) -> Self {
        let idle = gpu.accounts.idle();
        Self { allocation, seconds: idle.seconds, gpu_seconds: idle.seconds, cost: idle.cost }
    }
}

/// The allocation of a GPU that nothing has touched.
pub fn untouched(gpu: &Gpu, window: &Window) -> Option<Untouched> {
    if !gpu.holders.is_empty() {
        return Untouched::of_holders(gpu);
    }
    let is_idle = gpu.accounts.busy().seconds <= 0.0 && gpu.accounts.idle().seconds > 0.0;
    let is_empty = || gpu.memory_share().is_some_and(|share| share <= CONTEXT);
    // Names are compared last.
    let allocation = (is_idle && is_empty()).then(|| Allocation::of(gpu, window))?;
    allocation.map(|of| Untouched::of_gpu(gpu, of))
}

/// Whether a GPU was never touched for all of the observed time.
pub fn is_untouched(gpu: &Gpu, window: &Window) -> bool {
    let least = share::NEARLY_ALL * gpu.accounts.observed().seconds;
    untouched(gpu, window).is_some_and(|untouched| untouched.gpu_seconds >= least)
}

/// Whether a process list, memory in use or an allocation shows whether something holds the GPU while it is idle.
pub fn shows_holder(gpu: &Gpu) -> bool {
    gpu.accounts.idle_unknown.seconds <= share::HARDLY_ANY * gpu.accounts.idle().seconds
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{holder, steady, window, with_memory};

    use super::*;

    #[test]
    fn unknown_idle_time_has_no_known_holder() {
        let mut gpu = steady(3_600, 0.0);
        assert!(shows_holder(&gpu), "it is held");
        std::mem::swap(&mut gpu.accounts.idle_held, &mut gpu.accounts.idle_unknown);
        assert!(!shows_holder(&gpu));
        gpu.accounts.idle_free = gpu.accounts.idle_unknown;
        assert!(!shows_holder(&gpu), "half of it");
        assert!(shows_holder(&steady(3_600, 0.9)), "it is never idle");
    }

    #[test]
    fn allocated_gpu_that_nothing_touched_has_its_holder() {
        let of = |gpu: Gpu, attributes: &[(&str, &str)]| {
            let attributes = attributes.iter().map(|(name, of)| ((*name).into(), (*of).into()));
            let window = window(vec![Gpu { attributes: attributes.collect(), ..gpu }]);
            untouched(&window.gpus[0], &window).map(|untouched| untouched.allocation.name)
        };
        let empty = || with_memory(steady(3_600, 0.0), 0.0);
        let pod = [("k8s.namespace.name", "vision"), ("k8s.pod.name", "trainer-0")];
        assert_eq!(of(empty(), &pod).as_deref(), Some("vision/trainer-0"));
        assert_eq!(of(empty(), &[("slurm.job.id", "4711")]).as_deref(), Some("job 4711"));
        assert_eq!(of(empty(), &[]), None);
        assert_eq!(of(with_memory(steady(3_600, 0.0), 30.0), &pod), None, "a process holds it");
        assert_eq!(of(with_memory(steady(3_600, 0.4), 0.0), &pod), None, "it worked");
        assert_eq!(of(steady(3_600, 0.0), &pod), None, "memory was not recorded");
    }

    #[test]
    fn holder_of_a_part_that_it_never_touched_is_named() {
        // By its part; without one, at least the time of the whole GPU; never longer than the GPU was metered.
        for (granted, seconds) in [(Some(0.5), 3_600.0), (None, 1_800.0), (Some(0.1), 3_600.0)] {
            let b = Holder { granted, ..holder("b", 0.0, 0.0, 1_800.0) };
            let holders = vec![holder("a", 600.0, 1_200.0, 0.0), b];
            let window = window(vec![Gpu { holders, ..steady(3_600, 0.3) }]);
            let of = untouched(&window.gpus[0], &window).unwrap();
            assert_eq!((of.seconds, of.gpu_seconds, of.cost), (seconds, 1_800.0, 1_800_000_000));
        }
        let holders = vec![holder("a", 600.0, 1_200.0, 0.0), holder("b", 0.0, 0.0, 1_800.0)];
        let window = window(vec![Gpu { holders, ..steady(3_600, 0.3) }]);
        let of = untouched(&window.gpus[0], &window).unwrap();
        assert_eq!(of.allocation.name, "b");
        assert!(!is_untouched(&window.gpus[0], &window), "another works on it");
        assert_eq!(Allocation::of(&window.gpus[0], &window).unwrap().name, "a, b");
    }
}
