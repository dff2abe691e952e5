//! The commands of the page about Kubernetes, run as its readers would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::node::output;

/// The page, and the directory in which its commands are run: the repository is there by links.
pub(crate) struct Page {
    text: String,
    dir: PathBuf,
}

impl Page {
    /// Runs its commands in a new directory inside of this one.
    pub(crate) fn new(dir: &Path) -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = dir.join("page");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let linked = fs::canonicalize(repository.join("otel-config")).unwrap();
        std::os::unix::fs::symlink(linked, dir.join("otel-config")).unwrap();
        Self { text: fs::read_to_string(repository.join("docs/kubernetes.md")).unwrap(), dir }
    }

    /// The commands of a section.
    pub(crate) fn commands(&self, heading: &str) -> Vec<String> {
        let (_, section) = self.text.split_once(&format!("\n## {heading}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let mut commands = Vec::new();
        for block in section.split("\n```sh\n").skip(1) {
            let block = block.split("\n```").next().unwrap().replace("\\\n", "");
            commands.extend(block.lines().map(str::to_owned));
        }
        assert!(!commands.is_empty(), "{heading}: no commands");
        commands
    }

    /// Runs a command with more arguments; what it prints.
    pub(crate) fn run(&self, command: &str, more: &str) -> String {
        println!("$ {command} {more}");
        let command = format!("{command} {more}");
        output(Command::new("sh").args(["-c", &command]).current_dir(&self.dir))
    }
}
