//! Labels of the points of one GPU, to name what distinguishes those that contradict each other.

use super::identity::GpuLabels;
use super::point::PodLabels;

/// The last two different sets of labels of the points of a GPU.
#[derive(Debug, Default)]
pub(super) struct PointLabels {
    last: Option<Known>,
    before: Option<Known>,
}

/// Labels that may distinguish GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    sender: Option<String>,
    index: Option<u32>,
    bus_id: Option<String>,
    model: Option<String>,
    pod: Option<PodLabels>,
}

impl Known {
    fn is_of(&self, gpu: &GpuLabels) -> bool {
        let Self { sender, index, bus_id, model, pod } = self;
        (sender.as_deref(), *index, bus_id, model, pod)
            == (gpu.sender(), gpu.index, &gpu.bus_id, &gpu.model, &gpu.pod)
    }
}

impl PointLabels {
    /// Notes the labels of a point.
    pub(super) fn note(&mut self, gpu: &GpuLabels) {
        let is_known = |known: &Option<Known>| known.as_ref().is_some_and(|it| it.is_of(gpu));
        if is_known(&self.last) || is_known(&self.before) {
            return;
        }
        let known = Known {
            sender: gpu.sender().map(str::to_owned),
            index: gpu.index,
            bus_id: gpu.bus_id.clone(),
            model: gpu.model.clone(),
            pod: gpu.pod.clone(),
        };
        self.before = self.last.replace(known);
    }

    /// The labels in which points differ.
    pub(super) fn differing(&self) -> Vec<&'static str> {
        let (Some(last), Some(before)) = (&self.last, &self.before) else { return Vec::new() };
        let all = [
            ("host", last.sender != before.sender),
            ("index", last.index != before.index),
            ("bus ID", last.bus_id != before.bus_id),
            ("model", last.model != before.model),
            ("pod", last.pod != before.pod),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}
