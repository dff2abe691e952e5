//! Trace and span ids, and how they follow from content.
//!
//! The same log gives the same ids: what names a span is hashed, field by field. Live, a trace has
//! a random id. This room must
//! not know what a trace context looks like on the wire.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use sha2::{Digest, Sha256};

/// Names a trace: 16 bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Names a span within its trace: 8 bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// From bytes; `None` for zeros, which name nothing.
    #[must_use]
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Of a live experiment that was given no trace. The standard library keys its hash tables with
    /// what the system has of randomness; more than that no name of a trace needs.
    #[must_use]
    pub fn random() -> Self {
        let random = || u128::from(RandomState::new().hash_one(()));
        let bytes = (random() << u64::BITS | random()).to_be_bytes();
        Self::new(bytes).unwrap_or(Self([1; 16]))
    }

    /// Of a log that was given no trace. The order of `gpus` does not matter.
    #[must_use]
    pub fn of_content(experiment: Option<&str>, first: Timestamp, gpus: &[&str]) -> Self {
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

    /// Of a session that is a trace of its own, in the experiment of this id. It is as random as
    /// that.
    #[must_use]
    pub fn of_session(experiment: &Self, gpu: &GpuKey, start: Timestamp) -> Self {
        let mut content = Content::of("session trace");
        content.field(experiment.as_bytes());
        content.gpu(gpu);
        content.field(&start.as_nanos().to_be_bytes());
        Self(content.name())
    }
}

impl SpanId {
    /// From bytes; `None` for zeros, which name nothing.
    #[must_use]
    pub fn new(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }

    /// Of what begins at `start`.
    #[must_use]
    pub fn of_content(trace: &TraceId, subject: &Subject, start: Timestamp) -> Self {
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

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// All of it.
    Experiment,
    /// One GPU, from its first reading to its last.
    Session(&'a GpuKey),
    /// One phase of one GPU.
    Phase(&'a GpuKey),
}

/// A GPU as ids know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuKey {
    /// See [`gpu_id`].
    pub id: String,
    /// How many GPUs of the same id came before it: two logs without uuids both have a GPU 0.
    pub ordinal: u64,
}

/// What ids call a GPU: its uuid, else its bus id, else its index. Never the name of a file, so
/// that a log keeps its ids when it is moved.
#[must_use]
pub fn gpu_id(gpu: &GpuIdentity) -> String {
    let index = || gpu.index.map(|index| index.to_string());
    gpu.uuid.clone().or_else(|| gpu.bus_id.clone()).or_else(index).unwrap_or_default()
}

/// Fields, each with its length before it, so that no two lists of fields read the same.
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

/// Lower-case hex digits.
impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Lower-case hex digits.
impl fmt::Display for SpanId {
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

    /// Whoever stored a trace finds it again: these never change.
    #[test]
    fn ids_stay_as_they_are() {
        let trace = TraceId::of_content(Some("tuning"), at(1), &["GPU-1", "GPU-0"]);
        let span = SpanId::of_content(&trace, &Subject::Session(&gpu("GPU-0", 0)), at(1));
        insta::assert_snapshot!(format!("{trace} {span}"), @"e6c08d703eeba0f73dc4a25699e9a3e8 643ed6881c24e3b5");
    }

    #[test]
    fn the_order_of_gpus_does_not_matter() {
        let of = |gpus: &[&str]| TraceId::of_content(None, at(1), gpus);
        assert_eq!(of(&["a", "b"]), of(&["b", "a"]));
    }

    #[test]
    fn every_field_tells() {
        let of = TraceId::of_content;
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
            SpanId::of_content(&traces[0], &Subject::Experiment, at(1)),
            SpanId::of_content(&traces[1], &Subject::Experiment, at(1)),
            SpanId::of_content(&traces[0], &Subject::Experiment, at(2)),
            SpanId::of_content(&traces[0], &Subject::Session(&a), at(1)),
            SpanId::of_content(&traces[0], &Subject::Session(&b), at(1)),
            SpanId::of_content(&traces[0], &Subject::Session(&second), at(1)),
            SpanId::of_content(&traces[0], &Subject::Phase(&a), at(1)),
        ];
        assert_eq!(spans.iter().collect::<HashSet<_>>().len(), spans.len());
    }

    #[test]
    fn a_gpu_is_named_by_what_it_is_not_by_its_file() {
        let mut identity = GpuIdentity { name: "b.csv 3".into(), ..GpuIdentity::default() };
        identity.index = Some(3);
        assert_eq!(gpu_id(&identity), "3");
        identity.bus_id = Some("00000000:1A:00.0".into());
        assert_eq!(gpu_id(&identity), "00000000:1A:00.0");
        identity.uuid = Some("GPU-3".into());
        assert_eq!(gpu_id(&identity), "GPU-3");
    }

    #[test]
    fn no_two_random_traces_are_the_same() {
        let traces: HashSet<_> = (0..1_000).map(|_| TraceId::random()).collect();
        assert_eq!(traces.len(), 1_000);
    }

    #[test]
    fn zeros_name_nothing() {
        assert_eq!(TraceId::new([0; 16]), None);
        assert_eq!(SpanId::new([0; 8]), None);
    }

    proptest! {
        /// Moving a character from one field to the next gives another id.
        #[test]
        fn fields_do_not_run_into_each_other(text in "[a-c]{2,6}", cut in 1_usize..6) {
            let cut = cut.min(text.len() - 1);
            let (left, right) = text.split_at(cut);
            let whole = TraceId::of_content(Some(&text), at(0), &[""]);
            let split = TraceId::of_content(Some(left), at(0), &[right]);
            prop_assert_ne!(whole, split);
        }
    }
}
