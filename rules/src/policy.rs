//! A loaded policy: immutable, and evaluated any number of times.
//!
//! Every evaluation has a fresh store: no state leaks from one to the next, and the same input
//! gives the same output for the same fuel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json};
use wasmtime::component::InstancePre;
use wasmtime::{Store, Trap};

use crate::candidate::Approval;
use crate::contract::{Call, Contract};
use crate::digest::Digest;
use crate::engine::Runtime;
use crate::error::PolicyError;
use crate::guest_state::{GuestState, Log};
use crate::limits::LimitExceeded;
use crate::manifest::{Kind, Manifest};
use crate::quote::{Quote, QuoteRequest};
use crate::recommendation::Response;
use crate::settings::Settings;
use crate::window::Window;

/// Where a policy comes from, and what approved it.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The file, for messages.
    pub(crate) file: String,
    pub(crate) digest: Digest,
    /// The digest of its settings file, if it has one.
    pub(crate) settings_digest: Option<Digest>,
    /// Whether it is part of this program.
    pub(crate) embedded: bool,
    pub(crate) approval: Approval,
}

/// A loaded policy.
pub struct Policy {
    origin: Origin,
    manifest: Manifest,
    raw_settings: Map<String, Json>,
    guest: Guest,
}

/// Resources that an evaluation used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Fuel consumed, about one per instruction; the same for the same input on every machine.
    pub fuel: u64,
    /// Wall clock time, from creating the store to the validated result.
    pub time: Duration,
    /// Linear memory at the end, in bytes. It never shrinks, so this is also the peak.
    pub memory: usize,
}

/// A finished evaluation.
#[derive(Debug)]
pub struct Evaluation<T> {
    /// The policy's output, or why there is none.
    pub result: Result<T, PolicyError>,
    /// Resources used.
    pub usage: Usage,
    /// What the policy logged.
    pub log: Log,
}

impl<T> Evaluation<T> {
    /// The same evaluation with its output converted.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Evaluation<U> {
        Evaluation { result: self.result.map(convert), usage: self.usage, log: self.log }
    }
}

impl Policy {
    /// Completes loading: describes the policy, resolves the settings for its name, configures it and
    /// runs its self-test.
    pub(crate) fn try_load(
        origin: Origin,
        guest: Guest,
        settings_of: impl FnOnce(&str) -> Map<String, Json>,
    ) -> Result<Self, PolicyError> {
        let manifest = guest.evaluate(|call| guest.contract.describe(call)).result?;
        let raw_settings = settings_of(&manifest.name);
        let settings = manifest.schema.resolve(&raw_settings).map_err(|errors| {
            // The writer of a directory is not to read other files by errors about them.
            let is_beside = origin.settings_digest.is_some();
            let shown = errors.into_iter().map(|error| match is_beside {
                true => manifest.schema.hide(&error),
                false => error,
            });
            PolicyError::Settings(shown.collect())
        })?;
        let guest = Guest { settings, ..guest };
        let policy = Self { origin, manifest, raw_settings, guest };
        policy.guest.evaluate_configured(|call| policy.guest.contract.self_test(call)).result?;
        Ok(policy)
    }

    pub(crate) const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The file it was loaded from, for messages.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.origin.file
    }

    /// The digest of that file.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.origin.digest
    }

    /// Its validated self-description.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether it recommends or prices.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.guest.contract.kind()
    }

    /// The operator's settings, before defaults.
    pub(crate) const fn raw_settings(&self) -> &Map<String, Json> {
        &self.raw_settings
    }

    /// Evaluates a recommender on a window; `None` if the policy is a pricer. A saving on GPUs whose hours
    /// are all paid for, used or not, is capacity.
    pub fn recommend(&self, window: &Window) -> Option<Evaluation<Response>> {
        let recommender = self.guest.contract.recommender()?;
        let evaluation = self.guest.evaluate_configured(|call| recommender.recommend(call, window));
        Some(evaluation.map(|response| response.for_plans_of(window)))
    }

    /// Evaluates a pricer on a request; `None` if the policy is a recommender. The output is `None`
    /// if the pricer has no quote for the request.
    pub fn quote(&self, request: &QuoteRequest) -> Option<Evaluation<Option<Quote>>> {
        let pricer = self.guest.contract.pricer()?;
        Some(self.guest.evaluate_configured(|call| pricer.quote(call, request)))
    }
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Policy({} {} {})", self.manifest.name, self.manifest.version, self.digest())
    }
}

/// A compiled component, ready to instantiate and call.
pub(crate) struct Guest {
    runtime: Arc<Runtime>,
    pre: InstancePre<GuestState>,
    contract: Contract,
    settings: Settings,
}

impl Guest {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        pre: InstancePre<GuestState>,
        contract: Contract,
    ) -> Self {
        Self { runtime, pre, contract, settings: Settings::default() }
    }

    /// Calls a guest in a fresh store, after `configure`.
    fn evaluate_configured<T>(
        &self,
        call_guest: impl FnOnce(&mut Call<'_>) -> Result<T, PolicyError>,
    ) -> Evaluation<T> {
        self.evaluate(|call| {
            self.contract.configure(call, &self.settings)?;
            call_guest(call)
        })
    }

    /// Calls a guest in a fresh store.
    fn evaluate<T>(
        &self,
        call_guest: impl FnOnce(&mut Call<'_>) -> Result<T, PolicyError>,
    ) -> Evaluation<T> {
        let limits = &self.runtime.limits;
        let permit = self.runtime.ticker.acquire(&self.runtime.engine);
        let fuel = limits.fuel.min(permit.max_fuel);
        let started = Instant::now();
        let mut store = Store::new(&self.runtime.engine, GuestState::new(*limits));
        store.limiter(|state| &mut state.limiter);
        store.set_epoch_deadline(limits.deadline_ticks().saturating_add(permit.pending_ticks));
        store.set_hostcall_fuel(limits.output);
        let result = store
            .set_fuel(fuel)
            .and_then(|()| self.pre.instantiate(&mut store))
            .map_err(|error| self.classify(error, PolicyError::Parts))
            .and_then(|instance| {
                let classify = &|error| self.classify(error, PolicyError::Output);
                call_guest(&mut Call { store: &mut store, instance, classify })
            });
        let usage = Usage {
            fuel: fuel.saturating_sub(store.get_fuel().unwrap_or(0)),
            time: started.elapsed(),
            memory: store.data().limiter.memory(),
        };
        Evaluation { result, usage, log: store.into_data().log }
    }

    /// Classifies an error by its type; `other` if it is neither a limit nor a trap.
    ///
    /// The remaining error of a call is a result that cannot be lifted, since the host functions
    /// have no errors of their own. The remaining error of an instantiation is too many parts.
    fn classify(
        &self,
        error: wasmtime::Error,
        other: impl FnOnce(wasmtime::Error) -> PolicyError,
    ) -> PolicyError {
        let limits = &self.runtime.limits;
        if let Some(exceeded) = error.downcast_ref::<LimitExceeded>() {
            return (*exceeded).into();
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => PolicyError::OutOfFuel { limit: limits.fuel },
            Some(Trap::Interrupt) => PolicyError::Deadline { limit: limits.deadline },
            Some(trap) => PolicyError::Trap(*trap),
            None => other(error),
        }
    }
}
