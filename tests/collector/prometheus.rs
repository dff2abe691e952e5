//! Runs a real Prometheus that receives OTLP, and queries it.
//!
//! `PROMETHEUS` is its path: `make test-backends` builds one and sets it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::output;
use crate::server::{Server, executable, get_json, post};

/// The repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The executable.
#[derive(Debug)]
pub(crate) struct Prometheus {
    program: PathBuf,
}

/// A running Prometheus.
#[derive(Debug)]
pub(crate) struct Running {
    server: Server,
    pub(crate) address: SocketAddr,
}

/// A sample of a query's result: labels and value.
pub(crate) type Sample = (BTreeMap<String, String>, f64);

impl Prometheus {
    /// The Prometheus at `PROMETHEUS`.
    pub(crate) fn find() -> Option<Self> {
        executable("PROMETHEUS").map(|program| Self { program })
    }

    /// Its path.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// The promtool beside it, which a Prometheus from elsewhere may lack.
    pub(crate) fn promtool(&self) -> Option<PathBuf> {
        let promtool = self.program.with_file_name("promtool");
        if !promtool.exists() {
            output::print("\nSKIPPED: unit tests of rules (no promtool beside PROMETHEUS)\n");
            return None;
        }
        Some(promtool)
    }

    /// Starts it with this file of `otel-config/prometheus`, except for what it scrapes and how often. Rules are loaded
    /// and not evaluated: after a sample of today, Prometheus refuses those of a log.
    pub(crate) fn start_shipped(&self, file: &str, scraped: Option<SocketAddr>) -> Running {
        let (server, [address]) = Server::start("/-/ready", |[address], dir| {
            for shipped in ["prometheus", "alerts"] {
                fs::create_dir(dir.join(shipped)).unwrap();
                for entry in fs::read_dir(format!("{ROOT}/otel-config/{shipped}")).unwrap() {
                    let path = entry.unwrap().path();
                    let mut text = fs::read_to_string(&path).unwrap();
                    text = text.replace("    interval: 1m", "    interval: 9000h");
                    text = text.replace("    interval: 5m", "    interval: 9000h");
                    if let Some(scraped) = scraped {
                        text = text.replace("127.0.0.1:9464", &scraped.to_string());
                        text = text.replace("scrape_interval: 30s", "scrape_interval: 1s");
                    }
                    fs::write(dir.join(shipped).join(path.file_name().unwrap()), text).unwrap();
                }
            }
            let mut command = Command::new(&self.program);
            command.env_clear().current_dir(dir).arg(format!("--config.file=prometheus/{file}"));
            command.args(["--web.enable-otlp-receiver", "--storage.tsdb.path=data"]);
            command.arg("--enable-feature=created-timestamp-zero-ingestion,exemplar-storage");
            command.arg(format!("--web.listen-address={address}"));
            command
        });
        Running { server, address }
    }

    /// Starts it. It scrapes nothing, and refuses samples that are older than others of their series.
    pub(crate) fn start(&self) -> Running {
        self.start_with(None)
    }

    /// Starts it with a file of rules.
    pub(crate) fn start_with(&self, rules: Option<&str>) -> Running {
        self.start_at(None, rules)
    }

    /// Starts it at this address, or at a free one.
    pub(crate) fn start_at(&self, at: Option<SocketAddr>, rules: Option<&str>) -> Running {
        let (server, [address]) = Server::start_at([at], "/-/ready", |[address], dir| {
            let mut config = "global: {}\n".to_owned();
            if let Some(rules) = rules {
                fs::write(dir.join("rules.yaml"), rules).unwrap();
                config += "rule_files: [rules.yaml]\n";
            }
            fs::write(dir.join("prometheus.yml"), config).unwrap();
            let mut command = Command::new(&self.program);
            command.env_clear().current_dir(dir).arg("--web.enable-otlp-receiver");
            command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
            command.arg(format!("--web.listen-address={address}"));
            command
        });
        Running { server, address }
    }
}

impl Running {
    /// The OTLP endpoint for metrics.
    pub(crate) fn otlp(&self) -> String {
        format!("http://{}/api/v1/otlp/v1/metrics", self.address)
    }

    /// The result of an instant query at this time, in seconds since 1970; now if `None`.
    pub(crate) fn query(&self, query: &str, time: Option<u64>) -> Vec<Sample> {
        self::query(self.address, query, time)
            .unwrap_or_else(|body| panic!("{query}: {body}\n{}", self.server.log()))
    }

    /// The labels of all exemplars of the series in a query.
    pub(crate) fn exemplars(&self, query: &str) -> Vec<BTreeMap<String, String>> {
        let mut path = "/api/v1/query_exemplars?start=0&end=9999999999&query=".to_owned();
        query.bytes().for_each(|byte| write!(path, "%{byte:02X}").unwrap());
        let body = get_json(self.address, &path);
        assert_eq!(body["status"], "success", "{query}: {body}");
        let series = body["data"].as_array().unwrap().iter();
        let exemplars = series.flat_map(|it| it["exemplars"].as_array().unwrap());
        let labels = exemplars.map(|it| serde_json::from_value(it["labels"].clone()).unwrap());
        labels.collect()
    }

    /// Asserts that it has series with the names and labels of those of unit tests of recording rules, as far as they
    /// are of one kind: of an agent, with an account of each holder, or of a run.
    pub(crate) fn assert_has_series_of_unit_tests(&self, of_agent: bool, time: Option<u64>) {
        let tests =
            fs::read_to_string(format!("{ROOT}/tests/collector/prometheus/recording.test.yaml"));
        let mut checked = 0;
        for line in tests.unwrap().lines() {
            let Some(series) = line.trim().strip_prefix("- series: '") else { continue };
            if series.contains("phasemeter_allocation_account") != of_agent {
                continue;
            }
            let (name, labels) = series.split_once('{').unwrap();
            let labels = labels.split(", ").map(|label| label.split_once('=').unwrap().0);
            let labels: Vec<_> = labels.map(|label| format!("{label}!=\"\"")).collect();
            let query = format!("count({name}{{{}}})", labels.join(", "));
            assert!(self.number(&query, time) > 0.0, "no series {query}");
            checked += 1;
        }
        assert!(checked > 1, "{checked}");
    }

    /// The rules that it has loaded: group, name and query.
    pub(crate) fn rules(&self) -> Vec<(String, String, String)> {
        let body = get_json(self.address, "/api/v1/rules");
        let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
        let groups = body["data"]["groups"].as_array().unwrap().iter();
        let rules = groups.flat_map(|group| {
            let rules = group["rules"].as_array().unwrap().iter();
            rules.map(move |rule| (text(group, "name"), text(rule, "name"), text(rule, "query")))
        });
        rules.collect()
    }

    /// Stores the result of a query at this time as what a recording rule of this name has recorded then.
    pub(crate) fn record(&self, name: &str, query: &str, time: u64) {
        let points = self.query(query, Some(time)).into_iter().map(|(labels, value)| {
            let label = |(key, value)| json!({"key": key, "value": {"stringValue": value}});
            let attributes: Vec<_> = labels.into_iter().map(label).collect();
            let nanos = format!("{time}000000000");
            json!({"timeUnixNano": nanos, "asDouble": value, "attributes": attributes})
        });
        let points: Vec<_> = points.collect();
        let metrics = json!([{"name": name, "gauge": {"dataPoints": points}}]);
        let body = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]});
        let response = post(self.address, "/api/v1/otlp/v1/metrics", &body.to_string());
        assert!(response.starts_with("HTTP/1.0 200"), "{response}");
    }

    /// The only value of a query; zero if there is none.
    pub(crate) fn number(&self, query: &str, time: Option<u64>) -> f64 {
        match &self.query(query, time)[..] {
            [] => 0.0,
            [(_, value)] => *value,
            several => panic!("{query}: {several:?}"),
        }
    }
}

/// The result of an instant query of the Prometheus at an address, at this time, in seconds since 1970; now if `None`.
/// What it responds if it fails.
pub(crate) fn query(
    address: SocketAddr,
    query: &str,
    time: Option<u64>,
) -> Result<Vec<Sample>, Value> {
    let mut path = "/api/v1/query?query=".to_owned();
    query.bytes().for_each(|byte| write!(path, "%{byte:02X}").unwrap());
    if let Some(time) = time {
        write!(path, "&time={time}").unwrap();
    }
    let body = get_json(address, &path);
    if body["status"] != "success" {
        return Err(body);
    }
    let sample = |sample: &Value| {
        let labels = sample["metric"].as_object().unwrap().iter();
        let labels = labels.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
        (labels.collect(), sample["value"][1].as_str().unwrap().parse().unwrap())
    };
    Ok(body["data"]["result"].as_array().unwrap().iter().map(sample).collect())
}
