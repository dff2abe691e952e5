//! Builds test windows from the utilization of each second.
//!
//! They satisfy the contract: accounts add up, and each second's waste is in exactly one category.
//! At $3.60 per GPU-hour, one second costs $0.001.

use std::collections::BTreeMap;

use crate::{
    Account, Accounts, Activity, AllocationMethod, Gpu, Holder, HolderAccount, HolderKind, Load,
    LoadBucket, LoadDistribution, Offer, Pattern, PatternKind, Pauses, Percentiles, Plan, Price,
    Quiet, QuoteRequest, Sensors, Waste, Window, Workload, mean,
};

/// 2026-07-27T00:00:00Z.
const START: u64 = 1_785_110_400_000_000_000;
const NANO_USD_PER_SECOND: u64 = 1_000_000;
const MAX_POINTS: usize = 600;

/// Returns a window of these GPUs, as long as the longest of them, with offers of the instances that they
/// may be on: `p5.48xlarge` with eight GPUs and `p5.4xlarge` with one.
#[must_use]
pub fn window(gpus: Vec<Gpu>) -> Window {
    let all =
        gpus.iter().map(|gpu| gpu.accounts.observed().seconds + gpu.accounts.unobserved.seconds);
    let seconds = all.fold(0.0, f64::max);
    let mut gpus = gpus;
    for (index, gpu) in gpus.iter_mut().enumerate() {
        gpu.id = format!("GPU-{index}");
    }
    let step_seconds = step(seconds as usize) as f64;
    let load = gpus.iter().map(|gpu| load_of_points(&[gpu], step_seconds)).collect();
    Window {
        start: START,
        end: START + (seconds * 1e9) as u64,
        is_final: true,
        experiment_id: "test".to_owned(),
        trace_id: "5c79120489f0cfedbdc6e6d34b2c5f90".to_owned(),
        attributes: Vec::new(),
        utc_offset_seconds: None,
        step_seconds,
        gpus,
        metrics: Vec::new(),
        offers: vec![
            offer("NVIDIA H100 80GB HBM3", 8, "p5.48xlarge", 80, price().nano_usd_per_gpu_hour),
            offer("NVIDIA H100 80GB HBM3", 1, "p5.4xlarge", 80, 6_880_000_000),
        ],
        previous: Vec::new(),
        load,
    }
}

/// Returns the load of these GPUs together, by percent and seconds, ascending, alike for means of any length.
#[must_use]
pub fn load(gpus: &[&str], loads: &[(u32, f64)]) -> Load {
    let buckets =
        loads.iter().map(|(percent, seconds)| LoadBucket { percent: *percent, seconds: *seconds });
    let buckets: Vec<_> = buckets.collect();
    let of = |mean_seconds| LoadDistribution { mean_seconds, buckets: buckets.clone() };
    Load {
        gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(),
        distributions: [10, 60].map(of).to_vec(),
        week: Vec::new(),
    }
}

/// Returns the load of all GPUs of a window together, as far as its points show it.
#[must_use]
pub fn load_of_all(window: &Window) -> Load {
    load_of_points(&window.gpus.iter().collect::<Vec<_>>(), window.step_seconds)
}

fn load_of_points(gpus: &[&Gpu], step_seconds: f64) -> Load {
    let columns = || gpus.iter().map(|gpu| &gpu.utilization);
    let points = columns().map(Vec::len).min().unwrap_or(0);
    let mut seconds = BTreeMap::<u32, f64>::new();
    for point in 0..points {
        let load: f64 = columns().map(|column| column[point]).sum();
        if !load.is_nan() {
            *seconds.entry((load * 100.0 - 1e-9).ceil() as u32).or_default() += step_seconds;
        }
    }
    let gpus: Vec<_> = gpus.iter().map(|gpu| gpu.id.as_str()).collect();
    load(&gpus, &seconds.into_iter().collect::<Vec<_>>())
}

/// Returns a GPU with constant utilization `level`.
#[must_use]
pub fn steady(seconds: usize, level: f64) -> Gpu {
    let kind = if level < 0.1 { PatternKind::Idle } else { PatternKind::Steady };
    gpu(kind, seconds, |_| level)
}

/// Returns a GPU that is fully busy for the share `duty_cycle` of every `period` seconds, else idle.
#[must_use]
pub fn bouncing(seconds: usize, period: usize, duty_cycle: f64) -> Gpu {
    let high = |second: usize| ((second % period) as f64) < duty_cycle * period as f64;
    let mut gpu = gpu(PatternKind::Bouncing, seconds, |second| f64::from(u8::from(high(second))));
    gpu.pattern = Some(Pattern {
        kind: PatternKind::Bouncing,
        period_seconds: Some(period as f64),
        duty_cycle: Some(duty_cycle),
    });
    gpu
}

/// Returns a GPU from its utilization in each second: 0–1, NaN if unobserved. It is an on-demand
/// H100 with 80 GB that trains, held while idle, without columns of memory or power.
pub fn gpu(kind: PatternKind, seconds: usize, utilization: impl Fn(usize) -> f64) -> Gpu {
    let zero = Account { seconds: 0.0, effective_seconds: 0.0, cost: 0, utilized_cost: 0 };
    let mut accounts = Accounts {
        idle_held: zero,
        idle_free: zero,
        idle_unknown: zero,
        underutilized: zero,
        productive: zero,
        compute_bound: zero,
        unobserved: zero,
    };
    let mut waste = Waste { starvation: 0, idle: 0, underload: 0 };
    let bouncing = kind == PatternKind::Bouncing;
    for second in 0..seconds {
        let level = utilization(second);
        let (account, category) = match level {
            level if level.is_nan() => (&mut accounts.unobserved, None),
            ..0.1 => (&mut accounts.idle_held, Some(&mut waste.idle)),
            ..0.7 => (&mut accounts.underutilized, Some(&mut waste.underload)),
            ..0.9 => (&mut accounts.productive, Some(&mut waste.underload)),
            _ => (&mut accounts.compute_bound, Some(&mut waste.underload)),
        };
        account.seconds += 1.0;
        account.cost += NANO_USD_PER_SECOND;
        if let Some(category) = category {
            let utilized = (NANO_USD_PER_SECOND as f64 * level) as u64;
            account.effective_seconds += level;
            account.utilized_cost += utilized;
            let category = if bouncing { &mut waste.starvation } else { category };
            *category += NANO_USD_PER_SECOND - utilized;
        }
    }
    let step = step(seconds);
    let point = |at: usize| {
        let levels: Vec<_> = (at..(at + step).min(seconds)).map(&utilization).collect();
        crate::column::mean(&levels).unwrap_or(f64::NAN)
    };
    Gpu {
        id: "GPU-0".to_owned(),
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        memory_total_bytes: Some(81_559 << 20),
        power_limit_watts: Some(700.0),
        accounts,
        waste,
        pattern: Some(Pattern { kind, period_seconds: None, duty_cycle: None }),
        price: Some(price()),
        work_done: Vec::new(),
        utilization: (0..seconds).step_by(step).map(point).collect(),
        power: Vec::new(),
        memory: Vec::new(),
        metrics: Vec::new(),
        attributes: Vec::new(),
        workload: Workload::Training,
        interruptible: false,
        activity: activity(seconds, utilization),
        sensors: Sensors {
            sm_clock_mhz: None,
            max_sm_clock_mhz: None,
            temperature_celsius: None,
            max_temperature_celsius: None,
            busy_power: None,
            memory_in_use: None,
            sm_activity: None,
            tensor_activity: None,
            dram_activity: None,
            throttling: Vec::new(),
            xids: Vec::new(),
        },
        holders: Vec::new(),
    }
}

/// Returns a pod that holds a GPU of `testing`: its time and cost by account. It has touched the GPU unless all of its
/// time is before.
#[must_use]
pub fn holder(name: &str, used: f64, granted_unused: f64, never_touched: f64) -> Holder {
    let account = |seconds: f64| HolderAccount {
        seconds,
        cost: (seconds * NANO_USD_PER_SECOND as f64) as u64,
    };
    let is_touched = used + granted_unused > 0.0;
    Holder {
        name: name.to_owned(),
        kind: HolderKind::Container,
        namespace: None,
        pod: Some(name.to_owned()),
        container: None,
        uid: None,
        job: None,
        is_current: true,
        granted: None,
        first_touch: is_touched.then_some(START),
        used: account(used),
        granted_unused: account(granted_unused),
        never_touched: account(never_touched),
        method: AllocationMethod::ByUse,
    }
}

/// Returns when a GPU worked, with a reading each second; it is held all the time.
fn activity(seconds: usize, utilization: impl Fn(usize) -> f64) -> Activity {
    let quiet = |seconds: f64| Quiet { seconds, held_seconds: seconds };
    let is_quiet = |second: &usize| utilization(*second) < 0.01;
    let is_work = |second: &usize| utilization(*second) >= 0.01;
    let (mut runs, mut observed) = (Vec::<(usize, usize)>::new(), 0);
    for second in 0..seconds {
        observed += usize::from(!utilization(second).is_nan());
        if is_quiet(&second) {
            match runs.last_mut() {
                Some(run) if run.1 == second => run.1 += 1,
                _ => runs.push((second, second + 1)),
            }
        }
    }
    let length = |run: &(usize, usize)| (run.1 - run.0) as f64;
    let at_least = |least: f64| runs.iter().map(length).filter(|run| *run >= least).sum();
    let total = |part: &[(usize, usize)]| quiet(part.iter().map(length).sum());
    let first = (0..seconds).find(is_work).unwrap_or(seconds);
    let last = (0..seconds).rfind(is_work).unwrap_or(0);
    let parts = |keep: &dyn Fn(&(usize, usize)) -> bool| {
        total(&runs.iter().copied().filter(keep).collect::<Vec<_>>())
    };
    Activity {
        interval_seconds: (observed > 0).then_some(1.0),
        quiet: total(&runs),
        stretches: runs.len() as u32,
        longest_seconds: runs.iter().map(length).fold(0.0, f64::max),
        minutes_seconds: at_least(60.0),
        ten_minutes_seconds: at_least(600.0),
        hours_seconds: at_least(3_600.0),
        before_work: parts(&|run| run.1 <= first),
        after_work: parts(&|run| run.0 > last || first == seconds),
        pauses: pauses(seconds, &utilization),
        week: Vec::new(),
    }
}

/// Idle stretches of at least ten seconds between work.
fn pauses(seconds: usize, utilization: impl Fn(usize) -> f64) -> Pauses {
    let (mut lengths, mut starts) = (Vec::new(), Vec::<f64>::new());
    let (mut start, mut has_worked, mut after_unobserved) = (None, false, 0);
    for second in 0..seconds {
        match utilization(second) {
            level if level.is_nan() => start = None,
            level if level < 0.1 => {
                start.get_or_insert(second);
            }
            _ => {
                let start = start.take().filter(|start| has_worked && second - start >= 10);
                if let Some(start) = start {
                    lengths.push((second - start) as f64);
                    starts.push(start as f64);
                    after_unobserved += u32::from(utilization(start - 1).is_nan());
                }
                has_worked = true;
            }
        }
    }
    let periods: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let seconds = lengths.iter().sum();
    Pauses {
        count: lengths.len() as u32,
        quiet: Quiet { seconds, held_seconds: seconds },
        after_unobserved,
        length_deviation: deviation(&lengths),
        period_seconds: (!periods.is_empty()).then(|| mean(&periods, |period| *period)),
        period_deviation: deviation(&periods),
        memory_bytes: None,
        memory_at_work_bytes: None,
    }
}

/// The geometric standard deviation.
fn deviation(lengths: &[f64]) -> f64 {
    let middle = mean(lengths, |length| length.ln());
    mean(lengths, |length| (length.ln() - middle).powi(2)).sqrt().exp()
}

/// Adds a memory column with `gib` GiB in use, which is a preallocated pool from half of the memory on.
#[must_use]
pub fn with_memory(mut gpu: Gpu, gib: f64) -> Gpu {
    let bytes = gib * f64::from(1 << 30);
    let share = gpu.memory_total_bytes.map(|total| bytes / total as f64);
    let pool = share.filter(|share| *share >= 0.5).map(|share| ("memory.pool".to_owned(), share));
    gpu.metrics.extend(pool);
    Gpu { memory: vec![bytes; gpu.utilization.len()], ..gpu }
}

/// Adds a memory column with up to `gib` GiB in use, which varies by a twentieth.
#[must_use]
pub fn with_varying_memory(gpu: Gpu, gib: f64) -> Gpu {
    let peak = gib * f64::from(1 << 30);
    let memory = (0..gpu.utilization.len()).map(|at| if at % 7 == 0 { 0.95 * peak } else { peak });
    Gpu { memory: memory.collect(), ..gpu }
}

/// Adds a power column with a draw of `watts`, also while it works.
#[must_use]
pub fn with_power(mut gpu: Gpu, watts: f64) -> Gpu {
    gpu.power = vec![watts; gpu.utilization.len()];
    gpu.sensors.busy_power = Some(Percentiles { p5: watts, p50: watts, p95: watts, max: watts });
    gpu
}

/// Adds offers of two smaller GPUs at aws in us-east-1.
#[must_use]
pub fn with_offers(mut window: Window) -> Window {
    window.offers.extend([
        offer("NVIDIA L4", 1, "g6.xlarge", 24, 804_800_000),
        offer("NVIDIA L40S", 1, "g6e.xlarge", 48, 1_861_000_000),
    ]);
    window
}

fn offer(
    model: &str,
    gpus: u32,
    instance_type: &str,
    gib: u64,
    nano_usd_per_gpu_hour: u64,
) -> Offer {
    let instance_type = Some(instance_type.to_owned());
    Offer {
        model: model.to_owned(),
        gpus,
        memory_bytes: Some(gib << 30),
        price: Price { nano_usd_per_gpu_hour, instance_type, ..price() },
    }
}

/// Removes the price, costs and waste.
#[must_use]
pub fn unpriced(mut gpu: Gpu) -> Gpu {
    let accounts = &mut gpu.accounts;
    for account in [
        &mut accounts.idle_held,
        &mut accounts.idle_free,
        &mut accounts.idle_unknown,
        &mut accounts.underutilized,
        &mut accounts.productive,
        &mut accounts.compute_bound,
        &mut accounts.unobserved,
    ] {
        (account.cost, account.utilized_cost) = (0, 0);
    }
    Gpu { price: None, waste: Waste { starvation: 0, idle: 0, underload: 0 }, ..gpu }
}

/// Returns $3.60 per GPU-hour, on demand, in us-east-1 at aws.
#[must_use]
pub fn price() -> Price {
    Price {
        nano_usd_per_gpu_hour: 3_600_000_000,
        plan: Some(Plan::OnDemand),
        provider: Some("aws".to_owned()),
        region: Some("us-east-1".to_owned()),
        instance_type: Some("p5.48xlarge".to_owned()),
        source: "a test".to_owned(),
        as_of: Some("2026-07-20".to_owned()),
        estimated: false,
    }
}

/// Returns a quote request for the same GPU.
#[must_use]
pub fn request() -> QuoteRequest {
    QuoteRequest {
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        provider: Some("aws".to_owned()),
        region: Some("us-east-1".to_owned()),
        instance_type: Some("p5.48xlarge".to_owned()),
        plan: Some(Plan::OnDemand),
        time: START,
        gpus: 1,
        priced: 0,
        listed: Some(price()),
        attributes: Vec::new(),
        is_offer: false,
    }
}

/// Seconds per point.
fn step(seconds: usize) -> usize {
    seconds.div_ceil(MAX_POINTS).next_power_of_two()
}
