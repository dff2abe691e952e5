//! Generates constants from the project's table of GPU models, so that policies do not parse text. An
//! unreadable table fails the build.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// The directory of the tables, relative to this crate.
const DATA: &str = "../../collector/meter/data";

fn main() -> Result<(), String> {
    let mut out = String::new();
    models(&mut out)?;
    let directory = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let file = Path::new(&directory).join("tables.rs");
    fs::write(&file, out).map_err(|error| format!("{}: {error}", file.display()))
}

fn models(out: &mut String) -> Result<(), String> {
    let mut lines = String::new();
    for row in rows::<16>("gpus.csv")? {
        let [
            model,
            architecture,
            _,
            memory,
            bandwidth,
            fp32,
            bf16,
            fp16,
            fp8,
            _,
            watts,
            mig,
            nvlink,
            form,
            ..,
        ] = &row;
        let [memory, bandwidth, fp32, bf16, fp16, fp8, watts] =
            [memory, bandwidth, fp32, bf16, fp16, fp8, watts].map(|cell| figure(cell));
        let architecture = architecture.replace(' ', "");
        let has_nvlink = nvlink == "yes" && form != "PCIe";
        let _ = writeln!(
            lines,
            "Model {{ name: {model:?}, architecture: Architecture::{architecture}, memory_gib: \
             {memory}, bandwidth_gb_s: {bandwidth}, fp32_tflops: {fp32}, bf16_tflops: {bf16}, \
             fp16_tflops: {fp16}, fp8_tflops: {fp8}, watts: {watts}, mig_slices: {mig}, has_nvlink: {has_nvlink} }},",
        );
    }
    let _ = write!(out, "/// All models.\npub const MODELS: &[Model] = &[\n{lines}];\n");
    Ok(())
}

/// Reads the rows of a table, without its header.
fn rows<const N: usize>(name: &str) -> Result<Vec<[String; N]>, String> {
    let file = Path::new(DATA).join(name);
    println!("cargo::rerun-if-changed={}", file.display());
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let rows = text.lines().enumerate().skip(1).map(|(number, line)| {
        let cells: Vec<_> = line.split(',').map(str::to_owned).collect();
        let error = || format!("{}:{}: expected {N} cells", file.display(), number + 1);
        cells.try_into().map_err(|_| error())
    });
    rows.collect()
}

/// Formats a figure as a Rust `Option`; an empty cell is `None`.
fn figure(cell: &str) -> String {
    cell.parse().map_or("None".to_owned(), |figure: f64| format!("Some({figure:?})"))
}
