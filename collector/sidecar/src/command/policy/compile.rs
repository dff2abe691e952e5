//! `phasemeter policy compile`: compiles a policy for sidecars without the memory to compile it.

use phasemeter_terminal::escape::clean;
use phasemeter_terminal::number::grouped;

use super::loader::PolicyLoader;
use super::{files, project};
use crate::command::error::CommandError;
use phasemeter_cli::CompileArgs;

/// Writes NAME.aot beside NAME.wasm.
pub(super) fn run(args: &CompileArgs) -> Result<(), CommandError> {
    let file = project::component_of(&args.policy)?;
    let code = PolicyLoader::new(&args.host)?.compile(&file)?;
    let path = file.with_extension("aot");
    files::write(&path, &code)?;
    let (path, size) = (clean(&path.display().to_string()), grouped(code.len() as u128));
    let target = if args.host.interpreter { "the interpreter" } else { std::env::consts::ARCH };
    println!("{path}: {size} bytes for {target} and this version of phasemeter");
    println!("Sign it for use: phasemeter policy sign {path} --machine-code --key KEY");
    Ok(())
}
