//! Which GPU is which over the searches of a run: each keeps the index at which it was listed first.
//!
//! A driver that is loaded again counts the GPUs anew: without one that fell off the bus, or in another order. Indices
//! that users and variables give are those of the first listing, and so are those in names, logs and the report.

use phasemeter_meter::reading::GpuIdentity;

use super::GpuAnswer;

/// The GPUs that were listed in this run, by index.
#[derive(Debug, Default)]
pub struct KnownGpus(Vec<ListedGpu>);

/// A GPU of this run.
#[derive(Clone, Debug)]
pub struct ListedGpu {
    /// Its identity, with its index in this run. Without a UUID it has never answered.
    pub identity: GpuIdentity,
    /// Its place in the last listing; `None` if it is not there.
    pub place: Option<usize>,
}

impl KnownGpus {
    /// All GPUs of a listing, and those of earlier ones, by index.
    ///
    /// A UUID tells which GPU it is. A GPU that does not answer is the one with the index of its place, else one that is
    /// missing. A new one takes its index from a GPU that is missing, which it replaces, once all others have answered;
    /// if that index is another GPU's, it gets the next one.
    pub fn list(&mut self, answers: &[GpuAnswer]) -> &[ListedGpu] {
        self.0.iter_mut().for_each(|known| known.place = None);
        let (mut unanswered, mut new) = (Vec::new(), Vec::new());
        for (place, answer) in answers.iter().enumerate() {
            let GpuAnswer::Found(found) = answer else {
                unanswered.push(place);
                continue;
            };
            let found = &found.identity;
            let is_it = |known: &&mut ListedGpu| {
                known.place.is_none()
                    && known.identity.uuid.is_some()
                    && known.identity.uuid == found.uuid
            };
            match self.0.iter_mut().find(is_it) {
                Some(known) => known.set(place, found),
                None => new.push((place, found)),
            }
        }
        for place in unanswered {
            let own = self.0.iter().position(|known| known.is_missing_at(index(place)));
            let missing = || self.0.iter().position(|known| known.place.is_none());
            match own.or_else(missing).and_then(|it| self.0.get_mut(it)) {
                Some(known) => known.place = Some(place),
                None => self.add(unidentified(self.free_index(index(place))), place),
            }
        }
        let is_waiting = answers.iter().any(|answer| matches!(answer, GpuAnswer::Waiting));
        for (place, found) in new {
            let wanted = found.index.unwrap_or_else(|| index(place));
            let is_found = |place: usize| matches!(answers.get(place), Some(GpuAnswer::Found(_)));
            match self.0.iter_mut().find(|known| known.identity.index == Some(wanted)) {
                Some(known)
                    if is_waiting
                        && known.identity.uuid.is_some()
                        && !known.place.is_some_and(is_found) =>
                {
                    // It may be one of those that have not answered.
                }
                Some(missing) if missing.place.is_none() => missing.set(place, found),
                _ => {
                    let index = Some(self.free_index(wanted));
                    self.add(GpuIdentity { index, ..found.clone() }, place);
                }
            }
        }
        self.0.sort_by_key(|known| known.identity.index);
        &self.0
    }

    /// This index, or if it is a GPU's, the one after all.
    fn free_index(&self, wanted: u32) -> u32 {
        let indices = || self.0.iter().filter_map(|known| known.identity.index);
        if indices().any(|index| index == wanted) {
            return indices().max().map_or(0, |last| last.saturating_add(1));
        }
        wanted
    }

    fn add(&mut self, identity: GpuIdentity, place: usize) {
        self.0.push(ListedGpu { identity, place: Some(place) });
    }
}

impl ListedGpu {
    fn is_missing_at(&self, index: u32) -> bool {
        self.place.is_none() && self.identity.index == Some(index)
    }

    /// Notes what was found at a place, without its index there.
    fn set(&mut self, place: usize, found: &GpuIdentity) {
        self.place = Some(place);
        self.identity = GpuIdentity { index: self.identity.index, ..found.clone() };
    }
}

/// The index that a driver gives to a place in its list.
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// A GPU that has not answered: only its index is known.
#[must_use]
pub fn unidentified(index: u32) -> GpuIdentity {
    GpuIdentity { name: index.to_string(), index: Some(index), ..GpuIdentity::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::DiscoveredGpu;

    use super::*;

    /// A listing: `?` waits, `!` fails, any other letter is the UUID of a GPU that is found.
    fn answers(listing: &str) -> Vec<GpuAnswer> {
        let answer = |(index, letter): (u32, char)| match letter {
            '?' => GpuAnswer::Waiting,
            '!' => GpuAnswer::Failed("no answer".into()),
            uuid => GpuAnswer::Found(Box::new(DiscoveredGpu {
                identity: GpuIdentity {
                    uuid: Some(uuid.into()),
                    index: Some(index),
                    ..GpuIdentity::default()
                },
                links: BTreeSet::new(),
                processes: Vec::new(),
                missing: Vec::new(),
            })),
        };
        (0..).zip(listing.chars()).map(answer).collect()
    }

    /// The UUIDs by index after these listings, `?` if there was never one, and the places in the last one.
    fn after(listings: &[&str]) -> (String, String) {
        let mut known = KnownGpus::default();
        let mut last = (String::new(), String::new());
        for listing in listings {
            let listed = known.list(&answers(listing));
            let uuid = |gpu: &ListedGpu| gpu.identity.uuid.clone().unwrap_or_else(|| "?".into());
            let place = |gpu: &ListedGpu| gpu.place.map_or("-".into(), |place| place.to_string());
            last = (listed.iter().map(uuid).collect(), listed.iter().map(place).collect());
            let indices = (0..).take(listed.len()).map(Some);
            assert!(listed.iter().map(|gpu| gpu.identity.index).eq(indices), "{listing}");
        }
        last
    }

    #[test]
    fn index_stays_with_its_gpu() {
        for (listings, uuids, places) in [
            (&["abc"][..], "abc", "012"),
            (&["abc", "cab"], "abc", "120"),
            // Off the bus, and back elsewhere.
            (&["abc", "bc"], "abc", "-01"),
            (&["abc", "bc", "bca"], "abc", "201"),
            // Replaced, and the old one is put into another slot.
            (&["abc", "abd"], "abd", "012"),
            (&["abc", "abd", "abdc"], "abdc", "0123"),
            // A new one shifts all others.
            (&["ab", "nab"], "abn", "120"),
            (&["ab", "nb"], "nb", "01"),
            // Off the bus while another one is added.
            (&["abc", "bcd"], "abcd", "-012"),
            // One UUID twice.
            (&["aa", "aa"], "aa", "01"),
            (&["abc", ""], "abc", "---"),
        ] {
            assert_eq!(after(listings), (uuids.into(), places.into()), "{listings:?}");
        }
    }

    #[test]
    fn gpu_without_an_answer_is_the_one_at_its_place_or_missing() {
        for (listings, uuids, places) in [
            (&["???"][..], "???", "012"),
            (&["?b?", "ab?", "abc"], "abc", "012"),
            (&["a!c", "abc"], "abc", "012"),
            (&["abc", "a!c"], "abc", "012"),
            (&["abc", "c!b"], "abc", "120"),
            // Whether the new one replaces a GPU is known when all have answered.
            (&["ab", "n??"], "ab", "21"),
            (&["ab", "n??", "na?", "nab"], "abn", "120"),
            (&["ab", "n?", "nb"], "nb", "01"),
            (&["ab", "n!"], "nb", "01"),
        ] {
            assert_eq!(after(listings), (uuids.into(), places.into()), "{listings:?}");
        }
    }
}
