//! Sentences about jobs whose launcher has started their processes again, and what that lost.

use phasemeter_engine::pipeline::Pipeline;
use phasemeter_engine::work::Restart;
use phasemeter_meter::units::Nanos;
use phasemeter_terminal::money;

/// Restarts that are stated.
const MAX_STATED: usize = 16;

/// The restarts of a run.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    stated: Vec<String>,
    more: usize,
}

impl Restarts {
    /// Adds a restart; returns the sentence about it, without its full stop.
    pub(super) fn add(&mut self, restart: &Restart, pipeline: &Pipeline<'_>) -> String {
        let sentence = sentence(restart, |time| match pipeline.cost_of(time) {
            Some(cost) => {
                format!("{:.0} s (about {})", time.as_secs_f64(), money::amount(cost, 3))
            }
            None => format!("{:.0} s", time.as_secs_f64()),
        });
        if self.stated.len() < MAX_STATED {
            self.stated.push(sentence.clone());
        } else {
            self.more += 1;
        }
        sentence
    }

    /// The sentences, at the end.
    pub(super) fn take(&mut self) -> impl Iterator<Item = String> {
        let more = std::mem::take(&mut self.more);
        let more = (more > 0).then(|| format!("{more} more restarts of jobs"));
        std::mem::take(&mut self.stated).into_iter().chain(more)
    }
}

/// What was repeated is known to whoever wrote the job only: at most what it had not saved.
fn sentence(restart: &Restart, time: impl Fn(Nanos) -> String) -> String {
    let Restart { job, without, repeated, has_checkpoint } = restart;
    let (without, repeated) = (time(*without), time(*repeated));
    let since = if *has_checkpoint {
        "since the last checkpoint, if it goes on from there"
    } else {
        "since its last start: no checkpoint was reported"
    };
    format!(
        "{job} restarted: {without} without all of its processes, and it may repeat up to {repeated} of work {since}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_states_what_was_lost_and_what_is_not_known() {
        let restart = |has_checkpoint| Restart {
            job: "torchrun job j".to_owned(),
            without: Nanos::from_secs(3),
            repeated: Nanos::from_secs(30),
            has_checkpoint,
        };
        let of =
            |restart: Restart| sentence(&restart, |time| format!("{} s", time.0 / 1_000_000_000));
        assert_eq!(
            of(restart(false)),
            "torchrun job j restarted: 3 s without all of its processes, and it may repeat up to 30 s of work since its \
             last start: no checkpoint was reported"
        );
        assert!(of(restart(true)).ends_with("since the last checkpoint, if it goes on from there"));
    }
}
