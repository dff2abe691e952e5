//! What the file of claims has: the ledger between two runs, as JSON.
//!
//! Times are kept by the clock that counts since boot, by which the length of a gap is right even if the wall
//! clock was set; and in wall time, for after a reboot.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::Compression;
use flate2::bufread::{GzDecoder, GzEncoder};
use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::encode::{Claim, ClaimKind};
use phasemeter_otlp::{EncodedRequest, Signal};
use phasemeter_sources::clock::Clock;
use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, Open};

/// The value of `schema`.
const SCHEMA: &str = "phasemeter.claims/0.2";

/// The most bytes of all requests of a file.
const MAX_REQUESTS: u64 = 256 << 20;

/// What a file is written from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Until when each GPU, by its key, is claimed.
    pub until: BTreeMap<String, Timestamp>,
    /// The claims that are not accepted.
    pub open: Vec<Open>,
    /// When the first run began, until it has found a GPU.
    pub began: Option<Timestamp>,
    /// Wall time.
    pub wall: WallOffset,
}

/// The contents.
#[derive(Debug, Deserialize, Serialize)]
pub struct Content {
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
    time: Vec<Time>,
    requests: Vec<StoredRequest>,
}

/// Time of a GPU, and the start of the sums that have it.
#[derive(Debug, Deserialize, Serialize)]
struct Time {
    gpu: String,
    from: StoredInstant,
    to: StoredInstant,
    start: StoredInstant,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredRequest {
    signal: String,
    items: u64,
    /// The encoded request as gzip, in hexadecimal digits.
    body: String,
}

/// How instants of the run are kept.
#[derive(Clone, Debug)]
pub struct InstantFormat {
    /// The clock since boot; `None` if readings have times of other machines.
    pub clock: Option<Clock>,
    /// The boot of the machine, if known.
    pub boot_id: Option<String>,
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

impl Content {
    /// The contents for this state, of runs with this instance ID.
    #[must_use]
    pub fn new(instance: Option<String>, state: &State, marks: &InstantFormat) -> Self {
        let mark = |at: Timestamp| marks.mark(at, state.wall);
        Self {
            schema: SCHEMA.to_owned(),
            instance,
            boot_id: marks.boot_id.clone(),
            began: state.began.map(mark),
            claimed_until: state.until.iter().map(|(gpu, at)| (gpu.clone(), mark(*at))).collect(),
            unaccepted: state.open.iter().map(|open| OpenClaim::new(open, mark)).collect(),
        }
    }

    /// `None` if any part is malformed.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let content: Self = serde_json::from_slice(text).ok()?;
        content.restore(&InstantFormat { clock: None, boot_id: None })?;
        (content.schema == SCHEMA).then_some(content)
    }

    /// The text of the file.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The instance ID of all runs, if they have one.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// What is left, in the time of this run; `None` if any part is malformed.
    #[must_use]
    pub fn restore(&self, marks: &InstantFormat) -> Option<Restored> {
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
        let mut space = MAX_REQUESTS;
        let open = self.unaccepted.iter().map(|open| open.restore(&mut instant, &mut space));
        let ledger = Ledger::new(until, open.collect::<Option<_>>()?);
        Some(Restored { ledger, began, newest })
    }
}

/// What earlier runs have left, in the time of this run.
#[derive(Debug)]
pub struct Restored {
    /// The claims.
    pub ledger: Ledger,
    /// When the first run began, until it has found a GPU.
    pub began: Option<Timestamp>,
    /// The newest instant, and the wall time that it had.
    pub newest: Option<(Timestamp, Timestamp)>,
}

impl OpenClaim {
    fn new(open: &Open, mark: impl Fn(Timestamp) -> StoredInstant) -> Self {
        let time = open.parts().map(|(Claim { gpu, from, to }, start)| Time {
            gpu: gpu.clone(),
            from: mark(*from),
            to: mark(*to),
            start: mark(start),
        });
        Self {
            is_gap: open.kind == ClaimKind::Gap,
            refusals: open.refusals,
            time: time.collect(),
            requests: open.requests.iter().map(StoredRequest::new).collect(),
        }
    }

    fn restore(
        &self,
        instant: &mut impl FnMut(&StoredInstant) -> Option<Timestamp>,
        space: &mut u64,
    ) -> Option<Open> {
        let mut claims = Vec::new();
        for Time { gpu, from, to, start } in &self.time {
            let claim = Claim { gpu: gpu.clone(), from: instant(from)?, to: instant(to)? };
            claims.push((claim, instant(start)?));
        }
        let requests = self.requests.iter().map(|request| request.restore(space));
        let requests = requests.collect::<Option<_>>()?;
        let kind = if self.is_gap { ClaimKind::Gap } else { ClaimKind::Sums };
        Some(Open::earlier(kind, claims, requests, self.refusals))
    }
}

impl StoredRequest {
    fn new(request: &EncodedRequest) -> Self {
        let digits = |byte: &u8| [byte >> 4, byte & 0xf].map(digit);
        let mut gzip = Vec::new();
        // Reading from memory does not fail.
        let _ = GzEncoder::new(&request.body()[..], Compression::fast()).read_to_end(&mut gzip);
        let body = gzip.iter().flat_map(digits).collect();
        Self { signal: request.signal().name().to_owned(), items: request.items(), body }
    }

    fn restore(&self, space: &mut u64) -> Option<EncodedRequest> {
        let signal = Signal::ALL.into_iter().find(|signal| signal.name() == self.signal)?;
        let (pairs, rest) = self.body.as_bytes().as_chunks::<2>();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let gzip: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        let gzip = gzip.filter(|_| rest.is_empty())?;
        let mut body = Vec::new();
        GzDecoder::new(&gzip[..]).take(*space).read_to_end(&mut body).ok()?;
        *space = space.checked_sub(body.len() as u64).filter(|left| *left > 0)?;
        Some(EncodedRequest::new(signal, self.items, body.into()))
    }
}

fn digit(value: u8) -> char {
    char::from_digit(value.into(), 16).unwrap_or('0')
}
