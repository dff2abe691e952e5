//! The pods of the node, as the API server has them: what runs them, their queues, and the labels that are asked for.
//!
//! Only metadata is requested. It says nothing about who holds a GPU: without it, workloads and labels are missing.

mod follower;
mod metadata;
mod object;
mod table;
mod watch;
mod workload;

pub(crate) use follower::PodFollower;
use object::list;
use table::Pods;

/// The labels that fuzz targets ask for.
const LABELS: &str = "team";

/// What a list says about pods, for fuzz targets; `None` if it is not one.
pub(crate) fn pods_of_list(json: &[u8]) -> Option<impl Iterator<Item = String>> {
    let (pods, _) = list(json)?;
    Some(pods.into_iter().map(|pod| format!("{:?}", pod.details(&[LABELS.to_owned()]))))
}

/// The effects of events, for fuzz targets.
pub(crate) fn pods_of_events(lines: &[u8]) -> Option<Vec<String>> {
    let mut pods = Pods::default();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let apply = |line| format!("{:?}", watch::apply(line, &[LABELS.to_owned()], &mut pods));
    let effects: Vec<String> = lines.map(apply).collect();
    (!effects.is_empty()).then_some(effects)
}
