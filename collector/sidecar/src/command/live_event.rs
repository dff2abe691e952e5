//! Events of a GPU in a live run: which are exported, and how they are logged.
//!
//! Must not depend on how often an event is logged.

use phasemeter_otlp::encode::EventKind;
use phasemeter_sources::nvml::Event;
use tracing::{Level, debug, info, warn};

/// The events that are exported: those of a GPU, not of polling.
pub(super) const fn exported(event: Event) -> Option<EventKind> {
    match event {
        Event::Xid(code) => Some(EventKind::Xid(code)),
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

/// Logs a change of a GPU's MIG mode, and what it means for metering.
pub(super) fn log_mig_mode(name: &str, index: Option<u32>, enabled: bool) {
    if enabled {
        warn!(
            gpu = index,
            "{name}: MIG mode is enabled; the driver reports no utilization of the GPU in it, so it is \
             unobserved"
        );
    } else {
        info!(gpu = index, "{name}: MIG mode is disabled; the GPU is observed");
    }
}

/// The level at which an event is logged.
pub(super) const fn level(event: Event) -> Level {
    match event {
        // Missing properties are expected on many GPUs.
        Event::Unsupported(..) => Level::DEBUG,
        Event::Supported(_)
        | Event::Recovered
        | Event::CallRecovered(_)
        | Event::PollPeriod(..) => Level::INFO,
        Event::Xid(_) | Event::Lost(_) | Event::Refused(..) | Event::CallHung(_) => Level::WARN,
    }
}

/// Logs an event of a GPU. `suppressed`: messages of its kind that were not logged before it.
pub(super) fn log(event: Event, name: &str, index: Option<u32>, suppressed: u64) {
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
