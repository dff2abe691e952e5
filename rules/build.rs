//! Generates the list of default policies from the directory of their builds, in the order of its `SHA256SUMS`, so that
//! no code names them.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), String> {
    let variable = |name| env::var(name).map_err(|error| format!("{name}: {error}"));
    let dist = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../wasm-rules/dist");
    let sums = dist.join("SHA256SUMS");
    println!("cargo::rerun-if-changed={}", sums.display());
    let text = fs::read_to_string(&sums).map_err(|error| format!("{}: {error}", sums.display()))?;
    let mut out = "[\n".to_owned();
    for line in text.lines() {
        let listed = line.strip_suffix(".wasm").and_then(|line| line.split_once("  "));
        let (digest, name) = listed.ok_or_else(|| format!("{}: {line}", sums.display()))?;
        let component = dist.join(name).with_extension("wasm");
        let artifact = dist.join("interpreted").join(name).with_extension("aot");
        let _ = writeln!(
            out,
            "DefaultPolicy {{ name: {name:?}, digest: {digest:?}, component: include_bytes!({component:?}), \
             artifact: embed!({artifact:?}) }},",
        );
    }
    let file = Path::new(&variable("OUT_DIR")?).join("default_policies.rs");
    fs::write(&file, out + "]").map_err(|error| format!("{}: {error}", file.display()))
}
