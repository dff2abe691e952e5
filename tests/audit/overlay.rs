//! A report as tracks in files of PyTorch's profiler: real ones, of torch 2.15 on a CPU, cut to some of its events, and of
//! torch 2.11 on an H200.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::phasemeter::{Outcome, Phasemeter};

const PROFILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/profiles/torch-2.15-cpu.json");
const PROFILE_OF_A_GPU: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/profiles/torch-2.11-h200.json");

/// Nano-dollars a microsecond at $3.60 an hour.
const PRICE: &str = "3.6";

const SECOND: u64 = 1_000_000_000;

/// The profile, its base, and the time from its first event to the end of its last, in nanoseconds since 1970.
struct Profile {
    text: String,
    base: u64,
    span: (u64, u64),
}

impl Profile {
    /// The numbers are read as they are written, with three decimals.
    fn open(path: &str) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let base = digits(&text, "\"baseTimeNanoseconds\": ").next().unwrap();
        let mut span = (u64::MAX, 0);
        for event in text.split("\n  {").skip(1).filter(|event| !event.contains("\"ph\": \"M\"")) {
            let Some(ts) = digits(event, "\"ts\": ").next() else { continue };
            let dur = digits(event, "\"dur\": ").next().unwrap_or(0);
            span = (span.0.min(base + ts), span.1.max(base + ts + dur));
        }
        Self { text, base, span }
    }

    /// Lines of `nvidia-smi` once a second from one instant to another, of two GPUs: of one busy and idle in turn, and
    /// an idle one.
    fn log(&self, from: u64, to: u64) -> String {
        let mut log = "timestamp, index, uuid, utilization.gpu [%], memory.used [MiB]\n".to_owned();
        for at in (from..=to).step_by(SECOND as usize) {
            let seconds = i64::try_from(at / SECOND).unwrap();
            let time = time::OffsetDateTime::from_unix_timestamp(seconds).unwrap();
            let (hour, minute, second) = time.to_hms();
            let (date, millis) = (time.date(), at % SECOND / 1_000_000);
            let busy = [95, 5, 80][(seconds % 3) as usize];
            for (gpu, percent) in [(0, busy), (1, 0)] {
                log.push_str(&format!(
                    "{}/{:02}/{:02} {hour:02}:{minute:02}:{second:02}.{millis:03}, {gpu}, GPU-{gpu}, {percent} %, 900 MiB\n",
                    date.year(), u8::from(date.month()), date.day(),
                ));
            }
        }
        log
    }
}

/// The decimal numbers after a mark, without their point.
fn digits<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = u64> + 'a {
    text.split(mark).skip(1).map(|rest| {
        let number = rest.split([',', '\n', '}', ' ']).next().unwrap();
        number.replace('.', "").parse().unwrap_or_else(|_| panic!("{number}"))
    })
}

/// The report of a log.
fn report(dir: &Path, log: String) -> Value {
    let report = Phasemeter::audit().args(["-", "--price", PRICE]).stdin(log).report();
    fs::write(dir.join("report.json"), report.to_string()).unwrap();
    report
}

fn overlay(dir: &Path, profile: &Path, output: &str) -> Outcome {
    let run = Phasemeter::new("overlay").arg(profile).arg("report.json").args(["-o", output]);
    run.within(dir).run()
}

/// One slice of a track, in nanoseconds since 1970 and nano-dollars.
struct Slice<'a> {
    text: &'a str,
    from: u64,
    to: u64,
    cost: u64,
}

/// What was added to a profile, after a check that all else is as it was.
fn added<'a>(profile: &Profile, out: &'a str) -> &'a str {
    let events = "\"traceEvents\": [";
    let at = profile.text.find(events).unwrap() + events.len();
    let (head, tail) = profile.text.split_at(at);
    out.strip_prefix(head).unwrap().strip_suffix(tail).unwrap()
}

/// The slices of each GPU. Each time is (t − base) ÷ 1000, with no remainder lost.
fn slices<'a>(profile: &Profile, added: &'a str) -> Vec<Vec<Slice<'a>>> {
    let mut tracks = Vec::new();
    for track in added.split("\"thread_name\"").skip(1) {
        let of_event = |text: &'a str| {
            let number = |mark| digits(text, mark).next().unwrap();
            let from = profile.base + number("\"ts\":");
            Slice { text, from, to: from + number("\"dur\":"), cost: number("\"usd\":") }
        };
        tracks.push(
            track
                .split("{\"ph\":")
                .filter(|event| event.starts_with("\"X\""))
                .map(of_event)
                .collect(),
        );
    }
    tracks
}

#[test]
fn tracks_in_a_real_profile_have_its_clock_and_the_dollars_of_the_common_time() {
    for path in [PROFILE, PROFILE_OF_A_GPU] {
        overlay_a_log_around(path);
    }
}

/// Overlays a log of the time of a profile and ten seconds around it.
fn overlay_a_log_around(path: &str) {
    let dir = tempfile::tempdir().unwrap();
    let profile = Profile::open(path);
    let (first, last) = profile.span;
    // From before the profile until after it.
    let from = first / SECOND * SECOND - 10 * SECOND;
    report(dir.path(), profile.log(from, last + 10 * SECOND));
    let outcome = overlay(dir.path(), Path::new(path), "out.json");
    assert_eq!((outcome.status, outcome.out.as_str()), (0, ""), "{}", outcome.err);
    let told = outcome.err.lines().next().unwrap();
    assert!(told.contains("2 GPUs, metered for ") && told.contains(" of the profile's "), "{told}");
    let out = fs::read_to_string(dir.path().join("out.json")).unwrap();
    let [json, before]: [Value; 2] =
        [&out, &profile.text].map(|text| serde_json::from_str(text).unwrap());
    let [events, old] = [&json, &before].map(|json| json["traceEvents"].as_array().unwrap());
    assert!(events.ends_with(old), "the profiler's events");
    // Perfetto names tracks by IDs of 32 bits, which no other event may have.
    for new in &events[..events.len() - old.len()] {
        let [pid, tid] = ["pid", "tid"].map(|id| new[id].as_u64().unwrap());
        assert!(u32::try_from(tid).is_ok() && pid <= tid, "{new}");
        assert!(old.iter().all(|old| old["pid"] != pid && old["tid"] != tid), "{new}");
        assert!(
            ["M", "X", "C"].contains(&new["ph"].as_str().unwrap()) && new["name"].is_string(),
            "{new}"
        );
        assert!(new["ph"] == "M" || new["ts"].is_number(), "{new}");
    }
    let tracks = slices(&profile, added(&profile, &out));
    assert_eq!(tracks.len(), 2);
    for (track, phases) in tracks.iter().zip([["compute-bound", "idle", "productive"], ["idle"; 3]])
    {
        let mut at = first;
        for slice in track {
            assert_eq!(slice.from, at, "{}", slice.text);
            // Of whole seconds, as the log.
            let phase = phases[(slice.from / SECOND % 3) as usize];
            assert!(slice.text.contains(&format!("\"name\":\"{phase}\"")), "{}", slice.text);
            assert!(slice.to == last || slice.to.is_multiple_of(SECOND), "{}", slice.text);
            assert!(slice.cost.abs_diff((slice.to - slice.from) / 1_000) <= 1, "{}", slice.text);
            at = slice.to;
        }
        assert_eq!(at, last);
        let sum: u64 = track.iter().map(|slice| slice.cost).sum();
        assert!(sum.abs_diff((last - first) / 1_000) <= 1, "{sum} of {}", last - first);
    }
}

#[test]
fn tracks_of_a_profile_that_covers_a_report_sum_to_its_bill() {
    let dir = tempfile::tempdir().unwrap();
    let profile = Profile::open(PROFILE);
    // From its first whole millisecond on.
    let from = profile.span.0.next_multiple_of(1_000_000);
    let report = report(dir.path(), profile.log(from, profile.span.1));
    // Gzipped, as the profiler writes it if asked to, and to standard output.
    let zipped = dir.path().join("trace.json.gz");
    let mut gzip = GzEncoder::new(File::create(&zipped).unwrap(), Compression::fast());
    gzip.write_all(profile.text.as_bytes()).unwrap();
    gzip.finish().unwrap();
    let outcome = overlay(dir.path(), &zipped, "out.json.gz");
    assert_eq!(outcome.status, 0, "{}", outcome.err);
    let mut out = String::new();
    let file = File::open(dir.path().join("out.json.gz")).unwrap();
    GzDecoder::new(file).read_to_string(&mut out).unwrap();
    let piped = Phasemeter::new("overlay").arg(&zipped).arg("report.json").within(dir.path()).run();
    assert_eq!(piped.out, out);
    let tracks = slices(&profile, added(&profile, &out));
    let mut all = 0;
    for (track, gpu) in tracks.iter().zip(report["gpus"].as_array().unwrap()) {
        let sum: u64 = track.iter().map(|slice| slice.cost).sum();
        let cost = gpu["cost_usd"].as_str().unwrap().replace('.', "");
        assert_eq!(sum, cost.parse::<u64>().unwrap());
        assert!(sum > 0);
        all += sum;
    }
    let total = report["cost"]["total_usd"].as_str().unwrap().replace('.', "");
    assert_eq!(all, total.parse::<u64>().unwrap());
}

#[test]
fn profile_without_common_time_and_other_files_are_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let profile = Profile::open(PROFILE);
    let later = profile.span.1.next_multiple_of(SECOND) + SECOND;
    report(dir.path(), profile.log(later, later + 9 * SECOND));
    let apart = overlay(dir.path(), Path::new(PROFILE), "out.json");
    let line = apart.error_line();
    assert!(apart.status == 65 && line.ends_with("name a report of the same time"), "{line}");
    let swapped = overlay(dir.path(), Path::new("report.json"), "out.json");
    assert!(swapped.status == 65 && swapped.err.contains("has no traceEvents"), "{}", swapped.err);
    let missing = overlay(dir.path(), Path::new("none.json"), "out.json");
    assert!(missing.status == 66 && missing.err.contains("cannot be read"), "{}", missing.err);
    let device = overlay(dir.path(), Path::new("/dev/null"), "out.json");
    assert!(device.status == 65 && device.err.contains("not a regular file"), "{}", device.err);
    let same = overlay(dir.path(), Path::new(PROFILE), "report.json");
    assert_eq!(same.status, 73, "{}", same.err);
    assert!(!dir.path().join("out.json").exists());
}
