//! The command line of `phasemeter policy`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, Subcommand, ValueEnum};
use phasemeter_rules::manifest::Kind;

use super::metering::{Format, PriceArgs};
use super::policies::{Limit, limit};
use super::value::one_of;

/// `phasemeter policy …`.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Create a policy project, built with the usual tools of its language.
    New(NewArgs),
    /// Build a policy project with its own tools, then check the policy.
    Build(BuildArgs),
    /// Check whether a policy would be accepted.
    Check(CheckArgs),
    /// Evaluate the test inputs of a policy project and compare the output with the expected.
    Test(TestArgs),
    /// Evaluate a policy once and print its output.
    Run(RunPolicyArgs),
    /// Measure fuel, time and memory of a policy.
    Bench(BenchArgs),
    /// Print kind, digest, imports and settings of a policy.
    Inspect(InspectArgs),
    /// Sign a policy, its settings or its compiled form: writes FILE.sig.
    Sign(SignArgs),
    /// Verify the signature of a policy, its settings or its compiled form.
    Verify(VerifyArgs),
    /// Compile a policy for machines that cannot compile it: writes NAME.aot, to be signed.
    Compile(CompileArgs),
}

/// `phasemeter policy new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// Language of the policy.
    #[arg(long, value_enum)]
    pub lang: Language,

    /// What the policy does.
    #[arg(long, default_value = "recommender", value_parser = kind())]
    pub kind: Kind,

    /// Start from a larger recommender, which reads columns, attributes and offers: in Rust only.
    #[arg(long, conflicts_with = "kind")]
    pub example: bool,

    /// Name of the policy and its directory: a–z, 0–9 and -, starting with a letter.
    #[arg(value_parser = name)]
    pub name: String,
}

/// A language of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Rust, with the SDK.
    Rust,
    /// C, with zig, or with clang and wasi-sdk.
    C,
    /// JavaScript, with npm.
    Js,
    /// Python, with componentize-py.
    Python,
}

/// The limits of a policy.
#[derive(Clone, Debug, Args)]
pub struct HostArgs {
    /// Limits of one evaluation or compilation, like --policy-limit of `phasemeter run`. Repeatable.
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    pub limits: Vec<(Limit, u64)>,

    /// Replace disallowed imports with stubs that trap when called.
    #[arg(long)]
    pub stub_imports: bool,

    /// Use the interpreter, as in a build without a compiler, or compile for it.
    #[arg(long)]
    pub interpreter: bool,
}

/// A policy to evaluate.
#[derive(Clone, Debug, Args)]
pub struct GuestArgs {
    /// The policy: a component file, or the directory of a built project.
    #[arg(value_name = "POLICY", default_value = ".")]
    pub policy: PathBuf,

    /// Its settings, a JSON object [default: NAME.json beside it, if present].
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,

    #[command(flatten)]
    pub host: HostArgs,
}

/// The input of a policy.
#[derive(Clone, Debug, Args)]
pub struct InputArgs {
    #[command(flatten)]
    pub source: InputSource,

    #[command(flatten)]
    pub price: PriceArgs,
}

/// The source of the input: a window for a recommender, or a quote request for a pricer.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct InputSource {
    /// Input of a recommender: a window from `audit --dump-windows`.
    #[arg(long, value_name = "FILE")]
    pub window: Option<PathBuf>,

    /// Input of a recommender: the window of an nvidia-smi log, as in `audit`. Repeatable. For logs
    /// that need options like --gpu-count, use `audit --dump-windows`.
    #[arg(long = "log", value_name = "LOG")]
    pub logs: Vec<PathBuf>,

    /// Input of a pricer: a quote request, like NAME.request.json of its tests.
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
}

/// `phasemeter policy build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The project directory, which contains policy.json.
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,

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
    /// The project directory, which contains policy.json and tests.
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,

    /// Write the output as the expected output.
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
    pub input: InputArgs,

    /// Output format; JSON is that of NAME.recommendations.json and NAME.quote.json.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `phasemeter policy bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    pub guest: GuestArgs,

    #[command(flatten)]
    pub input: InputArgs,

    /// Number of evaluations.
    #[arg(long, value_name = "N", default_value = "200")]
    pub runs: NonZeroU32,
}

/// `phasemeter policy inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The policy: a component file, or the directory of a built project.
    #[arg(value_name = "POLICY", default_value = ".")]
    pub policy: PathBuf,

    #[command(flatten)]
    pub host: HostArgs,
}

/// `phasemeter policy sign`.
#[derive(Debug, Args)]
pub struct SignArgs {
    /// The policy, its settings (NAME.json), its .aot file, or the directory of a built project.
    #[arg(value_name = "POLICY", default_value = ".")]
    pub policy: PathBuf,

    /// Sign an .aot file. Machine code is not sandboxed: such a signature approves whatever it does
    /// as the user who runs Phasemeter. Sign only what you have compiled.
    #[arg(long)]
    pub machine_code: bool,

    /// Private key, as written by `openssl genpkey -algorithm ed25519`.
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
}

/// `phasemeter policy verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The signed policy, settings or .aot file, with its .sig beside it, or the directory of a built
    /// project.
    #[arg(value_name = "POLICY", default_value = ".")]
    pub policy: PathBuf,

    /// Verify an .aot file.
    #[arg(long)]
    pub machine_code: bool,

    /// Public key: 64 hexadecimal digits, or as written by `openssl pkey -pubout`. Repeatable; one
    /// match is enough.
    #[arg(long = "key", value_name = "FILE", required = true)]
    pub keys: Vec<PathBuf>,
}

/// `phasemeter policy compile`.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// The policy: a component file, or the directory of a built project.
    #[arg(value_name = "POLICY", default_value = ".")]
    pub policy: PathBuf,

    #[command(flatten)]
    pub host: HostArgs,
}

fn kind() -> impl TypedValueParser<Value = Kind> {
    one_of([
        ("recommender", "Recommends how to reduce waste", Kind::Recommender),
        ("pricer", "Prices GPU-hours", Kind::Pricer),
    ])
}

/// A policy name, as defined by the contract.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let letter = text.starts_with(|c: char| c.is_ascii_lowercase());
    if letter && text.len() <= 64 && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("expected 1–64 of a–z, 0–9 and -, starting with a letter".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_in_contract_and_as_directories() {
        assert_eq!(name("idle-2"), Ok("idle-2".to_owned()));
        for text in ["", "Idle", "2idle", "-idle", "a/b", "..", "a_b", &"a".repeat(65)] {
            assert!(name(text).is_err(), "{text:?} was accepted");
        }
    }
}
