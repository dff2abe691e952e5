//! Property: whatever a backend answers and whenever the process ends, every second is claimed once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::delivery::RequestOutcome;
use phasemeter_otlp::encode::{Claim, ClaimKind};
use phasemeter_otlp::{EncodedRequest, Signal};
use proptest::prelude::*;

use super::ledger::{Ledger, MAX_REFUSALS, Open};

/// What happens next. Times are in seconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes, and sums are exported.
    Round(u64),
    /// The backend answers the oldest request.
    React(Reaction),
    /// The ledger is stored, and what is due is sent.
    Store,
    /// The oldest requests that are not stored elsewhere are.
    Keep,
    /// The process is killed, and another one starts after this time, with the second GPU or without.
    Kill(u64, bool),
    /// The process is killed, and its run goes on after this time.
    GoOn(u64),
    /// The process ends in order, with so many answers to its last requests.
    Stop(u64, usize),
}

#[derive(Clone, Copy, Debug)]
enum Reaction {
    Accept,
    /// The backend accepts, and its answer is lost: the client will send again.
    AcceptSilently,
    /// It never refuses again what it has accepted.
    Refuse,
    /// The queue is full.
    Drop,
    /// The backend accepts, its answer is lost, and the client gives up.
    AcceptAndDrop,
}

/// What a backend has accepted: of each GPU, the end of sums since a start, and gaps.
#[derive(Debug, Default)]
struct Backend {
    requests: BTreeSet<Vec<u8>>,
    sums: BTreeMap<(String, u64), u64>,
    gaps: BTreeSet<(String, u64, u64)>,
}

impl Backend {
    /// Reads what a request claims from its bytes, as a backend does.
    fn accept(&mut self, request: &EncodedRequest) {
        self.requests.insert(request.body().to_vec());
        for line in str::from_utf8(request.body()).unwrap().lines() {
            let [gpu, from, to] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let [from, to] = [from, to].map(|second| second.parse().unwrap());
            if request.signal() == Signal::Logs {
                self.gaps.insert((gpu.to_owned(), from, to));
            } else {
                let until = self.sums.entry((gpu.to_owned(), from)).or_default();
                *until = to.max(*until);
            }
        }
    }

    /// The claimed time of a GPU, in order.
    fn claimed(&self, gpu: &str) -> Vec<(u64, u64)> {
        let sums = self.sums.iter().map(|((of, from), to)| (of, *from, *to));
        let all = sums.chain(self.gaps.iter().map(|(of, from, to)| (of, *from, *to)));
        let mut claimed: Vec<_> =
            all.filter(|(of, ..)| *of == gpu).map(|(_, from, to)| (from, to)).collect();
        claimed.sort_unstable();
        claimed
    }
}

/// A process after the other, with the file between them.
struct World {
    is_delta: bool,
    now: u64,
    backend: Backend,
    stored: (BTreeMap<String, Timestamp>, Vec<Open>),
    ledger: Ledger,
    network: VecDeque<(u64, Vec<EncodedRequest>)>,
    /// Those of the network that are stored elsewhere, and those that an earlier process has stored: these are delivered.
    kept: BTreeSet<u64>,
    left: VecDeque<EncodedRequest>,
    /// When the run began, and what it has made since the ledger was stored, which it makes again.
    began: u64,
    made: Vec<Vec<Claim>>,
    /// The start of the sums of each GPU of the process: of the process, or of the last export.
    gpus: BTreeMap<String, u64>,
}

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(second * 1_000).unwrap()
}

fn claim(gpu: &str, from: u64, to: u64) -> Claim {
    Claim { gpu: gpu.to_owned(), from: at(from), to: at(to) }
}

fn request(kind: ClaimKind, claims: &[Claim]) -> Vec<EncodedRequest> {
    let seconds = |at: Timestamp| at.as_nanos() / 1_000_000_000;
    let line = |it: &Claim| format!("{} {} {}\n", it.gpu, seconds(it.from), seconds(it.to));
    let body: String = claims.iter().map(line).collect();
    let signal = if kind == ClaimKind::Gap { Signal::Logs } else { Signal::Metrics };
    vec![EncodedRequest::new(signal, 1, body.into_bytes().into())]
}

impl World {
    fn new(is_delta: bool) -> Self {
        let (stored, ledger) = Default::default();
        let (backend, network, gpus) = Default::default();
        let (kept, left, made) = Default::default();
        let mut world = Self {
            is_delta,
            now: 10,
            backend,
            stored,
            ledger,
            network,
            kept,
            left,
            began: 10,
            made,
            gpus,
        };
        world.start(true);
        world
    }

    /// The process ends, and another one has what the file has.
    fn end(&mut self) {
        let stored = self.network.drain(..).filter(|(id, _)| self.kept.contains(id));
        self.left.extend(stored.flat_map(|(_, requests)| requests));
        self.kept.clear();
        self.ledger = Ledger::new(self.stored.0.clone(), self.stored.1.clone());
    }

    fn start(&mut self, has_second: bool) {
        self.end();
        self.gpus.clear();
        self.made.clear();
        self.began = self.now;
        for gpu in ["a", "b"].into_iter().take(1 + usize::from(has_second)) {
            let before = self.ledger.until.get(gpu).copied();
            self.ledger.begin(gpu.to_owned(), at(self.now));
            if let Some(from) = before.filter(|from| *from < at(self.now)) {
                self.add_gap(Claim { gpu: gpu.to_owned(), from, to: at(self.now) });
            }
            self.gpus.insert(gpu.to_owned(), self.now);
        }
        self.store();
    }

    fn go_on(&mut self) {
        let until = self.now;
        self.end();
        self.ledger.go_on(at(self.began), at(until));
        for claims in std::mem::take(&mut self.made) {
            self.add_sums(claims);
        }
    }

    fn add_gap(&mut self, gap: Claim) {
        let requests = request(ClaimKind::Gap, std::slice::from_ref(&gap));
        self.ledger.add(ClaimKind::Gap, vec![gap], requests);
    }

    fn store(&mut self) {
        let known: BTreeSet<_> = self.gpus.keys().cloned().collect();
        for gap in self.ledger.take_refused(|gpu| known.contains(gpu)) {
            self.add_gap(gap);
        }
        self.stored = (self.ledger.until.clone(), self.ledger.open());
        self.made.clear();
        self.network.extend(self.ledger.take_due(true));
    }

    fn round(&mut self, seconds: u64) {
        self.now += seconds;
        let claims: Vec<_> =
            self.gpus.iter().map(|(gpu, from)| claim(gpu, *from, self.now)).collect();
        if self.is_delta {
            self.gpus.values_mut().for_each(|from| *from = self.now);
        }
        self.add_sums(claims);
    }

    fn add_sums(&mut self, claims: Vec<Claim>) {
        self.made.push(claims.clone());
        let requests = request(ClaimKind::Sums, &claims);
        self.ledger.add(ClaimKind::Sums, claims, requests);
    }

    fn keep(&mut self) {
        if let Some((id, _)) = self.network.iter().find(|(id, _)| !self.kept.contains(id)) {
            self.kept.insert(*id);
            self.ledger.store(*id);
        }
    }

    fn answer(&mut self, reaction: Reaction) {
        if let Some(left) = self.left.pop_front() {
            self.backend.accept(&left);
            return;
        }
        let Some((id, requests)) = self.network.pop_front() else { return };
        let has_all = requests.iter().all(|it| self.backend.requests.contains(&**it.body()));
        let outcome = match reaction {
            Reaction::Refuse if !has_all => RequestOutcome::Refused,
            Reaction::Drop => RequestOutcome::Dropped,
            Reaction::AcceptAndDrop => {
                requests.iter().for_each(|it| self.backend.accept(it));
                RequestOutcome::Dropped
            }
            Reaction::Accept | Reaction::AcceptSilently | Reaction::Refuse => {
                requests.iter().for_each(|it| self.backend.accept(it));
                RequestOutcome::Accepted
            }
        };
        if matches!(reaction, Reaction::AcceptSilently) {
            self.network.push_front((id, requests));
        } else {
            self.ledger.settle(id, outcome);
            // What is refused is stored nowhere else any more: the outbox counts it as lost if the process is killed now.
            if self.kept.remove(&id) && outcome != RequestOutcome::Accepted {
                self.store();
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Round(seconds) => self.round(seconds),
            Step::React(reaction) => self.answer(reaction),
            Step::Store => self.store(),
            Step::Keep => self.keep(),
            Step::GoOn(seconds) => {
                self.go_on();
                self.now += seconds;
            }
            Step::Kill(seconds, has_second) => {
                // What was exported, but not stored, was not sent; time passes without an export, too.
                self.now += seconds;
                self.start(has_second);
            }
            Step::Stop(seconds, answers) => {
                self.round(1);
                self.store();
                (0..answers).for_each(|_| self.answer(Reaction::Accept));
                self.store();
                self.now += seconds;
                self.start(true);
            }
        }
    }

    /// The backend accepts everything from now on.
    fn settle(&mut self) {
        self.start(true);
        for _ in 0..3 {
            self.round(1);
            self.store();
            while !self.network.is_empty() || !self.left.is_empty() {
                self.answer(Reaction::Accept);
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let answer = prop_oneof![
        4 => Just(Reaction::Accept),
        2 => Just(Reaction::AcceptSilently),
        3 => Just(Reaction::Refuse),
        1 => Just(Reaction::Drop),
        1 => Just(Reaction::AcceptAndDrop),
    ];
    prop_oneof![
        6 => (1_u64..5).prop_map(Step::Round),
        8 => answer.prop_map(Step::React),
        6 => Just(Step::Store),
        4 => Just(Step::Keep),
        2 => (0_u64..9).prop_map(Step::GoOn),
        2 => (0_u64..9, any::<bool>()).prop_map(|(seconds, second)| Step::Kill(seconds, second)),
        1 => (0_u64..9, 0_usize..4).prop_map(|(seconds, answers)| Step::Stop(seconds, answers)),
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
        world.settle();
        for gpu in ["a", "b"] {
            let claimed = world.backend.claimed(gpu);
            let ends = claimed.iter().map(|(_, to)| *to);
            let starts = claimed.iter().skip(1).map(|(from, _)| *from);
            prop_assert!(ends.zip(starts).all(|(end, start)| end == start), "{gpu}: {claimed:?}");
            prop_assert_eq!(claimed.first().map(|(from, _)| *from), Some(10), "{}", gpu);
            prop_assert_eq!(claimed.last().map(|(_, to)| *to), Some(world.now), "{}", gpu);
        }
        prop_assert_eq!(world.ledger.open(), []);
    }
}

/// A crash loop without a backend: each gap begins where the one before ends.
#[test]
fn gaps_of_a_crash_loop_do_not_nest() {
    let mut world = World::new(false);
    for _ in 0..20 {
        world.now += 9;
        world.start(true);
    }
    while !world.network.is_empty() {
        world.answer(Reaction::Accept);
    }
    let claimed = world.backend.claimed("a");
    assert_eq!(claimed.len(), 20, "{claimed:?}");
    assert_eq!(claimed.iter().map(|(from, to)| to - from).sum::<u64>(), 180);
}

/// Sums that were refused so often that they would be a gap, then sent again while a GPU of theirs was missing, and accepted,
/// of which the process that was killed had no note.
#[test]
fn sums_that_were_sent_since_they_were_refused_are_not_a_gap() {
    for reaction in [Reaction::Accept, Reaction::AcceptSilently, Reaction::AcceptAndDrop] {
        let mut world = World::new(true);
        world.round(5);
        for _ in 0..MAX_REFUSALS {
            world.store();
            world.answer(Reaction::Refuse);
            world.store();
            world.start(false);
        }
        world.answer(reaction);
        world.start(true);
        world.settle();
        assert_eq!(world.backend.claimed("a").first(), Some(&(10, 15)), "{reaction:?}");
        assert_eq!(world.backend.gaps.iter().filter(|gap| gap.1 == 10).count(), 0, "{reaction:?}");
    }
}

/// Sums that a later run cannot deliver either are reported as a gap, not kept for ever.
#[test]
fn sums_that_remain_refused_become_a_gap() {
    let mut world = World::new(false);
    world.round(5);
    world.store();
    world.answer(Reaction::Refuse);
    world.now += 2;
    world.start(true);
    for _ in 0..=MAX_REFUSALS {
        let earlier = world
            .network
            .iter()
            .position(|(_, requests)| requests.iter().any(|it| it.body().starts_with(b"a 10 15")));
        if let Some((id, _)) = earlier.and_then(|index| world.network.remove(index)) {
            world.ledger.settle(id, RequestOutcome::Refused);
        }
        while !world.network.is_empty() {
            world.answer(Reaction::Accept);
        }
        world.round(1);
        world.store();
    }
    world.settle();
    let gaps: Vec<_> = world.backend.gaps.iter().filter(|(gpu, ..)| gpu == "a").collect();
    assert!(gaps.contains(&&("a".to_owned(), 10, 15)), "{gaps:?}");
}
