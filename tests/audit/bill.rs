//! `phasemeter bill` on reports of the binary itself.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use phasemeter_meter::csv::quoted_cells;
use serde_json::{Value, json};
use wait4::Wait4;

use crate::logs::Plan;
use crate::phasemeter::{Outcome, Phasemeter};
use crate::report::{list, nanos};

/// Writes the report of a log of this seed, with these attributes.
fn report(dir: &Path, name: &str, seed: u64, attributes: &str) -> PathBuf {
    let log = Plan { ticks: 400, seed, ..Plan::default() }.text();
    let outcome = Phasemeter::audit()
        .args(["-", "--price", "2.5"])
        .env("OTEL_RESOURCE_ATTRIBUTES", attributes)
        .stdin(log)
        .run();
    let path = dir.join(name);
    fs::write(&path, outcome.out).unwrap();
    path
}

fn bill(reports: &[PathBuf], args: &[&str]) -> Outcome {
    Phasemeter::new("bill").args(reports).args(args).run()
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn bill_of_audits_closes_to_the_nano_dollar() {
    let dir = tempfile::tempdir().unwrap();
    let reports = [
        report(dir.path(), "a.json", 1, "team=vision,host.name=a"),
        report(dir.path(), "b.json", 2, "team=speech,host.name=b"),
        report(dir.path(), "c.json", 3, "host.name=c"),
    ];
    let expected: i128 =
        reports.iter().map(|path| nanos(&read(path)["cost"]["total_usd"]).unwrap()).sum();
    for by in ["team", "day", "gpu", "team,day,model", "attribute:host.name"] {
        let outcome = bill(&reports, &["--by", by, "--format", "json"]);
        let bill = outcome.json();
        let rows: i128 =
            list(&bill["rows"]).iter().map(|row| nanos(&row["total_usd"]).unwrap()).sum();
        assert_eq!(
            (rows, nanos(&bill["total"]["metered_usd"])),
            (expected, Some(expected)),
            "{by}"
        );
    }
    let text = bill(&reports, &[]);
    assert_eq!((text.status, text.err.as_str()), (0, ""));
    assert!(text.out.starts_with("Bill of 3 reports, "), "{}", text.out);
    assert!(text.out.contains("\nvision ") && text.out.contains("\nspeech "), "{}", text.out);
}

/// Guarantee: a report is read in each encoding in which shells and tools write it, and the error about one of several
/// names the file, what is wrong, and what to do.
#[test]
fn reports_are_read_in_any_encoding() {
    let dir = tempfile::tempdir().unwrap();
    let plain = report(dir.path(), "plain.json", 1, "team=vision,host.name=a");
    let text = fs::read_to_string(&plain).unwrap();
    let expected =
        bill(std::slice::from_ref(&plain), &["--format", "json"]).json()["total"].clone();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let utf16 = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
    };
    for (name, bytes) in [
        ("mark", [b"\xEF\xBB\xBF", text.as_bytes()].concat()),
        ("little-endian", utf16(u16::to_le_bytes)),
        ("big-endian", utf16(u16::to_be_bytes)),
        ("gzip", gzip.finish().unwrap()),
    ] {
        let path = dir.path().join("encoded.json");
        fs::write(&path, bytes).unwrap();
        assert_eq!(bill(&[path], &["--format", "json"]).json()["total"], expected, "{name}");
    }
    for (bytes, problem) in
        [("", "the report: is empty"), ("{\n\"version\":", "ends too early, at line 2")]
    {
        let path = dir.path().join("broken.json");
        fs::write(&path, bytes).unwrap();
        let outcome = bill(&[plain.clone(), path.clone()], &[]);
        let expected = format!("{}: ", path.display());
        assert_eq!(outcome.status, 65, "{}", outcome.err);
        for part in [expected.as_str(), problem, "or skip such files with --skip-invalid"] {
            assert!(outcome.err.contains(part), "{part}: {}", outcome.err);
        }
        let outcome = bill(&[path], &[]);
        assert!(!outcome.err.contains("--skip-invalid"), "{}", outcome.err);
    }
}

/// A page of dcgm-exporter with time-slicing: a GPU whose two pods use 60% and 10% of it at times, and others 5%.
fn shared_page() -> String {
    let labels = "gpu=\"0\",UUID=\"GPU-1\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"node-1\"";
    let mut page = String::new();
    for tick in 0..720_u64 {
        let at = 1_784_851_200_000 + tick * 5_000;
        let (chat, train) = (if tick < 500 { 60 } else { 0 }, if tick > 100 { 10 } else { 0 });
        let mut add = |pod: &str, value: u32| {
            page += &format!("DCGM_FI_DEV_GPU_UTIL{{{labels}{pod}}} {value} {at}\n");
        };
        add("", chat + train + 5);
        add(",container=\"main\",namespace=\"ml\",pod=\"chat-7c9d8f6b5-x2k4z\",vgpu=\"0\"", chat);
        add(",container=\"main\",namespace=\"web\",pod=\"train-0\",vgpu=\"1\"", train);
    }
    page
}

/// Guarantee: by namespace and in FOCUS 1.4, each pod and nobody have the accounts of the report.
#[test]
fn bill_of_a_shared_gpu_has_the_accounts_of_its_holders() {
    let dir = tempfile::tempdir().unwrap();
    let (page, path) = (dir.path().join("page.prom"), dir.path().join("shared.json"));
    fs::write(&page, shared_page()).unwrap();
    let audit = Phasemeter::audit().args([page.to_str().unwrap(), "--price", "2"]).run();
    fs::write(&path, audit.out).unwrap();
    let gpu = &read(&path)["gpus"][0];
    let holders = list(&gpu["holders"]);
    let expected: Vec<i128> =
        holders.iter().chain([&gpu["nobody"]]).map(|it| nanos(&it["cost_usd"]).unwrap()).collect();
    assert_eq!((expected.len(), expected.iter().sum()), (3, nanos(&gpu["cost_usd"]).unwrap()));
    for share in ["none", "even", "by_grant"] {
        let args = ["--by", "namespace", "--format", "json", "--share-idle", share];
        let bill = bill(&[dir.path().to_owned()], &args).json();
        let of = |name: &str| -> Vec<i128> {
            let mut rows = list(&bill["rows"]).to_vec();
            rows.sort_by_key(|row| row["group"]["namespace"].as_str().unwrap_or("~").to_owned());
            rows.iter().map(|row| nanos(&row[name]).unwrap()).collect()
        };
        assert_eq!(of("metered_usd"), expected, "{share}");
        assert_eq!(of("total_usd").iter().sum::<i128>(), expected.iter().sum(), "{share}");
        assert_eq!(of("total_usd")[2], if share == "none" { expected[2] } else { 0 }, "{share}");
    }
    let focus = bill(&[path], &["--format", "focus", "--focus-version", "1.4"]);
    let mut lines = focus.out.lines().map(|line| quoted_cells(line).unwrap());
    let header = lines.next().unwrap();
    let column = |name: &str| header.iter().position(|cell| cell == name).unwrap();
    let costs: Vec<i128> =
        lines.map(|cells| nanos(&json!(cells[column("EffectiveCost")])).unwrap()).collect();
    assert_eq!(costs, expected);
}

/// Scenario: a page of dcgm-exporter (`--kubernetes-enable-pod-labels`) with the labels of three pods on one GPU; a
/// label is named that the mapping does not name.
/// Guarantee: workload, queue and labels are those of each pod, and each of its rows has what it pays.
#[test]
fn bill_of_a_page_has_the_labels_of_each_pod() {
    let dir = tempfile::tempdir().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/pages/pod-labels.prom");
    let path = dir.path().join("labels.json");
    let audit = Phasemeter::audit().args([page, "--price", "3.6", "--label", "team"]).run();
    fs::write(&path, audit.out).unwrap();
    let report = read(&path);
    let holders = list(&report["gpus"][0]["holders"]);
    let paid = |names: &[&str]| -> i128 {
        let own = |it: &&Value| names.iter().any(|name| it["name"] == *name);
        holders.iter().filter(own).map(|it| nanos(&it["cost_usd"]).unwrap()).sum()
    };
    let nobody = nanos(&report["gpus"][0]["nobody"]["cost_usd"]).unwrap();
    let [chat, embed, notebook] = ["ml/chat-0", "ml/embed-0", "ml/notebook-ana"];
    let expected: [(&str, &[(&str, i128)]); 4] = [
        ("label:team", &[("vision", paid(&[chat, notebook])), ("search", paid(&[embed]))]),
        (
            "queue",
            &[
                ("gold", paid(&[chat])),
                ("batch", paid(&[embed])),
                ("(untagged)", paid(&[notebook])),
            ],
        ),
        (
            "workload",
            &[
                ("chat", paid(&[chat])),
                ("embed", paid(&[embed])),
                ("notebook-ana", paid(&[notebook])),
            ],
        ),
        (
            "label:notebook-name",
            &[("ana", paid(&[notebook])), ("(untagged)", paid(&[chat, embed]))],
        ),
    ];
    for (by, groups) in expected {
        let bill = bill(std::slice::from_ref(&path), &["--by", by, "--format", "json"]).json();
        let mut found: Vec<(String, i128)> = list(&bill["rows"])
            .iter()
            .map(|row| {
                let group = row["group"][by].as_str().unwrap_or(match row["account"] == "nobody" {
                    true => "(nobody)",
                    false => "(untagged)",
                });
                (group.to_owned(), nanos(&row["metered_usd"]).unwrap())
            })
            .collect();
        let groups = groups.iter().copied().chain([("(nobody)", nobody)]);
        let mut groups: Vec<_> = groups.map(|(name, cost)| (name.to_owned(), cost)).collect();
        found.sort();
        groups.sort();
        assert_eq!(found, groups, "{by}: {bill:#}");
    }
    assert!(!report.to_string().contains("assistant"), "a label that was not named");
}

#[test]
fn report_given_twice_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let one = report(dir.path(), "a.json", 1, "team=vision");
    let copy = dir.path().join("copy.json");
    fs::copy(&one, &copy).unwrap();
    let outcome = bill(&[one.clone(), copy], &["--format", "json"]);
    let bill = outcome.json();
    assert_eq!(bill["total"]["metered_usd"], read(&one)["cost"]["total_usd"]);
    let notes = bill["notes"].to_string();
    assert!(notes.contains("copy.json is identical to another report and counts once"), "{notes}");
}

#[test]
fn invalid_report_is_named_and_skipped_on_request_only() {
    let dir = tempfile::tempdir().unwrap();
    let good = report(dir.path(), "good.json", 1, "team=vision");
    let mut changed = read(&good);
    changed["gpus"][0]["cost_usd"] = json!("0.000000001");
    let bad = dir.path().join("bad.json");
    fs::write(&bad, changed.to_string()).unwrap();
    let outcome = bill(&[good.clone(), bad.clone()], &[]);
    assert_eq!(outcome.status, 65);
    let line = outcome.error_line();
    assert!(
        line.contains("bad.json: gpus[0].cost_usd: is 0.000000001, but its periods sum to"),
        "{line}"
    );
    let skipped = bill(&[good.clone(), bad], &["--skip-invalid", "--format", "json"]).json();
    assert_eq!(skipped["total"]["metered_usd"], read(&good)["cost"]["total_usd"]);
    assert!(skipped["notes"].to_string().contains("skipped: "), "{skipped}");
    assert_eq!(bill(&[dir.path().join("none.json")], &[]).status, 66);
    assert_eq!(bill(&[good], &["--by", "teams"]).status, 2);
}

#[test]
fn attributes_cannot_control_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let report = report(dir.path(), "a.json", 1, "team=%1B[2Jx%0Ay");
    let text = bill(&[report], &[]).out;
    assert!(
        !text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn invoice_is_compared_line_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let report = report(dir.path(), "a.json", 1, "team=vision");
    let invoice = dir.path().join("invoice.csv");
    fs::write(&invoice, "team,billed_usd\nvision,100\n").unwrap();
    let outcome = bill(&[report], &["--format", "json", "--invoice", invoice.to_str().unwrap()]);
    let line = outcome.json()["invoice"][0].clone();
    assert_eq!(line["billed_usd"], "100.000000000");
    let difference = nanos(&line["billed_usd"]).unwrap() - nanos(&line["total_usd"]).unwrap();
    assert_eq!(nanos(&line["difference_usd"]), Some(difference));
}

#[test]
fn focus_rows_sum_to_the_bill() {
    let dir = tempfile::tempdir().unwrap();
    let one = report(dir.path(), "a.json", 1, "team=vision,host.name=a");
    let copy = dir.path().join("copy.json");
    fs::copy(&one, &copy).unwrap();
    let outcome = bill(&[one.clone(), copy], &["--format", "focus"]);
    assert_eq!(outcome.status, 0);
    assert!(outcome.err.contains("copy.json is identical to another report"), "{}", outcome.err);
    let mut lines = outcome.out.lines();
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    let column = header.iter().position(|name| *name == "EffectiveCost").unwrap();
    // No cell before it contains a comma but the description.
    let cost = |line: &str| {
        let line = line.replace("\"GPU time, NVIDIA H100 80GB HBM3, on demand\"", "description");
        nanos(&json!(line.split(',').nth(column).unwrap())).unwrap()
    };
    let sum: i128 = lines.map(cost).sum();
    assert_eq!(Some(sum), nanos(&read(&one)["cost"]["total_usd"]));
}

#[test]
fn output_file_is_whole_or_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let one = [report(dir.path(), "a.json", 1, "team=vision,host.name=a")];
    let output = |name: &str, format: &str| {
        let file = dir.path().join(name);
        bill(&one, &["--format", format, "--output", file.to_str().unwrap()])
    };
    for (name, format) in [("bill.txt", "text"), ("bill.json", "json"), ("cost.csv", "focus")] {
        let outcome = output(name, format);
        assert_eq!((outcome.status, outcome.out.as_str()), (0, ""), "{}", outcome.err);
        let printed = bill(&one, &["--format", format]).out;
        assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), printed);
    }
    assert_eq!(output("cost.parquet", "focus").status, 0);
    let bytes = fs::read(dir.path().join("cost.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{} bytes", bytes.len());

    let rejected = output("cost.parquet", "json");
    assert_eq!(rejected.status, 2);
    let line = rejected.error_line();
    assert!(line.contains("Parquet has the rows of --format focus; add it"), "{line}");
    let rejected = output("a.json", "json");
    assert_eq!(rejected.status, 73);
    assert!(rejected.error_line().contains("is also the input"), "{}", rejected.err);
    assert_eq!(output("none/cost.parquet", "focus").status, 74);
    // A bill that fails leaves the file.
    let file = dir.path().join("cost.parquet");
    let twice = dir.path().join("b.json");
    fs::write(&twice, fs::read_to_string(&one[0]).unwrap() + "\n ").unwrap();
    let args = ["--format", "focus", "--output", file.to_str().unwrap()];
    assert_eq!(bill(&[one[0].clone(), twice], &args).status, 65);
    assert_eq!(fs::read(&file).unwrap(), bytes);
    let beside = |name: &str| name.ends_with(".tmp");
    let names = fs::read_dir(dir.path()).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| beside(&name)));
}

/// Prints time and peak memory. `PHASEMETER_BILL_REPORTS=10000` for a larger one.
#[test]
fn bill_of_many_reports_closes_in_bounded_memory() {
    let count = std::env::var("PHASEMETER_BILL_REPORTS").map_or(500, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let template =
        fs::read_to_string(report(dir.path(), "t.json", 1, "team=TEAM,host.name=HOST")).unwrap();
    let each =
        nanos(&serde_json::from_str::<Value>(&template).unwrap()["cost"]["total_usd"]).unwrap();
    for index in 0..count {
        // UUIDs of the log are the same in all reports, so each gets its own.
        let report = template
            .replace("\"TEAM\"", &format!("\"team-{}\"", index % 20))
            .replace("\"HOST\"", &format!("\"host-{index}\""))
            .replace("\"GPU-", &format!("\"GPU-{index}-"));
        fs::write(dir.path().join(format!("{index}.json")), report).unwrap();
    }
    fs::remove_file(dir.path().join("t.json")).unwrap();
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
        .current_dir(dir.path())
        .args(["bill", "--format", "json"])
        .args((0..count).map(|index| format!("{index}.json")))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let bill: Value = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
    let usage = child.wait4().unwrap().rusage;
    println!(
        "{count} reports of {} bytes: {:.2} s, {} KiB",
        template.len(),
        start.elapsed().as_secs_f64(),
        usage.maxrss / 1_024
    );
    let rows = list(&bill["rows"]);
    let sum: i128 = rows.iter().map(|row| nanos(&row["total_usd"]).unwrap()).sum();
    assert_eq!(sum, each * count as i128);
    assert_eq!(rows.len(), 20);

    let parquet = dir.path().join("cost.parquet");
    let start = Instant::now();
    let child = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
        .current_dir(dir.path())
        .args(["bill", "--format", "focus", "--output", parquet.to_str().unwrap()])
        .args((0..count).map(|index| format!("{index}.json")))
        .spawn()
        .unwrap();
    let usage = child.wait4().unwrap();
    assert!(usage.status.success());
    println!(
        "as Parquet, {} bytes: {:.2} s, {} KiB",
        fs::metadata(&parquet).unwrap().len(),
        start.elapsed().as_secs_f64(),
        usage.rusage.maxrss / 1_024
    );
}
