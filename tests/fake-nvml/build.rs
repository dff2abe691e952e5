//! Generates stubs, returning `NVML_ERROR_NOT_SUPPORTED`, for the functions of `symbols.txt` that
//! `src/ffi` does not implement, so that `symbols.txt` is the single list of exports.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=symbols.txt");
    println!("cargo::rerun-if-changed=src/ffi");

    let symbols = fs::read_to_string("symbols.txt")?;
    let listed: BTreeSet<&str> = symbols.lines().collect();
    let implemented = implemented()?;
    if let Some(stray) = implemented.iter().find(|name| !listed.contains(name.as_str())) {
        return Err(format!("src/ffi defines {stray}; add it to symbols.txt").into());
    }

    let mut stubs = String::from("stubs! {\n");
    for name in listed.into_iter().filter(|name| !implemented.contains(*name)) {
        writeln!(stubs, "    fn {name}();")?;
    }
    stubs.push_str("}\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("stubs.rs"), stubs)?;
    Ok(())
}

/// Every `fn nvml…` in `src/ffi`.
fn implemented() -> Result<BTreeSet<String>, Box<dyn Error>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir("src/ffi")? {
        let source = fs::read_to_string(entry?.path())?;
        for (at, _) in source.match_indices("fn nvml") {
            let name = source[at + 3..].split(|c: char| !c.is_alphanumeric() && c != '_').next();
            names.extend(name.map(str::to_owned));
        }
    }
    Ok(names)
}
