//! Version 0.1 of the contract: between `wit/v0.1` and the plain types of this crate.
//!
//! The only folder that knows the types generated from there: here is how a guest is asked, in
//! `told` what it is told, in `said` how what it says is checked. This room must not know what
//! limits a guest has.

mod said;
mod told;

use wasmtime::component::{HasSelf, InstancePre, Linker};

use super::Call;
use crate::error::{LoadError, MAX_GUEST_TEXT, PolicyError, sanitize};
use crate::guest_state::{GuestState, Level};
use crate::manifest::{Kind, Manifest};
use crate::quote::{Quote, QuoteRequest};
use crate::recommendation::Recommendation;
use crate::settings::{SettingError, Settings};
use crate::window::Window;

use generated::exports::phasemeter::policy as wit;
use generated::phasemeter::policy::log;

#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_variables,
    unused_qualifications,
    reason = "generated"
)]
mod generated {
    wasmtime::component::bindgen!({
        path: "wit/v0.1",
        inline: "
            package phasemeter:host;
            world every {
                import phasemeter:policy/log@0.1.0;
                export phasemeter:policy/policy@0.1.0;
                export phasemeter:policy/recommender@0.1.0;
                export phasemeter:policy/pricer@0.1.0;
                export phasemeter:policy/self-test@0.1.0;
            }",
        world: "phasemeter:host/every",
        ownership: Borrowing { duplicate_if_necessary: false },
    });
}

/// The most errors that are told of one set of settings.
const MOST_ERRORS: usize = 32;

/// Gives guests what they may import.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    log::add_to_linker::<GuestState, HasSelf<GuestState>>(linker, |state| state)
}

impl log::Host for GuestState {
    fn log(&mut self, level: log::Level, message: String) {
        let level = match level {
            log::Level::Debug => Level::Debug,
            log::Level::Info => Level::Info,
            log::Level::Warn => Level::Warn,
            log::Level::Error => Level::Error,
        };
        self.write(level, &message);
    }
}

/// What a policy exports, found by probing.
pub(crate) struct Contract {
    policy: wit::policy::GuestIndices,
    world: World,
    self_test: Option<wit::self_test::GuestIndices>,
}

enum World {
    Recommender(Recommender),
    Pricer(Pricer),
}

/// The exports of a policy that advises.
pub(crate) struct Recommender(wit::recommender::GuestIndices);

/// The exports of a policy that prices.
pub(crate) struct Pricer(wit::pricer::GuestIndices);

/// Why an export cannot be called: it is not there, or of the wrong type.
fn mistyped(error: &wasmtime::Error) -> PolicyError {
    LoadError::NotAPolicy(sanitize(&format!("{error:#}"), MAX_GUEST_TEXT)).into()
}

/// What a guest says of itself that it cannot do.
fn says(words: &str) -> PolicyError {
    PolicyError::Guest(sanitize(words, MAX_GUEST_TEXT))
}

impl Contract {
    /// Looks for the exports of a policy.
    pub(crate) fn probe(pre: &InstancePre<GuestState>) -> Result<Self, LoadError> {
        let not = |why: &str| Err(LoadError::NotAPolicy(why.to_owned()));
        let Ok(policy) = wit::policy::GuestIndices::new(pre) else {
            return not("it does not export phasemeter:policy/policy@0.1.0");
        };
        let recommender = wit::recommender::GuestIndices::new(pre);
        let pricer = wit::pricer::GuestIndices::new(pre);
        let world = match (recommender, pricer) {
            (Ok(recommender), Err(_)) => World::Recommender(Recommender(recommender)),
            (Err(_), Ok(pricer)) => World::Pricer(Pricer(pricer)),
            (Ok(_), Ok(_)) => {
                return not("it exports both a recommender and a pricer: make two policies of it");
            }
            (Err(_), Err(_)) => {
                return not("it exports neither phasemeter:policy/recommender@0.1.0 nor pricer");
            }
        };
        Ok(Self { policy, world, self_test: wit::self_test::GuestIndices::new(pre).ok() })
    }

    pub(crate) const fn kind(&self) -> Kind {
        match self.world {
            World::Recommender(_) => Kind::Recommender,
            World::Pricer(_) => Kind::Pricer,
        }
    }

    pub(crate) const fn recommender(&self) -> Option<&Recommender> {
        match &self.world {
            World::Recommender(recommender) => Some(recommender),
            World::Pricer(_) => None,
        }
    }

    pub(crate) const fn pricer(&self) -> Option<&Pricer> {
        match &self.world {
            World::Pricer(pricer) => Some(pricer),
            World::Recommender(_) => None,
        }
    }

    /// Asks who it is, and whether its functions have the types of the contract.
    pub(crate) fn describe(&self, call: &mut Call<'_>) -> Result<Manifest, PolicyError> {
        match &self.world {
            World::Recommender(world) => world.0.load(&mut *call.store, &call.instance).map(drop),
            World::Pricer(world) => world.0.load(&mut *call.store, &call.instance).map(drop),
        }
        .map_err(|error| mistyped(&error))?;
        if let Some(test) = &self.self_test {
            test.load(&mut *call.store, &call.instance).map_err(|error| mistyped(&error))?;
        }
        let guest = self.policy.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(|error| mistyped(&error))?;
        said::manifest(guest.call_describe(&mut *call.store).map_err(call.fault)?)
    }

    pub(crate) fn configure(
        &self,
        call: &mut Call<'_>,
        settings: &Settings,
    ) -> Result<(), PolicyError> {
        let guest = self.policy.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(|error| mistyped(&error))?;
        let answer = guest.call_configure(&mut *call.store, &told::settings(settings));
        let answer = answer.map_err(call.fault)?;
        answer.map_err(|errors| {
            let error = |error: wit::policy::SettingError| SettingError {
                path: sanitize(&error.path, 200),
                message: sanitize(&error.message, MAX_GUEST_TEXT),
            };
            PolicyError::Settings(errors.into_iter().take(MOST_ERRORS).map(error).collect())
        })
    }

    /// Runs its self-test, where it has one.
    pub(crate) fn self_test(&self, call: &mut Call<'_>) -> Result<(), PolicyError> {
        let Some(indices) = &self.self_test else { return Ok(()) };
        let guest = indices.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(|error| mistyped(&error))?;
        guest.call_run(&mut *call.store).map_err(call.fault)?.map_err(|words| says(&words))
    }
}

impl Recommender {
    /// Advice on a window.
    pub(crate) fn recommend(
        &self,
        call: &mut Call<'_>,
        window: &Window,
    ) -> Result<Vec<Recommendation>, PolicyError> {
        let guest = self.0.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(|error| mistyped(&error))?;
        let answer = told::window(window, |told| guest.call_recommend(&mut *call.store, told));
        said::recommendations(answer.map_err(call.fault)?.map_err(|words| says(&words))?, window)
    }
}

impl Pricer {
    /// A quote, or none of it.
    pub(crate) fn quote(
        &self,
        call: &mut Call<'_>,
        request: &QuoteRequest,
    ) -> Result<Option<Quote>, PolicyError> {
        let guest = self.0.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(|error| mistyped(&error))?;
        let answer = told::request(request, |told| guest.call_quote_price(&mut *call.store, told));
        let answer = answer.map_err(call.fault)?.map_err(|words| says(&words))?;
        answer.map(|answer| said::quote(answer, request)).transpose()
    }
}
