//! GPUs that are fully busy and compute nothing: a collective that waits for a rank that is gone, or for one that is
//! late. A plateau that ended by itself before, or others of the job at work, show that it may be a wait: a hang is what
//! did not end by itself before.

use crate::bounds::LITTLE_POWER;
use crate::share;
use phasemeter_policy::{Gpu, Window, Workload};

use crate::{are_separate, power_limit, time, unpowered_work};

/// The same if another rank of the job has stopped: cards that spin draw a third. An assumption.
const SPINNING_POWER: f64 = 0.4;

/// Maximum variation of that power, as a share of the limit. Work varies it more.
const HUNG_VARIATION: f64 = 0.03;

/// Utilization of a collective that waits.
const FULL: f64 = 0.99;

/// Power while the GPU worked before, relative to the power since, from which the difference is clear.
const CONTRAST: f64 = 1.5;

/// Length of a plateau, in points, that shows whether an equal one ended before: two of its points are whole then.
const POINTS: usize = 3;

/// Difference of the power of plateaus, as a share of the limit, up to which they are equal. An assumption.
const SAME_POWER: f64 = 0.05;

/// Length of a plateau that ended by itself, relative to that of the one at the end, from which they are equal. An
/// assumption.
const SAME_LENGTH: f64 = 0.25;

/// A GPU that is fully busy at a flat low power until the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// For how long, in seconds.
    pub seconds: f64,
    /// The longest plateau of that power that ended by itself before, in seconds.
    pub before: Option<f64>,
    /// Whether others of its job work meanwhile, which it may wait for.
    pub others_work: bool,
    /// Whether it drew more while it worked before.
    pub has_worked: bool,
}

/// Plateaus after which the work went on: the job waited, and utilization counts that as full load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// How many.
    pub count: usize,
    /// All of them together, in seconds.
    pub seconds: f64,
    /// The longest, in seconds.
    pub longest: f64,
    /// Power in the last of them, in watts.
    pub watts: f64,
}

impl Stall {
    /// Whether a wait explains it as well as a hang does.
    pub fn may_wait(&self) -> bool {
        let is_equal = |before: f64| before >= SAME_LENGTH * self.seconds;
        self.others_work || self.before.is_some_and(is_equal)
    }
}

/// A plateau: points at full utilization and a flat low power.
#[derive(Clone, Copy)]
struct Plateau {
    from: usize,
    /// The first point after it.
    to: usize,
    /// Its lowest and highest power.
    low: f64,
    high: f64,
}

impl Plateau {
    fn len(self) -> usize {
        self.to - self.from
    }
}

/// Returns how a GPU stalls: it is fully busy at a flat low power until the end, and it drew more while it worked before,
/// or another GPU of its job does the same. Without either it may compute little.
pub fn stall(gpu: &Gpu, window: &Window) -> Option<Stall> {
    let (last, limit) = stalled(gpu, window)?;
    let points = gpu.utilization.iter().zip(&gpu.power).take(last.from.saturating_sub(1));
    let idle = window.thresholds().idle;
    let worked = points.filter(|(utilization, _)| **utilization >= idle).map(|(_, power)| *power);
    let has_worked = worked.fold(0.0, f64::max) >= CONTRAST * last.high;
    let waits_too = |other: &Gpu| {
        other.id != gpu.id
            && other.is_alike(gpu)
            && other.node() == gpu.node()
            && stalled(other, window).is_some()
    };
    let waits_together = || gpu.workload != Workload::Serving && window.gpus.iter().any(&waits_too);
    let is_stall = last.len() >= POINTS && (has_worked || waits_together());
    is_stall.then(|| {
        let seconds = |points: usize| points as f64 * window.step_seconds;
        let near = |a: f64, b: f64| (a - b).abs() <= SAME_POWER * limit;
        let is_equal = |it: &Plateau| near(it.high, last.high) && near(it.low, last.low);
        let ended = ended(gpu, last.from, limit, idle).into_iter().filter(is_equal);
        let before = ended.map(|it| seconds(it.len())).reduce(f64::max);
        let others_work = window.gpus.iter().any(|other| works_meanwhile(other, gpu, last, window));
        Stall { seconds: seconds(last.len()), before, others_work, has_worked }
    })
}

/// Returns the waits of a GPU that ended by themselves; `None` if there were none.
pub fn waits(gpu: &Gpu, window: &Window) -> Option<Waits> {
    let limit = power_limit(gpu)?;
    // Most GPUs never draw so little while they work.
    gpu.sensors.busy_power.filter(|power| power.p5 <= LITTLE_POWER * limit)?;
    let to = gpu.utilization.len().min(gpu.power.len());
    let seconds = |plateau: &Plateau| plateau.len() as f64 * window.step_seconds;
    let ended = ended(gpu, to, limit, window.thresholds().idle);
    let ended: Vec<_> = ended.into_iter().filter(|it| seconds(it) >= time::BRIEF).collect();
    let is_credible = || unpowered_work(gpu).is_none();
    Some(Waits {
        watts: ended.first().filter(|_| is_credible())?.high,
        count: ended.len(),
        seconds: ended.iter().map(seconds).sum(),
        longest: ended.iter().map(seconds).fold(0.0, f64::max),
    })
}

/// Whether a full GPU always draws as little, and as evenly, as a loop that waits: utilization only shows that it runs.
pub fn spins(gpu: &Gpu) -> bool {
    let limit = power_limit(gpu);
    let power = gpu.sensors.busy_power.zip(limit).filter(|_| gpu.full_share() >= share::NEARLY_ALL);
    power.is_some_and(|(power, limit)| {
        let is_flat = power.p95 - power.p5 <= HUNG_VARIATION * limit;
        power.p95 <= LITTLE_POWER * limit || (is_flat && power.p95 <= SPINNING_POWER * limit)
    })
}

/// Whether a GPU stalls for the default time: what it shows is not its usual work.
pub fn hangs(gpu: &Gpu, window: &Window) -> bool {
    stall(gpu, window).is_some_and(|stall| stall.seconds >= time::LASTING)
}

/// The plateau at the end, and the power limit.
fn stalled(gpu: &Gpu, window: &Window) -> Option<(Plateau, f64)> {
    // The last point may be partly over.
    let to = gpu.utilization.len().min(gpu.power.len()).checked_sub(1)?;
    // Most GPUs are not full at the end, and the names of models take the longest.
    gpu.utilization[..to].last().filter(|level| **level >= FULL)?;
    let limit = power_limit(gpu)?;
    let has_stopped = |other: &Gpu| {
        let after = other.activity.after_work.seconds;
        after >= time::LASTING
            && after < other.accounts.observed().seconds
            && other.is_alike(gpu)
            && !are_separate(other, gpu)
    };
    let spinning = plateau(gpu, to, SPINNING_POWER * limit, limit);
    // Most GPUs are below that or above, and only then all others are compared.
    let is_spinning = spinning.len() > 0 && spinning.high > LITTLE_POWER * limit;
    let may_spin = || gpu.workload == Workload::Training && window.gpus.iter().any(has_stopped);
    let plateau = if is_spinning && !may_spin() {
        plateau(gpu, to, LITTLE_POWER * limit, limit)
    } else {
        spinning
    };
    // SMs that work at less than the power of an idle GPU show a wrong sensor.
    (plateau.len() > 0 && unpowered_work(gpu).is_none()).then_some((plateau, limit))
}

/// The longest plateau up to this power that ends before the point `to`, which may be empty.
fn plateau(gpu: &Gpu, to: usize, most: f64, limit: f64) -> Plateau {
    let mut found = Plateau { from: to, to, low: f64::INFINITY, high: 0.0 };
    for point in (0..to).rev() {
        let (utilization, power) = (gpu.utilization[point], gpu.power[point]);
        let (low, high) = (found.low.min(power), found.high.max(power));
        let is_flat = high <= most && high - low <= HUNG_VARIATION * limit;
        if utilization < FULL || utilization.is_nan() || power.is_nan() || !is_flat {
            break;
        }
        found = Plateau { from: point, low, high, ..found };
    }
    found
}

/// The plateaus before the point `to` that ended by themselves, the last one first: their process worked on.
fn ended(gpu: &Gpu, mut to: usize, limit: f64, idle: f64) -> Vec<Plateau> {
    let (mut ended, mut highest) = (Vec::new(), 0.0_f64);
    while to > 0 {
        let found = plateau(gpu, to, LITTLE_POWER * limit, limit);
        if found.len() == 0 {
            to -= 1;
            if gpu.utilization[to] >= idle {
                highest = highest.max(gpu.power[to]);
            }
            continue;
        }
        if highest >= CONTRAST * found.high && goes_on(gpu, found) {
            ended.push(found);
        }
        (to, highest) = (found.from, 0.0);
    }
    ended
}

/// Whether the process of a plateau still had its memory after it. If memory was not recorded, it may have had.
fn goes_on(gpu: &Gpu, plateau: Plateau) -> bool {
    let at = |point: usize| gpu.memory.get(point).copied().filter(|bytes| !bytes.is_nan());
    let after = at(plateau.to).into_iter().chain(at(plateau.to + 1)).reduce(f64::min);
    at(plateau.from).zip(after).is_none_or(|(during, after)| after >= share::MOST * during)
}

/// Whether another GPU that may be of the same job works while one stalls, instead of stalling too.
fn works_meanwhile(other: &Gpu, gpu: &Gpu, last: Plateau, window: &Window) -> bool {
    let has_ranks = !matches!(gpu.workload, Workload::Serving | Workload::Interactive);
    if other.id == gpu.id || !has_ranks || !other.is_alike(gpu) || are_separate(other, gpu) {
        return false;
    }
    let idle = window.thresholds().idle;
    // Once: the names of models take long.
    let limit = power_limit(other).unwrap_or(f64::INFINITY);
    let is_stalled = |point: usize| {
        let low = f64::max(LITTLE_POWER * limit, last.high + SAME_POWER * limit);
        let is_low = |power: &f64| *power <= low;
        other.utilization[point] >= FULL && other.power.get(point).is_some_and(is_low)
    };
    let works = |point: &usize| {
        other.utilization.get(*point).is_some_and(|level| *level >= idle) && !is_stalled(*point)
    };
    let working = (last.from..last.to).filter(works).count();
    working as f64 >= share::HARDLY_ANY * last.len() as f64
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_memory, with_power};

    use super::*;

    fn hung(gpus: Vec<Gpu>) -> Vec<bool> {
        let window = window(gpus);
        window.gpus.iter().map(|gpu| hangs(gpu, &window)).collect()
    }

    #[test]
    fn low_power_is_a_hang_only_in_contrast_or_together() {
        let low = || with_power(steady(3_600, 1.0), 125.0);
        assert_eq!(hung(vec![low()]), [false], "it may compute little");
        assert_eq!(hung(vec![low(), low()]), [true, true]);
        let serving = || Gpu { workload: Workload::Serving, ..low() };
        assert_eq!(hung(vec![serving(), serving()]), [false, false], "replicas wait for no rank");
        let mut midway = low();
        midway.power[..300].fill(620.0);
        assert_eq!(hung(vec![midway.clone()]), [true]);
        midway.power.reverse();
        assert_eq!(hung(vec![midway]), [false], "it has recovered");
    }

    #[test]
    fn power_that_varies_is_work() {
        let mut moving = with_power(steady(3_600, 1.0), 125.0);
        moving.power.iter_mut().enumerate().for_each(|(i, power)| *power += (i % 2) as f64 * 40.0);
        let busy = || with_power(steady(3_600, 1.0), 300.0);
        assert_eq!(hung(vec![moving.clone(), moving]), [false, false]);
        assert_eq!(hung(vec![busy(), busy()]), [false, false]);
        assert_eq!(hung(vec![steady(3_600, 1.0)]), [false], "without power");
    }

    /// Scenario: half of the ranks end after four hours of five, and cards that spin draw a third of their limit.
    /// Guarantee: with a rank that has stopped that is a hang; without one it may be light work.
    #[test]
    fn ranks_that_spin_for_those_that_stopped_hang_at_a_third_of_their_power() {
        let spins = || {
            let mut gpu = with_power(steady(18_000, 1.0), 620.0);
            let late = gpu.power.len() * 4 / 5;
            gpu.power[late..].fill(230.0);
            gpu
        };
        let mut ended = steady(18_000, 0.95);
        let late = ended.utilization.len() * 4 / 5;
        ended.utilization[late..].fill(0.0);
        ended.activity.after_work.seconds = 3_600.0;
        assert_eq!(hung(vec![spins(), spins(), ended.clone()])[..2], [true, true]);
        assert_eq!(hung(vec![spins(), spins()]), [false, false]);
        let serving = |gpu: Gpu| Gpu { workload: Workload::Serving, ..gpu };
        assert!(!hung(vec![serving(spins()), serving(ended)])[0]);
    }

    /// Works, and waits for a while again and again, at last until the end.
    fn waits(work: usize, wait: usize, seconds: usize) -> Gpu {
        let mut gpu = with_power(steady(seconds, 1.0), 620.0);
        let step = seconds / gpu.power.len();
        for (point, power) in gpu.power.iter_mut().enumerate() {
            if point * step % (work + wait) >= work {
                *power = 126.0;
            }
        }
        gpu
    }

    fn stall_of(gpus: Vec<Gpu>) -> Option<Stall> {
        let window = window(gpus);
        stall(&window.gpus[0], &window)
    }

    #[test]
    fn plateau_that_ended_by_itself_may_be_a_wait() {
        // Points of 32 s: 40 minutes of work and 20 of a wait.
        let stall = stall_of(vec![waits(2_400, 1_200, 18_000)]).unwrap();
        assert!(stall.may_wait() && !stall.others_work);
        assert!(stall.before.is_some_and(|before| (1_100.0..1_300.0).contains(&before)));
        assert!(hung(vec![waits(2_400, 1_200, 18_000)])[0], "others advise on nothing else");
        let mut restarted = with_memory(waits(2_400, 1_200, 18_000), 60.0);
        for point in 0..restarted.power.len() {
            if point > 0 && restarted.power[point - 1] < 200.0 && restarted.power[point] > 200.0 {
                restarted.memory[point] = 0.0;
            }
        }
        assert_eq!(stall_of(vec![restarted]).unwrap().before, None, "its process was ended");
        assert!(!stall_of(vec![waits(14_400, 3_600, 18_000)]).unwrap().may_wait(), "the first");
    }

    #[test]
    fn others_of_the_job_at_work_may_be_waited_for() {
        let stalled = || {
            let mut gpu = with_power(steady(18_000, 1.0), 620.0);
            let half = gpu.power.len() / 2;
            gpu.power[half..].fill(125.0);
            gpu
        };
        let works = || with_power(steady(18_000, 0.95), 600.0);
        let node = |gpu: Gpu, name: &str| Gpu {
            attributes: vec![("host.name".to_owned(), name.to_owned())],
            ..gpu
        };
        let job = |gpu: Gpu, id: &str| Gpu {
            attributes: vec![("slurm.job.id".to_owned(), id.to_owned())],
            ..gpu
        };
        assert!(stall_of(vec![stalled(), works()]).unwrap().others_work);
        let nodes = vec![node(stalled(), "a"), node(works(), "b")];
        assert!(stall_of(nodes).unwrap().others_work, "a rank on another node");
        let jobs = vec![job(stalled(), "1"), job(works(), "2")];
        assert!(!stall_of(jobs).unwrap().others_work, "another job");
        assert!(!stall_of(vec![stalled(), stalled()]).unwrap().others_work);
        assert!(!stall_of(vec![stalled(), steady(18_000, 0.0)]).unwrap().others_work);
    }
}
