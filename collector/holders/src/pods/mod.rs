//! The pods of the node, as the API server has them: what runs them, their queues, and the labels that are asked for.
//!
//! Only metadata is requested. The kubelet alone decides who holds a GPU, except for those that KAI or Run:ai divide:
//! it lists a reservation pod, and metadata tells for whom.

mod follower;
mod fraction;
mod metadata;
mod object;
mod table;
mod workload;

use self::follower::NodePods;
use crate::follower::Followed;
pub(crate) use follower::PodFollower;
pub(crate) use fraction::{Grouped, Part};
use object::list;
pub(crate) use table::GroupedPod;

/// The labels that fuzz targets ask for.
const LABELS: &str = "team";

/// What a list says about pods, for fuzz targets; `None` if it is not one.
pub(crate) fn pods_of_list(json: &[u8]) -> Option<impl Iterator<Item = String>> {
    let (pods, _) = list(json)?;
    Some(
        pods.into_iter()
            .map(|pod| format!("{:?}", (pod.details(&[LABELS.to_owned()]), pod.grouped()))),
    )
}

/// The effects of events, for fuzz targets.
pub(crate) fn pods_of_events(lines: &[u8]) -> Option<Vec<String>> {
    let mut pods = NodePods::with_labels(vec![LABELS.to_owned()]);
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let apply = |line| format!("{:?}", pods.apply(line));
    let effects: Vec<String> = lines.map(apply).collect();
    (!effects.is_empty()).then_some(effects)
}
