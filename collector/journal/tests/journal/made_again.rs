//! A run is made again from its changes, as one that was killed is.

use phasemeter_engine::pipeline::{Change, Pipeline};
use phasemeter_engine::policies::PolicyResults;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::summary::Summary;
use proptest::prelude::*;

use crate::run::{at, event, happen, identities, run};

/// As a journal keeps it.
fn kept(changes: &[Change]) -> Vec<Change> {
    postcard::from_bytes(&postcard::to_allocvec(changes).unwrap()).unwrap()
}

pub(crate) fn end(mut pipeline: Pipeline<'_>, gpus: &[GpuIdentity], now: u64) -> Vec<Summary> {
    pipeline.end_at(at(now));
    let run = pipeline.finish(gpus, |_| PolicyResults::default()).unwrap();
    run.gpus.iter().map(|gpu| gpu.meter.summary()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Scenario: a run is killed after any of its changes, made again from those that were kept, and goes on.
    /// Guarantee: it has made the same requests until then, and makes the same ones from then on; its accounts are those
    /// of a run that was not killed.
    #[test]
    fn run_is_the_same_if_it_is_made_again(
        events in prop::collection::vec(event(), 1..400),
        killed in any::<prop::sample::Index>(),
    ) {
        let gpus = identities();
        let (mut first, expected) = run(None);
        first.keep_changes();
        gpus.iter().for_each(|gpu| first.add(gpu, at(0)));
        let killed = killed.index(events.len());
        let (mut now, mut changes) = (0, first.take_changes().unwrap());
        for event in &events[..killed] {
            now = happen(&mut first, &gpus, now, *event);
            changes.extend(first.take_changes().unwrap());
        }
        let (mut again, requests) = run(None);
        let mut found = Vec::new();
        for change in kept(&changes) {
            again.apply(change, &mut found).unwrap();
        }
        prop_assert_eq!(&found, &gpus);
        prop_assert_eq!(again.bill(), first.bill());
        prop_assert_eq!(&*requests.borrow(), &*expected.borrow());
        for event in &events[killed..] {
            happen(&mut again, &gpus, now, *event);
            now = happen(&mut first, &gpus, now, *event);
        }
        prop_assert_eq!(end(again, &gpus, now), end(first, &gpus, now));
        prop_assert_eq!(&*requests.borrow(), &*expected.borrow());
    }
}
