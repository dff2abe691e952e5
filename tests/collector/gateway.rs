//! dcgm-exporter's page, scraped by a real Collector, through the gateway and back into that Collector.
//!
//! ```text
//! page ─→ otelcol ─→ phasemeter gateway ─→ otelcol ─→ file: points and bill ─→ equal
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fake_nvml::Fake;

use crate::expected::{Billed, accounts};
use crate::otelcol::{Collector, Otelcol};
use crate::otlp::Captured;
use crate::server::free_ports;

const GPU: &str = "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52";

/// Nano-dollars per second at $3.60 per hour.
const NANO_USD: u64 = 1_000_000;

pub(crate) const TERM: i32 = 15;

/// Percent of each stretch of 6 s.
const SCRIPT: [u32; 4] = [0, 50, 95, 80];
const STRETCH: Duration = Duration::from_secs(6);

/// The page of dcgm-exporter, as its template writes it.
fn page(percent: u32) -> String {
    let labels = format!(
        "gpu=\"0\",UUID=\"{GPU}\",pci_bus_id=\"00000000:00:04.0\",device=\"nvidia0\",\
         modelName=\"NVIDIA L4\",hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"550.90.07\",\
         container=\"train\",namespace=\"ml\",pod=\"train-0\""
    );
    let mut page = String::new();
    for (name, kind, help, value) in [
        ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", "1410".to_owned()),
        ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", "41".to_owned()),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", "61.523000".to_owned()),
        ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", percent.to_string()),
        (
            "DCGM_FI_DEV_XID_ERRORS",
            "gauge",
            "Value of the last XID error encountered.",
            "0".to_owned(),
        ),
        ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", "22566".to_owned()),
        ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", "0".to_owned()),
        // Not supported by this GPU.
        ("DCGM_FI_PROF_SM_ACTIVE", "gauge", "SM activity.", "140737488355328.000000".to_owned()),
    ] {
        page +=
            &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{{{labels}}} {value}\n");
    }
    page
}

/// Serves the page of the script, from now on.
pub(crate) fn exporter() -> SocketAddr {
    let started = Instant::now();
    serve(move || {
        let stretch = started.elapsed().as_secs() / STRETCH.as_secs();
        page(SCRIPT.get(usize::try_from(stretch).unwrap()).copied().unwrap_or(0))
    })
}

/// Serves a page, as it is at each request.
pub(crate) fn serve(page: impl Fn() -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request);
            let page = page();
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close";
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len());
        }
    });
    address
}

/// Starts the gateway before this Collector, and waits until it listens.
pub(crate) fn start_gateway(collector: &Collector, listen: &str, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.grpc));
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    command.args(["gateway", "--listen", listen, "--price", "3.6", "--hold", "3600"]);
    // Readings of tests may have fixed times.
    command.args(["--max-age", "315360000"]);
    let mut gateway = command.arg("--no-default-policies").args(options).spawn().unwrap();
    let mut log = BufReader::new(gateway.stderr.take().unwrap()).lines();
    let first = log.next().unwrap().unwrap();
    assert!(first.contains("receiving OTLP"), "{first}");
    thread::spawn(move || log.for_each(drop));
    gateway
}

/// The utilization points that passed, by time in nanoseconds.
fn points(captured: &Captured) -> BTreeMap<u64, u64> {
    let streams = captured.streams("DCGM_FI_DEV_GPU_UTIL").into_iter();
    let own = streams.filter(|(attributes, _)| attributes["UUID"] == GPU);
    own.flat_map(|(_, stream)| stream.points.into_iter())
        .map(|point| (point.time, point.value as u64))
        .collect()
}

/// The last points of a sum by phase, in billionths.
fn sums(captured: &Captured, metric: &str) -> BTreeMap<String, u64> {
    let last = captured.last(metric, GPU).into_iter();
    last.map(|(phase, value)| (phase, (value * 1e9).round() as u64))
        .filter(|(_, value)| *value > 0)
        .collect()
}

#[test]
fn scraped_page_comes_back_with_its_bill_to_the_nano_dollar() {
    let Some(otelcol) = Otelcol::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix://{}", directory.path().join("gateway.sock").display());
    let exporter = exporter().to_string();
    let variables = [
        ("OTELCOL_DCGM_EXPORTER", exporter.as_str()),
        ("OTELCOL_GATEWAY", &socket),
        ("OTELCOL_SCRAPE_INTERVAL", "1s"),
    ];
    let collector = otelcol.start_with(&["collector.yaml", "gateway.yaml"], &variables);
    let mut gateway = start_gateway(&collector, &socket, &[]);
    thread::sleep(STRETCH * u32::try_from(SCRIPT.len()).unwrap());
    phasemeter_process::send(gateway.id(), TERM).unwrap();
    assert!(gateway.wait().unwrap().success());
    let captured = collector.captured();

    let points = points(&captured);
    let values: std::collections::BTreeSet<u64> = points.values().copied().collect();
    assert_eq!(values, SCRIPT.map(u64::from).into(), "of {} scrapes", points.len());
    // The page names a pod, so that idle time is held.
    let end = *points.keys().next_back().unwrap();
    let readings = points.iter().map(|(at, percent)| (*at, Some(*percent))).collect();
    let nanos = accounts(&readings, &Billed { stale_after: u64::MAX, end, idle: "idle_held" });
    let expected = |scale: fn(u64) -> u64| -> BTreeMap<String, u64> {
        nanos.iter().map(|(phase, nanos)| ((*phase).to_owned(), scale(*nanos))).collect()
    };
    assert_eq!(sums(&captured, "phasemeter.gpu.time"), expected(|nanos| nanos));
    // Scrapes have whole milliseconds, which cost whole nano-dollars.
    let cost = expected(|nanos| nanos / 1_000_000 * (NANO_USD / 1_000));
    assert_eq!(sums(&captured, "phasemeter.gpu.cost"), cost);
}

/// Scenario: dcgm-exporter's page of a GPU passes through a real Collector and the gateway. An agent meters
/// the same GPU for a part of the time, and sends through the same gateway.
/// Guarantee: the agent bills its time, and the gateway what is before and after it. No time is billed twice.
#[test]
fn gpu_that_an_agent_meters_too_is_billed_once() {
    let Some(otelcol) = Otelcol::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    let [address] = free_ports();
    let exporter = serve(|| page(50)).to_string();
    let listen = address.to_string();
    let variables = [
        ("OTELCOL_DCGM_EXPORTER", exporter.as_str()),
        ("OTELCOL_GATEWAY", &listen),
        ("OTELCOL_SCRAPE_INTERVAL", "1s"),
    ];
    let collector = otelcol.start_with(&["collector.yaml", "gateway.yaml"], &variables);
    let mut gateway = start_gateway(&collector, &listen, &[]);
    thread::sleep(STRETCH);
    let script = format!("[[device]]\nuuid = \"{GPU}\"\n[[device.phase]]\nutilization = 50\n");
    let fake = Fake::install(directory.path(), &script).unwrap();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    agent.env_clear().envs(fake.environment()).env("PATH", "/usr/bin:/bin");
    agent.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{listen}"));
    agent.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").env("OTEL_METRIC_EXPORT_INTERVAL", "2000");
    agent.args(["run", "--price", "3.6", "--no-default-policies", "--", "sleep", "7"]);
    let output = agent.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    thread::sleep(STRETCH);
    phasemeter_process::send(gateway.id(), TERM).unwrap();
    assert!(gateway.wait().unwrap().success());
    let captured = collector.captured();

    let scrapes = points(&captured);
    let (first, last) = (*scrapes.keys().next().unwrap(), *scrapes.keys().next_back().unwrap());
    let own = captured.streams("phasemeter.gpu.cost").into_values();
    let (of_gateway, of_agent): (Vec<_>, Vec<_>) =
        own.flat_map(|stream| stream.points).partition(|point| point.start == first);
    let (begin, end) = (of_agent[0].start, of_agent.iter().map(|it| it.time).max().unwrap());
    assert!(first < begin && end < last, "{first} {begin} {end} {last}");
    assert!(of_agent.iter().all(|point| point.start == begin), "one agent");
    // A scrape counts up to the next one, less what the agent has billed of that.
    let expected = (begin - first) + (last - end);
    let latest = of_gateway.iter().map(|point| point.time).max().unwrap();
    let billed = of_gateway.iter().filter(|point| point.time == latest).map(|it| it.value);
    let billed = (billed.sum::<f64>() * 1e9).round() as u64;
    // Nano-dollars of time that is not whole milliseconds are rounded, once per phase and stretch.
    assert!(billed.abs_diff(expected / 1_000) <= 8, "{billed} nano-dollars of {expected} ns");
}
