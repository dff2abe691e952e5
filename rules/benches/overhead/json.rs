//! The cost of JSON compared with the contract's records: the same window both ways, read by one
//! policy that sums its columns.
//!
//! The JSON travels in a string of an otherwise empty window. It is encoded in advance, so only the
//! guest's side is measured.

use phasemeter_meter::money::NanoUsd;
use phasemeter_rules::host::{Candidate, Host};
use phasemeter_rules::window::{AccountTotals, Gpu, Window};
use serde_json::{Value, json};

use crate::{percentiles, support, time_each};

/// Prints the table.
pub(crate) fn compare(host: &Host) {
    println!(
        "\nThe same window as records and as JSON: evaluations of one policy that sums its columns\n"
    );
    println!("{:44} {:>10} {:>10} {:>12}", "", "p50", "p99", "fuel");
    let guest = support::build_guest("benches/guest", "json");
    let policy = host.load(Candidate::new("json", guest)).unwrap();
    for (gpus, points) in [(1, 0), (1, 600), (8, 600)] {
        let records = finite(support::window(gpus, points));
        let text = to_json(&records).to_string();
        let text =
            Window { experiment_id: text, gpus: Vec::new(), load: Vec::new(), ..records.clone() };
        let [records, json] = [("as records", records), ("as JSON", text)].map(|(form, window)| {
            let evaluation = policy.recommend(&window).unwrap();
            evaluation.result.unwrap();
            let fuel = evaluation.usage.fuel;
            let [p50, p99] =
                percentiles(&mut time_each(2_000, || policy.recommend(&window).unwrap()));
            let name = format!("{gpus} GPU × {points} points, {form}");
            let [median, worst] = [p50, p99].map(|time| format!("{time:.1?}"));
            println!("{name:44} {median:>10} {worst:>10} {fuel:>12}");
            (p50.as_secs_f64(), fuel as f64, evaluation.log)
        });
        assert_eq!(records.2, json.2, "the windows differ");
        let [time, fuel] = [json.0 / records.0, json.1 / records.1];
        println!("{:44} {time:>10.1} {:>10} {fuel:>12.1}", "JSON ÷ records", "");
    }
}

/// JSON has no NaN.
fn finite(mut window: Window) -> Window {
    let columns = window.gpus.iter_mut().flat_map(|gpu| [&mut gpu.utilization, &mut gpu.power]);
    columns.flatten().filter(|value| value.is_nan()).for_each(|value| *value = 0.0);
    window
}

/// A window in the JSON form that the guest's derived types parse.
fn to_json(window: &Window) -> Value {
    json!({
        "start": window.start.as_nanos(),
        "end": window.end.as_nanos(),
        "is_final": window.is_final,
        "experiment_id": window.experiment_id,
        "trace_id": window.trace_id,
        "attributes": Vec::from_iter(&window.attributes),
        "utc_offset_seconds": window.utc_offset,
        "step_seconds": window.step.as_secs_f64(),
        "gpus": window.gpus.iter().map(gpu).collect::<Vec<_>>(),
        "metrics": Vec::from_iter(&window.metrics),
        "offers": [],
        "previous": [],
        "load": [],
    })
}

fn gpu(gpu: &Gpu) -> Value {
    let accounts = &gpu.accounts;
    let price = gpu.price.as_ref().unwrap();
    json!({
        "id": gpu.id,
        "model": gpu.model,
        "memory_total_bytes": gpu.memory_total.unwrap().get(),
        "power_limit_watts": gpu.power_limit.unwrap().watts(),
        "accounts": {
            "idle_held": account(&accounts.idle_held),
            "idle_free": account(&accounts.idle_free),
            "idle_unknown": account(&accounts.idle_unknown),
            "underutilized": account(&accounts.underutilized),
            "productive": account(&accounts.productive),
            "compute_bound": account(&accounts.compute_bound),
            "unobserved": account(&accounts.unobserved),
        },
        "waste": {
            "starvation": nano_usd(gpu.waste.starvation),
            "idle": nano_usd(gpu.waste.idle),
            "underload": nano_usd(gpu.waste.underload),
        },
        "pattern": {"kind": "Bouncing", "period_seconds": 42.0, "duty_cycle": 0.5},
        "price": {
            "nano_usd_per_gpu_hour": price.rate.nano_usd_per_hour(),
            "plan": "OnDemand",
            "provider": price.provider,
            "region": price.region,
            "instance_type": price.instance_type,
            "source": price.source,
            "as_of": null,
            "estimated": false,
        },
        "work_done": Vec::from_iter(&gpu.work_done),
        "utilization": gpu.utilization,
        "power": gpu.power,
        "memory": gpu.memory,
        "metrics": Vec::from_iter(&gpu.metrics),
        "attributes": Vec::from_iter(&gpu.attributes),
        "workload": "Unknown",
        "interruptible": gpu.interruptible,
        "activity": activity(),
        "sensors": {
            "sm_clock_mhz": null,
            "max_sm_clock_mhz": null,
            "temperature_celsius": null,
            "max_temperature_celsius": null,
            "busy_power": null,
            "memory_in_use": null,
            "sm_activity": null,
            "tensor_activity": null,
            "dram_activity": null,
            "throttling": [],
            "xids": [],
        },
        "holders": [],
    })
}

/// The guest does not read it.
fn activity() -> Value {
    let quiet = json!({"seconds": 0.0, "held_seconds": 0.0});
    json!({
        "interval_seconds": null,
        "quiet": quiet,
        "stretches": 0,
        "longest_seconds": 0.0,
        "minutes_seconds": 0.0,
        "ten_minutes_seconds": 0.0,
        "hours_seconds": 0.0,
        "before_work": quiet,
        "after_work": quiet,
        "pauses": {
            "count": 0,
            "quiet": quiet,
            "after_unobserved": 0,
            "length_deviation": 1.0,
            "period_seconds": null,
            "period_deviation": 1.0,
            "memory_bytes": null,
            "memory_at_work_bytes": null,
        },
        "week": [],
    })
}

fn account(account: &AccountTotals) -> Value {
    json!({
        "seconds": account.time.as_secs_f64(),
        "effective_seconds": account.effective_time.as_secs_f64(),
        "cost": nano_usd(account.cost),
        "utilized_cost": nano_usd(account.utilized_cost),
    })
}

fn nano_usd(money: NanoUsd) -> u64 {
    money.0.try_into().unwrap()
}
