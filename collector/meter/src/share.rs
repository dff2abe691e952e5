//! Parts of a GPU, their sums and products.

/// A part of a GPU, from none to the whole: `parts` ÷ `of`, exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Share {
    parts: u32,
    of: u32,
}

impl Share {
    /// Nothing of the GPU.
    pub const NONE: Self = Self { parts: 0, of: 1 };

    /// The whole GPU.
    pub const WHOLE: Self = Self { parts: 1, of: 1 };

    /// This part; `None` unless `parts` ≤ `of` and `of` > 0.
    #[must_use]
    pub const fn new(parts: u32, of: u32) -> Option<Self> {
        if parts <= of && of > 0 { Some(Self { parts, of }) } else { None }
    }

    /// A part of a whole in lowest terms, of numbers that are too large to 32 bits; `None` if it is more than the
    /// whole.
    #[must_use]
    pub fn reduced(part: u128, whole: u128) -> Option<Self> {
        let divisor = gcd(part, whole).max(1);
        let (mut part, mut whole) = (part / divisor, whole / divisor);
        while whole > u32::MAX.into() {
            (part, whole) = (part >> 1, whole >> 1);
        }
        Self::new(u32::try_from(part).ok()?, u32::try_from(whole).ok()?)
    }

    /// The sum of parts; `None` if it is more than the whole.
    #[must_use]
    pub fn sum(shares: impl IntoIterator<Item = Self>) -> Option<Self> {
        shares.into_iter().try_fold(Self::NONE, |sum, share| {
            let ((a, b), (c, d)) = (sum.wide(), share.wide());
            Self::reduced(a * d + c * b, b * d)
        })
    }

    /// A part of this part.
    #[must_use]
    pub fn part(self, share: Self) -> Option<Self> {
        let ((a, b), (c, d)) = (self.wide(), share.wide());
        Self::reduced(a * c, b * d)
    }

    /// Numerator and denominator.
    #[must_use]
    pub const fn ratio(self) -> (u32, u32) {
        (self.parts, self.of)
    }

    fn wide(self) -> (u128, u128) {
        (self.parts.into(), self.of.into())
    }
}

/// The greatest common divisor.
pub(crate) const fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(parts: u32, of: u32) -> Share {
        Share::new(parts, of).unwrap()
    }

    #[test]
    fn share_is_at_most_the_whole() {
        assert_eq!(Share::new(1, 1), Some(Share::WHOLE));
        assert_eq!(Share::new(1, 3).map(Share::ratio), Some((1, 3)));
        assert_eq!([Share::new(2, 1), Share::new(0, 0), Share::new(1, 0)], [None; 3]);
    }

    #[test]
    fn parts_are_exact_if_they_can_be() {
        assert_eq!(Share::reduced(20_480, 81_920), Share::new(1, 4));
        assert_eq!(Share::reduced(10_240, 81_559), Share::new(10_240, 81_559));
        assert_eq!([Share::reduced(2, 1), Share::reduced(0, 0)], [None; 2]);
        assert_eq!(Share::reduced(u128::MAX / 2, u128::MAX - 1), Share::new(1, 2));
        assert!(Share::reduced((1 << 100) - 1, 1 << 102).is_some());
    }

    #[test]
    fn sums_are_at_most_the_whole() {
        assert_eq!(Share::sum([]), Some(Share::NONE));
        assert_eq!(Share::sum([share(1, 4), share(1, 4)]), Some(share(1, 2)));
        assert_eq!(Share::sum([share(1, 3), share(2, 3)]), Some(Share::WHOLE));
        assert_eq!(Share::sum([share(1, 3), share(1, 2), share(1, 6)]), Some(Share::WHOLE));
        assert_eq!(Share::sum([share(3, 4), share(1, 2)]), None);
        assert_eq!(Share::sum([Share::WHOLE, share(1, u32::MAX)]), None);
        assert!(Share::sum([share(1, u32::MAX), share(1, u32::MAX - 1)]).is_some());
    }

    #[test]
    fn part_of_part_is_exact() {
        assert_eq!(share(2, 7).part(share(1, 2)), Some(share(1, 7)));
        assert_eq!(share(1, u32::MAX).part(share(1, u32::MAX)).unwrap().ratio().0, 0);
    }
}
