//! Generates constants from the project's table of GPU models, so that policies do not parse text. An
//! unreadable table fails the build.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// The table of models, relative to this crate.
const TABLE: &str = "../../collector/meter/data/gpus.csv";

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed={TABLE}");
    let text = fs::read_to_string(TABLE).map_err(|error| format!("{TABLE}: {error}"))?;
    let mut out = "/// All models.\npub const MODELS: &[Model] = &[\n".to_owned();
    for (number, line) in text.lines().enumerate().skip(1) {
        let cells: Vec<_> = line.split(',').collect();
        let Ok::<[&str; 16], _>(cells) = cells.try_into() else {
            return Err(format!("{TABLE}:{}: expected 16 cells", number + 1));
        };
        let [model, architecture, _, memory, bandwidth, fp32, bf16, fp16, fp8, ..] = cells;
        let [.., watts, mig, nvlink, form, _, _] = cells;
        let [memory, bandwidth, fp32, bf16, fp16, fp8, watts] =
            [memory, bandwidth, fp32, bf16, fp16, fp8, watts].map(figure);
        let architecture = architecture.replace(' ', "").replace("CDNA", "Cdna");
        let has_nvlink = nvlink == "yes" && form != "PCIe";
        let _ = writeln!(
            out,
            "Model {{ name: {model:?}, architecture: Architecture::{architecture}, memory_gib: \
             {memory}, bandwidth_gb_s: {bandwidth}, fp32_tflops: {fp32}, bf16_tflops: {bf16}, \
             fp16_tflops: {fp16}, fp8_tflops: {fp8}, watts: {watts}, mig_slices: {mig}, has_nvlink: {has_nvlink} }},",
        );
    }
    out += "];\n";
    let directory = env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let file = Path::new(&directory).join("tables.rs");
    fs::write(&file, out).map_err(|error| format!("{}: {error}", file.display()))
}

/// Formats a figure as a Rust `Option`; an empty cell is `None`.
fn figure(cell: &str) -> String {
    cell.parse().map_or("None".to_owned(), |figure: f64| format!("Some({figure:?})"))
}
