//! The meaning of a number, by its quantity and by the instrument that its sender declares: one table.
//!
//! A number without a meaning is refused by name, never read as something else.

use phasemeter_meter::instrument::{Instrument, Temporality};
use phasemeter_meter::quantity::Quantity;

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The value at its time; of a counter, its total.
    Value,
    /// By how much a counter increased since its start time.
    Increase,
}

/// How a quantity behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It rises and falls.
    Level,
    /// A rate in bytes per second, which exporters declare as a counter now and then.
    Rate,
    /// It never falls.
    Counter,
}

/// The meaning of numbers of a quantity by their instrument; `None` if they cannot be read.
pub(super) const fn meaning(quantity: Quantity, instrument: Instrument) -> Option<Meaning> {
    use Temporality::{Cumulative, Delta};
    let kind = kind(quantity);
    match instrument {
        Instrument::Undeclared | Instrument::Gauge => Some(Meaning::Value),
        Instrument::Sum { is_monotonic: false, temporality: Some(Cumulative) } => {
            Some(Meaning::Value)
        }
        Instrument::Sum { is_monotonic: true, temporality: Some(temporality) } => {
            match (kind, temporality) {
                (Kind::Counter | Kind::Rate, Cumulative) => Some(Meaning::Value),
                (Kind::Counter, Delta) => Some(Meaning::Increase),
                (Kind::Level, _) | (Kind::Rate, Delta) => None,
            }
        }
        Instrument::Sum { .. } | Instrument::Histogram { .. } | Instrument::Summary => None,
    }
}

/// The instruments that numbers of a quantity may have.
pub(super) const fn expected(quantity: Quantity) -> &'static str {
    match kind(quantity) {
        Kind::Level | Kind::Rate => "a gauge",
        Kind::Counter => "a monotonic sum, cumulative or delta",
    }
}

const fn kind(quantity: Quantity) -> Kind {
    match quantity {
        Quantity::Energy => Kind::Counter,
        Quantity::PcieReceived
        | Quantity::PcieTransmitted
        | Quantity::NvlinkReceived
        | Quantity::NvlinkTransmitted => Kind::Rate,
        _ => Kind::Level,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All instruments, with the meaning of levels, rates and counters: `v` is the value, `+` an increase, and `-` is
    /// refused.
    const TABLE: [(&str, [char; 3]); 12] = [
        ("an undeclared value", ['v', 'v', 'v']),
        ("a gauge", ['v', 'v', 'v']),
        ("a cumulative non-monotonic sum", ['v', 'v', 'v']),
        ("a cumulative monotonic sum", ['-', 'v', 'v']),
        ("a delta non-monotonic sum", ['-', '-', '-']),
        ("a delta monotonic sum", ['-', '-', '+']),
        ("a non-monotonic sum without temporality", ['-', '-', '-']),
        ("a monotonic sum without temporality", ['-', '-', '-']),
        ("a cumulative histogram", ['-', '-', '-']),
        ("a delta histogram", ['-', '-', '-']),
        ("a histogram without temporality", ['-', '-', '-']),
        ("a summary", ['-', '-', '-']),
    ];

    #[test]
    fn every_instrument_of_every_quantity_has_a_meaning_or_none() {
        let mut instruments = Vec::new();
        for instrument in Instrument::all() {
            let name = instrument.to_string();
            let (_, row) = TABLE.iter().find(|(known, _)| *known == name).unwrap();
            for quantity in Quantity::all().filter(|quantity| quantity.is_mapped()) {
                let column = match quantity.name() {
                    "energy" => 2,
                    name if name.ends_with("_received") || name.ends_with("_transmitted") => 1,
                    _ => 0,
                };
                let found = match meaning(quantity, instrument) {
                    Some(Meaning::Value) => 'v',
                    Some(Meaning::Increase) => '+',
                    None => '-',
                };
                assert_eq!(found, row[column], "{name} of {}", quantity.name());
            }
            instruments.push(name);
        }
        assert_eq!(instruments.len(), TABLE.len());
    }
}
