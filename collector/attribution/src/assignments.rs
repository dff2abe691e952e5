//! The holders that a GPU is assigned to, over time.
//!
//! The points of a GPU name its holders. A holder has the GPU from the point before the first
//! that names it, until the first that no longer does: one that has moved does not pay for the GPU that it left.

use std::ops::Range;

use phasemeter_meter::units::{Nanos, Timestamp};

use crate::holder_keys::HolderKeys;

/// Points of one instant are up to this far apart.
const SAME_INSTANT: Nanos = Nanos::from_millis(500);

/// The assignments of a GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assignments {
    all: Vec<Assignment>,
    /// The last instant with a point, and the one before.
    last: Option<Timestamp>,
    before: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Assignment {
    holder: HolderKeys,
    from: Timestamp,
    /// The first instant that does not name it; `None` if the last one does.
    until: Option<Timestamp>,
}

impl Assignments {
    /// A point of this instant names this holder, or none. Points in the past are ignored. Beyond `most` assignments,
    /// the oldest are forgotten.
    pub(crate) fn see(&mut self, at: Timestamp, holder: Option<HolderKeys>, most: usize) {
        if self.last.is_none_or(|last| at.since(last) > SAME_INSTANT) {
            self.before = self.last.replace(at);
            for assignment in &mut self.all {
                assignment.until.get_or_insert(at);
            }
        }
        let (Some(last), Some(holder)) = (self.last, holder) else { return };
        if last.since(at) > SAME_INSTANT {
            return;
        }
        let is_current = |it: &Assignment| it.until.is_none_or(|until| until == last);
        match self.all.iter_mut().find(|it| is_current(it) && it.holder == holder) {
            Some(assignment) => assignment.until = None,
            None => {
                let excess = (self.all.len() + 1).saturating_sub(most);
                self.all.drain(..excess.min(self.all.len()));
                let from = self.before.unwrap_or(Timestamp::EPOCH);
                self.all.push(Assignment { holder, from, until: None });
            }
        }
    }

    /// Whether a holder with one of these keys has it at any time of these.
    pub(crate) fn have(&self, holder: &HolderKeys, during: &Range<Timestamp>) -> bool {
        self.all.iter().any(|it| it.overlaps(during) && it.holder.are_of(holder))
    }

    /// Whether anybody has it at any time of these.
    pub(crate) fn have_any(&self, during: &Range<Timestamp>) -> bool {
        self.all.iter().any(|it| it.overlaps(during))
    }
}

impl Assignment {
    fn overlaps(&self, during: &Range<Timestamp>) -> bool {
        self.from < during.end && self.until.is_none_or(|until| until > during.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    const MOST: usize = 8;

    fn pod(name: &str) -> HolderKeys {
        HolderKeys::new([None, name.bytes().next().map(u64::from)])
    }

    /// The pods among `a` and `b` that have the GPU in a second.
    fn at(assignments: &Assignments, from: u64) -> String {
        let during = second(from)..second(from + 1);
        let has = |name: &&str| assignments.have(&pod(name), &during);
        let all: String = ["a", "b"].into_iter().filter(has).collect();
        assert_eq!(assignments.have_any(&during), !all.is_empty());
        all
    }

    #[test]
    fn assignment_ends_with_the_first_instant_without_it() {
        let mut assignments = Assignments::default();
        let points = [(15, "a"), (30, "a"), (45, ""), (60, "b"), (75, "b"), (90, "a"), (105, "")];
        for (seconds, name) in points {
            assignments.see(second(seconds), (!name.is_empty()).then(|| pod(name)), MOST);
        }
        // Between the points, both may have it.
        let expected = [
            (0, "a"),
            (44, "a"),
            (45, "b"),
            (74, "b"),
            (75, "ab"),
            (89, "ab"),
            (90, "a"),
            (104, "a"),
            (105, ""),
            (900, ""),
        ];
        for (from, pods) in expected {
            assert_eq!(at(&assignments, from), pods, "{from}");
        }
    }

    #[test]
    fn pods_of_a_shared_gpu_have_it_together() {
        let mut assignments = Assignments::default();
        for seconds in (15..=60).step_by(15) {
            // The device itself, and its pods, of which one ends.
            assignments.see(second(seconds), None, MOST);
            assignments.see(second(seconds), Some(pod("a")), MOST);
            if seconds < 45 {
                assignments.see(second(seconds), Some(pod("b")), MOST);
            }
            assignments.see(second(seconds.saturating_sub(15)), Some(pod("b")), MOST);
        }
        assert_eq!((at(&assignments, 40), at(&assignments, 46)), ("ab".to_owned(), "a".to_owned()));
    }

    #[test]
    fn memory_is_bounded() {
        let mut assignments = Assignments::default();
        for seconds in 0..2_000 {
            assignments.see(second(seconds), Some(HolderKeys::new([None, Some(seconds)])), MOST);
        }
        assert_eq!(assignments.all.len(), MOST);
        assert!(
            assignments
                .have(&HolderKeys::new([None, Some(1_999)]), &(second(1_999)..second(2_000)))
        );
    }
}
