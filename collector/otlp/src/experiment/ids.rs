//! Trace, span and instance IDs, and how they are derived from content.
//!
//! The same log gives the same IDs: a hash over the identifying fields. A live trace has a random
//! ID.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use sha2::{Digest, Sha256};

/// An ID of this many bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id<const BYTES: usize>([u8; BYTES]);

/// A trace ID.
pub type TraceId = Id<16>;

/// A span ID, unique within its trace.
pub type SpanId = Id<8>;

impl<const BYTES: usize> Id<BYTES> {
    /// From bytes; `None` if all are zero, which is invalid.
    #[must_use]
    pub fn new(bytes: [u8; BYTES]) -> Option<Self> {
        (bytes != [0; BYTES]).then_some(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    /// A random ID for what is live. The standard library seeds its hash tables with the system's randomness,
    /// which is enough for an ID.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; BYTES];
        for part in bytes.chunks_mut(size_of::<u64>()) {
            let random = RandomState::new().hash_one(()).to_be_bytes();
            part.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
        }
        Self::new(bytes).unwrap_or(Self([1; BYTES]))
    }
}

impl TraceId {
    /// The ID for a log without a trace. The order of `gpus` does not matter.
    #[must_use]
    pub fn from_content(experiment: Option<&str>, first: Timestamp, gpus: &[&str]) -> Self {
        let mut gpus = gpus.to_vec();
        gpus.sort_unstable();
        let mut content = Content::of("trace");
        content.field(experiment.unwrap_or_default().as_bytes());
        content.field(&first.as_nanos().to_be_bytes());
        for gpu in gpus {
            content.field(gpu.as_bytes());
        }
        Self(content.name())
    }

    /// The ID of a session that is a trace of its own, within an experiment. It is as random as the
    /// experiment's ID.
    #[must_use]
    pub fn for_session(experiment: &Self, gpu: &GpuKey, start: Timestamp) -> Self {
        let mut content = Content::of("session trace");
        content.field(experiment.as_bytes());
        content.gpu(gpu);
        content.field(&start.as_nanos().to_be_bytes());
        Self(content.name())
    }
}

impl SpanId {
    /// The ID of a span that begins at `start`.
    #[must_use]
    pub fn from_content(trace: &TraceId, subject: &Subject, start: Timestamp) -> Self {
        let mut content = Content::of("span");
        content.field(trace.as_bytes());
        let (kind, gpu) = match subject {
            Subject::Experiment => ("experiment", None),
            Subject::Session(gpu) => ("session", Some(gpu)),
            Subject::Phase(gpu) => ("phase", Some(gpu)),
        };
        content.field(gpu.map_or("", |gpu| gpu.id.as_str()).as_bytes());
        content.field(&gpu.map_or(0, |gpu| gpu.ordinal).to_be_bytes());
        content.field(kind.as_bytes());
        content.field(&start.as_nanos().to_be_bytes());
        Self(content.name())
    }
}

/// What a span represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// The experiment.
    Experiment,
    /// A session of one GPU.
    Session(&'a GpuKey),
    /// A phase of one GPU.
    Phase(&'a GpuKey),
}

/// Identity of a GPU within IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuKey {
    /// See [`gpu_id`].
    pub id: String,
    /// Number of earlier GPUs with the same ID: two logs without UUIDs both have a GPU 0.
    pub ordinal: u64,
}

/// The ID of a GPU: its UUID, else its bus ID, else its index. Never a file name, so that a log
/// keeps its IDs when it is moved.
#[must_use]
pub fn gpu_id(gpu: &GpuIdentity) -> String {
    let index = || gpu.index.map(|index| index.to_string());
    gpu.uuid.clone().or_else(|| gpu.bus_id.clone()).or_else(index).unwrap_or_default()
}

/// A UUID derived from content: of version 8, whose bits an application defines.
#[must_use]
pub fn uuid_from_content(what: &str, fields: &[&str]) -> String {
    let mut content = Content::of(what);
    fields.iter().for_each(|field| content.field(field.as_bytes()));
    uuid(content.name(), 8)
}

/// The UUID of this version, below 16, with these bytes, of which version and variant replace six
/// bits.
#[must_use]
pub fn uuid(bytes: [u8; 16], version: u8) -> String {
    let bits = u128::from_be_bytes(bytes);
    let bits = bits & !(0xf << 76) | u128::from(version & 0xf) << 76;
    let bits = bits & !(0b11 << 62) | 0b10 << 62;
    let mut uuid = format!("{bits:032x}");
    [20, 16, 12, 8].into_iter().for_each(|at| uuid.insert(at, '-'));
    uuid
}

/// Fields, each preceded by its length, so that different lists of fields never hash alike.
struct Content(Sha256);

impl Content {
    fn of(what: &str) -> Self {
        let mut content = Self(Sha256::new());
        content.field(what.as_bytes());
        content
    }

    fn gpu(&mut self, gpu: &GpuKey) {
        self.field(gpu.id.as_bytes());
        self.field(&gpu.ordinal.to_be_bytes());
    }

    fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    /// The first bytes of the hash, never all zero.
    fn name<const N: usize>(self) -> [u8; N] {
        let mut name = [0; N];
        for (byte, hashed) in name.iter_mut().zip(self.0.finalize()) {
            *byte = hashed;
        }
        if name == [0; N] { [1; N] } else { name }
    }
}

/// Lowercase hex digits.
impl<const BYTES: usize> fmt::Display for Id<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn gpu(id: &str, ordinal: u64) -> GpuKey {
        GpuKey { id: id.to_owned(), ordinal }
    }

    /// A stored trace must be found again: these values never change.
    #[test]
    fn ids_are_stable() {
        let trace = TraceId::from_content(Some("tuning"), at(1), &["GPU-1", "GPU-0"]);
        let span = SpanId::from_content(&trace, &Subject::Session(&gpu("GPU-0", 0)), at(1));
        insta::assert_snapshot!(format!("{trace} {span}"), @"e6c08d703eeba0f73dc4a25699e9a3e8 643ed6881c24e3b5");
    }

    #[test]
    fn trace_id_ignores_gpu_order() {
        let of = |gpus: &[&str]| TraceId::from_content(None, at(1), gpus);
        assert_eq!(of(&["a", "b"]), of(&["b", "a"]));
    }

    #[test]
    fn every_field_changes_id() {
        let of = TraceId::from_content;
        let traces = [
            of(None, at(1), &["a", "b"]),
            of(Some("x"), at(1), &["a", "b"]),
            of(None, at(2), &["a", "b"]),
            of(None, at(1), &["a"]),
            of(None, at(1), &["ab"]),
            of(None, at(1), &["a", "b", ""]),
        ];
        assert_eq!(traces.iter().collect::<HashSet<_>>().len(), traces.len());

        let (a, b, second) = (gpu("a", 0), gpu("b", 0), gpu("a", 1));
        let spans = [
            SpanId::from_content(&traces[0], &Subject::Experiment, at(1)),
            SpanId::from_content(&traces[1], &Subject::Experiment, at(1)),
            SpanId::from_content(&traces[0], &Subject::Experiment, at(2)),
            SpanId::from_content(&traces[0], &Subject::Session(&a), at(1)),
            SpanId::from_content(&traces[0], &Subject::Session(&b), at(1)),
            SpanId::from_content(&traces[0], &Subject::Session(&second), at(1)),
            SpanId::from_content(&traces[0], &Subject::Phase(&a), at(1)),
        ];
        assert_eq!(spans.iter().collect::<HashSet<_>>().len(), spans.len());
    }

    #[test]
    fn gpu_id_ignores_file_name() {
        let mut identity = GpuIdentity { name: "b.csv 3".into(), ..GpuIdentity::default() };
        identity.index = Some(3);
        assert_eq!(gpu_id(&identity), "3");
        identity.bus_id = Some("00000000:1A:00.0".into());
        assert_eq!(gpu_id(&identity), "00000000:1A:00.0");
        identity.uuid = Some("GPU-3".into());
        assert_eq!(gpu_id(&identity), "GPU-3");
    }

    #[test]
    fn uuid_has_its_version_and_variant() {
        assert_eq!(uuid([0; 16], 8), "00000000-0000-8000-8000-000000000000");
        assert_eq!(uuid([0xff; 16], 5), "ffffffff-ffff-5fff-bfff-ffffffffffff");
        let of = |fields: &[&str]| uuid_from_content("instance", fields);
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["ab", ""]));
        assert_ne!(of(&["a"]), uuid_from_content("other", &["a"]));
    }

    #[test]
    fn random_trace_ids_differ() {
        let traces: HashSet<_> = (0..1_000).map(|_| TraceId::random()).collect();
        assert_eq!(traces.len(), 1_000);
    }

    #[test]
    fn zero_ids_are_invalid() {
        assert_eq!(TraceId::new([0; 16]), None);
        assert_eq!(SpanId::new([0; 8]), None);
    }

    proptest! {
        /// Moving a character between fields changes the ID.
        #[test]
        fn fields_do_not_run_into_each_other(text in "[a-c]{2,6}", cut in 1_usize..6) {
            let cut = cut.min(text.len() - 1);
            let (left, right) = text.split_at(cut);
            let whole = TraceId::from_content(Some(&text), at(0), &[""]);
            let split = TraceId::from_content(Some(left), at(0), &[right]);
            prop_assert_ne!(whole, split);
        }
    }
}
