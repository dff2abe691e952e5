//! A run whose spans are all in one trace, which backends cut or are slow to show if it is long.

use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::experiment::{Experiment, TraceMode};

/// How long a trace can be without a notice: the documentation has the number of spans of this time.
const LIMIT: Nanos = Nanos::from_secs(24 * 3_600);

/// What is logged and reported, as a sentence without its full stop.
const NOTICE: &str = "the spans of more than 24 h are in one trace, which backends may cut or be slow to \
                      show; --trace-mode per-session begins a trace per GPU and hour";

/// Notices once that a trace has become long.
#[derive(Debug, Default)]
pub struct LongTrace {
    /// When its limit is reached; `None` if there is nothing to notice, or no longer.
    limit: Option<Timestamp>,
}

impl LongTrace {
    /// Watches the trace of an experiment that begins now, if it is exported and has all spans.
    pub fn watch(experiment: &Experiment, is_exported: bool) -> Self {
        let is_one = experiment.traces == TraceMode::Shared && experiment.flags.is_sampled();
        Self { limit: (is_one && is_exported).then(|| experiment.first + LIMIT) }
    }

    /// The notice, once, as soon as the limit is reached.
    pub fn step(&mut self, now: Timestamp) -> Option<&'static str> {
        self.limit.take_if(|limit| *limit <= now).map(|_| NOTICE)
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_otlp::experiment::{
        ExperimentKind, ExperimentRequest, Ratio, Root, TraceId, TraceSampler,
    };

    use super::*;

    const BEGIN: u64 = 1_785_000_000;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis((BEGIN + seconds) * 1_000).unwrap()
    }

    /// When the notice comes, of these seconds after the begin.
    fn noticed(request: ExperimentRequest, is_command: bool, is_exported: bool) -> Vec<u64> {
        let trace = TraceId::new([7; 16]).unwrap();
        let kind = if is_command {
            ExperimentKind::Command { trace }
        } else {
            ExperimentKind::Sidecar { trace }
        };
        let mut long = LongTrace::watch(&request.open(at(0), kind), is_exported);
        let seconds = [0, 3_600, 86_399, 86_400, 86_401, 200_000];
        seconds.into_iter().filter(|seconds| long.step(at(*seconds)).is_some()).collect()
    }

    #[test]
    fn trace_of_a_day_is_noticed_once_if_it_has_all_spans() {
        let default = ExperimentRequest::default;
        assert_eq!(noticed(default(), true, true), [86_400]);
        assert_eq!(noticed(default(), true, false), [0; 0]);
        let per_session = ExperimentRequest { traces: TraceMode::PerSession, ..default() };
        assert_eq!(noticed(per_session, true, true), [0; 0]);
        let root = Root::TraceIdRatio(Ratio::new(0.0).unwrap());
        let sampler = TraceSampler { root, ..TraceSampler::default() };
        assert_eq!(noticed(ExperimentRequest { sampler, ..default() }, true, true), [0; 0]);
        // Without a command, sessions are traces of their own, unless a context is given.
        assert_eq!(noticed(default(), false, true), [0; 0]);
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let under = default().under(parent.parse().unwrap());
        assert_eq!(noticed(under, false, true), [86_400]);
    }
}
