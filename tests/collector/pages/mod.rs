//! The commands of pages: each fenced block of `sh` or `console` runs as its readers would run it, or says why not.
//!
//! The blocks of a page are one shell script, in a new directory, in the order of the page. The binary, a driver of
//! simulated GPUs, a Collector and a Prometheus are there; `files.sh` makes the files that pages name, and `programs`
//! stands in for a workload and for what a machine without GPUs lacks. Addresses become free ports, and absolute paths
//! are below the directory. A comment before a block decides how it is run, see [`block::Kind`].
//! `PHASEMETER_PAGE=docs/run.md` runs those of one page.

mod block;
mod script;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use fake_nvml::Fake;

use self::block::{Block, Kind, blocks};
use self::script::Addresses;
use crate::gateway;
use crate::otelcol::{Collector, Otelcol};
use crate::prometheus::{Prometheus, ROOT};

/// Two GPUs: one that works, one that is idle.
const DEVICES: &str = "[[device]]\n[[device.phase]]\nutilization = 92\n\
                       [[device]]\n[[device.phase]]\nutilization = 3\n";

/// Directories whose pages are for users. The commands of those about policies are those of `tests/templates`.
const DIRECTORIES: [&str; 2] = ["docs", "otel-config"];

/// A page whose commands another test runs, to compare what they print.
const EXERCISES: &str = "docs/exercises.md";

/// The pages for users, as paths from the root.
fn pages() -> Vec<String> {
    let mut found = vec!["CONTRIBUTING.md".to_owned(), "README.md".to_owned()];
    DIRECTORIES.into_iter().for_each(|it| collect(it, &mut found));
    found.retain(|page| page != EXERCISES);
    found.sort();
    found
}

fn collect(directory: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(Path::new(ROOT).join(directory)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{directory}/{name}");
        if entry.file_type().unwrap().is_dir() {
            if name != "target" {
                collect(&path, found);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

fn read(page: &str) -> Vec<Block> {
    let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
    blocks(page, &text).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Copies files. Addresses in them become free ports, and Prometheus scrapes each second.
fn copy(from: &Path, to: &Path, addresses: &mut Addresses) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, copied) = entry.map(|it| (it.path(), to.join(it.file_name()))).unwrap();
        if path.is_dir() {
            copy(&path, &copied, addresses);
        } else if path.extension().is_some_and(|it| it == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.replace("scrape_interval: 30s", "scrape_interval: 1s");
            fs::write(copied, addresses.replace(&text)).unwrap();
        } else {
            fs::copy(path, copied).unwrap();
        }
    }
}

/// What pages need of the machine.
struct Machine {
    otelcol: Otelcol,
    prometheus: Prometheus,
    /// Where all pages export to that start no Collector of their own.
    collector: Collector,
    /// A dcgm-exporter, as its page is.
    exporter: SocketAddr,
}

/// Runs the blocks of a page. Returns what went wrong.
fn run(page: &str, blocks: &[Block], machine: &Machine) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("page");
    let starts_collector = blocks.iter().any(|it| it.commands.contains("otelcol --config"));
    let collector = [(4317, machine.collector.grpc), (4318, machine.collector.http)];
    let collector = collector.into_iter().filter(|_| !starts_collector);
    let mut addresses = Addresses::new(collector.chain([(9400, machine.exporter)]));
    copy(&Path::new(ROOT).join("otel-config"), &here.join("otel-config"), &mut addresses);
    let script = script::of(blocks, &here, &mut addresses);
    let fake = Fake::install(dir.path(), DEVICES).unwrap();
    let pages = PathBuf::from(format!("{ROOT}/tests/collector/pages"));
    let mut command = Command::new("sh");
    command.env_clear().envs(fake.environment()).current_dir(&here).args(["-c", &script]);
    command
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", pages.join("programs").display()));
    command.env("HOME", &here).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.env("REPOSITORY", ROOT).env("FILES", pages.join("files.sh"));
    command.env("PHASEMETER", env!("CARGO_BIN_EXE_phasemeter"));
    command.env("PHASEMETER_AGENT_SOCKET", here.join("agent.sock"));
    command.env("OTELCOL_SCRAPE_INTERVAL", "1s");
    command.env("OTELCOL", pages.join("programs/otelcol"));
    command.env("COLLECTOR", machine.otelcol.program());
    command.env("PROMETHEUS", machine.prometheus.program());
    command.envs(addresses.variables()).env("LOGS", dir.path().join("logs"));
    let output = command.output().unwrap();
    (!output.status.success()).then(|| {
        let [out, err] = [output.stdout, output.stderr].map(|it| script::end(&it));
        format!("{page}: {}\n{out}\n{err}", output.status)
    })
}

#[test]
fn commands_of_pages_run() {
    let (Some(otelcol), Some(prometheus)) = (Otelcol::find(), Prometheus::find()) else { return };
    let pages = pages().into_iter().map(|page| (read(&page), page));
    let pages: Vec<_> = pages.filter(|(it, _)| it.iter().any(|it| it.kind.is_run())).collect();
    let only = std::env::var("PHASEMETER_PAGE").ok();
    let collector = otelcol.start();
    let machine = &Machine { otelcol, prometheus, collector, exporter: gateway::exporter() };
    let chosen: Vec<_> =
        pages.iter().filter(|(_, page)| only.as_ref().is_none_or(|it| it == page)).collect();
    let ran = chosen.iter().flat_map(|(it, _)| it).filter(|it| it.kind.is_run()).count();
    let failed: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = chosen
            .iter()
            .map(|(blocks, page)| scope.spawn(move || run(page, blocks, machine)))
            .collect();
        running.into_iter().filter_map(|page| page.join().unwrap()).collect()
    });
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert!(ran >= if only.is_some() { 1 } else { 40 }, "only {ran} blocks are run");
}

/// A block that is not run names what it needs, and the test that does the same exists.
#[test]
fn commands_of_pages_that_are_not_run_name_existing_tests() {
    let mut count = 0;
    for page in pages() {
        for block in read(&page) {
            let Kind::NotRun { test, .. } = &block.kind else { continue };
            count += 1;
            if let Some(test) = test {
                assert!(exists(test), "{page}:{}: no test {test}", block.line);
            }
        }
    }
    assert!(count > 0, "no block is marked");
}

/// Whether there is this test: `FILE` `FUNCTION`, `make TARGET`, or a script.
fn exists(test: &str) -> bool {
    let root = Path::new(ROOT);
    if let Some(target) = test.strip_prefix("make ") {
        let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
        return makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
    }
    match test.split_once(' ') {
        None => root.join(test).is_file(),
        Some((file, function)) => fs::read_to_string(root.join(file)).is_ok_and(|text| {
            text.contains(&format!("#[test]\nfn {function}("))
                || text.contains(&format!("]\nfn {function}("))
        }),
    }
}
