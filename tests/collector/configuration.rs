//! The Collector itself validates `otel-config/collector` and the configurations of pages, which carry each signal.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::otelcol::Otelcol;
use crate::prometheus::{Prometheus, ROOT};
use crate::server::free_ports;

/// Sends metrics, spans and events.
fn send(to: SocketAddr) {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    demo.env_clear().stdin(Stdio::null()).args(["demo", "--price=3.6"]);
    demo.arg(format!("--otlp=http://{to}")).env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let output = demo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The configurations of Collectors in pages, with the page that each is in.
fn documented() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("{ROOT}/docs")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(page) = fs::read_to_string(&path) else { continue };
        let blocks = page.split("```yaml\n").skip(1).map(|it| it.split("```").next().unwrap());
        for block in blocks.filter(|it| it.contains("\nexporters:") || it.starts_with("exporters:"))
        {
            found
                .push((path.file_name().unwrap().to_string_lossy().into_owned(), block.to_owned()));
        }
    }
    found
}

#[test]
fn documented_pipelines_carry_each_signal() {
    let Some(otelcol) = Otelcol::find() else { return };
    let documented = documented();
    assert_eq!(documented.len(), 1, "{documented:?}");
    for (page, block) in documented {
        let [otlp, gateway, exporter] = free_ports();
        let mut block = block;
        for (address, free) in
            [("127.0.0.1:4317", otlp), ("127.0.0.1:4319", gateway), ("localhost:9400", exporter)]
        {
            assert!(block.contains(address), "{page}: {address}");
            block = block.replace(address, &free.to_string());
        }
        let collector = otelcol.start_page(&block);
        send(otlp);
        let log = collector.log();
        for signal in ["Metrics", "Traces", "Logs"] {
            assert!(log.contains(&format!("\t{signal}\t")), "{page}: {signal}: {log}");
        }
    }
}

#[test]
fn shipped_pipelines_carry_each_signal() {
    let (Some(otelcol), Some(prometheus)) = (Otelcol::find(), Prometheus::find()) else { return };
    let prometheus = prometheus.start_shipped("otlp.yaml", None);
    let otlp = prometheus.otlp();
    let gateway = free_ports::<1>()[0].to_string();
    let variables = [("OTELCOL_PROMETHEUS_OTLP", otlp.as_str()), ("OTELCOL_GATEWAY", &gateway)];
    for added in [
        &[][..],
        &["prometheus.yaml"],
        &["gateway.yaml"],
        &["gateway.yaml", "inference.yaml"],
        &["gateway.yaml", "replicas.yaml"],
        &["gateway.yaml", "routed.yaml"],
    ] {
        let files = [&["collector.yaml"][..], added].concat();
        let collector = otelcol.start_with(&files, &variables);
        send(collector.grpc);
        let captured = collector.captured();
        let counts = [captured.metrics.len(), captured.spans.len(), captured.events.len()];
        assert!(!counts.contains(&0), "{files:?}: {counts:?}");
    }
    let collector = otelcol.start_with(&["collector.yaml", "archive.yaml"], &[]);
    send(collector.grpc);
    let sizes = collector.archives().map(|file| file.len());
    assert!(!sizes.contains(&0), "{sizes:?}");
}

/// The same attributes of resources are labels, whichever way metrics reach Prometheus.
#[test]
fn labels_of_both_ways_into_prometheus_are_the_same() {
    let lists = ["collector/collector.yaml", "prometheus/otlp.yaml"].map(|file| {
        let text = fs::read_to_string(format!("{ROOT}/otel-config/{file}")).unwrap();
        let (_, list) =
            text.split_once("included:").or(text.split_once("resource_attributes:")).unwrap();
        let lines = list.lines().skip(1).map(str::trim);
        let items = lines.map_while(|line| line.strip_prefix("- ")).map(str::to_owned);
        items.collect::<Vec<_>>()
    });
    assert_eq!(lists[0], lists[1]);
    assert!(lists[0].len() > 10, "{lists:?}");
}

#[test]
fn shipped_pipelines_are_valid() {
    let Some(otelcol) = Otelcol::find() else { return };
    let dir = tempfile::tempdir().unwrap();
    let validate = |files: &[&str], backend: Option<&str>| {
        let mut command = otelcol.command(Some("validate"), files, dir.path());
        command.envs(backend.map(|backend| ("OTELCOL_BACKEND", backend)));
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(stderr) }
    };
    assert_eq!(validate(&["collector.yaml"], None), Ok(()));
    assert_eq!(validate(&["collector.yaml", "archive.yaml"], None), Ok(()));
    assert_eq!(validate(&["collector.yaml", "gateway.yaml"], None), Ok(()));
    let inference = ["collector.yaml", "gateway.yaml", "inference.yaml"];
    assert_eq!(validate(&inference, None), Ok(()));
    let jaeger = ["collector.yaml", "prometheus.yaml", "jaeger.yaml"];
    assert_eq!(validate(&jaeger, None), Ok(()));
    let replicas = ["collector.yaml", "gateway.yaml", "replicas.yaml"];
    assert_eq!(validate(&replicas, None), Ok(()));
    let routed = ["collector.yaml", "gateway.yaml", "routed.yaml"];
    assert_eq!(validate(&routed, None), Ok(()));
    let both = ["collector.yaml", "forward.yaml"];
    assert_eq!(validate(&both, Some("backend:4317")), Ok(()));
    let rejected = validate(&both, None).unwrap_err();
    assert!(rejected.contains("endpoint"), "{rejected}");
}
