//! What a run in progress tells of itself: `/status`, `phasemeter status`, and `phasemeter top` in a terminal.
//!
//! The terminal is a real one, of `script` (util-linux).

#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fake_nvml::Fake;
use serde_json::Value;
use tempfile::TempDir;

/// Deadline on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Two GPUs, one of which works.
const GPUS: &str = "[[device]]\n[[device.phase]]\nutilization = 80\n\
                    [[device]]\n[[device.phase]]\nutilization = 0\n";

/// A run, an agent, or another command that goes on.
struct Running {
    child: Child,
    /// The address of `/status`.
    address: String,
    dir: TempDir,
}

impl Running {
    fn start(command: &str, options: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let fake = Fake::install(dir.path(), GPUS).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
            .env_clear()
            .envs(fake.environment())
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .args([command, "--price=3", "--no-default-policies", "--health-listen=127.0.0.1:0"])
            .args(options)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some((_, rest)) = line.split_once("/metrics on ") {
                break rest.split_whitespace().next().unwrap().to_owned();
            }
        };
        thread::spawn(move || log.read_to_end(&mut Vec::new()));
        Self { child, address, dir }
    }

    /// The status and body of the answer to a request with these headers.
    fn ask(&self, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /status HTTP/1.0\r\n{headers}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The first report in which GPUs were observed.
    fn report(&self) -> Value {
        until("a report", || {
            let (status, body) = self.ask("");
            let report: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
            let gpus = report["gpus"].as_array().unwrap();
            let has_worked = |gpu: &Value| gpu["effective_seconds"].as_f64() > Some(1.0);
            gpus.iter().any(has_worked).then_some(report)
        })
    }

    fn stop(mut self) {
        signal("TERM", self.child.id());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Waits for a result.
fn until<T>(what: &str, mut result: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(result) = result() {
            return result;
        }
        assert!(began.elapsed() < SOON, "{what}: not in time");
        thread::sleep(Duration::from_millis(50));
    }
}

fn phasemeter(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn nano_usd(amount: &Value) -> i128 {
    amount.as_str().unwrap().replace('.', "").parse().unwrap()
}

/// Guarantee: the report so far is one by its schema, its parts sum to the bill, and time goes on; it is sent to
/// clients on this machine that ask by its own name.
#[test]
fn status_is_the_report_so_far() {
    let running = Running::start("run", &[]);
    let report = running.report();
    let schema: Value =
        serde_json::from_str(include_str!("../../report/src/report.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = schema.iter_errors(&report).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let cost = &report["cost"];
    let parts = ["utilized_usd", "waste_usd", "unobserved_usd"].map(|it| nano_usd(&cost[it]));
    assert_eq!(parts.iter().sum::<i128>(), nano_usd(&cost["total_usd"]));

    let end = |report: &Value| report["end"].as_str().unwrap().to_owned();
    let (before, later) = (end(&report), || end(&running.report()));
    until("a later report", || (later() > before).then_some(()));
    // The second one asks while the first report is fresh.
    assert_eq!(running.ask("host: localhost:1\r\n").1, running.ask("").1);
    assert_eq!(running.ask("host: attacker.example\r\n").0, 403);
    running.stop();
}

/// An agent's report has the holders.
#[test]
fn status_of_an_agent_is_a_page_with_holders() {
    let jobs = TempDir::new().unwrap();
    fs::write(jobs.path().join("0"), "4711\n").unwrap();
    let mapping = format!("--job-mapping={}", jobs.path().display());
    let running = Running::start("agent", &[&mapping, "--socket=agent.sock"]);
    running.report();
    let page = phasemeter(&["status", &running.address]);
    let page = text(&page.stdout);
    for part in ["Bill ", "waste (", "GPU ", "holder ", "job 4711"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let json = phasemeter(&["status", &running.address, "--format", "json"]);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["gpus"][0]["holders"][0]["job"], "4711");
    // Standard output is not a terminal.
    let once = phasemeter(&["top", &running.address]);
    assert!(once.status.success() && text(&once.stdout).contains("job 4711"));
    assert!(!text(&once.stdout).contains('\u{1b}'));
    running.stop();
}

#[test]
fn without_a_run_the_error_says_how_to_start_one() {
    for command in ["status", "top"] {
        let output = phasemeter(&[command, "127.0.0.1:1"]);
        assert_eq!(output.status.code(), Some(69));
        let log = text(&output.stderr);
        assert!(log.contains("with --health-listen 127.0.0.1:1"), "{log}");
        assert_eq!(phasemeter(&[command, "nowhere"]).status.code(), Some(69));
    }
}

/// `phasemeter top` in a terminal of 24 lines and 80 columns.
struct Terminal {
    script: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
    dir: PathBuf,
}

impl Terminal {
    fn start(running: &Running) -> Self {
        let dir = running.dir.path().to_owned();
        let top =
            format!("{} top {} --interval 0.2", env!("CARGO_BIN_EXE_phasemeter"), running.address);
        // The modes of the terminal before and after, and the process ID and status in between.
        let steps = format!(
            "stty rows 24 cols 80; stty -g >before; (echo $BASHPID >pid; exec {top}); echo $? >status; \
             stty -g >after; echo left"
        );
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--command", &format!("bash -c '{steps}'"), "/dev/null"])
            .env("TERM", "xterm-256color")
            .current_dir(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let screen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut output, seen) = (script.stdout.take().unwrap(), Arc::clone(&screen));
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                seen.lock().unwrap().extend(&bytes[..count]);
            }
        });
        let keys = script.stdin.take().unwrap();
        Self { script, keys, screen, dir }
    }

    /// Waits until this is drawn after what was seen so far.
    fn wait_for(&self, text: &str) {
        until(text, || {
            let screen = String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned();
            // What is on the screen now is what was drawn last.
            let drawn = screen.rsplit("\u{1b}[H").take(2).any(|it| it.contains(text));
            drawn.then_some(())
        });
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap().trim().to_owned()
    }

    /// Waits until it has ended, and checks that the terminal is as it was before. Returns the status.
    fn end(mut self) -> String {
        self.wait_for("left");
        assert_eq!(self.file("before"), self.file("after"));
        let screen = String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned();
        for (entered, left) in [("\u{1b}[?1049h", "\u{1b}[?1049l"), ("\u{1b}[?25l", "\u{1b}[?25h")]
        {
            let (entered, left) = (screen.rfind(entered).unwrap(), screen.rfind(left).unwrap());
            assert!(entered < left, "{screen:?}");
        }
        assert!(self.script.wait().unwrap().success());
        self.file("status")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn top_follows_keys_and_restores_the_terminal() {
    let running = Running::start("run", &[]);
    running.report();
    let mut terminal = Terminal::start(&running);
    terminal.wait_for("> 0 ");
    terminal.wait_for("sort: name");
    terminal.press("\u{1b}[B");
    terminal.wait_for("> 1 ");
    terminal.press("sss");
    terminal.wait_for("sort: utilization");
    // The working one, by the last seconds.
    terminal.wait_for("  80%");
    terminal.press("q");
    assert_eq!(terminal.end(), "0");
    running.stop();
}

/// Guarantee: however it ends, the terminal is as it was before.
#[test]
fn top_restores_the_terminal_after_signals_and_without_a_run() {
    let running = Running::start("run", &[]);
    running.report();
    for (name, status) in [("TERM", "143"), ("INT", "130"), ("HUP", "129")] {
        let terminal = Terminal::start(&running);
        terminal.wait_for("> 0 ");
        signal(name, terminal.file("pid").parse().unwrap());
        assert_eq!(terminal.end(), status);
    }
    let address = running.address.clone();
    let mut terminal = Terminal::start(&running);
    terminal.wait_for("> 0 ");
    signal("TERM", running.child.id());
    terminal.wait_for(&format!("{address}: "));
    // Control-C is a key.
    terminal.press("\u{3}");
    assert_eq!(terminal.end(), "0");
}
