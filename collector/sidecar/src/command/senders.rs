//! Names senders in sentences.

use phasemeter_engine::gateway::SenderCounts;
use phasemeter_terminal::escape::clean;

use super::listing::{counted, listed};

/// Maximum number of senders that are named.
const MAX_NAMES: usize = 4;

/// The senders of the most things, each with their number; `None` if there are none.
pub(super) fn named(senders: &SenderCounts, thing: &str) -> Option<String> {
    let mut senders: Vec<_> = senders.iter().collect();
    senders.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let name = |(sender, count): &(&str, u64)| match *sender {
        "" => format!("others ({})", counted(*count, thing)),
        sender => format!("{} ({})", clean(sender), counted(*count, thing)),
    };
    (!senders.is_empty()).then(|| listed(senders.iter().map(name), MAX_NAMES))
}
