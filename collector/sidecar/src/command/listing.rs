//! Numbers and names of things in sentences.

/// A number of things, whose plural ends in s.
pub(super) fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The first names, and the number of the others.
pub(super) fn listed(names: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let more = match names.len().saturating_sub(most) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.take(most).collect::<Vec<_>>().join(", ") + &more
}
