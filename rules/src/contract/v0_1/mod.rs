//! Version 0.1 of the contract: calls guests through the types generated from `wit/v0.1`.
//!
//! The only module that depends on the generated types: `lower` and `plain` write arguments, `lift`
//! validates results.

mod lift;
mod lower;
mod plain;

use wasmtime::component::{HasSelf, InstancePre, Linker};

use super::Call;
use crate::error::{LoadError, MAX_GUEST_TEXT, PolicyError};
use crate::guest_state::{GuestState, Level};
use crate::manifest::{Kind, Manifest};
use crate::quote::{Quote, QuoteRequest};
use crate::recommendation::Response;
use crate::settings::{SettingError, Settings};
use crate::window::Window;

use generated::exports::phasemeter::policy as wit;
use generated::phasemeter::policy::log;
use phasemeter_terminal::escape::sanitize;

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

/// The most setting errors that are reported.
const MAX_SETTING_ERRORS: usize = 32;

/// Links the allowed imports.
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

/// The exports of a policy.
pub(crate) struct Contract {
    policy: wit::policy::GuestIndices,
    world: World,
    self_test: Option<wit::self_test::GuestIndices>,
}

enum World {
    Recommender(Recommender),
    Pricer(Pricer),
}

/// The exports of a recommender.
pub(crate) struct Recommender(wit::recommender::GuestIndices);

/// The exports of a pricer.
pub(crate) struct Pricer(wit::pricer::GuestIndices);

/// The error that a guest returned.
fn guest_error(message: &str) -> PolicyError {
    PolicyError::Guest(sanitize(message, MAX_GUEST_TEXT))
}

impl Contract {
    /// Probes for the exports of a policy.
    pub(crate) fn probe(pre: &InstancePre<GuestState>) -> Result<Self, LoadError> {
        let not_a_policy = |reason: &str| Err(LoadError::NotAPolicy(reason.to_owned()));
        let Ok(policy) = wit::policy::GuestIndices::new(pre) else {
            return not_a_policy("it does not export phasemeter:policy/policy@0.1.0");
        };
        let recommender = wit::recommender::GuestIndices::new(pre);
        let pricer = wit::pricer::GuestIndices::new(pre);
        let world = match (recommender, pricer) {
            (Ok(recommender), Err(_)) => World::Recommender(Recommender(recommender)),
            (Err(_), Ok(pricer)) => World::Pricer(Pricer(pricer)),
            (Ok(_), Ok(_)) => {
                return not_a_policy(
                    "it exports both a recommender and a pricer; split it into two policies",
                );
            }
            (Err(_), Err(_)) => {
                return not_a_policy(
                    "it exports neither phasemeter:policy/recommender@0.1.0 nor pricer",
                );
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

    /// Returns the manifest, and checks the types of all exports.
    pub(crate) fn describe(&self, call: &mut Call<'_>) -> Result<Manifest, PolicyError> {
        match &self.world {
            World::Recommender(world) => world.0.load(&mut *call.store, &call.instance).map(drop),
            World::Pricer(world) => world.0.load(&mut *call.store, &call.instance).map(drop),
        }
        .map_err(LoadError::not_a_policy)?;
        if let Some(test) = &self.self_test {
            test.load(&mut *call.store, &call.instance).map_err(LoadError::not_a_policy)?;
        }
        let guest = self.policy.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(LoadError::not_a_policy)?;
        lift::manifest(guest.call_describe(&mut *call.store).map_err(call.classify)?)
    }

    pub(crate) fn configure(
        &self,
        call: &mut Call<'_>,
        settings: &Settings,
    ) -> Result<(), PolicyError> {
        let guest = self.policy.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(LoadError::not_a_policy)?;
        let result = guest.call_configure(&mut *call.store, &lower::settings(settings));
        result.map_err(call.classify)?.map_err(|errors| {
            let error = |error: wit::policy::SettingError| SettingError {
                path: sanitize(&error.path, 200),
                message: sanitize(&error.message, MAX_GUEST_TEXT),
            };
            PolicyError::Settings(errors.into_iter().take(MAX_SETTING_ERRORS).map(error).collect())
        })
    }

    /// Runs the self-test, if there is one.
    pub(crate) fn self_test(&self, call: &mut Call<'_>) -> Result<(), PolicyError> {
        let Some(indices) = &self.self_test else { return Ok(()) };
        let guest = indices.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(LoadError::not_a_policy)?;
        let result = guest.call_run(&mut *call.store).map_err(call.classify)?;
        result.map_err(|message| guest_error(&message))
    }
}

impl Recommender {
    /// Returns the response to a window. A recommendation with an unknown lever is logged instead.
    pub(crate) fn recommend(
        &self,
        call: &mut Call<'_>,
        window: &Window,
    ) -> Result<Response, PolicyError> {
        let guest = self.0.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(LoadError::not_a_policy)?;
        let result = lower::window(window, |window| guest.call_recommend(&mut *call.store, window));
        let raw = result.map_err(call.classify)?.map_err(|message| guest_error(&message))?;
        let (response, warnings) = lift::response(raw, window)?;
        for warning in warnings {
            call.store.data_mut().write(Level::Warn, &warning);
        }
        Ok(response)
    }
}

impl Pricer {
    /// Returns a quote, or `None` if the policy passes.
    pub(crate) fn quote(
        &self,
        call: &mut Call<'_>,
        request: &QuoteRequest,
    ) -> Result<Option<Quote>, PolicyError> {
        let guest = self.0.load(&mut *call.store, &call.instance);
        let guest = guest.map_err(LoadError::not_a_policy)?;
        let result =
            lower::request(request, |request| guest.call_quote_price(&mut *call.store, request));
        let raw = result.map_err(call.classify)?.map_err(|message| guest_error(&message))?;
        raw.map(|raw| lift::quote(raw, request)).transpose()
    }
}
