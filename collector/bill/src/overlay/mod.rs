//! A report laid over a profile of the same time: phases and dollars as tracks in a file of the Chrome trace format,
//! as PyTorch's profiler writes it.
//!
//! ```text
//! profile ─→ Profile (clock, time, free IDs) ─┐
//! report  ─→ Report ──────────────────────────┴→ slices ─→ events, before those of the profile
//! ```
//!
//! A profile can be of any size: it is read twice, its bytes are copied as they are, and no more of it than one event
//! is held.

mod error;
mod events;
mod profile;
mod slices;

use std::io::{Read, Write};

use phasemeter_meter::gpu_name::{NamedGpu, gpu_names};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;

pub use error::OverlayError;
pub use profile::Profile;

use crate::report::Report;
use events::Events;
use slices::{Slice, slices};

/// Size of the copy buffer.
const BUFFER: usize = 64 << 10;

/// What was laid over a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The number of GPUs that were metered during the profile.
    pub gpus: usize,
    /// The most of the profile that one of them was metered for.
    pub metered: Nanos,
    /// The longest step that a phase is known for; `None` if the report has no utilization over time.
    pub step: Option<Nanos>,
    /// What the GPUs cost in that time; `None` if none has a price.
    pub cost: Option<NanoUsd>,
}

/// Copies a profile, with a track of phases and one of dollars for each GPU of the report that was metered during it.
/// `name` is that of the profile, and `input` its text once more.
///
/// # Errors
/// Returns an error if none was, the profile has changed since it was read, or one of them fails to be read or written.
pub fn write(
    name: &str,
    profile: &Profile,
    report: &Report,
    mut input: impl Read,
    mut out: impl Write,
) -> Result<Overlay, OverlayError> {
    let named: Vec<_> = report.gpus.iter().map(NamedGpu::from).collect();
    let names = gpu_names(&named, &str::to_owned);
    let metered: Vec<_> = report
        .gpus
        .iter()
        .zip(&names)
        .map(|(gpu, name)| (gpu, name, slices(gpu, &report.thresholds_percent, profile.span)))
        .filter(|(.., slices)| !slices.is_empty())
        .collect();
    if metered.is_empty() {
        return Err(OverlayError::apart(name, profile.span, report));
    }
    let mut begin = (&mut input).take(profile.events_at);
    let copied = copy(name, &mut begin, &mut out)?;
    // Its events must begin there still.
    if (copied.bytes, copied.last) != (profile.events_at, Some(b'[')) {
        return Err(OverlayError::Changed { file: name.to_owned() });
    }
    let mut overlay = Overlay { gpus: 0, metered: Nanos::ZERO, step: None, cost: None };
    let mut events = Events::new(&mut out, profile);
    events.process(&report.title).map_err(OverlayError::Output)?;
    for (gpu, name, slices) in metered {
        let step = gpu.timeline.as_ref().map(|timeline| timeline.step_seconds.0);
        events.gpu(name, step, &slices).map_err(OverlayError::Output)?;
        overlay.add(&slices, step);
    }
    copy(name, &mut input, &mut out)?;
    out.flush().map_err(OverlayError::Output)?;
    Ok(overlay)
}

impl Overlay {
    fn add(&mut self, slices: &[Slice], step: Option<Nanos>) {
        self.gpus += 1;
        self.metered = self.metered.max(slices.iter().map(Slice::length).sum());
        self.step = self.step.max(step);
        for cost in slices.iter().filter_map(|slice| slice.cost) {
            *self.cost.get_or_insert(NanoUsd::ZERO) += cost;
        }
    }
}

/// What was copied.
#[derive(Default)]
struct Copied {
    bytes: u64,
    last: Option<u8>,
}

/// Copies all of `input`, and tells which side has failed.
fn copy(name: &str, input: &mut impl Read, out: &mut impl Write) -> Result<Copied, OverlayError> {
    let mut copied = Copied::default();
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = match input.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(OverlayError::unreadable(name)(error)),
        };
        let bytes = &buffer[..length];
        out.write_all(bytes).map_err(OverlayError::Output)?;
        copied.bytes += length as u64;
        copied.last = bytes.last().copied();
    }
}

#[cfg(test)]
mod tests;
