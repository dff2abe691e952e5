//! FOCUS 1.4: against the table of its columns, and the rows of GPUs that holders shared.

use phasemeter_bill::focus::{FocusOptions, FocusVersion, TagFormat};
use serde::Deserialize;
use serde_json::Value;

use super::parquet::{as_parquet, reader_of, rows};
use super::reports::{divided, gpu, holder, report, usd, working};
use super::{Column, Row, export_as, nanos, rules, usage, violations};

#[derive(Deserialize)]
struct Table {
    column: Vec<Column>,
}

fn table() -> Vec<Column> {
    toml::from_str::<Table>(include_str!("columns-1.4.toml")).unwrap().column
}

fn export(json: &Value) -> Vec<Row> {
    let invoice = Some("2026-07/17".to_owned());
    let (version, tags) = (FocusVersion::V1_4, TagFormat::Otel);
    export_as(json, FocusOptions { version, tags, invoice }).0
}

/// Violations of the table, and of the rules of 1.2 about the columns that both versions have.
fn all_violations(rows: &[Row]) -> Vec<String> {
    let mut rules = rules();
    rules.column = table().into_iter().filter(|column| column.absent.is_none()).collect();
    violations(&rules, rows)
}

/// Four hours: two pods of a namespace and one of another, one of which never touched the GPU and left after two hours.
fn shared() -> Value {
    let hours = [working(0.5), working(0.5), working(0.5), working(0.5)];
    let mut holders = vec![
        holder(
            "ml/train-0",
            &[("team", "a")],
            (0, 4),
            [5_400.0, 1_800.0, 0.0],
            [3_000_000_000, 1_000_000_000, 0],
        ),
        holder("ml/idle-0", &[], (0, 2), [0.0, 0.0, 1_800.0], [0, 0, 1_000_000_000]),
        holder("web/chat", &[], (0, 4), [1_800.0, 900.0, 0.0], [1_000_000_001, 499_999_999, 0]),
    ];
    for (key, value) in [("workload", "train"), ("workload_kind", "StatefulSet"), ("queue", "prod")]
    {
        holders[0][key] = value.into();
    }
    holders[2]["workload"] = "chat".into();
    holders[2]["workload_kind"] = "InferenceService".into();
    let attributes = [("team", "platform"), ("cloud.account.id", "123"), ("host.name", "node-1")];
    report(&attributes, vec![divided(gpu("a", 0, &hours), holders), gpu("b", 0, &hours[..1])])
}

#[test]
fn export_of_1_4_follows_the_table_of_its_columns() {
    let table = table();
    let of_level =
        |level: &str| table.iter().filter(|it| it.level.as_deref() == Some(level)).count();
    assert_eq!(["mandatory", "recommended", "conditional"].map(of_level), [21, 4, 40]);
    for column in &table {
        let is_mandatory = column.level.as_deref() == Some("mandatory");
        assert!(!is_mandatory || column.absent.is_none(), "{}", column.name);
    }
    for plan in ["on_demand", "spot", "reserved_1y", "reserved_3y", "owned"] {
        let rows = export(&usage(plan));
        assert_eq!(all_violations(&rows), Vec::<String>::new(), "{plan}");
        for row in &rows {
            let is_absent =
                |column: &Column| column.absent.is_some() && row.contains_key(&column.name);
            assert!(!table.iter().any(is_absent), "{row:?}");
            let allocated = row.iter().filter(|(name, _)| name.starts_with("Allocated"));
            assert!(allocated.clone().all(|(_, value)| value.is_empty()), "{row:?}");
            assert_eq!(allocated.count(), 5);
        }
    }
    assert_eq!(all_violations(&export(&shared())), Vec::<String>::new());
}

/// A column of 1.2 that 1.4 removed, a column that is missing, and a value of another type are found.
#[test]
fn each_column_of_1_4_finds_its_broken_row() {
    let valid = export(&shared());
    let mut removed = valid[0].clone();
    removed.insert("ProviderName".to_owned(), "aws".to_owned());
    assert!(!all_violations(&[removed]).is_empty());
    for column in table().iter().filter(|column| column.absent.is_none()) {
        for (value, expected) in column.broken() {
            let mut row = valid[1].clone();
            match value {
                Some(value) => _ = row.insert(column.name.clone(), value.to_owned()),
                None => _ = row.remove(&column.name),
            }
            let found = all_violations(&[valid[0].clone(), row]);
            assert!(found.contains(&expected), "{expected}: found {found:?}");
        }
    }
}

#[test]
fn divided_gpu_has_a_row_per_holder_that_sum_to_it() {
    let rows = export(&shared());
    let of_gpu: Vec<&Row> = rows.iter().filter(|row| row["ResourceId"] == "GPU-a").collect();
    assert_eq!((rows.len(), of_gpu.len()), (5, 4));
    let sum = |name: &str| of_gpu.iter().map(|row| nanos(&row[name])).sum::<i128>();
    for cost in ["BilledCost", "EffectiveCost", "ListCost", "ContractedCost"] {
        assert_eq!(sum(cost), 8_000_000_000, "{cost}");
    }
    assert_eq!(sum("ConsumedQuantity"), 4_000_000_000);
    let ratio = |row: &Row| {
        let json: Value = serde_json::from_str(&row["AllocatedMethodDetails"]).unwrap();
        assert_eq!(json["Elements"][0]["UsageUnit"], "Hours");
        let text =
            row["AllocatedMethodDetails"].split("AllocatedRatio\":").nth(1).unwrap().to_owned();
        nanos(text.split(',').next().unwrap())
    };
    assert_eq!(of_gpu.iter().map(|row| ratio(row)).sum::<i128>(), 1_000_000_000);
    let names: Vec<_> = of_gpu.iter().map(|row| row["AllocatedResourceName"].as_str()).collect();
    assert_eq!(names, ["ml/train-0/main", "ml/idle-0/main", "web/chat/main", ""]);
    assert!(of_gpu.iter().all(|row| row["AllocatedMethodId"] == "by_use"));
    let tags: Value = serde_json::from_str(&of_gpu[0]["AllocatedTags"]).unwrap();
    assert_eq!(
        (&tags["k8s.pod.name"], &tags["k8s.pod.label.team"]),
        (&"train-0".into(), &"a".into())
    );
    assert_eq!((&tags["k8s.statefulset.name"], &tags["queue"]), (&"train".into(), &"prod".into()));
    assert!(!of_gpu[2]["AllocatedTags"].contains("InferenceService"));
    assert_eq!(of_gpu[3]["AllocatedTags"], "");
    assert_eq!(of_gpu[1]["ChargePeriodEnd"], "2026-07-27T02:00:00Z");
    assert_eq!(of_gpu[1]["x_NeverTouchedCost"], usd(1_000_000_000));
    assert_eq!(of_gpu[0]["x_IdleHeldCost"], "");
    let parts = ["x_UtilizedCost", "x_GrantedUnusedCost", "x_NeverTouchedCost"];
    let parts: i128 = parts.iter().map(|name| nanos(&of_gpu[0][*name])).sum();
    assert_eq!(parts, nanos(&of_gpu[0]["EffectiveCost"]));
}

/// Holders of 1.2 are in no column, so its rows are those of the GPU.
#[test]
fn export_of_1_2_has_rows_of_periods() {
    let (rows, cost) = export_as(&shared(), FocusOptions::default());
    assert_eq!((rows.len(), cost), (5, 10_000_000_000));
    assert!(!rows[0].contains_key("AllocatedMethodId"));
    assert_eq!(violations(&rules(), &rows), Vec::<String>::new());
}

/// Scenario: a holder from 31 July, 18 h, to 1 August, 6 h.
/// Guarantee: a row lies within its month, and the rows sum to the bill.
#[test]
fn holder_over_the_end_of_a_month_is_divided_there() {
    let hours = vec![working(0.5); 12];
    let first = 24 * 4 + 18;
    let held = holder(
        "ml/train-0",
        &[],
        (first, first + 12),
        [20_000.0, 1_000.0, 0.0],
        [11_000_000_001, 777_777_777, 0],
    );
    let rows = export(&report(&[], vec![divided(gpu("a", first, &hours), vec![held])]));
    assert_eq!(rows.len(), 4);
    assert_eq!(all_violations(&rows), Vec::<String>::new());
    assert_eq!(rows.iter().map(|row| nanos(&row["EffectiveCost"])).sum::<i128>(), 24_000_000_000);
    assert_eq!(rows[0]["ChargePeriodEnd"], "2026-08-01T00:00:00Z");
}

#[test]
fn parquet_of_1_4_has_the_rows_of_the_csv() {
    let json = shared();
    let options = FocusOptions { version: FocusVersion::V1_4, ..FocusOptions::default() };
    let reader = reader_of(&json, options.clone());
    assert_eq!(rows(&reader), as_parquet(export_as(&json, options).0));
}

#[test]
fn invoice_is_a_column_if_it_is_known() {
    let rows = export(&shared());
    assert!(rows.iter().all(|row| row["InvoiceId"] == "2026-07/17"));
    for version in [FocusVersion::V1_2, FocusVersion::V1_4] {
        let (rows, _) = export_as(&shared(), FocusOptions { version, ..FocusOptions::default() });
        assert!(rows.iter().all(|row| !row.contains_key("InvoiceId")));
    }
}
