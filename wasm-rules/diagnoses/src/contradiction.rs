//! Sources of utilization that contradict each other, and power that contradicts all of them.
//!
//! Counters fail without an error, and then a busy GPU looks idle to one source, or an idle one busy.

use phasemeter_policy::Gpu;

use crate::{power_limit, share, time};

/// How the metrics of a contradiction begin, and that of its time ends.
const PREFIX: &str = "contradiction.";
const TIME: &str = ".seconds";

/// Hardware counters, which stay at 0 while another profiler holds them.
const COUNTERS: [&str; 3] = ["dcgm.gr_engine", "dcgm.sm", "gpm.sm"];

/// Power of a GPU whose SMs work, as a share of its limit, at most, from which its sensor is wrong: without any work, an
/// H100, an A100 or a T4 draws 10–13%.
const NO_POWER: f64 = 0.1;

/// Power at work, relative to its limit, at least, from which its sensor is wrong: limits are kept within seconds.
const TOO_MUCH_POWER: f64 = 1.5;

/// Memory in use, in bytes, up to which no process can work on a GPU: a process takes some hundred MiB before it computes
/// anything. An assumption.
const WITHOUT_PROCESS: f64 = 50.0 * 1_048_576.0;

/// What two sources reported while one reported work and the other none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contradiction<'a> {
    /// The source that reports work, and its mean.
    pub works: (&'a str, f64),
    /// The source that reports none, and its mean.
    pub rests: (&'a str, f64),
    /// For how long.
    pub seconds: f64,
    /// Mean power in watts, if it was recorded.
    pub watts: Option<f64>,
}

/// The contradictions of a GPU that last.
pub fn contradictions(gpu: &Gpu) -> impl Iterator<Item = Contradiction<'_>> {
    gpu.metrics.iter().filter_map(|(name, seconds)| {
        let sources = name.strip_prefix(PREFIX)?.strip_suffix(TIME)?;
        let (works, rests) = sources.split_once('/')?;
        let of = |what: &str| gpu.metric(&[PREFIX, sources, ".", what].concat());
        (*seconds >= time::USUAL).then_some(Contradiction {
            works: (works, of("works")?),
            rests: (rests, of("rests")?),
            seconds: *seconds,
            watts: of("watts"),
        })
    })
}

/// Whether hardware counters of a GPU failed: they report none while the driver reports work.
pub fn has_failed_counters(gpu: &Gpu) -> bool {
    contradictions(gpu).any(|it| COUNTERS.contains(&it.rests.0))
}

/// Whether a GPU is idle only to the source that is billed.
pub(crate) fn has_false_idle(gpu: &Gpu) -> bool {
    contradictions(gpu).any(|it| !COUNTERS.contains(&it.rests.0))
}

/// The power of a GPU while its utilization and its SMs show work, if it is less than that of an idle one: it, and its
/// limit, in watts.
pub fn unpowered_work(gpu: &Gpu) -> Option<(f64, f64)> {
    let busy = gpu.accounts.busy();
    let works = gpu.sensors.sm_activity.is_some_and(|activity| activity >= share::MOST)
        && busy.level() >= share::MOST
        && busy.seconds >= time::USUAL;
    let power = gpu.sensors.busy_power.filter(|_| works)?;
    let limit = power_limit(gpu)?;
    (power.p95 <= NO_POWER * limit).then_some((power.p50, limit))
}

/// Whether a GPU reports work without memory in use, which every process needs.
pub fn works_without_memory(gpu: &Gpu) -> bool {
    let busy = gpu.accounts.busy();
    let is_empty = gpu.memory_peak().is_some_and(|bytes| bytes <= WITHOUT_PROCESS);
    is_empty && busy.seconds >= time::USUAL && busy.level() >= share::MOST
}

/// The power of a GPU at work, if it is always far above its limit: it, and its limit, in watts.
pub fn impossible_power(gpu: &Gpu) -> Option<(f64, f64)> {
    let power = gpu.sensors.busy_power?;
    let limit = power_limit(gpu)?;
    let lasts = gpu.accounts.busy().seconds >= time::USUAL;
    (lasts && power.p5 >= TOO_MUCH_POWER * limit).then_some((power.p50, limit))
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::steady;

    use super::*;

    fn contradicted(works: &str, rests: &str, seconds: f64) -> Gpu {
        let name = |what: &str| [PREFIX, works, "/", rests, ".", what].concat();
        let metrics = [("seconds", seconds), ("works", 0.99), ("rests", 0.0), ("watts", 640.0)];
        let metrics = metrics.map(|(what, value)| (name(what), value)).to_vec();
        Gpu { metrics, ..steady(7_200, 0.99) }
    }

    #[test]
    fn contradictions_are_read_with_both_sources() {
        let gpu = contradicted("dcgm.gpu", "dcgm.sm", 7_200.0);
        let found: Vec<_> = contradictions(&gpu).collect();
        let expected = Contradiction {
            works: ("dcgm.gpu", 0.99),
            rests: ("dcgm.sm", 0.0),
            seconds: 7_200.0,
            watts: Some(640.0),
        };
        assert_eq!(found, [expected]);
        assert!(has_failed_counters(&gpu) && !has_false_idle(&gpu));
        let reverse = contradicted("dcgm.sm", "dcgm.gpu", 7_200.0);
        assert!(!has_failed_counters(&reverse) && has_false_idle(&reverse));
        assert!(!has_failed_counters(&contradicted("dcgm.gpu", "dcgm.sm", 900.0)), "too short");
    }

    #[test]
    fn power_below_that_of_an_idle_gpu_contradicts_work() {
        let with = |sm: f64, watts: f64| {
            let mut gpu = steady(7_200, 0.97);
            gpu.sensors.sm_activity = Some(sm);
            gpu.sensors.busy_power =
                Some(Percentiles { p5: watts, p50: watts, p95: watts, max: watts });
            unpowered_work(&gpu)
        };
        assert_eq!(with(0.8, 31.0), Some((31.0, 700.0)));
        assert_eq!(with(0.8, 130.0), None, "small kernels");
        assert_eq!(with(0.1, 31.0), None, "a collective that waits");
    }

    #[test]
    fn power_far_above_its_limit_is_impossible() {
        let with = |least: f64| {
            let mut gpu = steady(7_200, 0.97);
            gpu.sensors.busy_power =
                Some(Percentiles { p5: least, p50: 1_400.0, p95: 1_400.0, max: 1_400.0 });
            impossible_power(&gpu)
        };
        assert_eq!(with(1_200.0), Some((1_400.0, 700.0)));
        assert_eq!(with(690.0), None, "peaks");
    }

    #[test]
    fn small_process_on_a_large_gpu_is_not_without_memory() {
        let with = |mebibytes: f64| {
            let mut gpu = steady(7_200, 0.95);
            gpu.memory = vec![mebibytes * 1_048_576.0; gpu.utilization.len()];
            works_without_memory(&gpu)
        };
        // 0.7% of an H200, as a small load on a real one uses.
        assert!(!with(1_040.0) && !with(300.0));
        assert!(with(0.0) && with(20.0), "what the driver keeps");
        assert!(!works_without_memory(&steady(7_200, 0.95)), "not recorded");
    }
}
