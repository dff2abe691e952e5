//! Sums and products of parts of a GPU, exact.

use phasemeter_meter::holder::Share;

/// The sum of parts; `None` if it exceeds the whole, or cannot be written.
pub(crate) fn sum(shares: impl IntoIterator<Item = Share>) -> Option<Share> {
    let mut total = Share::new(0, 1)?;
    for share in shares {
        let ((a, b), (c, d)) = (total.ratio(), share.ratio());
        let parts = u64::from(a) * u64::from(d);
        let parts = parts.checked_add(u64::from(c) * u64::from(b))?;
        total = reduced(parts, u64::from(b) * u64::from(d))?;
    }
    Some(total)
}

/// A part of a part; `None` if it cannot be written.
pub(crate) fn of(share: Share, whole: Share) -> Option<Share> {
    let ((a, b), (c, d)) = (share.ratio(), whole.ratio());
    reduced(u64::from(a) * u64::from(c), u64::from(b) * u64::from(d))
}

fn reduced(parts: u64, of: u64) -> Option<Share> {
    let divisor = gcd(parts, of).max(1);
    Share::new(u32::try_from(parts / divisor).ok()?, u32::try_from(of / divisor).ok()?)
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(parts: u32, of: u32) -> Share {
        Share::new(parts, of).unwrap()
    }

    #[test]
    fn sums_are_exact_and_at_most_the_whole() {
        assert_eq!(sum([]), Some(share(0, 1)));
        assert_eq!(sum([share(1, 4), share(1, 4)]), Some(share(1, 2)));
        assert_eq!(sum([share(1, 3), share(2, 3)]), Some(Share::WHOLE));
        assert_eq!(sum([share(1, 3), share(1, 2), share(1, 6)]), Some(Share::WHOLE));
        assert_eq!(sum([Share::WHOLE, share(1, u32::MAX)]), None);
        assert_eq!(sum([share(1, u32::MAX), share(1, u32::MAX - 1)]), None);
    }

    #[test]
    fn part_of_part_is_exact() {
        assert_eq!(of(share(1, 2), share(2, 7)), Some(share(1, 7)));
        assert_eq!(of(share(1, u32::MAX), share(1, u32::MAX)), None);
    }
}
