//! A policy that was taken into use: it can be run, and nothing about it changes any more.
//!
//! Every run has a fresh store: no state leaks from one to the next, and the same question gives
//! the same answer for the same fuel. This room must not know where the policy came from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json};
use wasmtime::component::InstancePre;
use wasmtime::{Store, Trap};

use crate::contract::{Call, Contract};
use crate::digest::Digest;
use crate::engine::Runtime;
use crate::fault::{Fault, MemoryFault};
use crate::host::Candidate;
use crate::limits::TooMuch;
use crate::manifest::{Kind, Manifest};
use crate::quote::{Quote, QuoteRequest};
use crate::recommendation::Recommendation;
use crate::room::{Log, Room};
use crate::settings::Settings;
use crate::window::Window;

/// A policy in use.
pub struct Policy {
    file: String,
    digest: Digest,
    manifest: Manifest,
    given: Map<String, Json>,
    guest: Guest,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Instructions, roughly; the same for the same question, everywhere.
    pub fuel: u64,
    /// From a fresh store to the checked answer.
    pub time: Duration,
    /// Linear memory at the end, in bytes. It never shrinks.
    pub memory: usize,
}

/// One run, over.
#[derive(Debug)]
pub struct Run<T> {
    /// What came of it.
    pub answer: Result<T, Fault>,
    /// What it took.
    pub usage: Usage,
    /// What the policy logged.
    pub log: Log,
}

impl<T> Run<T> {
    /// The same run, its answer in another form.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Run<U> {
        Run { answer: self.answer.map(form), usage: self.usage, log: self.log }
    }
}

impl Policy {
    /// Tries a policy out: who it is, whether its settings are right, whether its own test passes.
    pub(crate) fn try_out(
        candidate: Candidate,
        digest: Digest,
        guest: Guest,
    ) -> Result<Self, Fault> {
        let manifest = guest.run(|call| guest.contract.describe(call)).answer?;
        let given = candidate.settings_of(&manifest.name).clone();
        let settings = manifest.schema.settle(&given).map_err(Fault::Settings)?;
        let guest = Guest { settings, ..guest };
        let policy = Self { file: candidate.file, digest, manifest, given, guest };
        policy.guest.configured(|call| policy.guest.contract.self_test(call)).answer?;
        Ok(policy)
    }

    /// The file it was loaded from, for people.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The digest of that file.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// What it says of itself.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What it does.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.guest.contract.kind()
    }

    /// The settings it was given, before defaults.
    pub(crate) const fn given(&self) -> &Map<String, Json> {
        &self.given
    }

    /// Its advice on a window; `None` where it is no recommender.
    pub fn recommend(&self, window: &Window) -> Option<Run<Vec<Recommendation>>> {
        let recommender = self.guest.contract.recommender()?;
        Some(self.guest.configured(|call| recommender.recommend(call, window)))
    }

    /// Its quote, or none of it; `None` where it is no pricer.
    pub fn quote(&self, request: &QuoteRequest) -> Option<Run<Option<Quote>>> {
        let pricer = self.guest.contract.pricer()?;
        Some(self.guest.configured(|call| pricer.quote(call, request)))
    }
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Policy({} {} {})", self.manifest.name, self.manifest.version, self.digest)
    }
}

/// Something that can be instantiated and asked.
pub(crate) struct Guest {
    runtime: Arc<Runtime>,
    pre: InstancePre<Room>,
    contract: Contract,
    settings: Settings,
}

impl Guest {
    pub(crate) fn new(runtime: Arc<Runtime>, pre: InstancePre<Room>, contract: Contract) -> Self {
        Self { runtime, pre, contract, settings: Settings::default() }
    }

    /// Asks in a fresh store, after `configure`.
    fn configured<T>(&self, ask: impl FnOnce(&mut Call<'_>) -> Result<T, Fault>) -> Run<T> {
        self.run(|call| {
            self.contract.configure(call, &self.settings)?;
            ask(call)
        })
    }

    /// Asks in a fresh store.
    fn run<T>(&self, ask: impl FnOnce(&mut Call<'_>) -> Result<T, Fault>) -> Run<T> {
        let limits = &self.runtime.limits;
        let inside = self.runtime.ticker.enter();
        let started = Instant::now();
        let mut store = Store::new(&self.runtime.engine, Room::new(*limits));
        store.limiter(|room| &mut room.guard);
        store.set_epoch_deadline(limits.ticks().saturating_add(inside.behind));
        store.set_hostcall_fuel(limits.output);
        let answer = store
            .set_fuel(limits.fuel)
            .and_then(|()| self.pre.instantiate(&mut store))
            .map_err(|error| self.sort(error, |error| MemoryFault::Parts(error).into()))
            .and_then(|instance| {
                let fault = &|error| self.sort(error, Fault::Output);
                ask(&mut Call { store: &mut store, instance, fault })
            });
        let usage = Usage {
            fuel: limits.fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
            time: started.elapsed(),
            memory: store.data().guard.memory(),
        };
        Run { answer, usage, log: store.into_data().log }
    }

    /// The fault that an error is, by its type; `other` for one that is neither a limit nor a trap.
    ///
    /// What a call fails with otherwise is that its answer could not be taken: the host functions
    /// have no errors of their own. An instantiation fails otherwise when the parts are too many.
    fn sort(&self, error: wasmtime::Error, other: impl FnOnce(wasmtime::Error) -> Fault) -> Fault {
        let limits = &self.runtime.limits;
        if let Some(too_much) = error.downcast_ref::<TooMuch>() {
            return MemoryFault::Limit(*too_much).into();
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Fault::OutOfFuel { limit: limits.fuel },
            Some(Trap::Interrupt) => Fault::Deadline { limit: limits.deadline },
            Some(trap) => Fault::Trap(*trap),
            None => other(error),
        }
    }
}
