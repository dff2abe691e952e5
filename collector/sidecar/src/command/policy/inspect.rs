//! `phasemeter policy inspect`: what a policy is. What shows from outside is told even of one that
//! is refused.

use phasemeter_rules::digest::Digest;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::wasm_info::WasmInfo;
use serde_json::Value;

use super::PolicyFailure;
use super::desk::{self, Desk};
use crate::cli::InspectArgs;
use crate::command::Failure;
use crate::report::text::{clean, grouped};

/// Prints it.
pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    let bytes = desk::read(&args.file)?;
    println!("file      {}", clean(&args.file.display().to_string()));
    println!("digest    {}", Digest::of(&bytes));
    let binary = WasmInfo::parse(&bytes).map_err(|fault| PolicyFailure::Refused {
        file: args.file.display().to_string(),
        fault: PolicyError::Load(fault),
    })?;
    let form = if binary.is_component { "component" } else { "core module" };
    println!("form      {form} of {} bytes", grouped(bytes.len() as u128));
    list("imports", &binary.imports);
    list("exports", &binary.exports);
    let policy = Desk::open(&args.host)?.load(&args.file, None)?;
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

/// Each setting with its rules. The host has read the schema before.
fn settings(schema: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let named = schema.get("properties").and_then(Value::as_object);
    let mut lines = Vec::new();
    for (name, rules) in named.into_iter().flatten() {
        let rules = rules.as_object().into_iter().flatten();
        let rule = rules.filter(|(rule, _)| *rule != "description");
        let rule: Vec<_> = rule.map(|(rule, value)| format!("{rule} {value}")).collect();
        lines.push(format!("{name}: {}", rule.join(", ")));
    }
    lines
}
