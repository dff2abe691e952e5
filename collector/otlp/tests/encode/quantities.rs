//! The reference page of quantities is what their table and their metrics give.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use phasemeter_meter::quantity::{InWindow, Quantity, Unit};
use phasemeter_otlp::encode::metric_of;

const PAGE: &str = "docs/reference/quantities.md";

const HEAD: &str = "\
# Quantities

Generated from [the table of quantities](../../collector/meter/src/quantity.rs) and
[their metrics](../../collector/otlp/src/encode/stream.rs). A value out of its range is missing, alone. Numbers are integers
in the unit; ppm are parts per million of the whole. Logs have power, its limit and the time in columns of several kinds
([audit](../audit.md)); a mapping file names quantities as [the gateway](gateway.md#mappings-of-metrics) does.

| quantity | unit | range | columns of logs | can be mapped | in windows | in alerts | metric |
|---|---|---|---|---|---|---|---|
";

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ppm => "ppm",
        Unit::Bytes => "By",
        Unit::BytesPerSecond => "By/s",
        Unit::Milliwatts => "mW",
        Unit::Millijoules => "mJ",
        Unit::Celsius => "°C",
        Unit::Megahertz => "MHz",
        Unit::Number => "1",
    }
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for quantity in Quantity::all() {
        let (least, most) = quantity.range();
        let columns: Vec<_> = quantity.columns().iter().map(|column| code(column)).collect();
        let window = quantity.in_window().map(|value| match value {
            InWindow::Mean(name) => format!("mean, {}", code(name)),
            InWindow::Max(name) => format!("maximum, {}", code(name)),
        });
        let metric = metric_of(quantity).map(|(name, attributes)| {
            let attributes = attributes.map(|(key, value)| format!(" {key}={value}"));
            code(&[name.to_owned()].into_iter().chain(attributes).collect::<String>())
        });
        writeln!(
            page,
            "| {} | {} | {least} to {most} | {} | {} | {} | {} | {} |",
            code(quantity.name()),
            unit(quantity.unit()),
            columns.join(", "),
            if quantity.is_mapped() { "yes" } else { "" },
            window.unwrap_or_default(),
            quantity.alert().map(|alert| code(alert.name)).unwrap_or_default(),
            metric.unwrap_or_default(),
        )
        .unwrap();
    }
    page
}

#[test]
fn page_of_quantities_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = page();
    if env::var_os("PHASEMETER_UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(current == page, "{PAGE} is not what the table gives; run make generate");
}
