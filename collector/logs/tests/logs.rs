//! Decodes log fixtures. Each case is a directory of `fixtures/logs` with logs, `expected` (the
//! listing of everything decoded) and optionally `args` (one per line). Adding a case needs no Rust:
//! `make generate` writes `expected` for review.
#![expect(clippy::unwrap_used, reason = "an invalid fixture fails the test")]

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use phasemeter_logs::log::{GivenModel, Input};
use phasemeter_logs::nvidia_smi::{LogOptions, Logs};
use phasemeter_logs::{Source, SourceError};
use phasemeter_meter::reading::{GpuIdentity, Reading};

const NOTES: [&str; 2] = ["args", "expected"];

#[test]
fn log_fixtures_decode_as_expected() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs");
    let update = env::var_os("PHASEMETER_UPDATE").is_some();
    let mut failures = Vec::new();
    let mut cases: Vec<_> = fs::read_dir(cases).unwrap().map(|case| case.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() > 30, "fixtures are missing");
    for case in cases.iter().filter(|case| case.is_dir()) {
        let listing = listing_of(case);
        let expected = case.join("expected");
        if update {
            fs::write(expected, listing).unwrap();
        } else if fs::read_to_string(expected).unwrap_or_default() != listing {
            failures.push(format!("== {}:\n{listing}", case.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn listing_of(case: &Path) -> String {
    // Messages contain paths as given, so use relative ones.
    env::set_current_dir(case).unwrap();
    let (inputs, options) = arguments();
    let mut listing = String::new();
    if let Err(error) = list(&inputs, &options, &mut listing) {
        let is_data = matches!(error, SourceError::Log(_) | SourceError::Duplicate { .. });
        let status = if is_data { 65 } else { 66 };
        writeln!(listing, "error {status}: {error}").unwrap();
        if let Some(source) = error.source() {
            writeln!(listing, "  {source}").unwrap();
        }
    }
    listing
}

/// Options and logs of the case; by default all its logs by name.
fn arguments() -> (Vec<Input>, LogOptions) {
    let args = fs::read_to_string("args").unwrap_or_default();
    let (mut inputs, mut options, mut args) = (Vec::new(), LogOptions::default(), args.lines());
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap().to_owned();
        match arg {
            "--gpu-count" => options.gpus = Some(value().parse().unwrap()),
            "--columns" => options.columns = Some(value()),
            "--gpu-model" => options.gpu_model = Some(GivenModel::Default(value())),
            "--gpu-model-override" => options.gpu_model = Some(GivenModel::Override(value())),
            "--utc-offset" => options.utc_offset = Some(value().parse().unwrap()),
            log => inputs.push(Input::from(PathBuf::from(log))),
        }
    }
    if inputs.is_empty() {
        let files = fs::read_dir(".").unwrap().map(|file| file.unwrap().file_name());
        let mut files: Vec<_> =
            files.filter(|file| !NOTES.contains(&file.to_str().unwrap())).collect();
        files.sort();
        inputs = files.into_iter().map(|file| Input::from(PathBuf::from(file))).collect();
    }
    (inputs, options)
}

/// Lists every reading, every GPU at its first reading and after every change, then the summary of
/// each log and the rejected rows.
fn list(inputs: &[Input], options: &LogOptions, out: &mut String) -> Result<(), SourceError> {
    let mut logs = Logs::open(inputs, options)?;
    let mut known: Vec<GpuIdentity> = Vec::new();
    let mut power = BTreeSet::new();
    while let Some((gpu, reading)) = logs.next()? {
        if known != logs.gpus() {
            for (index, identity) in logs.gpus().iter().enumerate() {
                if known.get(index) != Some(identity) {
                    list_gpu(index, identity, out);
                }
            }
            known = logs.gpus().to_vec();
        }
        power.extend(reading.power.map(|_| reading.power_basis.name()));
        list_reading(gpu, &reading, out);
    }
    let power = match power.len() {
        0 => "no power".to_owned(),
        _ => power.into_iter().collect::<Vec<_>>().join(" and "),
    };
    for log in logs.summaries() {
        let (file, gpus, by) = (log.file, log.gpus, log.format.gpu_identification);
        write!(out, "{file}: {gpus} GPUs by {by:?}, {power}").unwrap();
        let zone =
            if log.format.assumed_utc { "local time assumed to be UTC" } else { "UTC known" };
        write!(out, ", {zone}").unwrap();
        if log.format.ticks.total > 0 {
            let ticks = log.format.ticks;
            write!(out, ", {} of {} ticks incomplete", ticks.incomplete, ticks.total).unwrap();
        }
        if let Some((since, rows)) = log.format.ticks.vanished {
            let at = time::UtcDateTime::from_unix_timestamp_nanos(since.as_nanos().into()).unwrap();
            write!(out, ", {rows} GPUs from {at} on").unwrap();
        }
        if let Some(rows) = log.format.rows_per_second {
            write!(out, ", {rows} rows in each second spread over it").unwrap();
        }
        if let Some(step) = log.format.local_steps.last {
            let (total, line, seconds) = (log.format.local_steps.total, step.line, step.seconds);
            let at =
                time::UtcDateTime::from_unix_timestamp_nanos(step.at.as_nanos().into()).unwrap();
            write!(out, ", {total} steps of local time, by {seconds} s after {at} in line {line}")
                .unwrap();
        }
        if log.format.assumed_single_gpu {
            out.push_str(", one GPU assumed");
        }
        if let Some(before) = log.continues {
            write!(out, ", continues {before}").unwrap();
        }
        if let Some(separation) = log.separation {
            write!(out, ", other GPUs than before, since {separation}").unwrap();
        }
        out.push('\n');
    }
    writeln!(out, "{} rejected", logs.rejected().total).unwrap();
    for row in &logs.rejected().first {
        writeln!(out, "  {}, line {}: {}", row.file, row.line, row.reason).unwrap();
    }
    let (read, size) = logs.progress();
    assert_eq!(Some(read), size, "read to the end");
    Ok(())
}

fn list_gpu(index: usize, gpu: &GpuIdentity, out: &mut String) {
    write!(out, "GPU {index} is '{}'", gpu.name).unwrap();
    let index = gpu.index.map(|index| index.to_string());
    let total = gpu.memory_total.map(|total| format!("{} bytes", total.get()));
    let limit = gpu.power_limit.map(|limit| format!("{} mW", limit.get()));
    let assumed = if gpu.is_model_assumed { " (assumed)" } else { "" };
    let model = gpu.model.as_ref().map(|model| format!("{model}{assumed}"));
    let facts = [&gpu.uuid, &gpu.bus_id, &index, &model, &total, &limit];
    let names = ["uuid", "bus id", "index", "model", "memory", "limit"];
    for (name, fact) in names.iter().zip(facts) {
        if let Some(fact) = fact {
            write!(out, ", {name} {fact}").unwrap();
        }
    }
    out.push('\n');
}

fn list_reading(gpu: usize, reading: &Reading, out: &mut String) {
    let at = time::UtcDateTime::from_unix_timestamp_nanos(reading.at.as_nanos().into()).unwrap();
    write!(out, "{at} GPU {gpu}: ").unwrap();
    match reading.utilization {
        Ok(utilization) => write!(out, "{utilization}").unwrap(),
        Err(absent) => write!(out, "{}", absent.reason()).unwrap(),
    }
    let facts = [
        reading.memory_used.map(|used| format!("{} bytes", used.get())),
        reading.power.map(|power| format!("{} mW", power.get())),
        reading.energy.map(|energy| format!("{} mJ", energy.0)),
        reading.temperature.map(|temperature| format!("{} °C", temperature.0)),
        reading.sm_clock.map(|clock| format!("SM {} MHz", clock.0)),
        reading.memory_clock.map(|clock| format!("memory {} MHz", clock.0)),
    ];
    for fact in facts.iter().flatten() {
        write!(out, ", {fact}").unwrap();
    }
    out.push('\n');
}
