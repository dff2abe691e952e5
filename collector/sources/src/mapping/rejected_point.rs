//! Points that are refused: several of one instant and one GPU have different values, so they are of several
//! GPUs.
//!
//! They are counted by sender, with an example of each.

use std::collections::BTreeMap;
use std::fmt;

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp};

/// Maximum number of senders that are counted by name. Labels come from anywhere.
const MAX_SENDERS: usize = 256;

/// A point that contradicts another one of its instant and GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedPoint {
    /// The host, else another name of the sender; `None` if it has none, or there are too many senders.
    pub sender: Option<String>,
    /// The name of the GPU.
    pub gpu: String,
    /// Their quantity.
    pub quantity: Quantity,
    /// Their time.
    pub at: Timestamp,
    /// The labels that distinguish points under this name.
    pub differing: Vec<&'static str>,
    /// Whether it is the first of its sender.
    pub is_first: bool,
}

impl fmt::Display for RejectedPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sender, gpu, quantity, at, differing, .. } = self;
        if let Some(sender) = sender {
            write!(f, "{sender}: ")?;
        }
        let quantity = quantity.name();
        write!(f, "points of GPU {gpu} at one instant differ in {quantity} and are refused: ")?;
        match &differing[..] {
            [] => f.write_str(
                "no label distinguishes them; send a UUID, host, index or pod with each",
            )?,
            differing => {
                let names = differing.join(", ");
                write!(
                    f,
                    "they differ in {names}, too; name such a label in [identity] of a mapping"
                )?;
            }
        }
        let is_whole_second = at.as_nanos().is_multiple_of(Nanos::SECOND.0);
        f.write_str(if is_whole_second { ", or record times with decimals" } else { "" })
    }
}

/// The refused points of all senders.
#[derive(Debug, Default)]
pub(super) struct RejectedPoints {
    senders: BTreeMap<Option<String>, (u64, RejectedPoint)>,
}

impl RejectedPoints {
    /// Counts points. Returns the refusal, marked if it is the first of its sender.
    pub(super) fn add(&mut self, points: u32, mut refusal: RejectedPoint) -> RejectedPoint {
        if !self.senders.contains_key(&refusal.sender) && self.senders.len() >= MAX_SENDERS {
            refusal.sender = None;
        }
        refusal.is_first = !self.senders.contains_key(&refusal.sender);
        let first = || (0, refusal.clone());
        let (count, _) = self.senders.entry(refusal.sender.clone()).or_insert_with(first);
        *count = count.saturating_add(points.into());
        refusal
    }

    /// The number of points of each sender, with its first refusal.
    pub(super) fn by_sender(&self) -> impl Iterator<Item = (u64, &RejectedPoint)> {
        self.senders.values().map(|(count, refusal)| (*count, refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(sender: Option<&str>, differing: &[&'static str], nanos: u64) -> RejectedPoint {
        RejectedPoint {
            sender: sender.map(str::to_owned),
            gpu: "node-1:0".to_owned(),
            quantity: Quantity::Power,
            at: Timestamp::from_nanos(nanos).unwrap(),
            differing: differing.to_vec(),
            is_first: false,
        }
    }

    #[test]
    fn refusal_names_sender_gpu_quantity_and_fix() {
        let shown = |differing: &[&'static str], nanos| {
            refusal(Some("node-1"), differing, nanos).to_string()
        };
        let start =
            "node-1: points of GPU node-1:0 at one instant differ in power and are refused: ";
        assert_eq!(
            shown(&["index", "bus ID", "pod"], 1),
            format!(
                "{start}they differ in index, bus ID, pod, too; name such a label in [identity] of a mapping"
            )
        );
        assert_eq!(
            shown(&[], 2_000_000_000),
            format!(
                "{start}no label distinguishes them; send a UUID, host, index or pod with each, or record times \
                 with decimals"
            )
        );
    }

    #[test]
    fn points_are_counted_by_sender_up_to_a_limit() {
        let mut refused = RejectedPoints::default();
        assert!(refused.add(2, refusal(Some("a"), &[], 1)).is_first);
        assert!(!refused.add(1, refusal(Some("a"), &[], 1)).is_first);
        for sender in 0..1_000 {
            refused.add(1, refusal(Some(&sender.to_string()), &[], 1));
        }
        let counts: Vec<_> =
            refused.by_sender().map(|(count, it)| (it.sender.clone(), count)).collect();
        assert_eq!(counts.len(), MAX_SENDERS + 1);
        assert!(counts.contains(&(Some("a".to_owned()), 3)));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 1_003);
    }
}
