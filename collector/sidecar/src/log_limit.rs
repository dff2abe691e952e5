//! Limits the lines of one kind in the log, whatever causes them: a request, a workload or a driver.
//!
//! A kind is the place in the source that logs. Lines of the levels debug and trace, which are requested, are
//! not limited.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use phasemeter_otlp::LogLimiter;
use tracing::{Event, Level, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Lines of one kind per minute: more than a machine has GPUs.
const BURST: u64 = 300;

/// A place in the source: file and line.
type SourceLocation = (&'static str, u32);

/// The lines of the last minute.
pub(crate) struct LogLimit(Mutex<LogLimiter<SourceLocation>>);

impl LogLimit {
    /// Nothing has been logged.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(LogLimiter::with_burst(BURST)))
    }

    /// Whether a line of a place is logged now, and the numbers of lines suppressed in minutes that are over.
    fn permit(&self, place: SourceLocation, now: Instant) -> (bool, Vec<u64>) {
        let mut limiter = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = limiter.take_passed(now).into_iter().map(|(_, suppressed)| suppressed);
        let passed = passed.collect();
        (limiter.permit(place, now).is_some(), passed)
    }

    /// Logs how many lines were suppressed last, at the end.
    pub(crate) fn finish(&self) {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take_all();
        left.into_iter().for_each(|(_, suppressed)| report(suppressed));
    }
}

impl<S: Subscriber> Layer<S> for &'static LogLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO {
            return true;
        }
        let place = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        let (is_permitted, passed) = self.permit(place, Instant::now());
        passed.into_iter().for_each(report);
        is_permitted
    }
}

fn report(suppressed: u64) {
    warn!(suppressed, "{suppressed} more messages of one kind suppressed");
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;
    use std::time::Duration;

    use tracing::{debug, info};
    use tracing_subscriber::fmt::layer;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    use super::*;

    /// Lines that were written.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_of_one_place_are_limited() {
        static LIMIT: LogLimit = LogLimit::new();
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = layer().with_writer(move || writer.clone()).with_ansi(false);
        tracing::subscriber::with_default(registry().with(layer).with(&LIMIT), || {
            for request in 0..80_000 {
                warn!("item {request} rejected");
            }
            (0..1_000).for_each(|tick| debug!("tick {tick}"));
            info!("another kind");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
        assert_eq!(count("rejected"), usize::try_from(BURST).unwrap());
        assert_eq!((count("tick"), count("another kind")), (1_000, 1));
        let left = LIMIT.0.lock().unwrap().take_all();
        assert_eq!(left.into_iter().map(|(_, suppressed)| suppressed).sum::<u64>(), 80_000 - BURST);
    }

    #[test]
    fn suppressed_lines_are_known_when_the_minute_is_over() {
        let (limit, start) = (LogLimit::new(), Instant::now());
        let permitted = (0..1_000).filter(|_| limit.permit(("a", 1), start).0).count();
        assert_eq!(permitted, 300);
        let later = start + Duration::from_secs(61);
        assert_eq!(limit.permit(("b", 1), later), (true, vec![700]));
        assert_eq!(limit.permit(("a", 1), later), (true, vec![]));
    }
}
