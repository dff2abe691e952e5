//! Mapping files, in TOML.

use std::collections::BTreeMap;

use phasemeter_meter::label_filter::LabelFilter;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::Basis;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::holder_metrics::HolderMetric;
use super::identity::Identity;
use super::rule::Rule;
use super::unit::MetricUnit;

/// A parsed mapping file.
#[derive(Clone, Debug, PartialEq)]
pub struct MappingFile {
    /// Rules by the name of their metric.
    pub(super) rules: Vec<(String, Rule)>,
}

/// Why a mapping file cannot be used. The message names the line or the metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// It is not the TOML of a mapping.
    #[error("invalid mapping: {0}")]
    Syntax(String),
    /// A metric has a unit that its value cannot have.
    #[error("{metric}: unit does not fit the value; see the documentation of mappings")]
    Unit {
        /// The metric.
        metric: String,
    },
    /// A metric of utilization has no known basis, or another has one.
    #[error("{metric}: utilization has one basis of {}, other values have none", Basis::NAMES)]
    Basis {
        /// The metric.
        metric: String,
    },
    /// A scale is not a positive number.
    #[error("{metric}: scale must be a positive number")]
    Scale {
        /// The metric.
        metric: String,
    },
    /// No label identifies the GPU.
    #[error(
        "identity: names no label of uuid, id, bus_id or index; without it GPUs cannot be distinguished"
    )]
    Identity,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    identity: Identity,
    #[serde(default)]
    missing: MissingTable,
    #[serde(default)]
    metric: Vec<MetricTable>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct MissingTable {
    from: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricTable {
    name: String,
    is: Is,
    unit: MetricUnit,
    basis: Option<String>,
    #[serde(default = "one")]
    scale: f64,
    #[serde(default, rename = "where")]
    required: BTreeMap<String, String>,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    of_any_hardware: bool,
}

/// What a metric is, by its name: a quantity of the GPU, or what it states of a holder.
#[derive(Clone, Copy)]
enum Is {
    Gpu(Quantity),
    Holder(HolderMetric),
}

impl<'de> Deserialize<'de> for Is {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let of_gpu = Quantity::named(&name).filter(|quantity| quantity.is_mapped()).map(Self::Gpu);
        let known = of_gpu.or_else(|| HolderMetric::named(&name).map(Self::Holder));
        known.ok_or_else(|| {
            let of_gpu = Quantity::all().filter(|it| it.is_mapped()).map(Quantity::name);
            let names = of_gpu.chain(HolderMetric::names()).collect::<Vec<_>>().join(", ");
            D::Error::custom(format!("unknown value `{name}`, expected one of {names}"))
        })
    }
}

const fn one() -> f64 {
    1.0
}

impl MappingFile {
    /// Parses a file.
    ///
    /// # Errors
    /// Returns an error if anything in it is unknown or contradictory.
    pub fn parse(text: &str) -> Result<Self, MappingError> {
        let File { mut identity, missing, metric } =
            toml::from_str(text).map_err(|error| MappingError::Syntax(one_line(&error)))?;
        let info = std::mem::take(&mut identity.info);
        if !identity.is_identifying() {
            return Err(MappingError::Identity);
        }
        let info = info.into_iter().map(|metric| {
            let rule = Rule {
                quantity: None,
                rank: 0,
                of_holder: None,
                is_of_any_hardware: false,
                unit: MetricUnit::Code,
                basis: None,
                scale: one(),
                filter: LabelFilter::default(),
                missing_from: None,
                identity: identity.clone(),
            };
            Ok((metric, rule))
        });
        let rule = |metric| rule(metric, &identity, missing.from);
        Ok(Self { rules: info.chain(metric.into_iter().map(rule)).collect::<Result<_, _>>()? })
    }
}

fn rule(
    table: MetricTable,
    identity: &Identity,
    missing_from: Option<f64>,
) -> Result<(String, Rule), MappingError> {
    let MetricTable {
        name: metric,
        is,
        unit,
        basis,
        scale,
        required,
        without,
        of_any_hardware: is_of_any_hardware,
    } = table;
    let (quantity, of_holder) = match is {
        Is::Gpu(quantity) => (quantity, None),
        Is::Holder(metric) => (metric.quantity(), Some(metric)),
    };
    if !unit.is_of(quantity) {
        return Err(MappingError::Unit { metric });
    }
    let (is_utilization, is_named) = (quantity == Quantity::Utilization, basis.is_some());
    let basis = basis.and_then(|name| Basis::named(&name));
    if is_named != is_utilization || basis.is_some() != is_utilization {
        return Err(MappingError::Basis { metric });
    }
    if !(scale.is_finite() && scale > 0.0) {
        return Err(MappingError::Scale { metric });
    }
    let (quantity, identity) = (Some(quantity), identity.clone());
    let filter = LabelFilter::new(required, &without);
    let rule = Rule {
        quantity,
        rank: 0,
        of_holder,
        is_of_any_hardware,
        unit,
        basis,
        scale,
        filter,
        missing_from,
        identity,
    };
    Ok((metric, rule))
}

/// The message and the line of a TOML error.
fn one_line(error: &toml::de::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
