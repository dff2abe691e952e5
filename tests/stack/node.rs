//! What `make up` needs of a node beside the real programs: the driver, the kubelet, and workloads that report work.
//!
//! ```text
//! node driver DIR SCRIPT           installs the scripted driver
//! node kubelet SOCKET PODS         answers as the kubelet, with these containers, until it is ended
//! node work UNIT COUNT SECONDS     reports so much work each second to `phasemeter run`
//! ```

#![allow(clippy::unwrap_used, clippy::panic, reason = "it serves tests")]

#[path = "../../collector/holders/tests/node/fake_kubelet.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod fake_kubelet;

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use fake_kubelet::FakeKubelet;
use fake_nvml::Fake;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["driver", dir, script] => {
            Fake::install(Path::new(dir), &fs::read_to_string(script).unwrap()).unwrap();
        }
        ["kubelet", socket, pods] => {
            let kubelet = FakeKubelet::start(Path::new(socket));
            kubelet.lists(serde_json::from_slice(&fs::read(pods).unwrap()).unwrap());
            loop {
                thread::park();
            }
        }
        ["work", unit, count, seconds] => work(unit, count, seconds.parse().unwrap()),
        _ => {
            panic!("usage: node driver DIR SCRIPT | kubelet SOCKET PODS | work UNIT COUNT SECONDS")
        }
    }
}

/// Works for so many seconds.
fn work(unit: &str, count: &str, seconds: u32) {
    let socket = std::env::var_os("PHASEMETER_SOCKET");
    let mut meter = socket.and_then(|socket| UnixStream::connect(socket).ok());
    for _ in 0..seconds {
        thread::sleep(Duration::from_secs(1));
        // If the meter has ended, the work goes on.
        meter = meter.filter(|mut meter| writeln!(meter, "work {unit} {count}").is_ok());
    }
}
