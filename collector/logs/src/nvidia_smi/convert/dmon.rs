//! Converts the output of `nvidia-smi dmon -o DT`: a header of short names, a line of units, and a row per
//! GPU, in columns or as CSV.

use super::Convert;

/// The columns in the names of `--query-gpu`.
const COLUMNS: [(&str, &str); 10] = [
    ("gpu", "index"),
    ("pwr", "power.draw [W]"),
    ("gtemp", "temperature.gpu"),
    ("sm", "utilization.gpu [%]"),
    ("mem", "utilization.memory [%]"),
    ("enc", "utilization.encoder [%]"),
    ("dec", "utilization.decoder [%]"),
    ("mclk", "clocks.mem [MHz]"),
    ("pclk", "clocks.sm [MHz]"),
    ("fb", "memory.used [MiB]"),
];

/// Maximum length of a line; what is longer is cut.
const MAX_LINE: usize = 4_096;

/// Whether a text begins with the header of `dmon` that has date and time.
pub(super) fn is_dmon(head: &str) -> bool {
    header(head).is_some_and(|names| has_time(&names))
}

/// The names in the header of `dmon` or `pmon`, in lower case, if a text begins with one.
pub(super) fn header(head: &str) -> Option<Vec<String>> {
    let line = head.lines().map(str::trim).find(|line| !line.is_empty())?;
    let names: Vec<String> = words(line.strip_prefix('#')?).map(str::to_lowercase).collect();
    names.iter().any(|name| name == "gpu").then_some(names)
}

/// Whether rows have their date and their time.
pub(super) fn has_time(names: &[String]) -> bool {
    ["date", "time"].iter().all(|name| names.iter().any(|known| known == name))
}

/// Converts a line at a time.
#[derive(Default)]
pub(super) struct DmonConverter {
    line: Vec<u8>,
    header: Vec<String>,
}

impl Convert for DmonConverter {
    fn feed(&mut self, part: &[u8], out: &mut Vec<u8>) {
        for byte in part {
            if *byte == b'\n' {
                self.convert(out);
            } else if self.line.len() < MAX_LINE {
                self.line.push(*byte);
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.line.is_empty() {
            self.convert(out);
        }
    }
}

impl DmonConverter {
    fn convert(&mut self, out: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let row = match line.trim().strip_prefix('#') {
            Some(_) => header(&line).filter(|names| *names != self.header).map(|names| {
                self.header = names;
                self.columns()
            }),
            None => Some(self.row(&line)),
        };
        out.extend(row.unwrap_or_default().into_bytes());
        out.push(b'\n');
    }

    /// The header in the names of `--query-gpu`. A date and the time after it are one timestamp.
    fn columns(&self) -> String {
        let column = |name: &String| {
            let known = COLUMNS.iter().find(|(known, _)| known == name);
            match (name.as_str(), known) {
                ("date", _) => None,
                ("time", _) => Some("timestamp".to_owned()),
                (_, Some((_, column))) => Some((*column).to_owned()),
                (name, None) => Some(format!("dmon.{name}")),
            }
        };
        self.header.iter().filter_map(column).collect::<Vec<_>>().join(", ")
    }

    /// A row, valid or not.
    fn row(&self, line: &str) -> String {
        let date = self.header.iter().position(|name| name == "date");
        let mut cells: Vec<String> = Vec::new();
        for (place, word) in words(line).enumerate() {
            match (word, cells.last_mut()) {
                (time, Some(date_cell)) if date.is_some_and(|date| place == date + 1) => {
                    *date_cell = format!("{} {time}", calendar(date_cell));
                }
                ("-", _) => cells.push("[N/A]".to_owned()),
                (word, _) => cells.push(word.to_owned()),
            }
        }
        cells.join(", ")
    }
}

/// Words separated by blanks or commas.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|char: char| char.is_whitespace() || char == ',').filter(|word| !word.is_empty())
}

/// A date like `20260727` as `2026/07/27`.
fn calendar(date: &str) -> String {
    match (date.get(..4), date.get(4..6), date.get(6..8)) {
        (Some(year), Some(month), Some(day)) if date.len() == 8 => format!("{year}/{month}/{day}"),
        _ => date.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::converted;
    use super::*;

    const OUTPUT: &str = "\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk     fb
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz     MB
 20260727   00:22:27      0    312     54      -     87     30      0      0   2619   1410  12345
 20260727   00:22:27      1     70     30      -      0      -      0      0   2619    210      4
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk     fb
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz     MB
 20260727   00:22:2
";

    const CSV: &str = "\
timestamp, index, power.draw [W], temperature.gpu, dmon.mtemp, utilization.gpu [%], utilization.memory [%], utilization.encoder [%], utilization.decoder [%], clocks.mem [MHz], clocks.sm [MHz], memory.used [MiB]

2026/07/27 00:22:27, 0, 312, 54, [N/A], 87, 30, 0, 0, 2619, 1410, 12345
2026/07/27 00:22:27, 1, 70, 30, [N/A], 0, [N/A], 0, 0, 2619, 210, 4


2026/07/27 00:22:2
";

    #[test]
    fn output_is_converted_line_by_line() {
        for part in [1, 7, 4_096] {
            assert_eq!(converted(DmonConverter::default(), OUTPUT, part), CSV);
        }
        let comma_separated =
            OUTPUT.lines().map(|line| words(line).collect::<Vec<_>>().join(", ") + "\n");
        assert_eq!(
            converted(DmonConverter::default(), &comma_separated.collect::<String>(), 9),
            CSV
        );
    }

    #[test]
    fn header_with_date_and_time_is_recognized() {
        assert!(is_dmon(OUTPUT));
        assert!(is_dmon("\n# Date, Time, gpu, pwr\n"));
        assert!(!is_dmon("# gpu    pwr  gtemp\n"));
        assert!(!is_dmon("#Time        gpu    pwr\n"));
        assert!(!is_dmon("#Entity   GPUTL\n"));
        assert!(!is_dmon("timestamp, index\n"));
    }
}
