//! The shell script that runs the blocks of a page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use super::block::{Block, Kind};
use crate::server::free_ports;

/// Hosts that pages name. All are this one.
const HOSTS: [&str; 7] = [
    "127.0.0.1:",
    "localhost:",
    "collector:",
    "backend:",
    "collector.example:",
    "tempo:",
    "phasemeter-gateway:",
];

/// Directories of the machine that pages write to.
const DIRECTORIES: [&str; 4] = ["/bills", "/etc/", "/usr/", "/var/"];

/// Starts programs that go on, waits until one is ready, and ends them. Their workload does not end, and they export each
/// second. Whatever is waited for comes within minutes.
const PRELUDE: &str = r#"set -eu
ENDLESS='WORKLOAD_SECONDS=600 OTEL_METRIC_EXPORT_INTERVAL=1000'
running=
trap 'for pid in $running; do kill -KILL "$pid" 2>/dev/null || true; done' EXIT
mkdir -p "$LOGS"
waits=0
wait_more() {
    waits=$((waits + 1))
    [ $waits -lt 1000 ] || { echo 'waited for too long' >&2; cat "$LOGS"/* >&2; exit 1; }
    sleep 0.2
}
# Arguments: the log of a program, its process.
ready() {
    running="$running $2"
    until grep -qE 'metering |receiving OTLP|recording|Everything is ready|Server is ready' "$1" 2>/dev/null; do
        kill -0 "$2" 2>/dev/null || { cat "$1" >&2; exit 1; }
        wait_more
    done
}
stop() {
    for pid in $running; do
        kill -TERM "$pid"
        wait "$pid" || { echo "status $? of a program that was stopped" >&2; cat "$LOGS"/* >&2; exit 1; }
    done
    running=
}
. "$FILES"
"#;

/// The addresses of a page: each port is another one, which is free.
#[derive(Debug, Default)]
pub(super) struct Addresses(BTreeMap<u16, u16>);

impl Addresses {
    /// Has these addresses for these ports.
    pub(super) fn new(known: impl IntoIterator<Item = (u16, SocketAddr)>) -> Self {
        Self(known.into_iter().map(|(port, address)| (port, address.port())).collect())
    }

    /// The free address in place of this port.
    pub(super) fn of(&mut self, port: u16) -> String {
        let free = self.0.entry(port).or_insert_with(|| free_ports::<1>()[0].port());
        format!("127.0.0.1:{free}")
    }

    /// The text, with free addresses.
    pub(super) fn replace(&mut self, text: &str) -> String {
        let (mut replaced, mut rest) = (String::new(), text);
        while let Some((at, host)) = HOSTS
            .into_iter()
            .filter_map(|host| rest.find(host).map(|at| (at, host)))
            .min_by_key(|(at, host)| (*at, std::cmp::Reverse(host.len())))
        {
            let (before, after) = rest.split_at(at);
            let after = after.get(host.len()..).unwrap();
            let digits = after.find(|it: char| !it.is_ascii_digit()).unwrap_or(after.len());
            replaced += before;
            match after.get(..digits).unwrap().parse() {
                Ok(port) if port > 0 => replaced += &self.of(port),
                _ => {
                    replaced += host;
                    replaced += after.get(..digits).unwrap();
                }
            }
            rest = after.get(digits..).unwrap();
        }
        replaced + rest
    }

    /// The variables by which the programs of a page have its addresses.
    pub(super) fn variables(&mut self) -> [(&'static str, String); 6] {
        [
            ("OTELCOL_GRPC", 4317),
            ("OTELCOL_HTTP", 4318),
            ("OTELCOL_PROMETHEUS", 9464),
            ("OTELCOL_HEALTH", 13133),
            ("PROMETHEUS_ADDRESS", 9090),
            ("STATUS", 8081),
        ]
        .map(|(name, port)| (name, self.of(port)))
    }
}

/// The script that runs these blocks in a directory.
pub(super) fn of(blocks: &[Block], here: &Path, addresses: &mut Addresses) -> String {
    let mut script = PRELUDE.to_owned();
    let mut sections = blocks.iter().map(|it| it.section);
    let mut section = sections.next();
    for Block { page, line, section: own, kind, commands } in blocks {
        if section.replace(*own) != Some(*own) {
            script += "stop\n";
        }
        let commands = below(&addresses.replace(commands), here);
        if kind.is_run() {
            writeln!(script, "echo '# {page}:{line}' >&2").unwrap();
        }
        match kind {
            Kind::NotRun { .. } => {}
            Kind::Once => writeln!(script, "{commands}").unwrap(),
            Kind::Tried => {
                writeln!(script, "until {{ {commands}\n}}; do wait_more; done").unwrap();
            }
            Kind::UntilStopped => {
                for (number, command) in each(&commands).iter().enumerate() {
                    let log = format!("\"$LOGS/{line}.{number}\"");
                    writeln!(script, "env $ENDLESS {command} > {log} 2>&1 &").unwrap();
                    writeln!(script, "ready {log} $!").unwrap();
                }
            }
        }
    }
    script + "stop\n"
}

/// The text, with the machine's directories below this one.
fn below(text: &str, here: &Path) -> String {
    let mut text = text.to_owned();
    for directory in DIRECTORIES {
        for before in [" ", "=", "'"] {
            let below = format!("{before}{}{directory}", here.join("root").display());
            text = text.replace(&format!("{before}{directory}"), &below);
        }
    }
    text
}

/// Each command, without comments; a backslash continues it.
fn each(commands: &str) -> Vec<String> {
    let joined = commands.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.split("  #").next().unwrap().trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The end of an output.
pub(super) fn end(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(40)..).unwrap().join("\n")
}

#[test]
fn addresses_and_directories_are_those_of_the_test() {
    let mut addresses = Addresses::default();
    let grpc = addresses.of(4317);
    let text = addresses.replace("http://collector:4317 localhost:4317/v1 127.0.0.1:0 node:1");
    assert_eq!(text, format!("http://{grpc} {grpc}/v1 127.0.0.1:0 node:1"));
    let text = below("a > /etc/b --c=/var/d x/etc/y", Path::new("/here"));
    assert_eq!(text, "a > /here/root/etc/b --c=/here/root/var/d x/etc/y");
    assert_eq!(each("a \\\n  b      # why\n# all\nc\n"), ["a    b", "c"]);
}
