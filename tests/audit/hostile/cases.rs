//! Deterministic malformed files.

use crate::logs::{Ids, Plan, gzipped, utf16};
use crate::prng::Prng;

pub(super) const HEADER: &str = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]\n";

/// A file to audit.
pub(super) struct Case {
    pub(super) what: String,
    pub(super) bytes: Vec<u8>,
    pub(super) args: Vec<&'static str>,
}

fn case(what: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Case {
    Case { what: what.into(), bytes: bytes.into(), args: Vec::new() }
}

/// A row of a GPU at this second.
fn row(second: u64, gpu: &str, percent: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!(
        "2026/07/27 10:{minute:02}:{second:02}.500, {gpu}, NVIDIA L4, {percent}, 500 MiB, 23034 MiB, 40.25 W\n"
    )
}

pub(super) fn rows(seconds: impl IntoIterator<Item = u64>) -> String {
    seconds.into_iter().map(|second| row(second, "0", "50 %")).collect()
}

pub(super) fn all() -> Vec<Case> {
    let kinds =
        [cut(), encodings(), clocks(), values(), sizes(), texts(), nothing_to_read(), noise()];
    kinds.into_iter().flatten().collect()
}

/// Truncated in the header, in a cell, between lines, in a code unit and in a compressed block.
fn cut() -> Vec<Case> {
    let text = Plan { ticks: 8, every: 1_000, ids: Ids::Uuid, ..Plan::default() }.text();
    let crlf = utf16(&text.replace('\n', "\r\n"), u16::to_le_bytes);
    let zipped = gzipped(&text);
    let mut cases = Vec::new();
    for (what, whole, step) in
        [("text", text.into_bytes(), 29), ("UTF-16", crlf, 53), ("gzip", zipped, 11)]
    {
        for end in (0..whole.len()).step_by(step).chain(1..5) {
            cases.push(case(format!("{what} cut at {end}"), &whole[..end]));
        }
    }
    cases
}

fn encodings() -> Vec<Case> {
    let text = format!("{HEADER}{}", rows(0..20));
    let without_mark = utf16(&text, u16::to_le_bytes)[2..].to_vec();
    let utf32: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    let nul_row = text.replacen("50 %", "\0\0\0", 3);
    vec![
        case("UTF-16 without a byte order mark", without_mark),
        case("UTF-32", utf32),
        case("UTF-16 with an unpaired surrogate", {
            let mut bytes = utf16(HEADER, u16::to_le_bytes);
            bytes.extend([0x00, 0xD8, b'\n', 0, 0xDC]);
            bytes
        }),
        case("a byte order mark only", *b"\xEF\xBB\xBF"),
        case("half a byte order mark", *b"\xEF\xBB"),
        case("a UTF-16 byte order mark only", *b"\xFF\xFE"),
        case("Latin-1", text.replace("NVIDIA L4", "GPU\u{1}").into_bytes().map_byte(1, 0xE9)),
        case("NULs in rows", nul_row),
        case("NULs for a header", format!("{}\n{text}", "\0".repeat(99))),
        case("NULs alone", vec![0; 10_000]),
        case(
            "a block of NULs, as after a crash",
            [text.as_bytes(), &[0; 4_096], rows(20..30).as_bytes()].concat(),
        ),
        case(
            "EBCDIC",
            text.into_bytes().iter().map(|byte| byte.wrapping_add(0x80)).collect::<Vec<_>>(),
        ),
        case("old Macintosh line ends", format!("{HEADER}{}", rows(0..9)).replace('\n', "\r")),
        case("gzip of gzip", gzipped(gzipped(HEADER))),
        case("gzip of nothing", gzipped("")),
        case(
            "gzip with trailing bytes",
            [gzipped(HEADER.to_owned() + &rows(0..9)), b"trailing".to_vec()].concat(),
        ),
        case("gzip with a wrong checksum", {
            let mut bytes = gzipped(HEADER.to_owned() + &rows(0..9));
            let end = bytes.len() - 6;
            bytes[end] ^= 0xFF;
            bytes
        }),
        case("20 MB of empty lines in gzip", gzipped(vec![b'\n'; 20_000_000])),
        case("a long line in gzip", gzipped(vec![b'x'; 20_000_000])),
        case("zip", *b"PK\x03\x04\x14\x00\x00\x00\x08\x00"),
    ]
}

trait MapByte {
    fn map_byte(self, from: u8, to: u8) -> Self;
}

impl MapByte for Vec<u8> {
    fn map_byte(mut self, from: u8, to: u8) -> Self {
        self.iter_mut().filter(|byte| **byte == from).for_each(|byte| *byte = to);
        self
    }
}

fn clocks() -> Vec<Case> {
    let log = |rows: String| format!("{HEADER}{rows}");
    let mut cases = vec![
        case("a clock that steps back a second", log(rows((0..30).chain(29..60)))),
        case("a clock that steps back an hour", log(rows((1_800..1_830).chain(0..30)))),
        case("a clock that does not advance", log(rows([5; 500]))),
        case("a clock that runs backwards", log(rows((0..600).rev()))),
        case(
            "a clock that skips centuries",
            log(["1970", "1970", "2261"].map(|year| rows([0]).replace("2026", year)).concat()),
        ),
        case("a clock that swings", log(rows((0..300).map(|second| 300 + second % 7 * 40)))),
    ];
    for at in [
        "9999/12/31 23:59:59.999",
        "2262/01/01 00:00:00.000",
        "2261/12/31 23:59:59.999",
        "1969/12/31 23:59:59.999",
        "1970/01/01 00:00:00.000",
        "0000/00/00 00:00:00.000",
        "2026/02/30 00:00:00.000",
        "2026/07/27 24:00:00.000",
        "2026/07/27 10:00:60.000",
        "2026/07/27 10:00:00.99999999999999999999",
        "-2026/07/27 10:00:00.000",
        "",
        "now",
        "1785110400000",
        "27.07.2026 10:00:00",
        "2026/07/27 10:00:00.000+99:99",
        "２０２６/07/27 10:00:00.000",
        "2026/07/27T10:00:00.000-23:59",
    ] {
        let odd = format!("{at}, 0, NVIDIA L4, 50 %, 500 MiB, 23034 MiB, 40 W\n");
        cases.push(case(format!("{at:?} among others"), log(rows(0..9) + &odd + &rows(9..20))));
        cases.push(case(format!("{at:?} alone"), log(odd.repeat(3))));
        cases.push(case(format!("{at:?} first"), log(odd + &rows(0..20))));
    }
    cases
}

fn values() -> Vec<Case> {
    let cells = ["0", "NVIDIA L4", "50 %", "500 MiB", "23034 MiB", "40 W"];
    let mut cases = Vec::new();
    for value in [
        "1000000000",
        "18446744073709551616",
        "-1",
        "NaN",
        "inf",
        "1e308",
        "0x7F",
        "100.0001",
        "٥٠",
        "",
        ",",
        "\"50\"",
        "[Unknown Error]",
        "999999999999999",
        "0.0000000000000000000001",
    ] {
        for column in 0..cells.len() {
            let mut cells = cells;
            cells[column] = value;
            let odd = |second| format!("2026/07/27 10:00:{second:02}.500, {}\n", cells.join(", "));
            let log = format!("{HEADER}{}{}{}", rows(0..9), odd(9), rows(10..20));
            cases.push(case(format!("{value:?} in column {column}"), log));
        }
        let all = cells.map(|_| value).join(", ");
        let log: String =
            (0..20).map(|s| format!("2026/07/27 10:00:{s:02}.500, {all}\n")).collect();
        cases.push(case(format!("{value:?} everywhere"), format!("{HEADER}{log}")));
    }
    let digits = "9".repeat(60_000);
    cases.push(case("60,000 digits", format!("{HEADER}{}", row(1, "0", &digits))));
    cases
}

fn sizes() -> Vec<Case> {
    let mega = 1 << 20;
    let columns = "timestamp, utilization.gpu, ".to_owned() + &"x, ".repeat(100_000) + "y\n";
    let wide = "2026/07/27 10:00:00.000, 5, ".to_owned() + &"0, ".repeat(100_000) + "0\n";
    let gpus = |gpus: u64| -> String {
        let tick = |second: u64| (0..gpus).map(move |gpu| row(second, &gpu.to_string(), "50 %"));
        (0..5).flat_map(tick).collect()
    };
    let interleaved =
        Plan { gpus: 65, every: 5_000, ticks: 20, ids: Ids::Nothing, ..Plan::default() };
    let mut cases = vec![
        case("a megabyte without a line end", vec![b'x'; mega]),
        case("a megabyte of commas", vec![b','; mega]),
        case("a megabyte of line ends", vec![b'\n'; mega]),
        case(
            "a megabyte of spaces in a row",
            format!("{HEADER}{}{}", " ".repeat(mega), rows(0..9)),
        ),
        case(
            "a megabyte in a cell",
            format!("{HEADER}{}{}", rows(0..9), row(9, "0", &"5".repeat(mega))),
        ),
        case(
            "a header of a megabyte",
            format!("timestamp, utilization.gpu, {}\n", "z".repeat(mega)),
        ),
        case("100,000 columns", columns.clone() + &wide.repeat(3)),
        case("10,000 columns", {
            let header = "timestamp, utilization.gpu, ".to_owned() + &"x, ".repeat(10_000) + "y\n";
            let wide = |second| {
                format!("2026/07/27 10:00:{second:02}.000, 5, {}0\n", "0, ".repeat(10_000))
            };
            header + &(0..9).map(wide).collect::<String>()
        }),
        case("one column 1,000 times", "timestamp, ".repeat(1_000) + "\n" + &rows(0..3)),
        case("65 GPUs", format!("{HEADER}{}", gpus(65))),
        case("1,500 GPUs", format!("{HEADER}{}", gpus(1_500))),
        case("65 interleaved GPUs", interleaved.text()),
        case("10,000 torn rows", format!("{HEADER}{}{}", rows(0..9), "torn\n".repeat(10_000))),
        case("a thousand headers", HEADER.repeat(1_000)),
        case("a thousand headers with rows", format!("{HEADER}{}", row(1, "0", "5")).repeat(1_000)),
    ];
    let mut exact = case("65 GPUs with --gpu-count 65", interleaved.text());
    exact.args = vec!["--gpu-count", "65"];
    let mut many = case("--gpu-count u32::MAX", interleaved.text());
    many.args = vec!["--gpu-count", "4294967295"];
    cases.extend([exact, many]);
    cases
}

fn texts() -> Vec<Case> {
    let mut cases = Vec::new();
    for text in [
        "\u{202e}gnp.exe",
        "\u{1b}[31mred\u{1b}[0m",
        "\u{1b}]0;title\u{7}",
        "a\u{8}\u{8}b",
        "\r",
        "\t",
        "\u{2066}x\u{2069}",
        "\u{200b}",
        "🔥".repeat(20).as_str(),
        "Ａ",
        "=HYPERLINK(1)",
        "../../etc",
        "'; DROP TABLE gpus;--",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "GPU-\u{0}",
        "x".repeat(5_000).as_str(),
    ] {
        let named = |second| row(second, text, "50 %").replace("NVIDIA L4", text);
        let log: String = (0..20).map(named).collect();
        cases.push(case(format!("the name {text:.20?}"), format!("{HEADER}{log}")));
        let model = |second| row(second, "0", "50 %").replace("NVIDIA L4", text);
        let log: String = (0..20).map(model).collect();
        cases.push(case(format!("the model {text:.20?}"), format!("{HEADER}{log}")));
        let uuids = HEADER.replace("index", "uuid");
        let log: String = (0..20).map(|second| row(second, text, "50 %")).collect();
        cases.push(case(format!("the uuid {text:.20?}"), format!("{uuids}{log}")));
        let header = HEADER.replace("name", text);
        cases.push(case(format!("the column {text:.20?}"), format!("{header}{}", rows(0..9))));
        cases.push(case(
            format!("the first line {text:.20?}"),
            format!("{text}\n{HEADER}{}", rows(0..9)),
        ));
    }
    let mut columns = case("invalid --columns", rows(0..9));
    columns.args = vec!["--columns", "\u{1b}[2J, \u{202e}"];
    cases.push(columns);
    cases
}

fn nothing_to_read() -> Vec<Case> {
    let header = |header: &str| case(header, format!("{header}\n{}", rows(0..9)));
    vec![
        case("empty", ""),
        case("a header", HEADER),
        case("a header without its line end", HEADER.trim_end()),
        case("two headers", HEADER.repeat(2)),
        case("rows without a header", rows(0..9)),
        case("blank lines", "\n\r\n  \n\t\n"),
        case(
            "error of a broken driver",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n\n",
        ),
        case("error without GPUs", "No devices were found\n"),
        case(
            "error of an old driver",
            "Field \"power.draw.instant\" is not a valid field to query.\n\n",
        ),
        case("HTML", "<!DOCTYPE html>\n<html><body>404</body></html>\n"),
        case("JSON", "{\"timestamp\": 1, \"utilization.gpu\": 2}\n"),
        case(
            "the table of plain nvidia-smi",
            "Mon Jul 27 10:00:00 2026\n+-----+\n| NVIDIA-SMI 535 |\n",
        ),
        case("only torn rows", format!("{HEADER}{}", "torn, row\n".repeat(200))),
        header("index, utilization.gpu [%]"),
        header("timestamp, index"),
        header("timestamp"),
        header("timestamp, utilization.gpu [W]"),
        header(",,,,,,"),
        case(
            "a header that loses its ids",
            format!(
                "{HEADER}{}timestamp, utilization.gpu\n2026/07/27 11:00:00.000, 5\n",
                rows(0..9)
            ),
        ),
        case(
            "a header that loses its time",
            format!("{HEADER}{}index, utilization.gpu\n0, 5\n", rows(0..9)),
        ),
        case(
            "a header that meters nothing",
            format!("{HEADER}{}timestamp, index\n2026/07/27 11:00:00.000, 0\n", rows(0..9)),
        ),
    ]
}

/// Random bytes, random characters of logs, and randomly changed logs.
fn noise() -> Vec<Case> {
    let mut prng = Prng(71);
    let good = format!("{HEADER}{}", rows(0..40)).into_bytes();
    let alphabet = b"0123456789, ./:%[]\n\r-NAtimestampuilzo\"GPU";
    let mut cases = Vec::new();
    for number in 0..40 {
        let count = 1 << prng.below(13);
        cases.push(case(format!("any bytes, {number}"), prng.bytes(count)));
        let soup: Vec<u8> = (0..count).map(|_| prng.one_of(alphabet)).collect();
        cases.push(case(format!("soup, {number}"), soup.clone()));
        cases.push(case(
            format!("soup under a header, {number}"),
            [HEADER.as_bytes(), &soup].concat(),
        ));
        let mut changed = good.clone();
        for _ in 0..=prng.below(30) {
            let at = prng.below(changed.len() as u64) as usize;
            match prng.below(4) {
                0 => changed[at] = prng.next() as u8,
                1 => drop(changed.remove(at)),
                2 => changed.insert(at, prng.one_of(alphabet)),
                _ => changed.truncate(at.max(changed.len() / 2)),
            }
        }
        cases.push(case(format!("changed, {number}"), changed.clone()));
        cases.push(case(format!("changed, in gzip, {number}"), gzipped(&changed)));
        let mut zipped = gzipped(&good);
        let at = prng.below(zipped.len() as u64) as usize;
        zipped[at] ^= 1 << prng.below(8);
        cases.push(case(format!("gzip with a bit turned, {number}"), zipped));
    }
    cases
}
