//! Implements the exports of every policy.
//!
//! Settings are stored raw, because a static cannot be generic over the policy's type.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::bindings::{pricer, recommender};
use crate::settings::{RawSettings, SettingError, Settings, Value};
use crate::{Policy, Pricer, Quote, QuoteRequest, Recommender, Response, Window};

thread_local! {
    static SETTINGS: RefCell<RawSettings> = RefCell::default();
}

/// Exports of the world `recommender-policy` for `P`.
#[derive(Debug)]
pub struct ExportedRecommender<P>(PhantomData<P>);

/// Exports of the world `pricer-policy` for `P`.
#[derive(Debug)]
pub struct ExportedPricer<P>(PhantomData<P>);

/// Exports this policy from the module. Call once per crate, with a type that implements
/// [`Recommender`](crate::Recommender), or with `fn` and a function of the crate's `Settings` and a window: name, version
/// and summary of the policy are then those of its package.
#[macro_export]
macro_rules! recommender {
    (fn $recommend:path) => {
        struct Package;

        impl $crate::Policy for Package {
            const NAME: &'static str = env!("CARGO_PKG_NAME");
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            const SUMMARY: &'static str = env!("CARGO_PKG_DESCRIPTION");
            type Settings = Settings;
        }

        impl $crate::Recommender for Package {
            fn recommend(settings: &Settings, window: &$crate::Window) -> $crate::Response {
                $recommend(settings, window)
            }
        }

        $crate::recommender!(Package);
    };
    ($policy:ty) => {
        #[doc(hidden)]
        type ExportedPolicy = $crate::ExportedRecommender<$policy>;
        $crate::bindings::recommender::export!(ExportedPolicy with_types_in $crate::bindings::recommender);
    };
}

/// Exports this policy from the module. Call once per crate.
#[macro_export]
macro_rules! pricer {
    ($policy:ty) => {
        #[doc(hidden)]
        type ExportedPolicy = $crate::ExportedPricer<$policy>;
        $crate::bindings::pricer::export!(ExportedPolicy with_types_in $crate::bindings::pricer);
    };
}

fn configure<P: Policy>(raw: RawSettings) -> Result<(), Vec<SettingError>> {
    P::Settings::read(&raw)?;
    SETTINGS.set(raw);
    Ok(())
}

/// Reads the settings, which `configure` has validated.
fn settings<P: Policy>() -> Result<P::Settings, String> {
    SETTINGS.with_borrow(P::Settings::read).map_err(|errors| {
        errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("; ")
    })
}

/// Implements the interface `policy`, whose types each world generates separately.
macro_rules! policy_guest {
    ($exported:ident, $trait:ident, $world:ident) => {
        impl<P: $trait> $world::exports::phasemeter::policy::policy::Guest for $exported<P> {
            fn describe() -> $world::exports::phasemeter::policy::policy::Manifest {
                $world::exports::phasemeter::policy::policy::Manifest {
                    name: P::NAME.to_owned(),
                    version: P::VERSION.to_owned(),
                    summary: P::SUMMARY.to_owned(),
                    settings_schema: P::Settings::schema(),
                }
            }

            fn configure(
                settings: Vec<(String, $world::exports::phasemeter::policy::policy::Value)>,
            ) -> Result<(), Vec<$world::exports::phasemeter::policy::policy::SettingError>> {
                use $world::exports::phasemeter::policy::policy as wit;
                let value = |value| match value {
                    wit::Value::Flag(flag) => Value::Flag(flag),
                    wit::Value::Number(number) => Value::Number(number),
                    wit::Value::Text(text) => Value::Text(text),
                };
                let raw = settings.into_iter().map(|(path, found)| (path, value(found)));
                configure::<P>(raw.collect()).map_err(|errors| {
                    let error =
                        |SettingError { path, message }| wit::SettingError { path, message };
                    errors.into_iter().map(error).collect()
                })
            }
        }
    };
}

policy_guest!(ExportedRecommender, Recommender, recommender);
policy_guest!(ExportedPricer, Pricer, pricer);

impl<P: Recommender> recommender::exports::phasemeter::policy::recommender::Guest
    for ExportedRecommender<P>
{
    fn recommend(window: Window) -> Result<Response, String> {
        let settings = settings::<P>()?;
        // The instance ends with this call, so freeing the window would be wasted work.
        let window = ManuallyDrop::new(window);
        Ok(P::recommend(&settings, &window))
    }
}

impl<P: Pricer> pricer::exports::phasemeter::policy::pricer::Guest for ExportedPricer<P> {
    fn quote_price(request: QuoteRequest) -> Result<Option<Quote>, String> {
        Ok(P::quote(&settings::<P>()?, &request))
    }
}
