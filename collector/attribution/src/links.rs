//! Parents of spans, chosen or not, for as many recent spans as memory allows.

use std::collections::{HashMap, VecDeque};

use crate::span::SpanKey;

/// Spans that are remembered: about 12 MiB.
const MAX_LINKS: usize = 131_072;

/// What is remembered of a span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) parent: Option<[u8; 8]>,
    /// Whether it has been priced.
    pub(crate) is_priced: bool,
}

/// The recent spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    links: HashMap<SpanKey, Link>,
    order: VecDeque<SpanKey>,
}

impl Links {
    /// Remembers a span. What is priced remains priced.
    pub(crate) fn insert(&mut self, key: SpanKey, parent: Option<[u8; 8]>, is_priced: bool) {
        if let Some(link) = self.links.get_mut(&key) {
            link.is_priced |= is_priced;
            return;
        }
        self.links.insert(key, Link { parent, is_priced });
        self.order.push_back(key);
        while self.order.len() > MAX_LINKS {
            if let Some(oldest) = self.order.pop_front() {
                self.links.remove(&oldest);
            }
        }
    }

    pub(crate) fn get(&self, key: &SpanKey) -> Option<Link> {
        self.links.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_links_are_dropped() {
        let key = |n: usize| {
            let mut trace = [0; 16];
            trace[..8].copy_from_slice(&n.to_le_bytes());
            SpanKey { trace, span: [1; 8] }
        };
        let mut links = Links::default();
        for n in 0..=MAX_LINKS {
            links.insert(key(n), None, false);
        }
        assert!(links.get(&key(0)).is_none());
        assert!(links.get(&key(1)).is_some());
        assert_eq!((links.links.len(), links.order.len()), (MAX_LINKS, MAX_LINKS));
    }
}
