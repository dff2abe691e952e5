//! Policy options of every metering command.

use std::path::PathBuf;

use clap::Args;

/// Policies.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Policies")]
pub struct PolicyArgs {
    /// A policy: a WebAssembly component NAME.wasm. Used if present beside it: NAME.json (settings),
    /// NAME.wasm.sig and NAME.json.sig (signatures), NAME.aot and NAME.aot.sig (from `phasemeter
    /// policy compile`). Repeatable.
    #[arg(long = "policy", value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A directory of policies. `run` checks it every second and uses changes from the next window.
    #[arg(long = "policies", value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Settings for the policy of this name: a JSON object. Repeatable.
    #[arg(long = "policy-settings", value_name = "NAME=FILE", value_parser = named)]
    pub settings: Vec<(String, PathBuf)>,

    /// Disable the default policies.
    #[arg(long)]
    pub no_default_policies: bool,

    /// A file with a trusted ed25519 public key: 64 hexadecimal digits. If any key is given,
    /// policies not signed by one of them are rejected, and so is NAME.json beside a policy. Repeatable.
    #[arg(long = "policy-key", value_name = "FILE")]
    pub keys: Vec<PathBuf>,

    /// Limits of one evaluation or compilation. Repeatable. Defaults: fuel=500000000,
    /// deadline_ms=1000, memory_mib=64, table_elements=65536, instances=64, memories=4, tables=32,
    /// output_kib=1024, compile_memory_mib=512, compile_seconds=60; and how long a command waits for
    /// policies before it starts, start_ms=1000.
    #[arg(long = "policy-limit", value_name = "NAME=VALUE", value_parser = limit)]
    pub limits: Vec<(Limit, u64)>,

    /// Replace disallowed imports with stubs that trap when called.
    #[arg(long)]
    pub policy_stub_imports: bool,

    /// Directory for compiled policies [default: the user's cache directory, if any]. Not used if other
    /// users can change it.
    #[arg(long = "policy-cache", value_name = "DIR")]
    pub cache: Option<PathBuf>,

    /// Write the windows that policies evaluate, for testing other policies: to files in this
    /// directory if it exists, else to this file.
    #[arg(long, value_name = "PATH")]
    pub dump_windows: Option<PathBuf>,
}

/// A limit of an evaluation or of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Fuel per evaluation.
    Fuel,
    /// Wall-clock time per evaluation, in milliseconds.
    DeadlineMs,
    /// Linear memory per evaluation, in mebibytes.
    MemoryMib,
    /// Elements of each table.
    TableElements,
    /// Core instances.
    Instances,
    /// Linear memories.
    Memories,
    /// Tables.
    Tables,
    /// Output of one call, in kibibytes.
    OutputKib,
    /// Memory of the compiler, in mebibytes.
    CompileMemoryMib,
    /// Processor time of the compiler, in seconds.
    CompileSeconds,
    /// How long the start of a command waits for policies, in milliseconds.
    StartMs,
}

/// The limits by name.
const LIMITS: [(&str, Limit); 11] = [
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
    ("start_ms", Limit::StartMs),
];

/// Maximum value of a limit; sums of it do not overflow.
const MAX: u64 = 1 << 40;

pub(super) fn named(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => {
            Err("expected the name of a policy and a file, like commitments=prices.json".to_owned())
        }
    }
}

pub(super) fn limit(text: &str) -> Result<(Limit, u64), String> {
    let (name, value) =
        text.split_once('=').ok_or("expected a limit and a number, like fuel=1000000")?;
    let known = LIMITS.iter().find(|(known, _)| *known == name);
    let Some((_, limit)) = known else {
        let names = LIMITS.map(|(name, _)| name);
        return Err(format!("unknown limit '{name}'; expected {}", names.join(", ")));
    };
    let value = value.parse().ok().filter(|value| (1..=MAX).contains(value));
    value
        .map(|value| (*limit, value))
        .ok_or_else(|| format!("expected {name} to be a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_parse_by_name() {
        assert_eq!(limit("fuel=7"), Ok((Limit::Fuel, 7)));
        assert_eq!(limit("deadline_ms=1000"), Ok((Limit::DeadlineMs, 1_000)));
        for text in ["", "fuel", "fuel=", "fuel=0", "fuel=-1", "fuel=1e9", "speed=1"] {
            assert!(limit(text).is_err(), "{text:?} was accepted");
        }
        assert_eq!(named("a=b=c"), Ok(("a".to_owned(), "b=c".into())));
        for text in ["", "a", "a=", "=b"] {
            assert!(named(text).is_err(), "{text:?} was accepted");
        }
    }
}
