//! `phasemeter policy inspect`: prints the properties of a policy. Digest, imports and exports are
//! printed even if it is rejected.

use phasemeter_rules::digest::Digest;
use phasemeter_rules::wasm_info::WasmInfo;
use phasemeter_terminal::escape::clean;
use phasemeter_terminal::number::grouped;
use serde_json::Value;

use super::error::PolicyCommandError;
use super::loader::PolicyLoader;
use super::{files, project};
use crate::command::error::CommandError;
use phasemeter_cli::InspectArgs;

/// Prints the properties.
pub(super) fn run(args: &InspectArgs) -> Result<(), CommandError> {
    let file = project::component_of(&args.policy)?;
    let bytes = files::read(&file)?;
    println!("file      {}", clean(&file.display().to_string()));
    println!("digest    {}", Digest::of(&bytes));
    let info = WasmInfo::parse(&bytes).map_err(PolicyCommandError::rejected(&file))?;
    let form = if info.is_component { "component" } else { "core module" };
    println!("form      {form} of {} bytes", grouped(bytes.len() as u128));
    list("imports", &info.imports);
    list("exports", &info.exports);
    let policy = PolicyLoader::new(&args.host)?.load(&file, None)?;
    let manifest = policy.manifest();
    println!("name      {}", manifest.name);
    println!("version   {}", clean(&manifest.version));
    println!("kind      {}", policy.kind().name());
    println!("summary   {}", clean(&manifest.summary));
    list("settings", &settings(manifest.schema.text()));
    Ok(())
}

fn list(label: &str, items: &[String]) {
    let mut label = label;
    for item in items {
        println!("{label:<10}{}", clean(item));
        label = "";
    }
    if items.is_empty() {
        println!("{label:<10}none");
    }
}

/// One line per setting with its constraints. The host has validated the schema.
fn settings(schema: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let named = schema.get("properties").and_then(Value::as_object);
    let mut lines = Vec::new();
    for (name, constraints) in named.into_iter().flatten() {
        let constraints = constraints.as_object().into_iter().flatten();
        let constraints = constraints.filter(|(constraint, _)| *constraint != "description");
        let constraints: Vec<_> =
            constraints.map(|(constraint, value)| format!("{constraint} {value}")).collect();
        lines.push(format!("{name}: {}", constraints.join(", ")));
    }
    lines
}
