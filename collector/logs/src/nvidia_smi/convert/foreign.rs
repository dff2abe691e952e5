//! Files that are often kept, but cannot be metered: what they are, and how to record what can be.

use super::dmon;

/// A file that cannot be metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {fix}")]
pub struct Foreign {
    what: &'static str,
    fix: &'static str,
}

/// How to record a log.
const RECORD: &str = "record with nvidia-smi --format=csv -l 1 --query-gpu=timestamp,index,uuid,name,utilization.gpu,memory.used,memory.total,power.draw";

/// A file and how to tell it by its first bytes and its first line.
type Sign = (fn(&Text<'_>) -> bool, &'static str, &'static str);

/// The beginning of a file.
struct Text<'a> {
    head: &'a str,
    /// The first line that is not blank.
    line: &'a str,
}

const SIGNS: [Sign; 16] = [
    (
        |text| dmon::header(text.head).is_some_and(|names| names.iter().any(|name| name == "pid")),
        "output of nvidia-smi pmon, which lists processes and not GPUs",
        RECORD,
    ),
    (
        |text| dmon::header(text.head).is_some_and(|names| !dmon::has_time(&names)),
        "output of nvidia-smi dmon without date and time",
        "record with nvidia-smi dmon -s pucm -o DT",
    ),
    (
        |text| text.head.contains("NVSMI LOG"),
        "text of nvidia-smi -q",
        "record with nvidia-smi -q -x -l 1 > log.xml",
    ),
    (
        |text| text.head.contains("| NVIDIA-SMI ") && text.head.contains("+---"),
        "the table of nvidia-smi, which is for people",
        RECORD,
    ),
    (
        |text| text.line.starts_with("GPU 0: ") && text.line.contains("(UUID: "),
        "the list of nvidia-smi -L, which has no readings",
        RECORD,
    ),
    (
        |text| text.line.contains("pid") && has_cell(text, &["used_gpu_memory", "used_memory"]),
        "a list of processes of nvidia-smi --query-compute-apps, which has no utilization of GPUs",
        RECORD,
    ),
    (
        |text| text.head.lines().take(3).any(|line| line.starts_with("[0] ") && line.contains('|')),
        "output of gpustat, whose lines have no time",
        RECORD,
    ),
    (
        |text| text.line.starts_with('{') && has_all(text, &["\"query_time\"", "\"gpus\""]),
        "JSON of gpustat",
        RECORD,
    ),
    (
        |text| {
            let names = ["system.gpu.", "system/gpu.", "\"_wandb\"", "\"_runtime\""];
            names.iter().any(|name| text.head.contains(name))
        },
        "an export of Weights & Biases, whose values are means over its own intervals",
        RECORD,
    ),
    (
        |text| has_all(text, &["ROCm System Management"]) || has_cell(text, &["GPU use (%)"]),
        "output of rocm-smi",
        "record the metrics of amd-device-metrics-exporter, with a mapping of them (--mapping)",
    ),
    (|text| text.head.starts_with("PK\u{3}\u{4}"), "a zip archive", "unpack it"),
    (|text| text.head.starts_with("PAR1"), "a Parquet file", "export it as CSV"),
    (|text| text.head.starts_with("SQLite format 3"), "an SQLite database", "export it as CSV"),
    (
        |text| text.head.starts_with("BZh"),
        "compressed by bzip2",
        "unpack it, or compress it by gzip",
    ),
    (
        |text| text.head.starts_with("(\u{FFFD}/\u{FFFD}") || text.head.starts_with("\u{FFFD}7zXZ"),
        "compressed by zstd or xz",
        "unpack it, or compress it by gzip",
    ),
    (
        |text| {
            let line = text.line.to_ascii_lowercase();
            line.starts_with("<!doctype html") || line.starts_with("<html")
        },
        "a web page",
        "download the file itself",
    ),
];

/// Recognizes a text that cannot be metered by its beginning; `None` if it may be a log.
pub(super) fn recognize(head: &str) -> Option<Foreign> {
    let line = head.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let text = Text { head, line };
    let (_, what, fix) = SIGNS.iter().find(|(is, ..)| is(&text))?;
    Some(Foreign { what, fix })
}

/// Whether the first line has a cell with one of these names, with or without a unit.
fn has_cell(text: &Text<'_>, names: &[&str]) -> bool {
    let mut cells = text.line.split(',').map(str::trim);
    cells.any(|cell| names.iter().any(|name| cell.starts_with(name)))
}

fn has_all(text: &Text<'_>, parts: &[&str]) -> bool {
    parts.iter().all(|part| text.head.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_named() {
        for (head, expected) in [
            ("# gpu    pwr  gtemp\n# Idx      W      C\n", "nvidia-smi dmon without date"),
            ("#Time        gpu    pwr\n", "nvidia-smi dmon without date"),
            ("# gpu        pid  type    sm\n", "nvidia-smi pmon"),
            ("\n==============NVSMI LOG==============\n", "nvidia-smi -q"),
            (
                "Mon Jul 27 00:22:27 2026\n+-----+\n| NVIDIA-SMI 550.54  Driver Version |\n",
                "the table of nvidia-smi",
            ),
            ("GPU 0: NVIDIA L4 (UUID: GPU-a)\n", "nvidia-smi -L"),
            ("pid, process_name, used_gpu_memory [MiB]\n", "--query-compute-apps"),
            ("node1  Mon Jul 27 2026\n[0] NVIDIA L4 | 54'C,  37 % |\n", "gpustat"),
            ("{\"hostname\": \"a\", \"query_time\": \"b\", \"gpus\": []}\n", "JSON of gpustat"),
            ("{\"system.gpu.0.gpu\": 95.0, \"_timestamp\": 1}\n", "Weights & Biases"),
            ("\"Relative Time\",\"run - system/gpu.0.gpu\"\n", "Weights & Biases"),
            ("device,GPU use (%)\ncard0,5\n", "rocm-smi"),
            ("PK\u{3}\u{4}rest", "a zip archive"),
            ("<!DOCTYPE html>\n", "a web page"),
        ] {
            let found = recognize(head).map(|foreign| foreign.to_string());
            let found = found.unwrap_or_else(|| panic!("{head} is not recognized"));
            assert!(found.contains(expected) && found.contains("; "), "{head}: {found}");
        }
    }

    #[test]
    fn log_is_not_foreign() {
        for head in [
            "timestamp, index, utilization.gpu [%]\n",
            "2026/07/27 00:22:27.123, 0, 5 %\n",
            "#Date       Time        gpu    pwr\n",
            "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n",
            "timestamp,pid,utilization.gpu\n",
            "",
        ] {
            assert_eq!(recognize(head), None, "{head}");
        }
    }
}
