//! Bills of random and of damaged reports.

use super::page::adds_up;
use super::*;

/// A report of random hours: attributes, first hour, and per GPU cost and time by account.
fn any_report(id: usize) -> impl Strategy<Value = Value> {
    let names =
        ["idle_held", "idle_free", "idle_unknown", "underutilized", "productive", "compute_bound"];
    let hour = (
        prop::collection::vec(0_i128..5_000_000_000, 7),
        prop::collection::vec(1_u32..1_000, 7),
        0.0..1.0_f64,
        0.0..1.0_f64,
    );
    let hour = hour.prop_map(move |(costs, weights, busy, used)| {
        let whole: u32 = weights.iter().sum();
        let mut seconds: Vec<f64> = weights
            .iter()
            .map(|it| (f64::from(*it) * 3_600.0 / f64::from(whole)).floor())
            .collect();
        seconds[6] += 3_600.0 - seconds.iter().sum::<f64>();
        let all = names.into_iter().chain(["unobserved"]);
        let accounts: Vec<_> = all
            .zip(seconds.iter().zip(&costs))
            .map(|(name, (time, cost))| (name, *time, *cost))
            .collect();
        let observed: i128 = costs[..6].iter().sum();
        Hour {
            accounts,
            effective: (busy * (3_600.0 - seconds[6])).floor(),
            utilized: ((observed as f64 * used) as i128).min(observed),
        }
    });
    let team = prop::sample::select(vec![None, Some("A"), Some("B"), Some("C")]);
    (team, 0_u64..50, prop::collection::vec(prop::collection::vec(hour, 1..4), 1..3)).prop_map(
        move |(team, first, gpus)| {
            let gpus = gpus
                .iter()
                .enumerate()
                .map(|(gpu_index, hours)| gpu(&format!("{id}-{gpu_index}"), first, hours));
            let team: Vec<_> = team.into_iter().map(|team| ("team", team)).collect();
            report(&team, gpus.collect())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Changed bytes are rejected in one line, or give a report whose bill closes.
    #[test]
    fn damaged_report_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        json in any_report(0),
    ) {
        let mut bytes = json.to_string().into_bytes();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        match read("a.json", &bytes[..]) {
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
            Ok((report, digest)) => {
                let mut biller = Biller::new(by("team,day"), IdlePolicy::Spread);
                biller.add("a.json", &report, digest);
                let bill = biller.finish(&["a.json"]).unwrap();
                prop_assert_eq!(bill.rows.iter().map(Row::total).sum::<NanoUsd>(), bill.sum.cost);
            }
        }
    }

    /// What a page prints adds up, also beside an invoice.
    #[test]
    fn printed_amounts_add_up(
        reports in (1_usize..8).prop_flat_map(|count| (0..count).map(any_report).collect::<Vec<_>>()),
        by_text in prop::sample::select(vec!["team", "day", "team,day", "gpu", "user,model"]),
        billed in prop::collection::vec(0_u64..10_000_000_000, 3),
    ) {
        let bill = bill(&reports, by_text);
        adds_up(&render(&bill, None))?;
        if by_text == "team" {
            let lines = ["A", "B", "D"].into_iter().zip(&billed);
            let lines = lines.map(|(team, nanos)| format!("{team},{}\n", reports::usd(i128::from(*nanos))));
            let text = format!("team,billed_usd\n{}", lines.collect::<String>());
            let invoice = Invoice::read("i.csv", text.as_bytes(), &bill.by).unwrap();
            adds_up(&render(&bill, Some(&invoice.reconcile(&bill))))?;
        }
    }

    /// Whatever a bill is split by, its rows sum to the reports, to the nano-dollar.
    #[test]
    fn bill_sums_to_reports(
        reports in (1_usize..8).prop_flat_map(|count| (0..count).map(any_report).collect::<Vec<_>>()),
        by in prop::sample::select(vec!["team", "day", "team,day", "gpu", "experiment", "user,model"]),
        separate in any::<bool>(),
    ) {
        let idle = if separate { IdlePolicy::Separate } else { IdlePolicy::Spread };
        let bill = try_bill(&reports, by, idle).unwrap();
        let field = |name: &str| -> i128 {
            let gpus = reports.iter().flat_map(|report| report["gpus"].as_array().unwrap());
            let texts = gpus.map(|gpu| gpu[name].as_str().unwrap().replace('.', ""));
            texts.map(|text| text.parse::<i128>().unwrap()).sum()
        };
        let total: NanoUsd = bill.rows.iter().map(Row::total).sum();
        prop_assert_eq!(total.0, field("cost_usd"));
        prop_assert_eq!(bill.sum.cost, total);
        let hours: usize = reports
            .iter()
            .flat_map(|report| report["gpus"].as_array().unwrap())
            .map(|gpu| gpu["periods"].as_array().unwrap().len())
            .sum();
        prop_assert_eq!(bill.sum.time, hours as u128 * 3_600_000_000_000);
        for row in &bill.rows {
            prop_assert!(row.total() >= NanoUsd::ZERO);
            prop_assert!(row.metered.waste() >= NanoUsd::ZERO, "{:?}", row);
            prop_assert!(row.metered.effective <= row.metered.time);
        }
    }
}
