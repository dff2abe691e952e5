//! `/metrics`: what was exported last, and the metrics of this process now; `/metrics/internal`: the latter alone.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use phasemeter_otlp::exposition::{Exposition, Format};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::telemetry::ScrapeReader;

/// Pages in memory at a time, until their clients have read them; further clients wait.
const PAGES: usize = 2;

/// What a page is made of. Clones share it.
#[derive(Clone, Debug)]
pub struct MetricsPages {
    exported: Exposition,
    own: ScrapeReader,
    pages: Arc<Semaphore>,
}

/// A page that counts until it is dropped.
struct CountedPage {
    text: String,
    _permit: OwnedSemaphorePermit,
}

impl MetricsPages {
    /// Pages of what is recorded there.
    #[must_use]
    pub fn new(exported: Exposition, own: ScrapeReader) -> Self {
        Self { exported, own, pages: Arc::new(Semaphore::new(PAGES)) }
    }

    /// The same without what was exported.
    pub(super) fn internal(self) -> Self {
        Self { exported: Exposition::new(Duration::ZERO), ..self }
    }

    /// The page now; `None` if it cannot be made. Probes are answered meanwhile.
    pub(super) async fn page(self, format: Format) -> Option<Bytes> {
        let Self { exported, own, pages } = self;
        let permit = pages.acquire_owned().await.ok()?;
        let write = move || {
            if let Some(request) = own.request() {
                exported.record(&request, Instant::now());
            }
            let text = exported.page(format, Instant::now());
            Bytes::from_owner(CountedPage { text, _permit: permit })
        };
        let (sender, page) = oneshot::channel();
        let send = move || {
            // A client that has gone needs no page.
            let _ = sender.send(write());
        };
        thread::Builder::new().name("metrics-page".to_owned()).spawn(send).ok()?;
        page.await.ok()
    }
}

impl AsRef<[u8]> for CountedPage {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}
