//! What is declared of the work: the attributes that decide most of what is recommended.

use clap::Args;
use clap::builder::PossibleValuesParser;
use phasemeter_rules::workload::{FRAMEWORK, PRECISION, PRECISIONS, TEAM, WORKLOAD, Workload};

/// What is declared of the work: attributes of the run, before those of OTEL_RESOURCE_ATTRIBUTES.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct DeclaredArgs {
    /// Kind of workload, which decides what is recommended [default: phasemeter.workload in
    /// OTEL_RESOURCE_ATTRIBUTES, else as labels and processes show].
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(Workload::DECLARED.map(Workload::name)))]
    workload: Option<String>,

    /// Team that owns the work [default: phasemeter.team in OTEL_RESOURCE_ATTRIBUTES].
    #[arg(long, value_name = "NAME")]
    team: Option<String>,

    /// Framework or program, like pytorch or openfoam: shows whether there are matrix products
    /// [default: phasemeter.framework in OTEL_RESOURCE_ATTRIBUTES].
    #[arg(long, value_name = "NAME")]
    framework: Option<String>,

    /// Number format of most of the arithmetic [default: phasemeter.precision in
    /// OTEL_RESOURCE_ATTRIBUTES].
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(PRECISIONS))]
    precision: Option<String>,
}

impl DeclaredArgs {
    /// The attributes that are given, with their values.
    pub fn attributes(&self) -> impl Iterator<Item = (String, String)> {
        let Self { workload, team, framework, precision } = self;
        let all =
            [(WORKLOAD, workload), (TEAM, team), (FRAMEWORK, framework), (PRECISION, precision)];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::{Cli, Command};

    #[test]
    fn values_are_attributes_and_checked() {
        let parse = |options: &str| {
            let line = ["phasemeter audit log.csv ", options].concat();
            Cli::try_parse_from(line.split_whitespace())
        };
        let options = "--workload training --team vision --framework pytorch --precision bf16";
        let Command::Audit(args) = parse(options).unwrap().command else { panic!("not an audit") };
        let given: Vec<_> = args.metering.declared.attributes().collect();
        let expected = [
            ("phasemeter.workload", "training"),
            ("phasemeter.team", "vision"),
            ("phasemeter.framework", "pytorch"),
            ("phasemeter.precision", "bf16"),
        ];
        assert_eq!(given, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let error = parse("--workload trainin").unwrap_err().to_string();
        assert!(error.contains("a similar value exists: 'training'"), "{error}");
        assert!(parse("--precision int3").is_err());
    }
}
