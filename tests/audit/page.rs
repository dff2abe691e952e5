//! The report as a page: made from the JSON report alone, and drawn by a real browser.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use crate::logs::Plan;
use crate::phasemeter::Phasemeter;

/// What a name would do if it became markup or a script.
const HOSTILE: &str =
    "<!--<script>hostile=1</script><img src=x onerror=hostile=1><b>\u{2028}</title>";

/// Runs a command that writes a page.
fn page(dir: &Path, name: &str, run: Phasemeter) -> String {
    let file = dir.join(name);
    let outcome = run.arg("--html").arg(&file).run();
    assert_eq!(outcome.status, 0, "{}", outcome.err);
    fs::read_to_string(file).unwrap()
}

/// A log of whole seconds of 8 GPUs, each of its own load, over 24 hours.
fn day() -> String {
    let mut log = "timestamp, index, name, utilization.gpu [%], memory.used [MiB]\n".to_owned();
    for second in (0..86_400_u64).step_by(5) {
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        for gpu in 0..8 {
            let percent = match gpu {
                0..3 => {
                    if second % 40 < 20 {
                        97
                    } else {
                        3
                    }
                }
                3 => 30 + hour,
                4 | 5 => 95,
                6 => 0,
                _ if (8..19).contains(&hour) => 75,
                _ => 0,
            };
            let time = format!("2026/07/27 {hour:02}:{minute:02}:{:02}.000", second % 60);
            log.push_str(&format!(
                "{time}, {gpu}, NVIDIA H100 80GB HBM3, {percent} %, 60000 MiB\n"
            ));
        }
    }
    log
}

#[test]
fn page_is_made_from_the_json_report_alone() {
    let dir = tempfile::tempdir().unwrap();
    let [report, html] = ["report.json", "page.html"].map(|name| dir.path().join(name));
    let demo = Phasemeter::new("demo").args(["--format", "json", "--report"]).arg(&report);
    let outcome = demo.arg("--html").arg(&html).run();
    assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
    assert_eq!(fs::read_to_string(&report).unwrap(), outcome.out, "--report is --format json");
    let made = Phasemeter::new("page").arg(&report).run();
    assert_eq!((made.status, made.err.as_str()), (0, ""));
    assert_eq!(made.out, fs::read_to_string(&html).unwrap());
    let again = dir.path().join("again.html");
    let made = Phasemeter::new("page").arg(&report).arg("--html").arg(&again).run();
    assert_eq!((made.status, made.out.as_str()), (0, ""));
    assert_eq!(fs::read(&again).unwrap(), fs::read(&html).unwrap());
    // Other JSON is rejected, and so is an output that is the input.
    fs::write(&report, "{}").unwrap();
    let rejected = Phasemeter::new("page").arg(&report).run();
    assert_eq!(rejected.status, 65, "{}", rejected.err);
    let same = Phasemeter::new("page").arg(&report).arg("--html").arg(&report).run();
    assert_eq!(same.status, 73, "{}", same.err);
    assert_eq!(fs::read_to_string(&report).unwrap(), "{}");
}

/// A page for each kind of report.
fn pages(dir: &Path) {
    let audit = || Phasemeter::new("audit").env("OTEL_RESOURCE_ATTRIBUTES", "team=vision");
    page(dir, "demo.html", Phasemeter::new("demo"));
    page(
        dir,
        "day.html",
        audit().args(["-", "--price", "2.48", "--alerts", "optimization"]).stdin(day()),
    );
    let short = Plan { ticks: 3, gpus: 40, ..Plan::default() };
    page(
        dir,
        "many-unpriced.html",
        audit().args(["-", "--gpu-model-override", "GPU of tomorrow"]).stdin(short.text()),
    );
    let power = "timestamp, index, power.draw [W]\n2026/07/27 00:00:00.000, 0, 300.00 W\n2026/07/27 00:00:01.000, 0, 300.00 W\n";
    page(dir, "unobserved.html", audit().args(["-", "--price", "1"]).stdin(power));
    let log = Plan { ticks: 900, ..Plan::default() }.text();
    let named = dir.join(HOSTILE.replace('/', "∕"));
    fs::write(&named, log).unwrap();
    let attribute = format!("team={}", HOSTILE.replace(',', ""));
    let hostile = Phasemeter::new("audit").arg(&named).args([
        "--price",
        "3",
        "--gpu-model-override",
        HOSTILE,
    ]);
    let hostile =
        hostile.env("OTEL_RESOURCE_ATTRIBUTES", &attribute).args(["--experiment", HOSTILE]);
    let text = page(dir, "hostile.html", hostile);
    let (head, body) = text.split_once("id=\"report\">").unwrap();
    let (report, rest) = body.split_once("</script>").unwrap();
    assert!(!head.contains("hostile") && !rest.contains("hostile"), "only the data has names");
    assert!(report.contains("hostile") && !report.contains(['<', '>', '&', '\u{2028}']));
    fs::remove_file(named).unwrap();
}

#[test]
fn browser_draws_pages_without_faults() {
    let dir = tempfile::tempdir().unwrap();
    pages(dir.path());
    let Some(toolchains) = std::env::var_os("TEST_TOOLCHAINS").filter(|path| !path.is_empty())
    else {
        // Not by `eprintln!`: the test harness captures that.
        let skipped = b"\nSKIPPED: pages (no browser): run `make test-backends`\n";
        io::stderr().write_all(skipped).unwrap();
        return;
    };
    // Modules are found from where the script is; the browser is unpacked once.
    let installed = Path::new(&toolchains).join("browser");
    let script = tempfile::Builder::new().suffix(".mjs").tempfile_in(&installed).unwrap();
    fs::write(&script, include_str!("../browser/check.mjs")).unwrap();
    let output = Command::new("node")
        .arg(script.path())
        .arg(dir.path())
        .args(std::env::var_os("PHASEMETER_SCREENSHOTS"))
        .env("TMPDIR", &installed)
        .output()
        .unwrap();
    let text = [&output.stdout[..], &output.stderr].concat();
    io::stdout().write_all(&text).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}
