//! A policy that reads a window from the contract's records, or from JSON: the same binary doing the
//! same work, so that only the transfer differs.
//!
//! A window without GPUs carries the JSON of another window in its experiment ID.

use exports::phasemeter::policy::policy::{self, Manifest, SettingError, Value};
use exports::phasemeter::policy::recommender::{self, Response, Window};
use phasemeter::policy::log::{Level, log};

wit_bindgen::generate!({
    path: "../../wit/v0.1",
    world: "recommender-policy",
    additional_derives: [serde::Deserialize],
});

struct Reader;

impl policy::Guest for Reader {
    fn describe() -> Manifest {
        Manifest {
            name: "json".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: "Reads a window, as records or as JSON.".into(),
            settings_schema: String::new(),
        }
    }

    fn configure(_: Vec<(String, Value)>) -> Result<(), Vec<SettingError>> {
        Ok(())
    }
}

impl recommender::Guest for Reader {
    fn recommend(window: Window) -> Result<Response, String> {
        let window = match window.gpus.as_slice() {
            [] => serde_json::from_str(&window.experiment_id).map_err(|error| error.to_string())?,
            _ => window,
        };
        let columns =
            window.gpus.iter().flat_map(|gpu| [&gpu.utilization, &gpu.power, &gpu.memory]);
        let sum: f64 = columns.flatten().sum();
        log(Level::Info, &sum.to_string());
        Ok(Response { recommendations: Vec::new(), needs: Vec::new() })
    }
}

export!(Reader);
