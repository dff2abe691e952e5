//! Rejects an output file that is an input or another output of the same command, before any file is
//! created or truncated.
//!
//! Files are compared by what their paths lead to. Devices and pipes may be shared.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use phasemeter_logs::file_id::FileId;

use super::error::CommandError;

/// The inputs, standard streams and outputs of a command so far.
#[derive(Default)]
pub(super) struct OutputFiles {
    taken: Vec<(Location, String)>,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Location {
    /// A regular file.
    Existing(FileId),
    /// A file that does not exist yet.
    New { directory: FileId, name: OsString },
}

impl OutputFiles {
    /// Adds an input. An input that cannot be found is reported when it is opened.
    pub(super) fn add_input(&mut self, path: &Path) {
        if let Some(location @ Location::Existing(_)) = Location::of(path) {
            self.taken.push((location, format!("the input {}", path.display())));
        }
    }

    /// Adds a standard stream, which may be redirected to a file.
    pub(super) fn add_stream(&mut self, stream: impl AsFd, name: &str) {
        let file = stream.as_fd().try_clone_to_owned().map(File::from);
        if let Ok(metadata) = file.and_then(|file| file.metadata())
            && metadata.is_file()
        {
            self.taken.push((Location::Existing(FileId::of(&metadata)), name.to_owned()));
        }
    }

    /// Adds the output of an option.
    ///
    /// # Errors
    /// Returns an error if it is already in use.
    pub(super) fn add_output(&mut self, option: &str, path: &Path) -> Result<(), CommandError> {
        let Some(location) = Location::of(path) else { return Ok(()) };
        if let Some((_, other)) = self.taken.iter().find(|(taken, _)| *taken == location) {
            let (option, path, other) = (option.to_owned(), path.to_owned(), other.clone());
            return Err(CommandError::FileInUse { option, path, other });
        }
        self.taken.push((location, format!("the output of {option}")));
        Ok(())
    }
}

impl Location {
    /// `None` if the path leads to something other than a regular file, or cannot be resolved.
    fn of(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(metadata) => metadata.is_file().then(|| Self::Existing(FileId::of(&metadata))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A file is created where a symbolic link leads.
                match fs::read_link(path) {
                    Ok(target) => Self::of(&directory(path).join(target)),
                    Err(_) => Some(Self::New {
                        directory: FileId::from_path(directory(path)).ok()?,
                        name: path.file_name()?.to_owned(),
                    }),
                }
            }
            Err(_) => None,
        }
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn output_that_is_in_use_is_rejected_by_any_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("log.csv"), "a log").unwrap();
        fs::create_dir(path("sub")).unwrap();
        symlink("log.csv", path("soft.csv")).unwrap();
        fs::hard_link(path("log.csv"), path("hard.csv")).unwrap();
        symlink("sub/../new.json", path("dangling.json")).unwrap();
        symlink("loop.json", path("loop.json")).unwrap();
        let mut files = OutputFiles::default();
        files.add_input(&path("log.csv"));
        files.add_input(&path("missing.csv"));
        files.add_output("--report", &path("new.json")).unwrap();
        for (name, other) in [
            ("log.csv", "the input "),
            ("soft.csv", "the input "),
            ("hard.csv", "the input "),
            ("sub/../log.csv", "the input "),
            ("new.json", "the output of --report"),
            ("sub/../new.json", "the output of --report"),
            ("dangling.json", "the output of --report"),
        ] {
            let error = files.add_output("--otlp-file", &path(name)).unwrap_err().to_string();
            assert!(error.contains(other), "{name}: {error}");
        }
        for free in
            ["missing.csv", "sub/new.json", "sub", "no-such-directory/new.json", "loop.json"]
        {
            files.add_output("--otlp-file", &path(free)).unwrap();
        }
        for _ in 0..2 {
            files.add_output("--otlp-file", Path::new("/dev/null")).unwrap();
        }
        assert!(!path("new.json").exists(), "nothing is created");
    }

    #[test]
    fn stream_redirected_to_output_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("both.txt");
        let mut files = OutputFiles::default();
        files.add_stream(File::create(&path).unwrap(), "standard output");
        let error = files.add_output("--otlp-file", &path).unwrap_err().to_string();
        assert!(error.contains("standard output"), "{error}");
    }
}
