//! What became of the driver's calls, from what was observed.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Milliwatts, Utilization};
use phasemeter_sources::live::{
    ComputeProcess, DriverCall, Event, LossReason, Metric, Observed, UnsupportedReason,
};

/// What was seen of each GPU, by its number.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Of each GPU, by its number.
    pub gpus: BTreeMap<usize, SeenGpu>,
}

/// What was seen of a GPU.
#[derive(Clone, Debug, Default)]
pub struct SeenGpu {
    pub(super) readings: u64,
    pub(super) utilization: Changes<Utilization>,
    pub(super) power: Changes<Milliwatts>,
    /// The metrics that are refused, and why.
    pub(super) refused: BTreeMap<Metric, UnsupportedReason>,
    /// The IDs of its processes.
    pub processes: BTreeSet<u32>,
    /// Whether there were values of hardware counters.
    pub(super) has_activity: bool,
    /// The call that hangs.
    pub(super) hung: Option<DriverCall>,
    /// Why it is lost.
    pub(super) lost: Option<LossReason>,
}

/// How often a value has changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes<T> {
    last: Option<T>,
    /// The number of changes.
    pub(super) count: u64,
}

impl<T: PartialEq> Changes<T> {
    /// Whether there was a value.
    pub(super) const fn is_known(&self) -> bool {
        self.last.is_some()
    }

    fn note(&mut self, value: Option<T>) {
        if let Some(value) = value {
            self.count += u64::from(self.last.as_ref().is_some_and(|last| *last != value));
            self.last = Some(value);
        }
    }
}

impl Seen {
    /// Notes an observation of a GPU.
    pub fn note(&mut self, gpu: usize, observed: &Observed) {
        let gpu = self.gpus.entry(gpu).or_default();
        match observed {
            Observed::Reading(Reading { utilization, power, .. }) => {
                gpu.readings += 1;
                gpu.utilization.note(utilization.ok());
                gpu.power.note(*power);
            }
            Observed::Process(ComputeProcess { pid, .. }) => {
                gpu.processes.insert(*pid);
            }
            Observed::Activity(_) => gpu.has_activity = true,
            Observed::Event(event) => gpu.note_event(*event),
            Observed::Interval(_)
            | Observed::DeviceMetric(_)
            | Observed::ProcessUse(_)
            | Observed::MigMode(_)
            | Observed::MigInstance(_) => {}
        }
    }
}

impl SeenGpu {
    fn note_event(&mut self, event: Event) {
        match event {
            Event::Unsupported(metric, reason) | Event::Refused(metric, reason) => {
                self.refused.insert(metric, reason);
            }
            Event::Supported(metric) => {
                self.refused.remove(&metric);
            }
            Event::CallHung(call) => self.hung = Some(call),
            Event::CallRecovered(_) => self.hung = None,
            Event::Lost(reason) => self.lost = Some(reason),
            Event::Recovered => self.lost = None,
            Event::Xid { .. } | Event::PollPeriod(..) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phasemeter_meter::units::Timestamp;

    #[test]
    fn changes_refusals_and_hung_calls_are_those_at_the_end() {
        let mut seen = Seen::default();
        let reading = |watts: Option<u32>| {
            let power = watts.and_then(|watts| Milliwatts::new(watts * 1_000));
            Observed::Reading(Reading { power, ..Reading::at(Timestamp::EPOCH) })
        };
        let call = DriverCall::Query(Metric::Power);
        let events = [
            Event::Unsupported(Metric::Gpm, UnsupportedReason::Permission),
            Event::Refused(Metric::Fans, UnsupportedReason::Device),
            Event::Supported(Metric::Fans),
            Event::CallHung(call),
        ];
        let readings = [Some(70), None, Some(70), Some(71), Some(70)].map(reading);
        for observed in readings.into_iter().chain(events.map(Observed::Event)) {
            seen.note(0, &observed);
        }
        let gpu = &seen.gpus[&0];
        assert_eq!((gpu.readings, gpu.power.count, gpu.utilization.is_known()), (5, 2, false));
        assert_eq!(gpu.refused, BTreeMap::from([(Metric::Gpm, UnsupportedReason::Permission)]));
        assert_eq!(gpu.hung, Some(call));
    }
}
