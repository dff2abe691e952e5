//! GPUs of many holders, with a share each, in any order of arrival.

use phasemeter_meter::holder::{HolderChange, HolderUse};
use phasemeter_meter::holders::Holders;

use super::holders::labeled;
use super::*;

/// The readings of a GPU with the shares of so many pods, in this order; with a value of the whole GPU if it has one.
fn released(
    count: u32,
    whole: Option<u32>,
    turn: usize,
    is_reversed: bool,
) -> (Vec<HeldReading>, usize) {
    let util = |seconds: u64, pod: &str, percent: u32| {
        labeled(utilization("GPU-a", seconds, Basis::DcgmGpu, percent), pod)
    };
    let of = |seconds: u64| {
        let shares = (0..count).map(move |pod| {
            util(seconds, &format!("p{pod:04}"), if pod == count - 1 { 40 } else { 0 })
        });
        shares.chain(whole.map(|percent| util(seconds, "", percent)))
    };
    let mut values: Vec<_> = [0, 15].into_iter().flat_map(of).collect();
    let turn = turn % values.len();
    values.rotate_left(turn);
    if is_reversed {
        values.reverse();
    }
    let mut buffer = ReadingBuffer::new(HOLD, None, Some(Nanos::from_secs(45)));
    values.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
    let released = buffer.release_all();
    let without = buffer.holders_without_account().map(|(_, count)| count).sum();
    (released, without)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Guarantee: a value of a holder that cannot be read changes nothing for any other one.
    #[test]
    fn unreadable_share_changes_nothing_for_others(
        uses in prop::collection::vec(prop::collection::vec(0_u32..30, 3), 2..8),
        unreadable in prop::collection::vec(any::<bool>(), 8),
        turn in any::<usize>(),
    ) {
        let changes = |is_unreadable: bool| {
            let mut buffer = ReadingBuffer::new(HOLD, None, Some(Nanos::from_secs(45)));
            let mut values = Vec::new();
            for (tick, (uses, is_missing)) in uses.iter().zip(&unreadable).enumerate() {
                let seconds = tick as u64 * 15;
                let util = |pod, percent| {
                    labeled(utilization("GPU-a", seconds, Basis::DcgmGpu, percent), pod)
                };
                values.push(util("", 90));
                values.extend(["a", "b", "c"].into_iter().zip(uses).map(|(pod, used)| util(pod, *used)));
                if is_unreadable && *is_missing && let Some(last) = values.last_mut() {
                    last.value = Err(MissingReason::Unreadable);
                }
            }
            let turn = turn % values.len();
            values.rotate_left(turn);
            values.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
            let changes: Vec<_> = buffer.release_all().into_iter().flat_map(|it| it.holder_changes).collect();
            let is_of_others = |change: &HolderChange| match change {
                HolderChange::Used(HolderUse { holder, .. }) => holder.to_string() != "ml/c",
                _ => true,
            };
            let counted: usize = buffer.unreadable_shares().map(|(_, count)| count).sum();
            (changes.into_iter().filter(is_of_others).collect::<Vec<_>>(), counted)
        };
        let (readable, unreadable_too) = (changes(false), changes(true));
        prop_assert_eq!(&unreadable_too.0, &readable.0);
        let count = uses.iter().zip(&unreadable).filter(|(_, is_missing)| **is_missing).count();
        prop_assert_eq!((readable.1, unreadable_too.1), (0, count));
    }

    /// Guarantee: however many holders a GPU has, their order changes nothing, all shares make up the GPU, and those
    /// without an account are counted.
    #[test]
    fn order_of_many_holders_changes_nothing(
        count in 2_u32..700, whole in prop::option::of(60_u32..=60), turn in any::<usize>(), is_reversed: bool,
    ) {
        let (found, without) = released(count, whole, 0, false);
        prop_assert_eq!(&released(count, whole, turn, is_reversed).0, &found);
        let max = Holders::MAX_GRANTS;
        prop_assert_eq!(without, (count as usize).saturating_sub(max));
        let used = found.iter().map(|held| held.reading.utilization.unwrap());
        prop_assert!(used.into_iter().all(|used| used == percent(whole.unwrap_or(40))));
        for change in found.iter().flat_map(|held| &held.holder_changes) {
            match change {
                HolderChange::Assigned { grants, .. } => prop_assert_eq!(grants.len(), count as usize),
                HolderChange::Used(HolderUse { holder, .. }) => {
                    let first_over = format!("ml/p{max:04}");
                    prop_assert!(holder.to_string() < first_over);
                }
                _ => {}
            }
        }
    }
}

/// Guarantee: the use of a GPU that has more shares than are kept, and no value of its own, is unknown.
#[test]
fn sum_of_more_shares_than_are_kept_is_unknown() {
    for is_reversed in [false, true] {
        let (found, without) = released(1_100, None, 7, is_reversed);
        assert!(found.iter().all(|held| held.reading.utilization.is_err()));
        assert_eq!(without, 1_024 - Holders::MAX_GRANTS);
    }
}
