//! The data directory of the first format of the outbox, as an agent of then has left it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;

/// The signals, by the number in the names of their segments.
const SIGNALS: [&str; 3] = ["traces", "metrics", "logs"];

/// So many of the first requests of a signal were accepted, as the README of the fixtures has it.
const SETTLED: [usize; 3] = [0, 2, 0];

/// What a segment and each of its records begins with, in bytes.
const SEGMENT: usize = 32;
const RECORD: usize = 36;

/// Copies it into a data directory. Returns what is to be delivered of each signal, in order.
pub(crate) fn copy(data: &Path) -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../collector/outbox/tests/fixtures/format-1/outbox");
    let [run] = &names(&fixture)[..] else { panic!("one run") };
    let (from, to) = (fixture.join(run), data.join("outbox").join(run));
    fs::create_dir_all(&to).unwrap();
    let mut requests = BTreeMap::<_, Vec<_>>::new();
    for name in names(&from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
        if let Some((signal, _)) = name.strip_suffix(".log").and_then(|name| name.split_once('-')) {
            let signal = SIGNALS[signal.parse::<usize>().unwrap()];
            requests
                .entry(signal)
                .or_default()
                .extend(records(&fs::read(from.join(name)).unwrap()));
        }
    }
    for (signal, settled) in SIGNALS.iter().zip(SETTLED) {
        requests.get_mut(signal).unwrap().drain(..settled);
    }
    requests
}

/// The requests of a segment, up to a torn record.
fn records(segment: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut requests) = (&segment[SEGMENT..], Vec::new());
    while let Some((head, after)) = rest.split_at_checked(RECORD) {
        let length = u32::from_le_bytes(head[8..12].try_into().unwrap());
        let Some((payload, after)) = after.split_at_checked(length as usize) else { break };
        let mut request = Vec::new();
        GzDecoder::new(payload).read_to_end(&mut request).unwrap();
        requests.push(request);
        rest = after;
    }
    requests
}

/// What is in a directory, in order.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
