//! Policy options of every metering command.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use phasemeter_rules::limits::Limits;

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

/// The limits of policies.
#[derive(Debug)]
pub struct PolicyLimits {
    /// Of an evaluation.
    pub evaluation: Limits,
    /// Of the compiler: memory in bytes, and processor time.
    pub compiler: (u64, Duration),
    /// How long the start of a command waits for policies.
    pub start: Duration,
}

/// A limit by its name, and how its value is set.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    name: &'static str,
    /// Sets it to this value.
    pub set: fn(&mut PolicyLimits, u64),
}

const LIMITS: [Limit; 11] = [
    Limit { name: "fuel", set: |it, value| it.evaluation.fuel = value },
    Limit { name: "deadline_ms", set: |it, ms| it.evaluation.deadline = Duration::from_millis(ms) },
    Limit { name: "memory_mib", set: |it, mib| it.evaluation.memory = count(mib) << 20 },
    Limit { name: "table_elements", set: |it, most| it.evaluation.table_elements = count(most) },
    Limit { name: "instances", set: |it, most| it.evaluation.instances = count(most) },
    Limit { name: "memories", set: |it, most| it.evaluation.memories = count(most) },
    Limit { name: "tables", set: |it, most| it.evaluation.tables = count(most) },
    Limit { name: "output_kib", set: |it, kib| it.evaluation.output = count(kib) << 10 },
    Limit { name: "compile_memory_mib", set: |it, mib| it.compiler.0 = mib << 20 },
    Limit { name: "compile_seconds", set: |it, s| it.compiler.1 = Duration::from_secs(s) },
    Limit { name: "start_ms", set: |it, ms| it.start = Duration::from_millis(ms) },
];

fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

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
    let Some(limit) = LIMITS.into_iter().find(|limit| limit.name == name) else {
        let names = LIMITS.map(|limit| limit.name);
        return Err(format!("unknown limit '{name}'; expected {}", names.join(", ")));
    };
    let value = value.parse().ok().filter(|value| (1..=MAX).contains(value));
    value
        .map(|value| (limit, value))
        .ok_or_else(|| format!("expected {name} to be a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_parse_by_name() {
        let parsed = |text| limit(text).map(|(limit, value)| (limit.name, value));
        assert_eq!(parsed("fuel=7"), Ok(("fuel", 7)));
        assert_eq!(parsed("deadline_ms=1000"), Ok(("deadline_ms", 1_000)));
        for text in ["", "fuel", "fuel=", "fuel=0", "fuel=-1", "fuel=1e9", "speed=1"] {
            assert!(limit(text).is_err(), "{text:?} was accepted");
        }
        assert_eq!(named("a=b=c"), Ok(("a".to_owned(), "b=c".into())));
        for text in ["", "a", "a=", "=b"] {
            assert!(named(text).is_err(), "{text:?} was accepted");
        }
    }
}
