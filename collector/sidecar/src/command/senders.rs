//! Names senders in sentences.

use phasemeter_engine::gateway::SenderCounts;
use phasemeter_terminal::escape::clean;

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
    let more = match senders.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = senders.iter().take(MAX_NAMES).map(name).collect();
    (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
}

/// A number of things, whose plural ends in s.
pub(super) fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
