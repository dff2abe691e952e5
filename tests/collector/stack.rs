//! `make up`: the Collector, Prometheus, Jaeger and the fleet that its script starts, here on other ports.
//!
//! ```text
//! drivers ─→ agent, sidecars, run ─→ Collector (killed) ─┬→ Prometheus ─→ dollars of the reports, all panels
//!                                                        └→ Jaeger ─→ phases descend from experiments
//! ```
//!
//! The Collector is down for some exports; for `PHASEMETER_OUTAGE_SECONDS` if that is set.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::dashboards::{Query, all_queries, interpolated};
use crate::output::print;
use crate::prometheus::{ROOT, query};
use crate::recording::dollars;
use crate::server::{executable, free_ports, get_json};

/// The dollars of all series. A series that has ended counts, too.
const FLEET_COST: &str = "sum(last_over_time(phasemeter_gpu_cost_total[3h]))";

/// Deadline of what takes a minute on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// How long the Collector is down, by default: several exports.
const OUTAGE_SECONDS: u64 = 6;

/// What the script has started. It is stopped however the test ends.
struct Stack {
    dir: TempDir,
    variables: Vec<(&'static str, String)>,
    prometheus: SocketAddr,
    jaeger: SocketAddr,
    status: SocketAddr,
    addresses: Vec<SocketAddr>,
    /// The commands that it prints for its user.
    commands: Vec<String>,
}

impl Stack {
    /// Starts it; `None` if a program is missing.
    fn start() -> Option<Self> {
        let programs =
            ["OTELCOL", "PROMETHEUS", "JAEGER"].map(|name| Some((name, executable(name)?)));
        let [Some(otelcol), Some(prometheus), Some(jaeger)] = programs else { return None };
        let built = Path::new(env!("CARGO_BIN_EXE_phasemeter")).parent().unwrap();
        let node = built.join("examples/node");
        assert!(node.exists(), "no {}: cargo build --workspace --example node", node.display());
        let addresses: [SocketAddr; 9] = free_ports();
        let names = [
            "STACK_PROMETHEUS",
            "JAEGER_HTTP",
            "STACK_STATUS",
            "JAEGER_GRPC",
            "JAEGER_OTLP",
            "OTELCOL_GRPC",
            "OTELCOL_HTTP",
            "OTELCOL_PROMETHEUS",
            "OTELCOL_HEALTH",
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let mut variables: Vec<_> =
            names.into_iter().zip(addresses.map(|it| it.to_string())).collect();
        variables
            .extend([otelcol, prometheus, jaeger].map(|(name, program)| (name, path(&program))));
        variables.extend([
            ("STACK_BUILT", path(built)),
            ("STACK_DIR", path(dir.path())),
            ("STACK_MINUTES", "20".to_owned()),
            ("STACK_EXPERIMENT_SECONDS", "15".to_owned()),
            ("STACK_EXPORT_MILLISECONDS", "2000".to_owned()),
        ]);
        let [prometheus, jaeger, status, ..] = addresses;
        let addresses = addresses.to_vec();
        let commands = Vec::new();
        let mut stack = Self { dir, variables, prometheus, jaeger, status, addresses, commands };
        let printed = stack.script(&["up"]);
        for named in [prometheus, jaeger, status].map(|it| it.to_string()) {
            assert!(printed.contains(&named), "{printed}");
        }
        assert!(printed.contains("after 20 minutes"), "{printed}");
        let commands = printed.lines().filter_map(|line| line.strip_prefix("  "));
        stack.commands.extend(commands.map(str::to_owned));
        assert!(stack.commands.len() > 7, "{printed}");
        Some(stack)
    }

    /// What the script prints.
    fn script(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(format!("{ROOT}/tests/stack/stack.sh"));
        command.args(arguments).stdin(Stdio::null()).envs(self.variables.iter().cloned());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}\n{}", text(&output.stderr), self.logs());
        text(&output.stdout)
    }

    /// The ends of all logs.
    fn logs(&self) -> String {
        let Ok(logs) = fs::read_dir(self.dir.path().join("log")) else { return String::new() };
        let mut ends = String::new();
        for log in logs.map(|log| log.unwrap().path()) {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            ends += &format!(
                "{}:\n{}\n",
                log.display(),
                lines[lines.len().saturating_sub(8)..].join("\n")
            );
        }
        ends
    }

    fn query(&self, expr: &str) -> Vec<(BTreeMap<String, String>, f64)> {
        query(self.prometheus, expr, None).unwrap_or_else(|body| panic!("{expr}: {body}"))
    }

    /// The only value of a query; zero if there is none.
    fn number(&self, expr: &str) -> f64 {
        self.query(expr).first().map_or(0.0, |(_, value)| *value)
    }

    /// Waits until this holds.
    fn wait(&self, what: &str, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < TIMEOUT, "{what}\n{}", self.logs());
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// The JSON files of a directory.
    fn reports(&self, directory: &str) -> Vec<Value> {
        let files = fs::read_dir(self.dir.path().join(directory)).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let json = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
        json.map(|path: PathBuf| serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
            .collect()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let mut command = Command::new(format!("{ROOT}/tests/stack/stack.sh"));
        let _ = command.arg("kill").envs(self.variables.iter().cloned()).status();
    }
}

/// The spans of a trace: those that have a phase, and whether each descends from an experiment's span.
fn phases(trace: &Value) -> Vec<(String, bool)> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    let spans = trace["spans"].as_array().unwrap();
    let by_id: BTreeMap<_, _> = spans.iter().map(|span| (text(span, "spanID"), span)).collect();
    let has = |span: &Value, key: &str| {
        span["tags"].as_array().unwrap().iter().any(|tag| tag["key"] == key)
    };
    let parent = |span: &Value| {
        let references = span["references"].as_array()?;
        by_id.get(references.first()?["spanID"].as_str()?).copied()
    };
    let descends = |span: &Value| {
        let ancestors = std::iter::successors(parent(span), |span| parent(span));
        ancestors.last().is_some_and(|root| text(root, "operationName").starts_with("experiment"))
    };
    let phases = spans.iter().filter(|span| has(span, "phasemeter.phase"));
    phases.map(|span| (text(span, "operationName"), descends(span))).collect()
}

#[test]
fn stack_has_the_dollars_of_its_reports_and_a_trace_per_experiment() {
    let Some(stack) = Stack::start() else { return };
    stack.wait("no dollars", || stack.number(FLEET_COST) > 0.0);
    stack.wait("no trace", || {
        !get_json(stack.jaeger, "/api/traces?service=vision")["data"].as_array().unwrap().is_empty()
    });

    // All but a run of two hours. If its output is not a terminal, `top` prints once.
    for command in stack.commands.iter().filter(|it| !it.contains(" demo ")) {
        let output =
            Command::new("bash").args(["-c", command]).current_dir(stack.dir.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        let is_answer = !command.contains("curl")
            || text.contains(r#""data":{"#)
            || text.contains(r#""spanID""#);
        assert!(is_answer, "{command}: {text}");
    }

    // An outage in the middle.
    let seconds = std::env::var("PHASEMETER_OUTAGE_SECONDS");
    let seconds = seconds.map_or(OUTAGE_SECONDS, |seconds| seconds.parse().unwrap());
    stack.script(&["kill", "collector"]);
    thread::sleep(Duration::from_secs(seconds));
    let owed = dollars(&get_json(stack.status, "/status")["cost"]["total_usd"]);
    let before = stack.number(FLEET_COST);
    stack.script(&["up", "collector"]);
    stack.wait("what was metered during the outage does not arrive", || {
        stack
            .number("sum(last_over_time(phasemeter_gpu_cost_total{phasemeter_role=\"agent\"}[3h]))")
            > owed
    });

    stack.script(&["down", "fleet"]);
    let agent: Value =
        serde_json::from_slice(&fs::read(stack.dir.path().join("agent.json")).unwrap()).unwrap();
    let cost = |report: &Value| dollars(&report["cost"]["total_usd"]);
    let workstation: f64 = stack.reports("data/workstation/reports").iter().map(cost).sum();
    let ledger = cost(&agent) + workstation;
    assert!(workstation > 0.0 && cost(&agent) > workstation, "{} {workstation}", cost(&agent));
    let series = stack.query("count(phasemeter_gpu_cost_total)");
    stack.wait(&format!("{ledger} dollars, series: {series:?}"), || {
        (stack.number(FLEET_COST) - ledger).abs() < 1e-8
    });
    print(&format!(
        "ledger ${ledger:.9}, Prometheus ${:.9}; ${:.6} of it after an outage of {seconds} s",
        stack.number(FLEET_COST),
        ledger - before,
    ));

    let services = get_json(stack.jaeger, "/api/services");
    let services = services["data"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let mut all = BTreeMap::<_, Vec<_>>::new();
    for service in services {
        let traces = get_json(stack.jaeger, &format!("/api/traces?service={service}&limit=1000"));
        let found = traces["data"].as_array().unwrap().iter().flat_map(phases);
        all.entry(service.to_owned()).or_default().extend(found);
    }
    for service in ["vision", "chat", "workstation"] {
        assert!(!all[service].is_empty(), "{service}: {all:?}");
    }
    assert!(all.values().flatten().all(|(_, descends)| *descends), "{all:?}");

    // Recommendations, which are annotations, need longer runs.
    let panels = all_queries().into_iter().filter(|it| !it.panel.contains(", annotation: "));
    for Query { panel, expr, .. } in panels {
        let expr = interpolated(&expr, "4m", ".*");
        // Rules are evaluated each minute.
        stack.wait(&format!("no data: {panel}: {expr}"), || !stack.query(&expr).is_empty());
    }

    stack.script(&["down"]);
    for address in &stack.addresses {
        assert!(TcpStream::connect(address).is_err(), "{address} is still open");
    }
    let left = Command::new("grep")
        .args(["-lszF", &format!("STACK_PROGRAM={}", stack.dir.path().display())])
        .args(fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let environ = entry.unwrap().path().join("environ");
            environ.exists().then_some(environ)
        }))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "no process is left");
}
