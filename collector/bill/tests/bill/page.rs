//! Pages and JSON of a bill: their width, their sums, and prices that are missing or estimated.

use super::*;

const SCHEMA: &str = include_str!("../../src/bill.schema.json");

#[test]
fn text_fits_80_columns_and_json_follows_its_schema() {
    let validator = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    for dimensions in ["team", "day", "team,day,model", "experiment,attribute:x"] {
        let bill = bill(&worked_example(), dimensions);
        let text = render(&bill, None);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let mut json = Vec::new();
        bill_json::write(&bill, None, &mut json).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        if let Err(error) = validator.validate(&json) {
            panic!("{error} in {json:#}");
        }
    }
}

/// An amount of a page in cents; one below a cent is none.
fn cents(word: &str) -> Option<i128> {
    let word = word.trim_start_matches('~');
    let (sign, word) = word.strip_prefix('-').map_or((1, word), |word| (-1, word));
    if word.starts_with('<') {
        return Some(0);
    }
    let number = word.strip_prefix('$')?.replace([',', '.'], "");
    Some(sign * number.parse::<i128>().unwrap())
}

/// The amounts of each line that has any.
fn amounts(lines: &str) -> Vec<Vec<i128>> {
    let each = lines.lines().map(|line| line.split_whitespace().filter_map(cents).collect());
    each.filter(|amounts: &Vec<i128>| !amounts.is_empty()).collect()
}

/// What is printed adds up: rows across and down, the parts of the bill, and the invoice.
pub(crate) fn adds_up(page: &str) -> Result<(), TestCaseError> {
    let sections: Vec<&str> = page.split("\n\n").collect();
    let mut rows = amounts(sections[1]);
    let all = rows.pop().unwrap();
    let of = |row: &Vec<i128>| {
        let share = if row.len() == 3 { row[1] } else { 0 };
        (row[0], share, *row.last().unwrap())
    };
    for row in &rows {
        let (metered, share, total) = of(row);
        prop_assert_eq!(metered + share, total, "{}", page);
    }
    let sum =
        |part: fn((i128, i128, i128)) -> i128| rows.iter().map(|row| part(of(row))).sum::<i128>();
    prop_assert_eq!([sum(|it| it.0), sum(|it| it.2)], [all[0], all[1]], "{}", page);
    let (_, bill) = sections[2].split_once("Bill").unwrap();
    let bill: Vec<i128> =
        bill.split("Idle share").next().unwrap().split_whitespace().filter_map(cents).collect();
    prop_assert_eq!(bill[0], bill[1] + bill[2] + bill[3], "{}", page);
    prop_assert_eq!(bill[0], all[0], "{}", page);
    if let Some(invoice) = sections.get(3).filter(|it| it.contains("billed")) {
        let mut lines = amounts(invoice);
        let total = lines.pop().unwrap();
        let lines: Vec<_> = lines.into_iter().filter(|line| line.len() == 3).collect();
        for line in lines.iter().chain([&total]) {
            prop_assert_eq!(line[1] - line[0], line[2], "{}", page);
        }
        prop_assert_eq!(total[0], all[1], "{}", page);
    }
    Ok(())
}

/// Time without a price is never free, and an estimate is never exact.
#[test]
fn missing_and_estimated_prices_are_marked_and_named_with_their_report() {
    let mut unpriced = report(&[("team", "A")], vec![gpu("a", 0, &[working(0.5)])]);
    unpriced["gpus"][0]["cost_usd"] = Value::Null;
    let period = &mut unpriced["gpus"][0]["periods"][0];
    period["utilized_usd"] = Value::Null;
    period["accounts"]["underutilized"]["cost_usd"] = Value::Null;
    let mut estimated = report(&[("team", "B")], vec![gpu("b", 0, &[working(0.5)])]);
    estimated["gpus"][0]["price"]["estimate"] = serde_json::json!({
        "rows": 9, "anywhere": true,
        "low_usd_per_gpu_hour": "1.000000000", "high_usd_per_gpu_hour": "5.000000000",
    });
    let exact = report(&[("team", "C")], vec![gpu("c", 0, &[working(0.5)])]);
    let all = bill(&[unpriced.clone(), estimated, exact], "team");
    let page = render(&all, None);
    let line = |name: &str| page.lines().find(|line| line.starts_with(name)).unwrap();
    assert_eq!(line("A ").matches("no price").count(), 2, "{page}");
    assert_eq!(line("B ").matches("~$2.00").count(), 2, "{page}");
    assert!(line("C ").contains(" $2.00") && !line("C ").contains('~'), "{page}");
    assert_eq!(line("all ").matches("~$4.00").count(), 2, "{page}");
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "of them the bill is $3.00 to $7.00",
        "0.json: its GPU has no price; set --price when the report is written",
        "1.json: the price of its GPU is an estimate",
    ] {
        assert!(text.contains(part), "{page}");
    }
    let mut json = Vec::new();
    bill_json::write(&all, None, &mut json).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let row = |team: &str| {
        let rows = json["rows"].as_array().unwrap().iter();
        rows.clone().find(|row| row["group"]["team"] == team).unwrap().clone()
    };
    for name in ["metered_usd", "waste_usd", "total_usd"] {
        assert!(row("A")[name].is_null(), "{name}");
    }
    assert_eq!(row("B")["metered_range_usd"]["high"], "5.000000000");
    assert!(row("C")["metered_range_usd"].is_null());
    assert_eq!(json["total"]["metered_range_usd"]["low"], "3.000000000");
    let page = render(&bill(&[unpriced], "team"), None);
    assert!(!page.contains('$'), "{page}");
}
