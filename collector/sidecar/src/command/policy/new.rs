//! `phasemeter policy new`: the folder of a policy, ready to be built.

use std::fs;
use std::io;
use std::path::Path;

use super::{PolicyFailure, desk, template};
use crate::cli::NewArgs;
use crate::command::Failure;

/// Writes the folder, and says what comes next.
pub(super) fn run(args: &NewArgs) -> Result<(), Failure> {
    let folder = Path::new(&args.name);
    let unmade = |path: &Path, source: io::Error| Failure::Write { path: path.to_owned(), source };
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(PolicyFailure::Exists(folder.to_owned()).into());
        }
        made => made.map_err(|source| unmade(folder, source))?,
    }
    for (path, bytes) in template::files(args.lang, &args.name) {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|source| unmade(parent, source))?;
        desk::write(&path, &bytes)?;
    }
    let name = &args.name;
    println!("{name}: its README.md says what it needs. Then:");
    println!("  phasemeter policy build {name}");
    println!("  phasemeter policy test {name}");
    Ok(())
}
