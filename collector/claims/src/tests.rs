//! Property: whenever the process ends, every second is claimed once.

use std::collections::{BTreeMap, VecDeque};

use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::{Claim, ClaimKind};
use proptest::prelude::*;

use super::format::Restored;
use super::ledger::Ledger;

/// What happens next. Times are in seconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes, and sums are exported.
    Round(u64),
    /// What has not left does.
    Leave,
    /// The oldest request that is not stored is.
    Store,
    /// The file is written.
    Write,
    /// The process is killed, and another one starts after this time, with the second GPU or without.
    Kill(u64, bool),
    /// The process is killed, and its run goes on after this time.
    GoOn(u64),
    /// The process ends in order.
    Stop(u64),
}

/// A process after the other, with the file and what is stored between them.
struct World {
    is_delta: bool,
    now: u64,
    /// What a backend has in the end: of each GPU, the end of sums since a start, and gaps.
    sums: BTreeMap<(String, Timestamp), Timestamp>,
    gaps: Vec<Claim>,
    file: BTreeMap<String, Timestamp>,
    /// What stored requests claim, as notes.
    notes: Vec<BTreeMap<String, Timestamp>>,
    ledger: Ledger,
    /// Gaps that have not left: they wait until the journal has what they were made from.
    held: Vec<Claim>,
    /// Requests that are not stored.
    pending: VecDeque<(u64, ClaimKind, Vec<Claim>)>,
    began: u64,
    /// The start of the sums of each GPU of the process: of the process, or of the last export.
    gpus: BTreeMap<String, u64>,
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(second * 1_000).unwrap()
}

impl World {
    fn new(is_delta: bool) -> Self {
        let mut world = Self {
            is_delta,
            now: 10,
            sums: BTreeMap::new(),
            gaps: Vec::new(),
            file: BTreeMap::new(),
            notes: Vec::new(),
            ledger: Ledger::default(),
            held: Vec::new(),
            pending: VecDeque::new(),
            began: 10,
            gpus: BTreeMap::new(),
        };
        world.start(true);
        world
    }

    /// Another process has what the file has, and what was stored.
    fn restore(&mut self) {
        let mut restored = Restored { until: self.file.clone(), ..Restored::default() };
        for note in &self.notes {
            restored.add(Restored { until: note.clone(), ..Restored::default() });
        }
        self.ledger = Ledger::new(restored.until);
    }

    fn start(&mut self, has_second: bool) {
        self.restore();
        self.pending.clear();
        self.held.clear();
        self.gpus.clear();
        self.began = self.now;
        for gpu in ["a", "b"].into_iter().take(1 + usize::from(has_second)) {
            let before = self.ledger.until.get(gpu).copied();
            self.ledger.begin(gpu.to_owned(), at(self.now), None);
            if let Some(from) = before.filter(|from| *from < at(self.now)) {
                self.held.push(Claim { gpu: gpu.to_owned(), from, to: at(self.now) });
            }
            self.gpus.insert(gpu.to_owned(), self.now);
        }
        // GPUs are new to the file.
        self.write();
    }

    /// The run makes again what was not stored.
    fn go_on(&mut self) {
        let joined = self.gpus.keys().map(|gpu| (gpu.clone(), at(self.began))).collect();
        self.restore();
        self.ledger.go_on(at(self.now), joined);
        for (_, kind, claims) in std::mem::take(&mut self.pending) {
            self.export(kind, claims);
        }
    }

    fn leave(&mut self) {
        for gap in std::mem::take(&mut self.held) {
            self.export(ClaimKind::Gap, vec![gap]);
        }
    }

    fn export(&mut self, kind: ClaimKind, claims: Vec<Claim>) {
        self.pending.push_back((self.ledger.add(kind, &claims), kind, claims));
    }

    fn write(&mut self) {
        self.file = self.ledger.stored_until();
    }

    fn round(&mut self, seconds: u64) {
        self.leave();
        self.now += seconds;
        let claim = |(gpu, from): (&String, &u64)| Claim {
            gpu: gpu.clone(),
            from: at(*from),
            to: at(self.now),
        };
        let claims = self.gpus.iter().map(claim).collect();
        if self.is_delta {
            self.gpus.values_mut().for_each(|from| *from = self.now);
        }
        self.export(ClaimKind::Sums, claims);
    }

    /// What is stored is delivered, sooner or later.
    fn store(&mut self) -> bool {
        let Some((id, kind, claims)) = self.pending.pop_front() else { return false };
        self.ledger.store(id);
        self.notes.push(claims.iter().map(|claim| (claim.gpu.clone(), claim.to)).collect());
        for claim in claims {
            if kind == ClaimKind::Gap {
                self.gaps.push(claim);
            } else {
                let until = self.sums.entry((claim.gpu, claim.from)).or_default();
                *until = claim.to.max(*until);
            }
        }
        true
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Round(seconds) => self.round(seconds),
            Step::Leave => self.leave(),
            Step::Store => _ = self.store(),
            Step::Write => {
                self.write();
                // Then segments may be removed.
                self.notes.clear();
            }
            Step::Kill(seconds, has_second) => {
                // Time passes without an export, too.
                self.now += seconds;
                self.start(has_second);
            }
            Step::GoOn(seconds) => {
                self.go_on();
                self.now += seconds;
            }
            Step::Stop(seconds) => {
                self.round(1);
                while self.store() {}
                self.write();
                // Its directory is removed once all is delivered.
                self.notes.clear();
                self.now += seconds;
                self.start(true);
            }
        }
    }

    /// The claimed time of a GPU, in order.
    fn claimed(&self, gpu: &str) -> Vec<(Timestamp, Timestamp)> {
        let sums = self.sums.iter().map(|((of, from), to)| (of, *from, *to));
        let all = sums.chain(self.gaps.iter().map(|it| (&it.gpu, it.from, it.to)));
        let mut claimed: Vec<_> =
            all.filter(|(of, ..)| *of == gpu).map(|(_, from, to)| (from, to)).collect();
        claimed.sort_unstable();
        claimed
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_u64..5).prop_map(Step::Round),
        2 => Just(Step::Leave),
        8 => Just(Step::Store),
        4 => Just(Step::Write),
        2 => (0_u64..9, any::<bool>()).prop_map(|(seconds, second)| Step::Kill(seconds, second)),
        2 => (0_u64..9).prop_map(Step::GoOn),
        1 => (0_u64..9).prop_map(Step::Stop),
    ]
}

proptest! {
    #[test]
    fn every_second_is_claimed_once(
        is_delta in any::<bool>(),
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let mut world = World::new(is_delta);
        steps.into_iter().for_each(|step| world.take(step));
        world.start(true);
        world.round(1);
        while world.store() {}
        for gpu in ["a", "b"] {
            let claimed = world.claimed(gpu);
            let ends = claimed.iter().map(|(_, to)| *to);
            let starts = claimed.iter().skip(1).map(|(from, _)| *from);
            prop_assert!(ends.zip(starts).all(|(end, start)| end == start), "{gpu}: {claimed:?}");
            prop_assert_eq!(claimed.first().map(|(from, _)| *from), Some(at(10)), "{}", gpu);
            prop_assert_eq!(claimed.last().map(|(_, to)| *to), Some(at(world.now)), "{}", gpu);
        }
        prop_assert_eq!(world.ledger.stored_until(), world.ledger.until);
    }
}
