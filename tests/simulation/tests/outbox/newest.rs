//! What a process knows of those before it, on a disk that loses what was not synced.

use std::path::Path;
use std::sync::Arc;

use phasemeter_outbox::{DataDirectory, Directories, Limits, Outbox, Stream};
use phasemeter_simulation::{Machine, Rng, SimulatedDirectories};

/// Scenario: a process is killed once it has written a request and before it has synced it; another one reads the newest
/// requests, and the power fails.
/// Guarantee: what it has read is still there.
#[test]
fn newest_requests_are_durable_once_they_are_read() {
    for seed in crate::seeds() {
        let machine = Machine::new(Rng(seed), None);
        let all = SimulatedDirectories::of(&machine);
        let all = all.map(|one| Arc::new(one) as Arc<dyn Directories>);
        let data = DataDirectory::new(Path::new("data"), all, Limits::default(), || 0);
        let run = data.begin("label").unwrap();
        let mut outbox = Outbox::open(run.disk(), data.limits()).unwrap();
        outbox.append(Stream::ALL[1], 1, b"request", 0).unwrap();
        drop((outbox, run));
        machine.kill();
        let newest = || {
            let mut newest = Vec::new();
            data.read_newest(|payload| newest.push(payload.to_vec())).unwrap();
            newest
        };
        assert_eq!(newest(), [b"request"], "SEED={seed}");
        machine.lose_power();
        assert_eq!(newest(), [b"request"], "SEED={seed}");
    }
}
