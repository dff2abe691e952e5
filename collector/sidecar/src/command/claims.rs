//! Claims of a live run, by the clocks of this machine, and how long its end waits for the disk.

use std::thread;
use std::time::{Duration, Instant};

pub(super) use phasemeter_claims::Claims;
use phasemeter_claims::Writing;
use phasemeter_engine::pipeline::Finished;
use phasemeter_environment::host;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::delivery::{DataDirectory, RequestSender};
use phasemeter_sources::clock::Clock;
use tracing::warn;

/// How long the end waits for the disk.
const PATIENCE: Duration = Duration::from_secs(2);

/// What earlier runs have claimed in this data directory; `None` if that cannot be kept.
pub(super) fn open(data: &DataDirectory) -> Option<Claims> {
    let opened = Claims::open(data, Clock::start(), host::boot_id(), Writing::on_thread);
    let path = data.path().display();
    opened.inspect_err(|error| warn!("{path}: {error}; no claims are kept")).ok()
}

/// Writes what notes claim to the file, since they are removed as what earlier runs have left is delivered.
pub(super) fn keep_notes(data: &DataDirectory) {
    phasemeter_claims::keep_notes(data, Clock::start(), host::boot_id());
}

/// Sends the last claims of a run, and keeps them.
pub(super) fn finish(
    claims: &mut Claims,
    run: &Finished,
    gpus: &[GpuIdentity],
    sender: Option<&RequestSender>,
) {
    claims.finish(run, gpus, sender);
    wait_until(|| claims.have_settled());
    write(claims, run.wall);
}

/// Keeps the claims of a run that has ended.
pub(super) fn conclude(mut claims: Claims, run: &Finished) {
    claims.have_settled();
    write(&mut claims, run.wall);
}

fn write(claims: &mut Claims, wall: WallOffset) {
    wait_until(|| claims.write(wall));
    wait_until(|| claims.are_written());
}

fn wait_until(mut is_done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_done() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
}
