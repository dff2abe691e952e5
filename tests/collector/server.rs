//! Runs another program as a server on free ports of the loopback address, until the end of the test.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Deadline for the start and the end of a server on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How often a server is started on other ports if one was taken.
const PORT_ATTEMPTS: u32 = 5;

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    dir: TempDir,
}

impl Server {
    /// Starts what `command` returns for these ports and this directory, and waits until the first
    /// port returns 200 for the path `ready`. Another process may take a port before the server binds
    /// it; then it is started again on other ports.
    pub(crate) fn start<const N: usize>(
        ready: &str,
        command: impl Fn(&[SocketAddr; N], &Path) -> Command,
    ) -> (Self, [SocketAddr; N]) {
        Self::start_at([None; N], ready, command)
    }

    /// Starts it like [`Self::start`], at these ports if they are given.
    pub(crate) fn start_at<const N: usize>(
        given: [Option<SocketAddr>; N],
        ready: &str,
        command: impl Fn(&[SocketAddr; N], &Path) -> Command,
    ) -> (Self, [SocketAddr; N]) {
        for _ in 0..PORT_ATTEMPTS {
            let mut ports = free_ports();
            ports.iter_mut().zip(given).for_each(|(port, given)| *port = given.unwrap_or(*port));
            let dir = tempfile::tempdir().unwrap();
            let command = command(&ports, dir.path());
            if let Some(server) = Self::try_start(command, dir, ports[0], ready) {
                return (server, ports);
            }
        }
        panic!("no free ports in {PORT_ATTEMPTS} attempts");
    }

    /// Starts it once; `None` if a port was taken.
    fn try_start(
        mut command: Command,
        dir: TempDir,
        health: SocketAddr,
        ready: &str,
    ) -> Option<Self> {
        let log = File::create(dir.path().join("log")).unwrap();
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let mut server = Self { child, dir };
        let began = Instant::now();
        loop {
            let healthy = get(health, ready).is_some_and(|page| page.starts_with("HTTP/1.0 200"));
            // In this order: a process that took the first port may answer in its place.
            if server.child.try_wait().unwrap().is_some() {
                let log = server.log();
                assert!(log.contains("address already in use"), "cannot start: {log}");
                return None;
            }
            if healthy {
                return Some(server);
            }
            assert!(began.elapsed() < TIMEOUT, "not ready: {}", server.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// The directory that its command received.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Ends it, so that its files are complete.
    pub(crate) fn stop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < TIMEOUT, "the server does not end: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ends the server however the test ends.
impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Local ports that were free a moment ago.
pub(crate) fn free_ports<const N: usize>() -> [SocketAddr; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

/// The response of an HTTP server; `None` if there is none.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}

/// The JSON that an HTTP server returns.
pub(crate) fn get_json(address: SocketAddr, path: &str) -> Value {
    let response = get(address, path).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// The response of an HTTP server to a JSON body.
pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("POST {path} HTTP/1.0\r\nHost: {address}\r\ncontent-type: application/json");
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// The executable at the path in this variable, which `make test-backends` sets; `None` if that is
/// unset, and the test that calls this is reported as skipped.
pub(crate) fn executable(variable: &str) -> Option<std::path::PathBuf> {
    let Some(program) = std::env::var_os(variable).filter(|path| !path.is_empty()) else {
        let test = thread::current().name().unwrap_or("a test").to_owned();
        crate::output::print(&format!(
            "\nSKIPPED: {test} ({variable} is unset): run `make test-backends`\n"
        ));
        return None;
    };
    let program = std::path::PathBuf::from(program);
    assert!(program.is_file(), "{variable}: no file {}", program.display());
    Some(program)
}
