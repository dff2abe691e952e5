//! Shared by tests and benches, also of other crates: policies written as WebAssembly text, inputs
//! for them, and policies built from small crates.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use phasemeter_meter::activity::{Activity, Pauses, Quiet};
use phasemeter_meter::holder::{AllocationMethod, HolderKind};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::price::{PaymentPlan, Price, PriceRange};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp};
use phasemeter_meter::waste::WasteByCategory;
use phasemeter_rules::limits::Limits;
use phasemeter_rules::quote::QuoteRequest;
use phasemeter_rules::window::{
    AccountTotals, Accounts, Gpu, HolderTotals, HourOfWeek, Load, LoadBucket, LoadDistribution,
    MEAN_SECONDS, Offer, Percentiles, Previous, Sensors, ThrottleReason, Throttling, Window,
    WindowHolder,
};
use phasemeter_rules::workload::Workload;
use wit_component::StringEncoding;
use wit_parser::{Resolve, WorldId, WorldItem};

/// A private key in PEM.
pub(crate) const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";

/// Another private key.
pub(crate) const OTHER_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n\
    -----END PRIVATE KEY-----\n";

/// The directory `rules`, from any crate of the workspace.
pub(crate) fn home() -> PathBuf {
    let is_root = |dir: &Path| dir.join("rules").join("wit").exists();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|dir| is_root(dir));
    root.unwrap().join("rules")
}

/// The default limits with a deadline so long that fuel runs out first, however busy the machine.
pub(crate) fn patient() -> Limits {
    Limits { deadline: Duration::from_secs(60), ..Limits::default() }
}

/// The policy of `tests/hostile/NAME.wat`.
pub(crate) fn hostile(name: &str) -> Vec<u8> {
    let text = fs::read_to_string(home().join(format!("tests/hostile/{name}.wat"))).unwrap();
    policy(&text)
}

/// The value of a header line `;; name: value`.
pub(crate) fn header<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let head = text.lines().take_while(|line| line.starts_with(";;"));
    head.filter_map(|line| line[2..].split_once(':'))
        .find_map(|(key, value)| (key.trim() == name).then(|| value.trim()))
}

/// A core module with component metadata: the fields in `text`, plus those of `tests/hostile/parts`
/// that its world requires and `text` does not define.
pub(crate) fn policy(text: &str) -> Vec<u8> {
    let (resolve, world) = world(header(text, "world").unwrap_or("recommender-policy"));
    let mut module = format!("(module\n{text}\n");
    let mut part = |name: &str| {
        let file = home().join(format!("tests/hostile/parts/{name}.wat"));
        module.push_str(&fs::read_to_string(&file).unwrap());
    };
    if !text.contains("(export \"memory\")") {
        part("memory");
    }
    if text.contains("$recommendation")
        || header(text, "world").is_none_or(|world| world != "newer")
    {
        part("recommendation");
    }
    for function in functions(&resolve, world) {
        let (_, name) = function.rsplit_once('#').unwrap_or(("", &function));
        if !text.contains(&format!("(export \"{function}\")")) {
            part(name);
        }
    }
    module.push(')');
    let mut bytes = wat::parse_str(&module).unwrap_or_else(|error| panic!("{text}\n{error}"));
    wit_component::embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8)
        .unwrap();
    bytes
}

fn world(name: &str) -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    let contract = home().join("wit/v0.1");
    let path = home().join(format!("tests/hostile/worlds/{name}.wit"));
    let package = match fs::read_to_string(&path) {
        Ok(text) => {
            // A file may declare the contract's own package.
            if !text.starts_with("package phasemeter:policy") {
                resolve.push_dir(&contract).unwrap();
            }
            resolve.push_str(&path, &text).unwrap()
        }
        Err(_) => resolve.push_dir(&contract).unwrap().0,
    };
    let world = resolve.select_world(&[package], Some(name)).unwrap();
    (resolve, world)
}

/// The names under which a core module exports the functions of a world.
fn functions(resolve: &Resolve, world: WorldId) -> Vec<String> {
    let exports = resolve.worlds[world].exports.iter();
    exports
        .flat_map(|(key, item)| match item {
            WorldItem::Interface { id, .. } => {
                let interface = resolve.name_world_key(key);
                let names = resolve.interfaces[*id].functions.keys();
                names.map(|name| format!("{interface}#{name}")).collect::<Vec<_>>()
            }
            _ => vec![resolve.name_world_key(key)],
        })
        .collect()
}

/// An hour of `gpus` bouncing GPUs, with every field set and `points` points per column.
pub(crate) fn window(gpus: usize, points: usize) -> Window {
    let start = Timestamp::from_nanos(1_785_110_400_000_000_000).unwrap();
    let column = |scale: f64| -> Vec<f64> {
        (0..points).map(|i| if i == 1 { f64::NAN } else { scale * (i % 2) as f64 }).collect()
    };
    let account = |seconds: u64| AccountTotals {
        time: Nanos::from_secs(seconds),
        effective_time: Nanos::from_secs(seconds / 2),
        cost: NanoUsd(1_000_000 * i128::from(seconds)),
        utilized_cost: NanoUsd(500_000 * i128::from(seconds)),
    };
    let price = Price {
        provider: Some("aws".to_owned()),
        as_of: "2026-07-20".parse().ok(),
        ..Price::given(Rate::parse("3.6").unwrap(), Some(PaymentPlan::OnDemand), "the price book")
    };
    let gpu = |index: usize| Gpu {
        id: format!("GPU-{index}"),
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        memory_total: Bytes::from_mebibytes(81_559),
        power_limit: Milliwatts::new(700_000),
        accounts: Accounts {
            idle_held: account(1_000),
            idle_free: account(200),
            idle_unknown: account(0),
            underutilized: account(600),
            productive: account(700),
            compute_bound: account(1_000),
            unobserved: account(100),
        },
        waste: WasteByCategory {
            starvation: NanoUsd(1_000_000_000),
            idle: NanoUsd(500_000_000),
            underload: NanoUsd(250_000_000),
        },
        pattern: Some(Pattern {
            kind: PatternKind::Bouncing,
            period: Some(Nanos::from_secs(42)),
            duty_cycle: Some(500_000),
        }),
        price: Some(price.clone()),
        work_done: BTreeMap::from([("samples".to_owned(), 200_000.0)]),
        utilization: column(1.0),
        power: column(650.0),
        memory: Vec::new(),
        metrics: BTreeMap::from([("energy.joules".to_owned(), 1.5e6)]),
        attributes: BTreeMap::from([("host.name".to_owned(), "node-1".to_owned())]),
        workload: Workload::Training,
        interruptible: true,
        activity: activity(),
        interval: Some(Nanos::SECOND),
        week: vec![HourOfWeek { observed: Nanos::from_secs(60), idle: Nanos::from_secs(6) }; 168],
        sensors: sensors(),
        holders: vec![holder(start)],
    };
    Window {
        start,
        end: start + Nanos::from_secs(3_600),
        is_final: true,
        experiment_id: "train-7".to_owned(),
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        attributes: BTreeMap::from([("team".to_owned(), "vision".to_owned())]),
        utc_offset: Some(7_200),
        step: Nanos::from_secs(6),
        gpus: (0..gpus).map(gpu).collect(),
        metrics: BTreeMap::from([("queue.depth".to_owned(), 3.0)]),
        offers: vec![offer()],
        previous: vec![previous(start)],
        load: (gpus > 0).then(load).into_iter().collect(),
    }
}

fn holder(first_touch: Timestamp) -> WindowHolder {
    let totals =
        |seconds| HolderTotals { time: Nanos::from_secs(seconds), cost: NanoUsd(1_000_000) };
    WindowHolder {
        name: "ml/train-0".to_owned(),
        kind: HolderKind::Container,
        namespace: Some("ml".to_owned()),
        pod: Some("train-0".to_owned()),
        container: Some("main".to_owned()),
        uid: Some("cf1f6c4b-6ff4-4a5a-8fd1-1f1d3c6f8c1e".to_owned()),
        job: None,
        is_current: true,
        granted: Some(0.25),
        first_touch: Some(first_touch),
        used: totals(600),
        granted_unused: totals(290),
        never_touched: totals(10),
        method: AllocationMethod::ByUse,
    }
}

fn load() -> Load {
    let bucket = |percent, seconds| LoadBucket { percent, time: Nanos::from_secs(seconds) };
    let distribution = |mean_seconds| LoadDistribution {
        mean_seconds,
        buckets: vec![bucket(0, 5), bucket(98, 55)],
    };
    Load { gpus: vec!["GPU-0".to_owned()], distributions: MEAN_SECONDS.map(distribution).to_vec() }
}

fn sensors() -> Sensors {
    let percentiles = |p5: f64| Percentiles { p5, p50: 2.0 * p5, p95: 3.0 * p5, max: 4.0 * p5 };
    Sensors {
        sm_clock: Some(1_410.5),
        max_sm_clock: Some(1_980.0),
        temperature: Some(61.25),
        max_temperature: Some(74.0),
        busy_power: Some(percentiles(150.5)),
        memory_in_use: Some(percentiles(1e10)),
        sm_activity: Some(0.625),
        tensor_activity: Some(0.25),
        dram_activity: Some(0.125),
        throttling: vec![
            Throttling { reason: ThrottleReason::PowerCap, share: 0.75 },
            Throttling { reason: ThrottleReason::HardwareThermal, share: 0.0 },
        ],
        xids: BTreeMap::from([(63, 2), (79, 1)]),
    }
}

fn offer() -> Offer {
    let rate = Rate::parse("0.805").unwrap();
    Offer {
        model: "NVIDIA L4".to_owned(),
        gpus: NonZeroU32::MIN,
        memory: Bytes::from_mebibytes(24_576),
        price: Price {
            provider: Some("aws".to_owned()),
            region: Some("us-east-1".to_owned()),
            instance_type: Some("g6.xlarge".to_owned()),
            as_of: "2026-07-20".parse().ok(),
            ..Price::given(rate, Some(PaymentPlan::OnDemand), "the price book")
        },
    }
}

fn previous(first_given: Timestamp) -> Previous {
    Previous {
        policy: "sharing".to_owned(),
        code: "sharing.mig".to_owned(),
        gpus: vec!["GPU-0".to_owned()],
        first_given,
        still_given: true,
    }
}

fn activity() -> Activity {
    let quiet = |time, held| Quiet { time: Nanos::from_secs(time), held: Nanos::from_secs(held) };
    Activity {
        quiet: quiet(1_000, 800),
        stretches: 40,
        longest: Nanos::from_secs(610),
        in_stretches: [700, 610, 0].map(Nanos::from_secs),
        before_work: quiet(610, 0),
        after_work: quiet(5, 5),
        pauses: Pauses {
            count: 1,
            quiet: quiet(90, 80),
            shortest: Nanos::from_secs(90),
            longest: Nanos::from_secs(91),
        },
    }
}

/// A quote request with every field set.
pub(crate) fn request() -> QuoteRequest {
    QuoteRequest {
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        provider: Some("aws".to_owned()),
        region: Some("us-east-1".to_owned()),
        instance_type: Some("p5.48xlarge".to_owned()),
        plan: Some(PaymentPlan::Spot),
        time: Timestamp::from_nanos(1_785_110_400_000_000_000).unwrap(),
        gpus: NonZeroU32::new(8).unwrap(),
        priced: 4,
        listed: Some(Price {
            rate: Rate::parse("6.88").unwrap(),
            plan: Some(PaymentPlan::Spot),
            provider: Some("aws".to_owned()),
            region: Some("us-east-1".to_owned()),
            instance_type: Some("p5.48xlarge".to_owned()),
            source: "the price book".to_owned(),
            as_of: "2026-07-20".parse().ok(),
            estimate: Some(PriceRange {
                rows: 3,
                low: Rate::parse("6.5").unwrap(),
                high: Rate::parse("14.6").unwrap(),
                anywhere: true,
            }),
        }),
        attributes: BTreeMap::from([("team".to_owned(), "vision".to_owned())]),
        is_offer: true,
    }
}

/// Names and texts of the `.wat` files of a directory, by name.
pub(crate) fn wat_files(dir: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "wat"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Names and modules of the default policies, by name.
pub(crate) fn default_policies() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(home().join("../wasm-rules/dist")).unwrap();
    let mut modules: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    modules.sort();
    modules
}

/// A recommender with this name and version.
pub(crate) fn recommender(name: &str, version: char) -> Vec<u8> {
    recommender_with(name, version, "")
}

/// A recommender with this name and version. `fields` replace or extend the default ones.
pub(crate) fn recommender_with(name: &str, version: char, fields: &str) -> Vec<u8> {
    let size = name.len();
    policy(&format!(
        r#"(data (i32.const 512) "{name}")
        (data (i32.const 600) "{version}")
        (data (i32.const 1024)
          "\00\02\00\00\{size:02x}\00\00\00" "\58\02\00\00\01\00\00\00"
          "\58\02\00\00\01\00\00\00" "\00\00\00\00\00\00\00\00")
        (func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
          (i32.const 1024))
        {fields}"#
    ))
}

/// A recommender that reads nothing and recommends nothing: what every evaluation costs at least.
pub(crate) fn empty_recommender() -> Vec<u8> {
    recommender_with(
        "empty",
        '1',
        r#"(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (i32.const 1536))"#,
    )
}

/// A pricer that quotes $2 per hour. `plan` is the plan's number in the contract; `source` has at
/// most 16 bytes. The instructions in `quote` run first: the request's time is in `$time`; they may
/// store another rate at 4368, and must store the quote's expiry at 4424.
pub(crate) fn pricer(source: &str, plan: u8, quote: &str) -> Vec<u8> {
    let size = source.len();
    policy(&format!(
        r#";; world: pricer-policy
        (data (i32.const 4096) "{source}")
        (data (i32.const 4112) "2026-07-20")
        (data (i32.const 4352) "\00\00\00\00\00\00\00\00" "\01\00\00\00\00\00\00\00"
          "\00\94\35\77\00\00\00\00" "\{plan:02x}\00\00\00" "\00\10\00\00\{size:02x}\00\00\00"
          "\10\10\00\00\0a\00\00\00" "\00\00\00\00\00\00\00\00\00\00\00\00"
          "\00\00\00\00\00\00\00\00" "\01\00\00\00\00\00\00\00")
        (func (export "phasemeter:policy/pricer@0.1.0#quote-price")
          (param $request i32) (result i32) (local $time i64)
          (local.set $time (i64.load offset=48 (local.get $request)))
          {quote}
          (i32.const 4352))"#
    ))
}

/// The policy in `tests/guests`.
pub(crate) fn mirror() -> Vec<u8> {
    build_guest("tests/guests", "mirror")
}

/// Builds the policy crate in a directory of this crate.
///
/// # Panics
/// If it cannot be built, so that a test that needs it fails.
pub(crate) fn build_guest(dir: &str, name: &str) -> Vec<u8> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--target", "wasm32-unknown-unknown"])
        .arg("--manifest-path")
        .arg(home().join(dir).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        // Flags for the host target do not apply.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .unwrap();
    assert!(
        status.success(),
        "cannot build the guest; is the target missing? rustup target add wasm32-unknown-unknown"
    );
    fs::read(target.join(format!("wasm32-unknown-unknown/release/{name}.wasm"))).unwrap()
}
