//! GPUs without a UUID: an ID is unique on its host only.

use crate::dcgm::{START, cost_of, hardware_of, usd};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, client};
use crate::{NANO_USD, SOON};

/// Scenario: three hosts send the same `hw.id`; an agent on the second one bills its GPU.
/// Guarantee: they are three GPUs, of which the gateway bills the others; each is named by its host, also on the wire.
#[test]
fn id_is_a_gpu_of_its_host_and_so_is_what_an_agent_bills() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    for host in ["node-1", "node-2", "node-3"] {
        for at in (START..=START + 120).step_by(15) {
            client.enqueue(hardware_of("0", "any", &[("host.name", host)], at));
        }
    }
    let agent = [("service.instance.id", "an agent"), ("host.name", "node-2")];
    client.enqueue(cost_of("0", START, START + 200, &agent));
    assert!(client.flush(SOON).all_sent());
    let (_, report) = gateway.stop();
    let gpus = report["gpus"].as_array().unwrap();
    let mut billed: Vec<_> = gpus.iter().map(|gpu| (&gpu["id"], &gpu["cost_usd"])).collect();
    billed.sort_by_key(|(id, _)| id.to_string());
    let cost = usd(120 * NANO_USD).into();
    assert_eq!(billed, [(&"node-1:0".into(), &cost), (&"node-3:0".into(), &cost)], "{report:#}");
    let captured = crate::metered(&backend);
    for id in ["node-1:0", "node-3:0"] {
        assert!(!captured.last("phasemeter.gpu.cost", id).is_empty(), "{id}");
    }
}
