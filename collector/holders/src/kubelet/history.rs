//! Which list of the kubelet counts: not every one is the truth.
//!
//! A kubelet that has just started lists no pods for about 250 ms, and one that is being updated does not answer for a
//! while; the pods run on.

use phasemeter_meter::units::{Nanos, Timestamp};

use super::listing::Listing;

/// How long no pods must be listed until that is believed.
pub(crate) const EMPTY_FOR: Nanos = Nanos::from_secs(3);

/// How many times in a row no pods must be listed until that is believed.
pub(crate) const EMPTY_POLLS: u32 = 3;

/// How long the last list counts while the kubelet does not answer. Without a kubelet no pod starts, but it may be that
/// only its socket is out of reach.
pub(crate) const KEPT_FOR: Nanos = Nanos::from_secs(300);

/// The list that counts, from poll to poll.
#[derive(Debug, Default)]
pub(crate) struct History {
    current: Option<Listing>,
    answered: Timestamp,
    /// Since when, and how many times, no pods were listed.
    empty: Option<(Timestamp, u32)>,
}

/// What follows from a poll.
#[derive(Debug)]
pub(crate) struct Believed<'h> {
    /// The list that counts; `None` if nothing is known.
    pub(crate) listing: Option<&'h Listing>,
    /// Since when it counts, if that is earlier than the poll.
    pub(crate) since: Timestamp,
    /// Whether an earlier list counts, since the present one is empty.
    pub(crate) is_doubted: bool,
}

impl History {
    /// Takes the result of a poll: `None` if the kubelet did not answer.
    pub(crate) fn poll(&mut self, now: Timestamp, listed: Option<Listing>) -> Believed<'_> {
        let mut since = now;
        let mut is_doubted = false;
        match listed {
            Some(listing) if listing.has_pods() || !self.had_pods() => {
                (self.current, self.answered, self.empty) = (Some(listing), now, None);
            }
            Some(listing) => {
                let (from, polls) = self.empty.unwrap_or((now, 0));
                self.answered = now;
                if now.since(from) >= EMPTY_FOR && polls + 1 >= EMPTY_POLLS {
                    since = from;
                    (self.current, self.empty) = (Some(listing), None);
                } else {
                    is_doubted = true;
                    self.empty = Some((from, polls.saturating_add(1)));
                }
            }
            None => {
                self.empty = None;
                if now.since(self.answered) >= KEPT_FOR {
                    self.current = None;
                }
            }
        }
        Believed { listing: self.current.as_ref(), since, is_doubted }
    }

    fn had_pods(&self) -> bool {
        self.current.as_ref().is_some_and(Listing::has_pods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PodName;

    fn pods(has_pods: bool) -> Option<Listing> {
        let pod = PodName { namespace: "ml".to_owned(), name: "train-0".to_owned() };
        Some(Listing {
            active: has_pods.then_some(pod).into_iter().collect(),
            ..Listing::default()
        })
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis).unwrap()
    }

    #[test]
    fn empty_list_is_believed_if_it_lasts() {
        let mut history = History::default();
        assert!(history.poll(at(0), pods(true)).listing.unwrap().has_pods());
        // After a restart.
        assert!(history.poll(at(1_000), pods(false)).listing.unwrap().has_pods());
        let back = history.poll(at(1_250), pods(true));
        assert!(back.listing.unwrap().has_pods() && !back.is_doubted);
        // No pods are left.
        for millis in [2_000, 3_000, 4_999] {
            let doubted = history.poll(at(millis), pods(false));
            assert!(doubted.listing.unwrap().has_pods() && doubted.is_doubted, "{millis}");
        }
        let believed = history.poll(at(5_000), pods(false));
        assert!(!believed.listing.unwrap().has_pods());
        assert_eq!(believed.since, at(2_000));
        assert_eq!(history.poll(at(6_000), pods(false)).since, at(6_000));
    }

    #[test]
    fn two_polls_far_apart_do_not_prove_that_all_pods_are_gone() {
        let mut history = History::default();
        history.poll(at(0), pods(true));
        history.poll(at(10_000), pods(false));
        assert!(history.poll(at(20_000), pods(false)).is_doubted);
        assert!(!history.poll(at(30_000), pods(false)).is_doubted);
    }

    #[test]
    fn last_list_counts_while_kubelet_is_down() {
        let mut history = History::default();
        assert!(history.poll(at(0), None).listing.is_none());
        history.poll(at(1_000), pods(true));
        assert!(history.poll(at(300_999), None).listing.is_some());
        assert!(history.poll(at(301_000), None).listing.is_none());
        assert!(history.poll(at(302_000), pods(true)).listing.is_some());
    }

    #[test]
    fn first_empty_list_is_believed() {
        let mut history = History::default();
        let first = history.poll(at(0), pods(false));
        assert!(!first.listing.unwrap().has_pods() && !first.is_doubted);
    }
}
