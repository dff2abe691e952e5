//! The exporters of a signal, as in `OTEL_TRACES_EXPORTER`.

use crate::signal::Signal;

/// A list of exporters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExporterList {
    /// Whether the signal is exported over OTLP: if the list has `otlp`, or neither that nor `none`,
    /// as if it were not set.
    pub is_exported: bool,
    /// The other exporters.
    pub unsupported: Vec<String>,
}

impl ExporterList {
    /// The variable of a signal.
    #[must_use]
    pub fn variable(signal: Signal) -> String {
        format!("OTEL_{}_EXPORTER", signal.in_variable())
    }

    /// Parses names separated by commas, in any case.
    #[must_use]
    pub fn parse(list: &str) -> Self {
        let (mut otlp, mut none, mut unsupported) = (false, false, Vec::new());
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name.to_ascii_lowercase().as_str() {
                "otlp" => otlp = true,
                "none" => none = true,
                _ => unsupported.push(name.to_owned()),
            }
        }
        Self { is_exported: otlp || !none, unsupported }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_selects_otlp_unless_it_is_none() {
        for (list, is_exported, unsupported) in [
            ("", true, &[][..]),
            ("otlp", true, &[]),
            (" NONE ", false, &[]),
            ("none,OTLP", true, &[]),
            ("console,otlp", true, &["console"]),
            ("Console, otlp/stdout", true, &["Console", "otlp/stdout"]),
            ("none,prometheus", false, &["prometheus"]),
        ] {
            let unsupported: Vec<_> = unsupported.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(
                ExporterList::parse(list),
                ExporterList { is_exported, unsupported },
                "{list}"
            );
        }
    }
}
