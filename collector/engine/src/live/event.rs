//! Events of a GPU in a live run: which are exported, and how they are logged.

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_otlp::encode::EventKind;
use phasemeter_sources::live::Event;
use tracing::{Level, debug, info, warn};

/// The events that are exported: those of a GPU, not of polling.
pub const fn exported(event: Event) -> Option<EventKind> {
    match event {
        Event::Xid { code, count } => Some(EventKind::Xid { code, count }),
        Event::Lost(_) => Some(EventKind::Lost),
        Event::Recovered => Some(EventKind::Recovered),
        Event::CallHung(_) => Some(EventKind::CallHung),
        Event::CallRecovered(_) => Some(EventKind::CallRecovered),
        Event::Unsupported(..)
        | Event::Refused(..)
        | Event::Supported(_)
        | Event::PollPeriod(..) => None,
    }
}

/// The name of a GPU in messages.
pub fn name(gpu: Option<&GpuIdentity>) -> String {
    let index = gpu.and_then(|gpu| gpu.index);
    index.map_or_else(|| "unknown GPU".to_owned(), |index| format!("GPU {index}"))
}

/// Logs a change of a GPU's MIG mode, and what it means for metering.
pub fn log_mig_mode(gpu: &GpuIdentity, enabled: bool) {
    let (name, index) = (name(Some(gpu)), gpu.index);
    if enabled {
        warn!(
            gpu = index,
            "{name}: MIG mode is enabled; the driver reports no utilization of the GPU in it, so it is observed \
             only as far as counters of its instances (GPM) are"
        );
    } else {
        info!(gpu = index, "{name}: MIG mode is disabled; the GPU is observed");
    }
}

/// The level at which an event is logged.
pub const fn level(event: Event) -> Level {
    match event {
        // Missing properties are expected on many GPUs.
        Event::Unsupported(..) => Level::DEBUG,
        // Only utilization, memory and power are polled at every tick. Others may be polled less often: a call for the
        // energy counter takes milliseconds on recent GPUs.
        Event::PollPeriod(metric, _) if metric.period().0 > 0 => Level::DEBUG,
        Event::Supported(_)
        | Event::Recovered
        | Event::CallRecovered(_)
        | Event::PollPeriod(..) => Level::INFO,
        Event::Xid { .. } | Event::Lost(_) | Event::Refused(..) | Event::CallHung(_) => Level::WARN,
    }
}

/// Logs that a GPU has reported more errors of a code, and returns the message.
pub fn log_more_xids(gpu: Option<&GpuIdentity>, code: u64, count: u64) -> String {
    let more = match count {
        1 => "1 more error".to_owned(),
        more => format!("{more} more errors"),
    };
    let (name, text) = (name(gpu), format!("driver reported XID {code} ({more})"));
    warn!(gpu = gpu.and_then(|gpu| gpu.index), suppressed = count, "{name}: {text}");
    text
}

/// Logs an event of a GPU. `suppressed`: messages of its kind that were not logged before it.
pub fn log(event: Event, gpu: Option<&GpuIdentity>, suppressed: u64) {
    let (name, index) = (name(gpu), gpu.and_then(|gpu| gpu.index));
    let event_text = match suppressed {
        0 => event.to_string(),
        more => format!("{event} ({more} messages of this kind suppressed)"),
    };
    match level(event) {
        Level::WARN => warn!(gpu = index, "{name}: {event_text}"),
        Level::INFO => info!(gpu = index, "{name}: {event_text}"),
        _ => debug!(gpu = index, "{name}: {event_text}"),
    }
}
