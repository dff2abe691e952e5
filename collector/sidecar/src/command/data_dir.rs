//! The data directory of a command, and the variables of export that its options replace.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_files::read_text;
use phasemeter_journal::{Begin, BootClock, Gate, Left, RunJournal, Writing};
use phasemeter_otlp::delivery::{
    Config, DataDirectory, DataError, HEADERS_FILE, MAX_HEADERS, Storage, StorageKind,
};
use phasemeter_sources::clock::Clock;
use tracing::{debug, info, warn};

use super::claims::keep_notes;
use super::error::CommandError;
use super::files::ReplacedFile;
use super::kept_reports::{self, Named};
use super::live_error::LiveError;
use super::optional::Optional;
use crate::variables::variable;
use phasemeter_cli::ExportArgs;

const DATA: &str = "PHASEMETER_DATA";

/// How long a command waits for a disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long another process that has the directory may take to end. Without grace, the kubelet kills it two seconds after it
/// was asked to. A command does not wait.
const END_OF_OTHER: Duration = Duration::from_secs(5);

/// Where services keep their data.
const SYSTEM: &str = "/var/lib/phasemeter";
const NAME: &str = "phasemeter";

/// What options of export name. The directory is opened when something is first stored, and stays this process's
/// own until it is dropped.
pub(super) struct ExportOptions {
    headers_file: Option<PathBuf>,
    named: Option<PathBuf>,
    optional: Optional,
    directory: OnceCell<Option<Arc<DataDirectory>>>,
}

impl ExportOptions {
    /// Checks that the file with headers can be read, which delivery follows from then on.
    pub(super) fn read(args: &ExportArgs, optional: Optional) -> Result<Self, CommandError> {
        let or_variable = |option: &Option<PathBuf>, variable| {
            option.clone().or_else(|| variable_of(variable).map(PathBuf::from))
        };
        let headers_file = or_variable(&args.otlp_headers_file, HEADERS_FILE);
        if let Some(path) = &headers_file {
            let read = read_text(path, MAX_HEADERS);
            read.map_err(|source| LiveError::HeadersFile { path: path.clone(), source })?;
        }
        let named = or_variable(&args.data_dir, DATA);
        Ok(Self { headers_file, named, optional, directory: OnceCell::new() })
    }

    /// The value of a variable.
    pub(super) fn look_up(&self, name: &str) -> Option<String> {
        let own = self.headers_file.as_ref().filter(|_| name == HEADERS_FILE);
        own.map(|path| path.display().to_string()).or_else(|| variable(name))
    }

    /// The directory that is named; `None` if one of the usual ones is used.
    pub(super) const fn named(&self) -> Option<&PathBuf> {
        self.named.as_ref()
    }

    /// A storage for the requests of a client; `None` if they wait in memory.
    pub(super) fn storage(
        &self,
        config: &Config,
        kind: StorageKind,
    ) -> Result<Option<Storage>, CommandError> {
        let Some(data) = self.directory()? else { return Ok(None) };
        let path = data.path().to_owned();
        let config = config.clone();
        let begin = move || {
            if kind == StorageKind::Own {
                keep_notes(&data);
            }
            Storage::begin(&data, &config, kind)
        };
        let begun = self.in_time(&path, begin);
        Ok(begun.and_then(|begun| {
            let failed = |error: &_| warn!("{}: {error}; requests wait in memory", path.display());
            begun.inspect_err(failed).ok()
        }))
    }

    /// The report that is kept of a run; `None` without a usable data directory.
    pub(super) fn report(&self, named: Named) -> Result<Option<ReplacedFile>, CommandError> {
        let Some(data) = self.directory()? else { return Ok(None) };
        let path = data.path().to_owned();
        let begun = self.in_time(&path, move || kept_reports::begin(&data, named));
        Ok(begun.and_then(|begun| {
            let failed = |error: &CommandError| warn!("{}; no report is kept", error.in_one_line());
            begun.inspect_err(failed).ok()
        }))
    }

    /// What a run with this label has left that was killed; `None` if there is none, or no data directory.
    pub(super) fn left(&self, label: &str) -> Result<Option<Left>, CommandError> {
        let label = label.to_owned();
        let now = BootClock::of(Clock::start());
        Ok(self.journal(move |data| Left::find(data, &label, now))?.flatten())
    }

    /// Begins a journal; `None` without a usable data directory.
    pub(super) fn begin_journal(
        &self,
        label: &str,
        begin: Begin,
        gate: Gate,
    ) -> Result<Option<RunJournal>, CommandError> {
        let (label, clock) = (label.to_owned(), begin.clock.clone());
        let create = move |data: &_| RunJournal::create(data, &label, begin, Writing::on_thread);
        let writer = self.journal(create)?;
        Ok(writer.map(|writer| RunJournal::new(writer, gate, clock)))
    }

    /// What the disk answers about journals.
    fn journal<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&DataDirectory) -> io::Result<T> + Send + 'static,
    ) -> Result<Option<T>, CommandError> {
        let Some(data) = self.directory()? else { return Ok(None) };
        let path = data.path().to_owned();
        let answer = self.in_time(&path, move || ask(&data));
        let failed = |error: &_| {
            warn!("{}: {error}; if this run is killed, it is not continued", path.display());
        };
        Ok(answer.and_then(|answer| answer.inspect_err(failed).ok()))
    }

    /// What the disk answers. A command waits for that no longer than [`PATIENCE`]; then it is `None`.
    fn in_time<T: Send + 'static>(
        &self,
        path: &Path,
        ask: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if !self.optional.0 {
            return Some(ask());
        }
        let (sender, answer) = mpsc::channel();
        let asking = thread::Builder::new().name("data".to_owned());
        // Nothing may wait for it any more.
        let asked = asking.spawn(move || drop(sender.send(ask())));
        let answer = asked.ok().and_then(|_| answer.recv_timeout(PATIENCE).ok());
        if answer.is_none() {
            warn!("{}: does not respond; nothing is kept there", path.display());
        }
        answer
    }

    /// The data directory; `None` if there is none that can be used, which is logged once. One that another
    /// process uses alone is an error, unless there is a command.
    pub(super) fn directory(&self) -> Result<Option<Arc<DataDirectory>>, CommandError> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory.clone());
        }
        let named = self.named.clone();
        let path = named.clone().unwrap_or_else(|| SYSTEM.into());
        let patience = if self.optional.0 { Duration::ZERO } else { END_OF_OTHER };
        let opened = self.in_time(&path, move || open(named, patience));
        let opened = match opened.unwrap_or(Ok(None)) {
            Err(error @ DataError::Busy(_)) if !self.optional.0 => {
                return Err(LiveError::Data(error).into());
            }
            Err(error) => {
                warn!("--data-dir {error}; requests wait in memory");
                None
            }
            Ok(opened) => opened,
        };
        Ok(self.directory.get_or_init(|| opened.map(Arc::new)).clone())
    }
}

/// Opens the directory that is named, for this process alone, once another one has ended within `patience`; else the first of
/// the usual ones that can be used; `None` if there is none.
fn open(named: Option<PathBuf>, patience: Duration) -> Result<Option<DataDirectory>, DataError> {
    let Some(path) = named else { return Ok(shared()) };
    let began = Instant::now();
    loop {
        match DataDirectory::open(&path, true) {
            Err(DataError::Busy(_)) if began.elapsed() < patience => {
                thread::sleep(Duration::from_millis(50));
            }
            opened => return opened.map(Some),
        }
    }
}

/// The first of the usual directories that can be used.
fn shared() -> Option<DataDirectory> {
    let open = |path: &PathBuf| match DataDirectory::open(path, false) {
        Ok(directory) => Some(directory),
        Err(error) => {
            info!("requests are not stored: {error}");
            None
        }
    };
    let found = usual().iter().find_map(open);
    if found.is_none() {
        debug!("requests wait in memory: there is no data directory; name one with --data-dir");
    }
    found
}

/// The usual directories, those that exist, or can be made in one that does.
pub(super) fn usual() -> Vec<PathBuf> {
    let system = Some(PathBuf::from(SYSTEM)).filter(|path| path.is_dir());
    let given = variable_of("XDG_STATE_HOME").map(PathBuf::from);
    let home = variable_of("HOME").map(|home| Path::new(&home).join(".local/state"));
    let user = given.or(home).filter(|path| path.is_absolute() && path.is_dir());
    system.into_iter().chain(user.map(|state| state.join(NAME))).collect()
}

/// The value of a variable. An empty one counts as unset.
fn variable_of(name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}
