//! What kubelets and Prometheus ask a gateway: `--health-listen`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;

use crate::dcgm::{START, page};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, client};
use crate::{GPU, SOON};

/// The options of a gateway that answers probes.
const OPTIONS: [&str; 2] = ["--health-listen", "127.0.0.1:0"];

/// The status and the body of the response to a request without a body.
fn ask(address: &str, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The body and the gRPC status of `grpc.health.v1.Health/METHOD` for a request message.
fn grpc(address: &str, method: &str, message: &[u8]) -> (Vec<u8>, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = legacy::Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let frame = [&[0][..], &length, message].concat();
        let request =
            http::Request::post(format!("http://{address}/grpc.health.v1.Health/{method}"))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(Full::new(Bytes::from(frame)))
                .unwrap();
        let response = client.request(request).await.unwrap();
        let status = response.headers().get("grpc-status").cloned();
        let collected = response.into_body().collect().await.unwrap();
        let status = status.or(collected.trailers().and_then(|it| it.get("grpc-status")).cloned());
        (collected.to_bytes().to_vec(), status.unwrap().to_str().unwrap().to_owned())
    })
}

/// Asks until the answer is this one.
pub(crate) fn until(address: &str, path: &str, is_expected: impl Fn(u16, &str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let (status, body) = ask(address, "GET", path);
        if is_expected(status, &body) {
            return body;
        }
        assert!(began.elapsed() < SOON, "{path}: {status} {body}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The value of a series on a page of Prometheus, whose labels contain `label`.
pub(crate) fn value(page: &str, name: &str, label: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.starts_with(name) && line.contains(label))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn gateway_answers_probes_and_states_what_it_does() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &OPTIONS);
    let probes = gateway.probes();
    until(probes, "/readyz", |status, _| status == 200);
    assert_eq!(ask(probes, "GET", "/livez"), (200, "ok\n".to_owned()));
    assert_eq!(ask(probes, "GET", "/secrets").0, 404);
    assert_eq!(ask(probes, "POST", "/livez").0, 405);

    let sender = client(&gateway.endpoint());
    sender.enqueue(page(GPU, START, 50.0));
    assert!(sender.flush(SOON).all_sent());
    let is_counted = |_, page: &str| {
        let accepted = "phasemeter_receiver_outcome=\"accepted\"";
        value(page, "phasemeter_receiver_requests_total", accepted) == Some(1.0)
    };
    let page = until(probes, "/metrics", is_counted);
    assert!(value(&page, "process_cpu_time_seconds_total", "mode=\"user\"").is_some(), "{page}");
    assert!(page.contains("otel_sdk_exporter_metric_data_point_exported"), "{page}");
    let is_internal = |_, page: &str| {
        let names = ["process_cpu_time_seconds_total", "phasemeter_receiver_requests_total"];
        names.iter().all(|it| page.contains(it)) && !page.contains("phasemeter_gpu_")
    };
    until(probes, "/metrics/internal", is_internal);
    until(probes, "/status", |status, body| status == 200 && body.contains("phasemeter.report/"));
    assert!(gateway.stop().0.success());
}

/// `grpc.health.v1`, as kubelets ask.
#[test]
fn gateway_answers_health_checks_over_grpc() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &OPTIONS);
    until(gateway.probes(), "/readyz", |status, _| status == 200);
    // The field `status` of the response is SERVING.
    assert_eq!(grpc(gateway.probes(), "Check", &[]), (vec![0, 0, 0, 0, 2, 8, 1], "0".to_owned()));
    // The field `service` of the request is "x": not found.
    assert_eq!(grpc(gateway.probes(), "Check", &[0x0a, 1, b'x']), (Vec::new(), "5".to_owned()));
    assert!(gateway.stop().0.success());
}

/// Scenario: clients connect and send nothing, half a request, or garbage.
/// Guarantee: probes are answered.
#[test]
fn idle_clients_do_not_hold_up_probes() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &OPTIONS);
    let held: Vec<_> = [&b""[..], b"GET /livez", b"\0\0\0\0\xff\xff"]
        .into_iter()
        .map(|bytes| {
            let mut stream = TcpStream::connect(gateway.probes()).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    until(gateway.probes(), "/readyz", |status, _| status == 200);
    drop(held);
    assert!(gateway.stop().0.success());
}
