//! Export as JSON over HTTP to a Collector that forwards over gRPC to another one.

use std::collections::BTreeSet;

use crate::otelcol::Otelcol;
use crate::otlp::{Captured, billionths};
use crate::run::{RATE, Run};
use crate::script::{BOUND, FREE, HELD, Plan, Script};

const PLANS: [Plan; 2] = [
    Plan { edge: FREE, activities: &[(HELD, 1), (BOUND, 1)] },
    Plan { edge: HELD, activities: &[(BOUND, 2)] },
];

#[test]
fn forwarded_data_reaches_backend() {
    let Some(otelcol) = Otelcol::find() else { return };
    let backend = otelcol.start();
    let address = backend.grpc.to_string();
    let variables = [("OTELCOL_BACKEND", address.as_str()), ("OTELCOL_BACKEND_INSECURE", "true")];
    let agent = otelcol.start_with(&["collector.yaml", "forward.yaml"], &variables);
    let script = Script::begin(&PLANS).with_faults(&[(500, "device = 0\nxid = 79")]);
    let run = Run::new(&script).export_to(&format!("http://{}", agent.http), "http/json");
    let report = run.env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip").report();

    let page = agent.page();
    for name in ["hw_gpu_utilization_ratio{", "phasemeter_gpu_cost_total{"] {
        assert!(page.contains(name), "{name} is not in {page}");
    }
    // Stop the first one first, so that it forwards everything it has.
    let agent = agent.captured();
    let backend = backend.captured();
    assert_eq!(spans(&agent), spans(&backend));
    for captured in [&agent, &backend] {
        // A recommendation may follow from the error.
        let faults =
            captured.events.iter().filter(|it| it.event_name.starts_with("phasemeter.gpu."));
        let [event] = faults.collect::<Vec<_>>()[..] else { panic!("{:?}", captured.events) };
        assert_eq!(event.event_name, "phasemeter.gpu.xid.reported");
        assert!(captured.spans.iter().any(|span| span.span_id == event.span_id));
    }
    for (index, gpu) in report.gpus().iter().enumerate() {
        let id = gpu["id"].as_str().unwrap();
        let costs = agent.last("phasemeter.gpu.cost", id);
        assert_eq!(costs, backend.last("phasemeter.gpu.cost", id));
        let streams = agent.streams("phasemeter.gpu.cost");
        let first = streams.iter().find(|(labels, _)| labels["hw.id"] == id).unwrap().1.points[0];
        let span = billionths(gpu["span_seconds"].as_f64().unwrap());
        for (account, cost) in script.gpu(index).cost(RATE, first.start, span) {
            assert_eq!(billionths(costs[account]), cost, "{account} of {id}");
        }
    }
}

fn spans(captured: &Captured) -> BTreeSet<Vec<u8>> {
    captured.spans.iter().map(|span| span.span_id.clone()).collect()
}
