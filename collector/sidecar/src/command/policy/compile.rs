//! `phasemeter policy compile`: machine code for a sidecar that has not the memory to make it.

use super::desk::{self, Desk};
use crate::cli::CompileArgs;
use crate::command::Failure;
use crate::report::text::{clean, grouped};

/// Writes NAME.aot beside NAME.wasm.
pub(super) fn run(args: &CompileArgs) -> Result<(), Failure> {
    let code = Desk::open(&args.host)?.compile(&args.file)?;
    let path = args.file.with_extension("aot");
    desk::write(&path, &code)?;
    let (path, size) = (clean(&path.display().to_string()), grouped(code.len() as u128));
    let target = if args.host.interpreter { "the interpreter" } else { std::env::consts::ARCH };
    println!("{path}: {size} bytes for {target} and this version");
    println!(
        "It is used where its signature stands beside it: phasemeter policy sign {path} --key KEY"
    );
    Ok(())
}
