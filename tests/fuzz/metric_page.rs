//! Pages of dcgm-exporter with three GPUs on two hosts, and mutations of the lines of one of them.
//!
//! Everything is drawn from bytes, so that a fuzzer can search.

use std::fmt::Write;

/// A whole minute, in milliseconds.
const START: u64 = 1_785_110_400_000;

/// Milliseconds between two pages.
const STEP: u64 = 15_000;

/// Number of pages.
const PAGES: u64 = 20;

/// UUID, index and host of each GPU. The first is mutated.
pub(super) const GPUS: [(&str, u32, &str); 3] = [
    ("GPU-11111111-2222-3333-4444-555555555555", 0, "node-a"),
    ("GPU-22222222-2222-3333-4444-555555555555", 1, "node-a"),
    ("GPU-33333333-2222-3333-4444-555555555555", 0, "node-b"),
];

/// Numbers that real senders have printed, and others that a parser may not expect.
const NUMBERS: [&str; 20] = [
    "2619",
    "686103",
    "4294967295",
    "-1",
    "1.3",
    "0.5",
    "0",
    "1",
    "37",
    "100",
    "101",
    "NaN",
    "+Inf",
    "-Inf",
    "1e300",
    "140737488355328",
    "9223372036854775794",
    "",
    "x",
    "5e-324",
];

/// How far a time is moved, in seconds.
const SECONDS: [u64; 10] = [0, 1, 7, 20, 61, 600, 3_000, 7_200, 86_400, 315_360_000];

/// Labels in place of those of the mutated GPU: of MIG instances, of pods, of other models and hosts, or torn.
const LABELS: [&str; 10] = [
    "UUID=\"GPU-44444444-2222-3333-4444-555555555555\",gpu=\"7\"",
    "UUID=\"GPU-11111111-2222-3333-4444-555555555555\",Hostname=\"node-b\"",
    "UUID=\"GPU-11111111-2222-3333-4444-555555555555\",modelName=\"NVIDIA L4\"",
    "UUID=\"GPU-11111111-2222-3333-4444-555555555555\",GPU_I_ID=\"3\",GPU_I_PROFILE=\"1g.10gb\"",
    "UUID=\"GPU-11111111-2222-3333-4444-555555555555\",pod=\"p\",namespace=\"n\",Hostname=\"node-a\"",
    "UUID=\"GPU-11111111-2222-3333-4444-555555555555\",job=\"j\",instance=\"10.0.0.1:9400\"",
    "UUID=\"\",gpu=\"7\",Hostname=\"node-c\"",
    "gpu=\"7\"",
    "UUID=\"GPU-1",
    "",
];

/// Draws numbers from bytes; zeros at their end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `count`.
    fn below(&mut self, count: usize) -> usize {
        (usize::from(self.next()) * 256 + usize::from(self.next())) % count
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A sample of a GPU.
#[derive(Clone)]
struct Line {
    gpu: usize,
    metric: &'static str,
    labels: String,
    number: String,
    millis: u64,
}

/// A log of pages, and the same with mutated lines of the first GPU.
pub(super) fn original_and_mutation(bytes: &[u8]) -> [String; 2] {
    let mut bytes = Bytes(bytes);
    let is_timed = bytes.next().is_multiple_of(2);
    let mut lines = lines(&mut bytes);
    let original = text(&lines, is_timed);
    while !bytes.0.is_empty() {
        mutate(&mut lines, &mut bytes);
    }
    [original, text(&lines, is_timed)]
}

/// The lines of all pages. On the last one the other GPUs have no values, so that what was observed of them ends
/// there, and not with the log: that ends with the mutated GPU, if its times are moved.
fn lines(bytes: &mut Bytes<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    for page in 0..PAGES {
        for gpu in [1, 0, 2] {
            let (uuid, index, host) = GPUS[gpu];
            // A 1 is 1% or 100%, by the unit of its sender: the only number that depends on other GPUs.
            let percent = bytes.one_of(&[0, 2, 5, 40, 75, 95, 100]);
            for (metric, number) in [
                ("DCGM_FI_DEV_GPU_UTIL", percent.to_string()),
                ("DCGM_FI_DEV_FB_USED", (percent * 100).to_string()),
                ("DCGM_FI_DEV_POWER_USAGE", (60 + 5 * percent).to_string()),
                ("DCGM_FI_PROF_SM_ACTIVE", format!("0.{percent:03}")),
            ] {
                let is_last = gpu != 0 && page == PAGES - 1;
                let number = if is_last { "NaN".to_owned() } else { number };
                let labels = format!(
                    "gpu=\"{index}\",UUID=\"{uuid}\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"{host}\""
                );
                lines.push(Line { gpu, metric, labels, number, millis: START + page * STEP });
            }
        }
    }
    lines
}

/// Changes a line of the first GPU: its number, its labels or its time; or moves, repeats or removes it.
fn mutate(lines: &mut Vec<Line>, bytes: &mut Bytes<'_>) {
    let kind = bytes.next() % 8;
    let own: Vec<usize> = (0..lines.len()).filter(|line| lines[*line].gpu == 0).collect();
    if own.is_empty() {
        return;
    }
    let place = bytes.one_of(&own);
    let line = &mut lines[place];
    match kind {
        0 | 1 => line.number = bytes.one_of(&NUMBERS).to_owned(),
        2 => {
            let bits = [(); 8].map(|()| bytes.next());
            line.number = f64::from_bits(u64::from_le_bytes(bits)).to_string();
        }
        3 => line.labels = bytes.one_of(&LABELS).to_owned(),
        4 => {
            let millis = bytes.one_of(&SECONDS) * 1_000 + u64::from(bytes.next());
            line.millis = match bytes.next() % 3 {
                0 => line.millis + millis,
                1 => line.millis.saturating_sub(millis),
                _ => millis,
            };
        }
        5 => {
            let line = lines.remove(place);
            let to = bytes.below(lines.len());
            lines.insert(to, line);
        }
        6 => {
            let line = line.clone();
            let to = bytes.below(lines.len());
            lines.insert(to, line);
        }
        _ => _ = lines.remove(place),
    }
}

/// The lines as samples with times, or as pages after their times. A time of a line then has no effect.
fn text(lines: &[Line], is_timed: bool) -> String {
    // The format is recognized by the first line.
    let mut text = "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n".to_owned();
    let mut page = None;
    for Line { gpu, metric, labels, number, millis } in lines {
        if is_timed {
            writeln!(text, "{metric}{{{labels}}} {number} {millis}").unwrap();
            continue;
        }
        if *gpu != 0 && page != Some(*millis) {
            page = Some(*millis);
            let second = (millis - START) / 1_000;
            writeln!(text, "# 2026-07-27T00:{:02}:{:02}Z", second / 60, second % 60).unwrap();
        }
        writeln!(text, "{metric}{{{labels}}} {number}").unwrap();
    }
    text
}
