//! What audits of the scraped readings say.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use serde_json::Value;

use super::stays::scrapes;
use crate::fleet::requests;
use crate::run::nano_usd;

/// The bill of each GPU in nano-dollars at $3.60 per hour, by `phasemeter audit` of what was scraped; and until when each
/// is billed.
pub(super) fn audited(archives: &[Vec<u8>], options: &[&str]) -> (BTreeMap<String, u64>, u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("scraped.jsonl");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    for request in archives.iter().flat_map(|it| requests::<ExportMetricsServiceRequest>(it)) {
        writeln!(file, "{}", serde_json::to_string(&request).unwrap()).unwrap();
    }
    file.flush().unwrap();
    let (out, err) = (directory.path().join("out"), directory.path().join("err"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().args(["audit", "--price=3.6", "--format=json", "--no-default-policies"]);
    command.args(options).arg(&path).stdin(Stdio::null());
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let status = command.status().unwrap();
    assert!(status.success(), "{}", fs::read_to_string(err).unwrap());
    let report: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    let bill = |gpu: &Value| (gpu["id"].as_str().unwrap().to_owned(), nano_usd(&gpu["cost_usd"]));
    let nodes = scrapes(archives.iter().map(Vec::as_slice));
    let end = nodes.values().filter_map(|node| node.keys().next_back()).max();
    (report["gpus"].as_array().unwrap().iter().map(bill).collect(), *end.unwrap())
}
