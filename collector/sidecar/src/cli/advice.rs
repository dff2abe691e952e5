//! What every command that meters can be told about policies.
//!
//! This room must not know what a policy does.

use std::path::PathBuf;

use clap::Args;
use phasemeter_meter::units::Nanos;

use super::value::seconds;

/// Who advises and prices.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Policies")]
pub struct AdviceArgs {
    /// A policy that advises or prices: a WebAssembly component. Beside NAME.wasm are looked for:
    /// NAME.json, its settings; NAME.wasm.sig, its signature; NAME.aot and NAME.aot.sig, what
    /// `phasemeter policy compile` made of it. Repeatable.
    #[arg(long = "policy", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A folder of policies. `run` looks at it every second, and uses what changed from the next
    /// window on.
    #[arg(long = "policies", value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Settings of a policy, by the name it gives itself: a JSON object. Repeatable.
    #[arg(long = "policy-settings", value_name = "NAME=FILE", value_parser = named)]
    pub settings: Vec<(String, PathBuf)>,

    /// Leave out the policies that are part of this program.
    #[arg(long)]
    pub no_default_policies: bool,

    /// A file with the ed25519 key of someone who may sign policies: 64 hexadecimal digits. With
    /// any, a policy that none of them signed is refused. Repeatable.
    #[arg(long = "policy-key", value_name = "FILE")]
    pub keys: Vec<PathBuf>,

    /// What one run of a policy, or compiling it, may use up. Repeatable. With their defaults:
    /// fuel=500000000, deadline_ms=1000, memory_mib=64, table_elements=65536, instances=64,
    /// memories=4, tables=32, output_kib=1024, compile_memory_mib=512, compile_seconds=60.
    #[arg(long = "policy-limit", value_name = "NAME=VALUE", value_parser = limit)]
    pub limits: Vec<(Limit, u64)>,

    /// Let policies import what no policy gets, as long as they never call it.
    #[arg(long)]
    pub policy_stub_imports: bool,

    /// Keep compiled policies here. Without it in the user's cache folder, where there is one.
    #[arg(long = "policy-cache", value_name = "DIR")]
    pub cache: Option<PathBuf>,

    /// Write down what policies are shown, to test others against: into this folder where there
    /// is one of that name, else into this file.
    #[arg(long, value_name = "PATH")]
    pub dump_windows: Option<PathBuf>,
}

/// What can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Instructions of a run.
    Fuel,
    /// Wall clock of a run, in milliseconds.
    DeadlineMs,
    /// Linear memory of a run, in mebibytes.
    MemoryMib,
    /// Elements of each table.
    TableElements,
    /// Core instances.
    Instances,
    /// Linear memories.
    Memories,
    /// Tables.
    Tables,
    /// What it hands over in one call, in kibibytes.
    OutputKib,
    /// Memory of the compiler, in mebibytes.
    CompileMemoryMib,
    /// Processor time of the compiler.
    CompileSeconds,
}

/// Each by its name.
const LIMITS: [(&str, Limit); 10] = [
    ("fuel", Limit::Fuel),
    ("deadline_ms", Limit::DeadlineMs),
    ("memory_mib", Limit::MemoryMib),
    ("table_elements", Limit::TableElements),
    ("instances", Limit::Instances),
    ("memories", Limit::Memories),
    ("tables", Limit::Tables),
    ("output_kib", Limit::OutputKib),
    ("compile_memory_mib", Limit::CompileMemoryMib),
    ("compile_seconds", Limit::CompileSeconds),
];

/// The most of anything: large enough for all, and no sum of it overflows.
const MOST: u64 = 1 << 40;

/// Windows of a live run are this far apart.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Policies")]
pub struct WindowArgs {
    /// How many seconds lie between two windows that policies are shown. The last one is at the end.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub window_interval: Nanos,
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("give the name of a policy and a file, like commitments=prices.json".to_owned()),
    }
}

pub(super) fn limit(text: &str) -> Result<(Limit, u64), String> {
    let (name, value) =
        text.split_once('=').ok_or("give a limit and a number, like fuel=1000000")?;
    let known = LIMITS.iter().find(|(known, _)| *known == name);
    let Some((_, limit)) = known else {
        let names = LIMITS.map(|(name, _)| name);
        return Err(format!("there is no limit '{name}'; there are {}", names.join(", ")));
    };
    let value = value.parse().ok().filter(|value| (1..=MOST).contains(value));
    value.map(|value| (*limit, value)).ok_or_else(|| format!("give {name} a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_name_or_refused() {
        assert_eq!(limit("fuel=7"), Ok((Limit::Fuel, 7)));
        assert_eq!(limit("deadline_ms=1000"), Ok((Limit::DeadlineMs, 1_000)));
        for text in ["", "fuel", "fuel=", "fuel=0", "fuel=-1", "fuel=1e9", "speed=1"] {
            assert!(limit(text).is_err(), "{text:?} was taken");
        }
        assert_eq!(named("a=b=c"), Ok(("a".to_owned(), "b=c".into())));
        for text in ["", "a", "a=", "=b"] {
            assert!(named(text).is_err(), "{text:?} was taken");
        }
    }
}
