//! Converts the output of `nvidia-smi -q -x -l`: an XML document per tick, with an element per GPU.
//!
//! The subset of XML that `nvidia-smi` writes is read: elements, text, and attributes of GPUs. So no
//! parser is needed, and a document that was cut costs one row.

use std::collections::VecDeque;

use super::Convert;

/// Maximum length of a tag or a text; what is longer is cut.
const MAX_TEXT: usize = 512;

/// Maximum number of nested elements that are distinguished.
const MAX_DEPTH: usize = 32;

/// The document.
const LOG: &str = "nvidia_smi_log";

/// A column, the elements of a GPU that may contain its value, and their names.
type Element = (&'static str, &'static [&'static str], &'static [&'static str]);

const POWER: &[&str] = &["power_readings", "gpu_power_readings"];
const REASONS: &[&str] = &["clocks_event_reasons", "clocks_throttle_reasons"];

/// The columns after timestamp and bus ID.
const ELEMENTS: [Element; 22] = [
    ("uuid", &[], &["uuid"]),
    ("name", &[], &["product_name"]),
    ("fan.speed [%]", &[], &["fan_speed"]),
    ("mig.mode.current", &["mig_mode"], &["current_mig"]),
    ("utilization.gpu [%]", &["utilization"], &["gpu_util"]),
    ("utilization.memory [%]", &["utilization"], &["memory_util"]),
    ("utilization.encoder [%]", &["utilization"], &["encoder_util"]),
    ("utilization.decoder [%]", &["utilization"], &["decoder_util"]),
    ("memory.used [MiB]", &["fb_memory_usage"], &["used"]),
    ("memory.total [MiB]", &["fb_memory_usage"], &["total"]),
    ("temperature.gpu", &["temperature"], &["gpu_temp"]),
    ("power.draw [W]", POWER, &["power_draw"]),
    ("power.draw.average [W]", POWER, &["average_power_draw"]),
    ("power.draw.instant [W]", POWER, &["instant_power_draw"]),
    ("power.limit [W]", POWER, &["power_limit", "current_power_limit"]),
    ("enforced.power.limit [W]", POWER, &["enforced_power_limit"]),
    ("clocks.sm [MHz]", &["clocks"], &["sm_clock"]),
    ("clocks.mem [MHz]", &["clocks"], &["mem_clock"]),
    (
        "clocks_event_reasons.sw_power_cap",
        REASONS,
        &["clocks_event_reason_sw_power_cap", "clocks_throttle_reason_sw_power_cap"],
    ),
    (
        "clocks_event_reasons.sw_thermal_slowdown",
        REASONS,
        &["clocks_event_reason_sw_thermal_slowdown", "clocks_throttle_reason_sw_thermal_slowdown"],
    ),
    (
        "clocks_event_reasons.hw_thermal_slowdown",
        REASONS,
        &["clocks_event_reason_hw_thermal_slowdown", "clocks_throttle_reason_hw_thermal_slowdown"],
    ),
    (
        "clocks_event_reasons.hw_power_brake_slowdown",
        REASONS,
        &[
            "clocks_event_reason_hw_power_brake_slowdown",
            "clocks_throttle_reason_hw_power_brake_slowdown",
        ],
    ),
];

/// Whether a text begins with a document of `nvidia-smi`.
pub(super) fn is_xml(head: &str) -> bool {
    head.trim_start().starts_with('<') && head.contains(LOG)
}

/// Converts a character at a time.
#[derive(Default)]
pub(super) struct XmlConverter {
    /// The tag, after `<`; `None` in text.
    tag: Option<Vec<u8>>,
    /// The text since the last tag.
    text: Vec<u8>,
    /// The names of the open elements.
    path: Vec<String>,
    timestamp: String,
    gpu: Option<Gpu>,
    has_header: bool,
    /// Rows that wait for the end of their line.
    rows: VecDeque<String>,
}

/// The values of a GPU.
struct Gpu {
    bus_id: String,
    cells: [Option<String>; ELEMENTS.len()],
}

impl Convert for XmlConverter {
    fn feed(&mut self, part: &[u8], out: &mut Vec<u8>) {
        for byte in part {
            match (*byte, &mut self.tag) {
                (b'>', Some(_)) => self.end_tag(),
                (b'<', tag @ None) => *tag = Some(Vec::new()),
                (byte, Some(tag)) if tag.len() < MAX_TEXT => tag.push(byte),
                (byte, None) if self.text.len() < MAX_TEXT => self.text.push(byte),
                _ => {}
            }
            if *byte == b'\n' {
                self.end_line(out);
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.tear();
        while !self.rows.is_empty() {
            self.end_line(out);
        }
    }
}

impl XmlConverter {
    /// Ends a line with the next row, if there is one.
    fn end_line(&mut self, out: &mut Vec<u8>) {
        if !self.has_header {
            self.has_header = true;
            let columns = ELEMENTS.iter().map(|(column, ..)| *column);
            let columns: Vec<_> = ["timestamp", "pci.bus_id"].into_iter().chain(columns).collect();
            self.rows.push_front(columns.join(", "));
        }
        out.extend(self.rows.pop_front().unwrap_or_default().into_bytes());
        out.push(b'\n');
    }

    fn end_tag(&mut self) {
        let tag = self.tag.take().unwrap_or_default();
        let tag = String::from_utf8_lossy(&tag);
        let text = std::mem::take(&mut self.text);
        if let Some(name) = tag.strip_prefix('/') {
            self.close(name.trim(), String::from_utf8_lossy(&text).trim());
        } else if !tag.starts_with(['?', '!']) && !tag.ends_with('/') {
            let name = tag.split_whitespace().next().unwrap_or_default();
            self.open(name, &tag);
        }
    }

    fn open(&mut self, name: &str, tag: &str) {
        if name == LOG {
            self.tear();
            self.path.clear();
        }
        if self.path.len() < MAX_DEPTH {
            self.path.push(name.to_owned());
        }
        if name == "gpu" && self.path.len() == 2 {
            let id = tag.split_once("id=\"").and_then(|(_, rest)| rest.split('"').next());
            let bus_id = id.unwrap_or_default().to_owned();
            self.gpu = Some(Gpu { bus_id, cells: std::array::from_fn(|_| None) });
        }
    }

    fn close(&mut self, name: &str, text: &str) {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match (path.as_slice(), &mut self.gpu) {
            ([LOG, "timestamp"], _) => self.timestamp = calendar(text),
            ([LOG, "gpu"], Some(gpu)) => {
                let cells = gpu.cells.iter_mut().map(Option::take);
                let cells = cells.map(|cell| cell.unwrap_or_else(|| "[N/A]".to_owned()));
                let ids = [self.timestamp.clone(), gpu.bus_id.clone()].into_iter();
                self.rows.push_back(ids.chain(cells).collect::<Vec<_>>().join(", "));
                self.gpu = None;
            }
            ([LOG, "gpu", within @ .., leaf], Some(gpu)) => {
                let is_value = |(_, groups, names): &Element| {
                    let is_in_group = match within {
                        [] => groups.is_empty(),
                        [group] => groups.contains(group),
                        _ => false,
                    };
                    is_in_group && names.contains(leaf)
                };
                let place = ELEMENTS.iter().position(is_value);
                if let Some(cell @ None) = place.and_then(|place| gpu.cells.get_mut(place)) {
                    let text =
                        if text == "N/A" { "[N/A]".to_owned() } else { text.replace(',', " ") };
                    *cell = Some(text);
                }
            }
            _ => {}
        }
        if self.path.last().is_some_and(|open| open == name) {
            self.path.pop();
        }
    }

    /// Ends a GPU whose element was cut, with a row that is not valid.
    fn tear(&mut self) {
        if let Some(gpu) = self.gpu.take() {
            self.rows.push_back(format!("torn element of GPU {}", gpu.bus_id));
        }
    }
}

/// A time like `Mon Jul 27 00:22:27 2026` as `2026/07/27 00:22:27`.
fn calendar(text: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let month = |name: &str| MONTHS.iter().position(|known| *known == name);
    match words.as_slice() {
        [_, name, day, time, year] => match month(name) {
            Some(month) => format!("{year}/{:02}/{day:0>2} {time}", month + 1),
            None => text.to_owned(),
        },
        _ => text.replace(',', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::converted;
    use super::*;

    const DOCUMENT: &str = r#"<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Mon Jul  6 00:22:27 2026</timestamp>
	<gpu id="00000000:17:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<mig_mode>
			<current_mig>Disabled</current_mig>
		</mig_mode>
		<mig_devices>
			<mig_device>
				<fb_memory_usage>
					<used>7 MiB</used>
				</fb_memory_usage>
			</mig_device>
		</mig_devices>
		<uuid>GPU-a</uuid>
		<fan_speed>N/A</fan_speed>
		<fb_memory_usage>
			<total>81559 MiB</total>
			<used>12345 MiB</used>
		</fb_memory_usage>
		<utilization>
			<gpu_util>87 %</gpu_util>
		</utilization>
		<gpu_power_readings>
			<average_power_draw>312.40 W</average_power_draw>
			<current_power_limit>700.00 W</current_power_limit>
		</gpu_power_readings>
		<clocks_event_reasons>
			<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
		</clocks_event_reasons>
		<processes>
		</processes>
	</gpu>
</nvidia_smi_log>
"#;

    /// The rows that are not blank, with their lines.
    fn rows(text: &str, part: usize) -> Vec<(usize, Vec<String>)> {
        let csv = converted(XmlConverter::default(), text, part);
        let lines = (1..).zip(csv.lines()).filter(|(_, line)| !line.is_empty());
        lines.map(|(line, row)| (line, row.split(", ").map(str::to_owned).collect())).collect()
    }

    #[test]
    fn each_gpu_of_each_document_is_a_row() {
        for part in [1, 7, 4_096] {
            let found = rows(&DOCUMENT.repeat(2), part);
            let [(1, header), (35, row), (71, again)] = found.as_slice() else {
                panic!("{found:?}")
            };
            assert_eq!(row, again);
            let cell = |name: &str| {
                let place = header.iter().position(|column| column.starts_with(name)).unwrap();
                row[place].as_str()
            };
            assert_eq!(header.len(), row.len());
            for (name, expected) in [
                ("timestamp", "2026/07/06 00:22:27"),
                ("pci.bus_id", "00000000:17:00.0"),
                ("uuid", "GPU-a"),
                ("name", "NVIDIA H100 80GB HBM3"),
                ("fan.speed", "[N/A]"),
                ("mig.mode.current", "Disabled"),
                ("utilization.gpu", "87 %"),
                ("memory.used", "12345 MiB"),
                ("memory.total", "81559 MiB"),
                ("power.draw [W]", "[N/A]"),
                ("power.draw.average", "312.40 W"),
                ("power.limit", "700.00 W"),
                ("clocks_event_reasons.sw_power_cap", "Active"),
            ] {
                assert_eq!(cell(name), expected, "{name}");
            }
        }
    }

    #[test]
    fn document_that_was_cut_costs_its_row() {
        let cut = DOCUMENT.split_at(DOCUMENT.find("<utilization>").unwrap()).0;
        let found = rows(&format!("{cut}\n{DOCUMENT}{cut}"), 5);
        let torn = vec!["torn element of GPU 00000000:17:00.0".to_owned()];
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!((&found[1].1, &found[3].1), (&torn, &torn));
        assert_eq!(found[2].1[2], "GPU-a");
    }

    #[test]
    fn document_in_one_line_is_read() {
        let line = DOCUMENT.replace('\n', "");
        assert_eq!(rows(&line, 64).len(), 2);
    }
}
