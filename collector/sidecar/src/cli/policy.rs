//! What authors of policies can ask.
//!
//! This room must not know how a policy is written, nor what it does.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::advice::{Limit, limit};
use super::{Format, PriceArgs};

/// `phasemeter policy …`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Start a policy: a folder that builds with the usual tools of its language.
    New(NewArgs),
    /// Build the policy of a folder with its own tools, and check it.
    Build(BuildArgs),
    /// Say whether a policy would be taken into use, and if not, why.
    Check(CheckArgs),
    /// Ask a policy all that its folder has recorded, and compare its answers with the expected.
    Test(TestArgs),
    /// Show a recommender a window, or a pricer a quote request, and print its answer.
    Run(RunPolicyArgs),
    /// Measure what a policy takes: fuel, time, memory.
    Bench(BenchArgs),
    /// Tell what a policy is: its kind, digest, imports and settings.
    Inspect(InspectArgs),
    /// Sign a policy, or what was compiled of it: writes FILE.sig.
    Sign(SignArgs),
    /// Say whether a key signed a policy.
    Verify(VerifyArgs),
    /// Compile a policy for where that takes too much: writes NAME.aot, which is to be signed.
    Compile(CompileArgs),
}

/// `phasemeter policy new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// What it is written in.
    #[arg(long, value_enum)]
    pub lang: Language,

    /// What it is called, and its folder: a–z, 0–9 and -, a letter first.
    #[arg(value_parser = name)]
    pub name: String,
}

/// What a policy is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// With the SDK.
    Rust,
    /// With zig, or with clang and wasi-sdk.
    C,
    /// With npm.
    Js,
    /// With componentize-py.
    Python,
}

/// What a policy is held to.
#[derive(Clone, Debug, Args)]
pub struct HostArgs {
    /// What a run, or compiling, may use up. Repeatable; as --policy-limit of `phasemeter run`.
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    pub limits: Vec<(Limit, u64)>,

    /// Let it import what no policy gets, as long as it never calls it.
    #[arg(long)]
    pub stub_imports: bool,

    /// Interpret it, as in a build without a compiler, or compile it for that.
    #[arg(long)]
    pub interpreter: bool,
}

/// A policy to be run.
#[derive(Clone, Debug, Args)]
pub struct GuestArgs {
    /// The policy.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Its settings: a JSON object. Without it those in NAME.json beside it.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,

    #[command(flatten)]
    pub host: HostArgs,
}

/// What a policy is shown.
#[derive(Clone, Debug, Args)]
pub struct ShownArgs {
    #[command(flatten)]
    pub what: WhatArgs,

    #[command(flatten)]
    pub price: PriceArgs,
}

/// One of these: a window for a recommender, or a quote request for a pricer.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct WhatArgs {
    /// For a recommender: a window that `audit --dump-windows` wrote.
    #[arg(long, value_name = "FILE")]
    pub window: Option<PathBuf>,

    /// For a recommender: a log that `nvidia-smi` wrote, as `audit` would show it; repeatable, as
    /// there. One that has to be explained, as by its --gpu-count, is for `audit --dump-windows`.
    #[arg(long = "log", value_name = "LOG")]
    pub logs: Vec<PathBuf>,

    /// For a pricer: a quote request, like NAME.request.json of its tests.
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
}

/// `phasemeter policy build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The folder, with its policy.json.
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,

    #[command(flatten)]
    pub host: HostArgs,
}

/// `phasemeter policy check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub guest: GuestArgs,
}

/// `phasemeter policy test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The folder, with its policy.json and its tests.
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,

    /// Write the answers down as the expected.
    #[arg(long)]
    pub update: bool,

    #[command(flatten)]
    pub host: HostArgs,
}

/// `phasemeter policy run`.
#[derive(Debug, Args)]
pub struct RunPolicyArgs {
    #[command(flatten)]
    pub guest: GuestArgs,

    #[command(flatten)]
    pub shown: ShownArgs,

    /// How the answer is written: for people, or as in NAME.recommendations.json and NAME.quote.json.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `phasemeter policy bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub guest: GuestArgs,

    #[command(flatten)]
    pub shown: ShownArgs,

    /// How often it is run.
    #[arg(long, value_name = "N", default_value = "200")]
    pub runs: NonZeroU32,
}

/// `phasemeter policy inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The policy.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub host: HostArgs,
}

/// `phasemeter policy sign`.
#[derive(Debug, Args)]
pub struct SignArgs {
    /// The policy, or its .aot.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The private key, as `openssl genpkey -algorithm ed25519` writes it.
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

/// `phasemeter policy verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// What was signed, with its .sig beside it.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// A public key: 64 hexadecimal digits, or as `openssl pkey -pubout` writes it. Repeatable; one
    /// is enough.
    #[arg(long = "key", value_name = "FILE", required = true)]
    pub keys: Vec<PathBuf>,
}

/// `phasemeter policy compile`.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// The policy.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub host: HostArgs,
}

/// A name as the contract has it.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let letter = text.starts_with(|c: char| c.is_ascii_lowercase());
    if letter && text.len() <= 64 && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("give 1–64 of a–z, 0–9 and -, a letter first".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_the_contract_and_of_a_folder() {
        assert_eq!(name("idle-2"), Ok("idle-2".to_owned()));
        for text in ["", "Idle", "2idle", "-idle", "a/b", "..", "a_b", &"a".repeat(65)] {
            assert!(name(text).is_err(), "{text:?} was taken");
        }
    }
}
