//! A backend that checks what arrives.

use std::collections::BTreeMap;

use phasemeter_outbox::Stream;
use phasemeter_simulation::Rng;

/// The request with this number: its bytes follow from it.
pub(crate) fn request(id: u64) -> Vec<u8> {
    let mut rng = Rng(id);
    let length = if rng.percent(5) { 3_000 } else { rng.below(300) };
    let mut bytes = id.to_le_bytes().to_vec();
    while bytes.len() < usize::try_from(length).unwrap() {
        bytes.extend_from_slice(&rng.number().to_le_bytes());
    }
    bytes
}

/// What a backend has.
#[derive(Debug, Default)]
pub(crate) struct Backend {
    /// How often each request arrived.
    pub(crate) arrived: [BTreeMap<u64, u64>; Stream::COUNT],
}

impl Backend {
    /// Receives a request; an error if it is changed, or if it is new and older than one that arrived.
    pub(crate) fn receive(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), String> {
        let arrived = &mut self.arrived[stream.index()];
        let id = bytes.first_chunk().copied().map(u64::from_le_bytes).unwrap_or_default();
        if bytes != request(id) {
            return Err(format!("request {id} of {stream:?} was changed"));
        }
        if !arrived.contains_key(&id)
            && let Some((newest, _)) = arrived.last_key_value().filter(|(newest, _)| **newest > id)
        {
            return Err(format!("request {id} of {stream:?} arrived after {newest}"));
        }
        *arrived.entry(id).or_default() += 1;
        Ok(())
    }
}
