//! The reference page of the file, made from the tables.

use std::fmt::Write;

use clap::Arg;

use crate::arguments::LOG_LEVEL;
use crate::exporter::{EXPORTERS, FIELDS, OF_METRICS};
use crate::keys::{Key, SECTION, Shape, choices, keys, shape};
use crate::options::{COMMANDS, Options};
use crate::signals::{INTERVAL, PROVIDERS};
use crate::variables::VALUES;
use crate::{resource, sampler};

const INTRODUCTION: &str = "\
# Configuration keys

[How a file is used](../configuration.md). This page is generated (`make generate`).

";

/// The page, in Markdown.
pub(crate) fn page(options: &Options) -> String {
    let mut page = INTRODUCTION.to_owned();
    otel(&mut page);
    own(&mut page, options);
    page
}

/// The keys of OpenTelemetry that have an effect.
fn otel(page: &mut String) {
    page.push_str(
        "## OpenTelemetry\n\nEach key means what the variable does. `[]` is an item of a list. Other keys of the schema \
         are allowed and have no effect, which is logged in one line.\n\n| key | variable |\n|---|---|\n",
    );
    let mut rows: Vec<(String, String)> = Vec::new();
    let code = |text: &str| format!("`{text}`");
    let (level, option) = LOG_LEVEL;
    rows.push((code("file_format"), "`1.0` or `1.1`".to_owned()));
    rows.push((code(level), format!("`--{option}`; `OTEL_LOG_LEVEL`")));
    for (key, variable, accepted) in VALUES {
        rows.push((code(key), code(variable) + &only(accepted)));
    }
    let [name, argument] = sampler::VARIABLES;
    rows.push((
        code(sampler::KEY),
        format!(
            "`{name}`, `{argument}`; `always_on`, `always_off`, `trace_id_ratio_based`, and `parent_based` \
             with one of them as its root and its other defaults"
        ),
    ));
    rows.push((code("resource.attributes[]"), code(resource::ATTRIBUTES) + "; not lists"));
    rows.push((code("resource.attributes_list"), code(resource::ATTRIBUTES)));
    rows.push((
        "`propagator.composite[]`, `propagator.composite_list`".to_owned(),
        code(resource::PROPAGATORS) + "; `tracecontext`, `baggage`",
    ));
    for provider in &PROVIDERS {
        let path = format!("{}.{}[]", provider.key, provider.list);
        let signal = provider.signal.in_variable();
        let kinds = provider.kinds.join("` or `");
        rows.push((
            code(&path),
            format!("`OTEL_{signal}_EXPORTER`; the first `{kinds}` with OTLP"),
        ));
    }
    let (key, variable) = INTERVAL;
    rows.push((format!("`meter_provider.readers[].periodic.{key}`"), code(variable)));
    write_rows(page, &rows);

    let names = EXPORTERS.map(|(name, ..)| code(name)).join(" and ");
    let _ = write!(
        page,
        "\nBelow {names} of an exporter, each variable for its signal, like `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`:\n\n\
         | key | variable |\n|---|---|\n"
    );
    let mut rows: Vec<(String, String)> = Vec::new();
    for (key, end, accepted) in FIELDS {
        rows.push((code(key), format!("`OTEL_EXPORTER_OTLP_…_{end}`") + &only(accepted)));
    }
    rows.push(("`headers[]`, `headers_list`".to_owned(), code("OTEL_EXPORTER_OTLP_…_HEADERS")));
    rows.push((
        code("encoding"),
        "`OTEL_EXPORTER_OTLP_…_PROTOCOL`, with the name of the exporter".to_owned(),
    ));
    for (key, variable) in OF_METRICS {
        rows.push((code(key), code(variable)));
    }
    write_rows(page, &rows);
}

/// The values that have an effect.
fn only(accepted: Option<&[&str]>) -> String {
    accepted.map(|known| format!("; `{}`", known.join("`, `"))).unwrap_or_default()
}

fn write_rows(page: &mut String, rows: &[(String, String)]) {
    for (key, meaning) in rows {
        // A string takes all.
        let _ = writeln!(page, "| {key} | {meaning} |");
    }
}

/// The keys of Phasemeter.
fn own(page: &mut String, options: &Options) {
    let _ = write!(
        page,
        "\n## Phasemeter\n\nBelow `{SECTION}`. Each key is an option; the help of a command describes it in full. A \
         command reads the keys of its own options.\n"
    );
    let mut section = "";
    for key in keys() {
        let Some(arg) = options.argument(key.option) else { continue };
        if key.section != section {
            section = key.section;
            let _ = write!(
                page,
                "\n### `{section}`\n\n| key | option | value | commands | |\n|---|---|---|---|---|\n"
            );
        }
        let _ = writeln!(
            page,
            "| `{}` | `--{}` | {} | {} | {} |",
            key.name,
            key.option,
            value(arg),
            commands(options, key),
            meaning(arg)
        );
    }
}

fn value(arg: &Arg) -> String {
    let choices = choices(arg);
    match shape(arg) {
        Shape::Switch => "true, false".to_owned(),
        Shape::Scalar if !choices.is_empty() => choices.join(", "),
        Shape::Scalar => named(arg),
        Shape::Optional => format!("true, or {}", named(arg)),
        Shape::List => format!("list of {}", named(arg)),
        Shape::Pairs => format!("mapping, or list of {}", named(arg)),
    }
}

/// The name of the value, as in the help.
fn named(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|name| name.replace('|', "\\|")).collect::<Vec<_>>().join(" ")
}

fn commands(options: &Options, key: Key) -> String {
    let commands: Vec<_> = options.commands(key.option).collect();
    if commands.len() == COMMANDS.len() { "all".to_owned() } else { commands.join(", ") }
}

/// The first sentence of the help.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().or(arg.get_long_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = help.split_once(". ").map_or(help.as_str(), |(first, _)| first);
    first.trim_end_matches('.').replace('|', "\\|")
}
