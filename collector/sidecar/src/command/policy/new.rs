//! `phasemeter policy new`: creates a policy project that is ready to build.

use std::fs;
use std::io;
use std::path::Path;

use phasemeter_rules::manifest::Kind;

use super::error::PolicyCommandError;
use super::files;
use super::template::Template;
use crate::command::error::CommandError;
use phasemeter_cli::{Language, NewArgs};

/// Creates the project and prints the next steps.
pub(super) fn run(args: &NewArgs) -> Result<(), CommandError> {
    let template = match (args.lang, args.kind, args.example) {
        (language, Kind::Pricer, _) => Template::Pricer(language),
        (Language::Rust, _, true) => Template::RustExample,
        (language, Kind::Recommender, false) => Template::Recommender(language),
        _ => return Err(PolicyCommandError::NoTemplate.into()),
    };
    let dir = Path::new(&args.name);
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(PolicyCommandError::Exists(dir.to_owned()).into());
        }
        created => created.map_err(CommandError::write(dir))?,
    }
    for (path, bytes) in template.files(&args.name) {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(CommandError::write(parent))?;
        files::write(&path, &bytes)?;
    }
    let name = &args.name;
    println!("Created {name}; see its README.md for requirements. Next:");
    println!("  phasemeter policy build {name}");
    println!("  phasemeter policy test {name}");
    Ok(())
}
