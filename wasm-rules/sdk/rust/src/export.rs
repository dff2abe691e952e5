//! What the host calls, written once for every policy.
//!
//! The settings are kept as they came: a policy's own types would need a place for each policy.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::bindings::{advice, prices};
use crate::settings::{Given, SettingError, Settings, Value};
use crate::{Policy, Pricer, Quote, QuoteRequest, Recommendation, Recommender, Window};

thread_local! {
    static GIVEN: RefCell<Given> = RefCell::default();
}

/// What the world of advice exports, for `P`.
#[derive(Debug)]
pub struct ExportedRecommender<P>(PhantomData<P>);

/// What the world of prices exports, for `P`.
#[derive(Debug)]
pub struct ExportedPricer<P>(PhantomData<P>);

/// Makes this policy the one that the module is. Once a crate.
#[macro_export]
macro_rules! recommender {
    ($policy:ty) => {
        #[doc(hidden)]
        type ExportedPolicy = $crate::ExportedRecommender<$policy>;
        $crate::bindings::advice::export!(ExportedPolicy with_types_in $crate::bindings::advice);
    };
}

/// Makes this policy the one that the module is. Once a crate.
#[macro_export]
macro_rules! pricer {
    ($policy:ty) => {
        #[doc(hidden)]
        type ExportedPolicy = $crate::ExportedPricer<$policy>;
        $crate::bindings::prices::export!(ExportedPolicy with_types_in $crate::bindings::prices);
    };
}

fn configure<P: Policy>(given: Given) -> Result<(), Vec<SettingError>> {
    P::Settings::read(&given)?;
    GIVEN.set(given);
    Ok(())
}

/// The settings, which `configure` found right.
fn settings<P: Policy>() -> Result<P::Settings, String> {
    GIVEN.with_borrow(P::Settings::read).map_err(|errors| {
        errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("; ")
    })
}

/// Each world has its own copy of the types of `policy`.
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
                let given = settings.into_iter().map(|(path, found)| (path, value(found)));
                configure::<P>(given.collect()).map_err(|errors| {
                    let error =
                        |SettingError { path, message }| wit::SettingError { path, message };
                    errors.into_iter().map(error).collect()
                })
            }
        }
    };
}

policy_guest!(ExportedRecommender, Recommender, advice);
policy_guest!(ExportedPricer, Pricer, prices);

impl<P: Recommender> advice::exports::phasemeter::policy::recommender::Guest
    for ExportedRecommender<P>
{
    fn recommend(window: Window) -> Result<Vec<Recommendation>, String> {
        let settings = settings::<P>()?;
        // The instance ends with this call: to free a thousand small pieces would be for nothing.
        let window = ManuallyDrop::new(window);
        Ok(P::recommend(&settings, &window))
    }
}

impl<P: Pricer> prices::exports::phasemeter::policy::pricer::Guest for ExportedPricer<P> {
    fn quote_price(request: QuoteRequest) -> Result<Option<Quote>, String> {
        Ok(P::quote(&settings::<P>()?, &request))
    }
}
