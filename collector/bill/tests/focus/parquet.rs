//! Parquet read back, against the CSV of the same reports.

use std::fs::File;
use std::io::{self, Write};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use phasemeter_bill::csv::read_text;
use phasemeter_bill::focus::{FocusOptions, FocusWriter, ParquetRows};
use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::NanoUsd;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::reports::{Hour, gpu, parse, report, working};
use super::{Row, export, usage};

fn reader(json: &Value) -> SerializedFileReader<File> {
    reader_of(json, FocusOptions::default())
}

pub(super) fn reader_of(json: &Value, options: FocusOptions) -> SerializedFileReader<File> {
    let file = tempfile::tempfile().unwrap();
    let mut writer = FocusWriter::new(ParquetRows::new(&file, &options).unwrap(), options);
    writer.write(&parse(json).0).unwrap();
    writer.finish().unwrap();
    SerializedFileReader::new(file).unwrap()
}

/// A value as the CSV has it; an instant to the microsecond.
fn text(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Decimal(number) => {
            assert_eq!((number.precision(), number.scale()), (38, 9));
            NanoUsd(i128::from_be_bytes(number.data().try_into().unwrap())).to_string()
        }
        Field::TimestampMicros(micros) => format!("{micros} µs"),
        Field::MapInternal(map) => {
            let entry = |(key, value): &(Field, Field)| (text(key), json!(text(value)));
            Value::Object(map.entries().iter().map(entry).collect()).to_string()
        }
        field => panic!("unexpected {field:?}"),
    }
}

pub(super) fn rows(reader: &SerializedFileReader<File>) -> Vec<Row> {
    let row = |row: parquet::record::Row| -> Row {
        row.get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect()
    };
    reader.get_row_iter(None).unwrap().map(|it| row(it.unwrap())).collect()
}

fn expected(json: &Value) -> Vec<Row> {
    as_parquet(export(json).0)
}

/// Rows of CSV, with instants to the microsecond.
pub(super) fn as_parquet(mut rows: Vec<Row>) -> Vec<Row> {
    for (name, value) in rows.iter_mut().flatten() {
        *value = read_text(value).into_owned();
        if name.ends_with("PeriodStart") || name.ends_with("PeriodEnd") {
            let Instant(at) = value.parse().unwrap();
            *value = format!("{} µs", at.as_nanos() / 1_000);
        }
    }
    rows
}

#[test]
fn parquet_has_the_rows_of_the_csv() {
    for plan in ["on_demand", "spot", "reserved_1y", "reserved_3y", "owned"] {
        let json = usage(plan);
        let rows = rows(&reader(&json));
        assert_eq!((rows.len(), rows), (3, expected(&json)), "{plan}");
    }
    let nothing = report(&[], vec![]);
    assert_eq!(rows(&reader(&nothing)), Vec::<Row>::new());
}

#[test]
fn columns_have_types() {
    let reader = reader(&usage("on_demand"));
    let metadata = reader.metadata().file_metadata();
    let mut schema = Vec::new();
    parquet::schema::printer::print_schema(&mut schema, metadata.schema());
    let schema = String::from_utf8(schema).unwrap();
    for column in [
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (16) BilledCost (DECIMAL(38,9));",
        "OPTIONAL BYTE_ARRAY BillingCurrency (STRING);",
        "REQUIRED INT64 ChargePeriodStart (TIMESTAMP(MICROS,true));",
        "REQUIRED group Tags (MAP) {",
    ] {
        assert!(schema.contains(column), "{column} is not in {schema}");
    }
    let entries = metadata.key_value_metadata().unwrap();
    let focus = entries.iter().find(|entry| entry.key == "FocusVersion").unwrap();
    assert_eq!(focus.value.as_deref(), Some("1.2"));
    let group = reader.metadata().row_group(0);
    let is_compressed = |column: &parquet::file::metadata::ColumnChunkMetaData| {
        column.compression() == parquet::basic::Compression::SNAPPY
    };
    assert!(group.columns().iter().all(is_compressed));
}

/// A row group is in memory until it is written.
#[test]
fn row_groups_are_limited() {
    let hours = vec![working(0.5); 24 * 40];
    let gpus = |count: u64| (0..count).map(|index| gpu(&index.to_string(), 0, &hours));
    let many = reader(&report(&[("team", "a")], gpus(90).collect()));
    let groups = many.metadata().row_groups();
    assert!(groups.len() > 1, "{} rows in one group", groups[0].num_rows());
    assert!(groups[0].num_rows() > 30_000, "{}", groups[0].num_rows());
    let rows: i64 = groups.iter().map(parquet::file::metadata::RowGroupMetaData::num_rows).sum();
    assert_eq!(rows, 90 * 24 * 40);
    // Long text takes more memory, so fewer rows do.
    let long = "x".repeat(100_000);
    let attributes: Vec<_> =
        (0..200).map(|index| (format!("a{index}"), format!("{index}{long}"))).collect();
    let attributes: Vec<_> = attributes.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    let long = reader(&report(&attributes, vec![gpu("a", 0, &hours[..3])]));
    assert_eq!(long.metadata().num_row_groups(), 3);
}

/// A file whose disk is full.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn write_error_keeps_its_cause() {
    let write = || {
        let mut writer = FocusWriter::new(
            ParquetRows::new(Full, &FocusOptions::default())?,
            FocusOptions::default(),
        );
        writer.write(&parse(&usage("on_demand")).0)?;
        writer.finish()
    };
    assert_eq!(write().unwrap_err().kind(), io::ErrorKind::StorageFull);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn parquet_has_the_rows_of_the_csv_for_any_report(
        tags in prop::collection::btree_map("[a-zé.]{0,6}", "[^\\p{C}]{0,12}", 0..5),
        costs in prop::collection::vec(0..9_000_000_000_000_000_000_i64, 1..20),
        nanos in 1..999_999_999_u32,
        uuid in prop::option::of("[a-f0-9-]{1,12}"),
    ) {
        let hours = costs.iter().map(|cost| Hour {
            accounts: vec![("productive", 3_600.0, i128::from(*cost))],
            effective: 1_800.0,
            utilized: i128::from(*cost) / 2,
        });
        let mut gpu = gpu("a", 0, &hours.collect::<Vec<_>>());
        gpu["uuid"] = json!(uuid);
        // Begins and ends within a microsecond.
        let last = costs.len() - 1;
        gpu["periods"][0]["start"] = json!(format!("2026-07-27T00:00:00.{nanos:09}Z"));
        let end = gpu["periods"][last]["end"].as_str().unwrap().replace('Z', &format!(".{nanos:09}Z"));
        gpu["periods"][last]["end"] = json!(end);
        if last > 0 {
            let short = 3_600.0 - f64::from(nanos) / 1e9;
            gpu["periods"][0]["accounts"]["productive"]["seconds"] = json!(short);
            let long = 3_600.0 + f64::from(nanos) / 1e9;
            gpu["periods"][last]["accounts"]["productive"]["seconds"] = json!(long);
        }
        let tags: Vec<_> = tags.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let json = report(&tags, vec![gpu]);
        prop_assert_eq!(rows(&reader(&json)), expected(&json));
    }
}
