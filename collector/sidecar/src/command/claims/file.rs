//! The file of `--state`: the ledger of claims between two runs.
//!
//! Times are kept by the clock that counts since boot, by which the length of a gap is right even if the wall
//! clock was set; and in wall time, for after a reboot.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant as Time};

use bytes::Bytes;
use phasemeter_files::read_file;
use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::encode::{Claim, ClaimKind};
use phasemeter_otlp::experiment::{TraceId, uuid};
use phasemeter_otlp::{EncodedRequest, Signal};
use phasemeter_sources::clock::Clock;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::ledger::{Ledger, Open};
use crate::command::error::CommandError;
use crate::command::files::ReplacedFile;
use crate::command::live_error::LiveError;

/// The value of `schema`.
const SCHEMA: &str = "phasemeter.claims/0.1";

/// The maximum size of the file: a thousand claims of a large fleet.
const MAX_BYTES: u64 = 256 << 20;

/// The file.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    file: ReplacedFile,
    /// Keeps other processes from it. `None` if its file system has no locks.
    _lock: Option<File>,
    /// What it was written from.
    written: Option<State>,
    has_failed: bool,
    /// The instance ID of all runs with this file, if they have one.
    instance: Option<String>,
}

/// Until when GPUs are claimed, the open claims, when the first run began, and wall time.
type State = (BTreeMap<String, Timestamp>, Vec<Open>, Option<Timestamp>, WallOffset);

/// What earlier runs have left.
#[derive(Debug)]
pub(super) enum Left {
    /// There was no file.
    Nothing,
    /// A file that can be read.
    Content(Box<Content>),
    /// A file that cannot be used.
    Unreadable,
}

/// The contents.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Content {
    schema: String,
    /// The instance ID of all runs, if they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// The boot in which times since boot are valid.
    boot_id: Option<String>,
    /// When the first run began, until it has found a GPU.
    began: Option<StoredInstant>,
    claimed_until: BTreeMap<String, StoredInstant>,
    unaccepted: Vec<OpenClaim>,
}

/// An instant.
#[derive(Debug, Deserialize, Serialize)]
struct StoredInstant {
    wall: String,
    since_boot_nanos: Option<u64>,
}

#[derive(Debug, Deserialize, Serialize)]
struct OpenClaim {
    is_gap: bool,
    refusals: u32,
    time: Vec<(String, StoredInstant, StoredInstant)>,
    requests: Vec<StoredRequest>,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredRequest {
    signal: String,
    items: u64,
    /// The encoded request, in hexadecimal digits.
    body: String,
}

/// How instants of the run are kept.
#[derive(Clone, Debug)]
pub(super) struct InstantFormat {
    /// The clock since boot; `None` if readings have times of other machines.
    pub(super) clock: Option<Clock>,
    pub(super) boot_id: Option<String>,
}

impl InstantFormat {
    fn mark(&self, at: Timestamp, wall: WallOffset) -> StoredInstant {
        let since_boot_nanos = self.clock.map(|clock| clock.boot_at(at).0);
        StoredInstant { wall: Instant(wall.wall(at)).to_string(), since_boot_nanos }
    }

    /// The instant of the run, and the wall time that the mark has; `None` if it is malformed. By the
    /// clock since boot, if the boot is the same.
    fn instant(
        &self,
        mark: &StoredInstant,
        boot_id: Option<&str>,
    ) -> Option<(Timestamp, Timestamp)> {
        let Instant(wall) = mark.wall.parse().ok()?;
        let is_same_boot = boot_id.is_some() && boot_id == self.boot_id.as_deref();
        let boot = mark.since_boot_nanos.filter(|_| is_same_boot);
        let by_boot = self.clock.zip(boot).map(|(clock, boot)| clock.at_boot(Nanos(boot)));
        Some((by_boot.unwrap_or(wall), wall))
    }
}

impl StateFile {
    /// Opens the file, which is created later if it does not exist, and reads what is left. One that cannot
    /// be read is kept under another name.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or written, or another process keeps it for longer than `patience`.
    pub(super) fn open(path: &Path, patience: Duration) -> Result<(Self, Left), CommandError> {
        let file = ReplacedFile::at(path)?;
        let lock = lock(path, patience)?;
        let left = match read_file(path, MAX_BYTES) {
            Ok(text) => match Content::parse(&text) {
                Some(content) => Left::Content(Box::new(content)),
                None => set_aside(path, "not a file of --state, or damaged"),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Left::Nothing,
            Err(source) => {
                let what = "cannot read the file of --state";
                return Err(CommandError::System { what, source });
            }
        };
        let instance = match &left {
            Left::Content(content) => content.instance.clone(),
            Left::Nothing | Left::Unreadable => None,
        };
        let path = path.to_owned();
        let state = Self { path, file, _lock: lock, written: None, has_failed: false, instance };
        Ok((state, left))
    }

    /// The instance ID, which is kept from now on.
    pub(super) fn instance(&mut self) -> String {
        let random = || uuid(*TraceId::random().as_bytes(), 4);
        self.instance.get_or_insert_with(random).clone()
    }

    /// Keeps what is left under another name, since it has this time, which has not come.
    pub(super) fn set_aside(&self, newest: Timestamp) -> Left {
        let newest = Instant(newest);
        set_aside(&self.path, &format!("has times up to {newest}, ahead of this machine's clock"))
    }

    /// Replaces the contents, if they are others.
    pub(super) fn write(
        &mut self,
        ledger: &Ledger,
        began: Option<Timestamp>,
        marks: &InstantFormat,
        wall: WallOffset,
    ) {
        let state = (ledger.until.clone(), ledger.open(), began, wall);
        if self.written.as_ref() == Some(&state) {
            return;
        }
        let mark = |at: Timestamp| marks.mark(at, wall);
        let content = Content {
            schema: SCHEMA.to_owned(),
            instance: self.instance.clone(),
            boot_id: marks.boot_id.clone(),
            began: began.map(mark),
            claimed_until: ledger.until.iter().map(|(gpu, at)| (gpu.clone(), mark(*at))).collect(),
            unaccepted: state.1.iter().map(|open| OpenClaim::new(open, mark)).collect(),
        };
        let text = serde_json::to_vec(&content).unwrap_or_default();
        let failed = self.file.write(&text).is_err();
        if failed && !self.has_failed {
            warn!(
                "{}: cannot be written; after a kill, time can be in no sum and no gap, or in both",
                self.path.display()
            );
        }
        self.has_failed = failed;
        self.written = (!failed).then_some(state);
    }
}

/// Takes the lock of the file, which is another file: this one is replaced.
fn lock(path: &Path, patience: Duration) -> Result<Option<File>, CommandError> {
    // It is rejected when it is read, and nothing is left beside it.
    if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
        return Ok(None);
    }
    let beside = beside(path, ".lock");
    let opened = File::options().create(true).append(true).mode(0o600).open(&beside);
    let file = opened.map_err(CommandError::write(&beside))?;
    let began = Time::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if began.elapsed() < patience => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(LiveError::StateInUse { path: path.to_owned() }.into());
            }
            Err(TryLockError::Error(error)) => {
                warn!(
                    "{}: cannot be locked: {error}; use it in one process only",
                    beside.display()
                );
                return Ok(None);
            }
        }
    }
}

/// The path with something added to its name.
fn beside(path: &Path, added: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(added);
    name.into()
}

/// Keeps a file that cannot be used under another name.
fn set_aside(path: &Path, problem: &str) -> Left {
    let aside = beside(path, ".unreadable");
    let kept = match fs::rename(path, &aside) {
        Ok(()) => format!("it is kept as {}", aside.display()),
        Err(error) => format!("it is replaced, since it cannot be renamed: {error}"),
    };
    warn!("{}: {problem}; {kept}; what an earlier run has billed is not known", path.display());
    Left::Unreadable
}

impl Content {
    /// `None` if any part is malformed.
    fn parse(text: &[u8]) -> Option<Self> {
        let content: Self = serde_json::from_slice(text).ok()?;
        content.restore(&InstantFormat { clock: None, boot_id: None })?;
        (content.schema == SCHEMA).then_some(content)
    }

    /// What is left, in the time of this run.
    pub(super) fn restore(&self, marks: &InstantFormat) -> Option<Restored> {
        let mut newest = None;
        let mut instant = |mark: &StoredInstant| {
            let (at, wall) = marks.instant(mark, self.boot_id.as_deref())?;
            newest = newest.max(Some((at, wall)));
            Some(at)
        };
        let began = match &self.began {
            Some(began) => Some(instant(began)?),
            None => None,
        };
        let until = self.claimed_until.iter();
        let until = until.map(|(gpu, mark)| Some((gpu.clone(), instant(mark)?)));
        let until = until.collect::<Option<_>>()?;
        let open = self.unaccepted.iter().map(|open| open.restore(&mut instant));
        let ledger = Ledger::new(until, open.collect::<Option<_>>()?);
        Some(Restored { ledger, began, newest })
    }
}

/// What earlier runs have left, in the time of this run.
pub(super) struct Restored {
    pub(super) ledger: Ledger,
    pub(super) began: Option<Timestamp>,
    /// The newest instant, and the wall time that it had.
    pub(super) newest: Option<(Timestamp, Timestamp)>,
}

impl OpenClaim {
    fn new(open: &Open, mark: impl Fn(Timestamp) -> StoredInstant) -> Self {
        let time = open.claims.iter();
        Self {
            is_gap: open.kind == ClaimKind::Gap,
            refusals: open.refusals,
            time: time.map(|it| (it.gpu.clone(), mark(it.from), mark(it.to))).collect(),
            requests: open.requests.iter().map(StoredRequest::new).collect(),
        }
    }

    fn restore(
        &self,
        instant: &mut impl FnMut(&StoredInstant) -> Option<Timestamp>,
    ) -> Option<Open> {
        let mut claims = Vec::new();
        for (gpu, from, to) in &self.time {
            claims.push(Claim { gpu: gpu.clone(), from: instant(from)?, to: instant(to)? });
        }
        let requests = self.requests.iter().map(StoredRequest::restore).collect::<Option<_>>()?;
        let kind = if self.is_gap { ClaimKind::Gap } else { ClaimKind::Sums };
        Some(Open::earlier(kind, claims, requests, self.refusals))
    }
}

impl StoredRequest {
    fn new(request: &EncodedRequest) -> Self {
        let digits = |byte: &u8| [byte >> 4, byte & 0xf].map(digit);
        let body = request.body().iter().flat_map(digits).collect();
        Self { signal: request.signal().name().to_owned(), items: request.items(), body }
    }

    fn restore(&self) -> Option<EncodedRequest> {
        let signal = Signal::ALL.into_iter().find(|signal| signal.name() == self.signal)?;
        let (pairs, rest) = self.body.as_bytes().as_chunks::<2>();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let body: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        let body = body.filter(|_| rest.is_empty()).map(Bytes::from)?;
        Some(EncodedRequest::new(signal, self.items, body))
    }
}

fn digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('0')
}
