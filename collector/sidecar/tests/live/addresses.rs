//! A backend whose name has another address while a run lasts.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;

use phasemeter_process::send;
use rustix::process::Signal;

use crate::Rig;
use crate::mock_backend::MockBackend;
use crate::relay::Relay;
use crate::run::{NO_POLICIES, phasemeter, started};
use crate::signals::wait;

/// Two loopback addresses with the same port.
const ADDRESSES: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

/// Relays to these backends at both addresses.
fn relays(backends: &[MockBackend; 2]) -> [Relay; 2] {
    let [first, second] = ADDRESSES.map(|address| address.parse::<IpAddr>().unwrap());
    // Another program may have the port at the second one.
    let pair = (0..100).find_map(|_| {
        let one = Relay::at(SocketAddr::from((first, 0)), backends[0].address).unwrap();
        let address = SocketAddr::from((second, one.address.port()));
        Some([one, Relay::at(address, backends[1].address).ok()?])
    });
    pair.unwrap()
}

/// The library by which `backend.test` has the address in a file.
fn library(dir: &Path) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/names/preload.c");
    let library = dir.join("names.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&library).arg(source);
    assert!(compiler.arg("-ldl").status().unwrap().success());
    library
}

/// Scenario: a backend moves to another address: its name has the new one, and what was at the old one is gone, with its
/// connections or without a word.
/// Guarantee: what follows arrives at the new one, without a restart, and nothing is lost.
#[test]
fn backend_that_moves_is_found_by_its_name() {
    for (protocol, is_silent) in
        [("grpc", false), ("grpc", true), ("http/protobuf", false), ("http/protobuf", true)]
    {
        let backends = [MockBackend::start([]), MockBackend::start([])];
        let relays = relays(&backends);
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("address");
        fs::write(&name, ADDRESSES[0]).unwrap();
        let rig = Rig::new("length_ms = 600000\n[[device]]");
        let mut command = phasemeter(&rig, NO_POLICIES);
        let endpoint = format!("http://backend.test:{}", relays[0].address.port());
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        command
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", "2000")
            .env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        command.env("LD_PRELOAD", library(dir.path())).env("NAME_SERVICE", &name);
        let (mut run, log) = started(&mut command);
        backends[0].next_request();
        let new = dir.path().join("new");
        fs::write(&new, ADDRESSES[1]).and_then(|()| fs::rename(new, &name)).unwrap();
        if is_silent {
            relays[0].fall_silent();
        } else {
            relays[0].cut();
        }
        backends[1].next_request();
        send(run.0.id(), Signal::TERM.as_raw()).unwrap();
        assert_eq!(wait(&mut run.0), Some(0), "{protocol}");
        let log = log.rest();
        assert!(!log.contains("unsent") && !log.contains("dropped"), "{protocol}: {log}");
    }
}
