//! The page, whatever a fleet or a policy contains: it fits 80 columns and stays short.

use super::super::policies::{Evidence, Policy, Range, Recommendation, ReportedError};
use super::super::test_fleet::*;
use super::super::{Input, Report, Usd};
use super::{Bars, Explain, TextOptions, render};

fn text(input: &Input<'_>, report: &Report, options: &TextOptions) -> String {
    let text = render(report, &Bars::of(input), options);
    assert_fits(&text);
    text
}

#[test]
fn large_fleet_with_long_names_fits_the_page() {
    let mut gpus: Vec<TestGpu> = (0..64)
        .map(|index| TestGpu::new(index, user_price("9999.999999999"), &every_second(40, bouncing)))
        .collect();
    for gpu in &mut gpus {
        gpu.identity.index = None;
        gpu.identity.name =
            format!("rack-{}/a-very-long-host-name.example.org:GPU-{}", 7, gpu.identity.name);
    }
    let input = input(&"a very long title ".repeat(12), &gpus);
    let report = Report::build(&input);
    text(&input, &report, &TextOptions::default());
    let options = TextOptions { all_gpus: true, ..TextOptions::default() };
    let text = text(&input, &report, &options);
    assert_eq!(text.lines().filter(|line| line.starts_with("GPU rack-")).count(), 64);
}

/// Only a terminal has an axis, and the answer where its last lines are.
#[test]
fn terminal_has_an_axis_and_the_answer_in_view() {
    let gpus = [TestGpu::new(0, user_price("3"), &every_second(900, bouncing))];
    let input = input("train.csv", &gpus);
    let mut report = Report::build(&input);
    report.recommendations.push(recommendation("starvation", "saving", &["0"]));
    let file = text(&input, &report, &TextOptions::default());
    for columns in [0, 80, 120, 1_000] {
        let options = TextOptions { terminal: Some(columns), ..TextOptions::default() };
        let terminal = render(&report, &Bars::of(&input), &options);
        let widest = terminal.lines().map(|line| line.chars().count()).max().unwrap();
        assert_eq!(widest, columns.clamp(80, 240), "{terminal}");
        assert!(terminal.contains("00:22") && terminal.contains("█ compute-bound"), "{terminal}");
        let last: Vec<&str> = terminal.lines().rev().take(3).collect();
        assert!(last.iter().any(|line| line.starts_with("Answer       $0.7")), "{terminal}");
        assert!(last.iter().any(|line| line.starts_with("First        ")), "{terminal}");
    }
    assert!(!file.contains("Answer") && !file.contains("█ compute-bound"));
}

/// Text of policies stays within the page and within its lines, whatever it contains.
#[test]
fn policy_text_cannot_break_the_page() {
    let gpus = [
        TestGpu::new(0, user_price("3"), &every_second(90, bouncing)),
        TestGpu::new(1, user_price("3"), &every_second(90, bouncing)),
    ];
    let input = input("train.csv", &gpus);
    let mut report = Report::build(&input);
    report.uncovered_waste.clear();
    let words = "\x1b[2J\u{202e}".to_owned() + &"long".repeat(20) + " short\n90% ";
    let fraction = Range { low: 0.0, expected: 0.5, high: 1.0 };
    let usd = Usd(phasemeter_meter::money::NanoUsd(1 << 70));
    for target in ["starvation", "idle", "underload", "rate", "rate", "rate"] {
        report.recommendations.push(Recommendation {
            policy: words.clone(),
            code: words.clone(),
            lever: "mig".parse().unwrap(),
            title: words.clone(),
            action: words.repeat(9),
            rationale: words.repeat(9),
            evidence: (0..32)
                .map(|i| {
                    let unit = "1".to_owned();
                    (format!("{words}{i}"), Evidence { value: f64::MAX, unit })
                })
                .collect(),
            saving_fraction: fraction,
            saving_usd: Some(Range { low: usd, expected: usd, high: usd }),
            counted: true,
            ..recommendation(target, "saving", &["0", "1"])
        });
    }
    report.policies.push(Policy {
        name: words.clone(),
        version: None,
        kind: None,
        digest: None,
        generation: 0,
        error: Some(ReportedError { kind: "guest", message: words.clone() }),
        fuel: None,
        duration_us: None,
        notes: vec![words.clone(); 9],
    });
    let mut lines = Vec::new();
    for explain in [Explain::None, Explain::All, Explain::Code(words.clone())] {
        let options = TextOptions { explain, ..TextOptions::default() };
        let text = text(&input, &report, &options);
        let harmful = |c: char| c == '\u{202e}' || c.is_control() && c != '\n';
        assert!(!text.contains(harmful), "{text}");
        let ends = ["Savings", "Uncovered", "Missing", "Policy notes"];
        let after = text.lines().skip_while(|line| !line.starts_with("Experiment")).skip(1);
        lines.push(after.take_while(|line| !ends.iter().any(|end| line.starts_with(end))).count());
        let full = text.lines().filter(|line| line.starts_with("Why")).count();
        assert_eq!(full, if options.explain == Explain::None { 0 } else { 6 }, "{text}");
    }
    // Three in five lines each, others in one.
    assert!(lines[0] <= 3 * 5 + 4 + 1 && lines[1] > 60, "{lines:?}");
}

/// A diagnosis promises no dollars, in short and in full.
#[test]
fn diagnosis_promises_no_dollars() {
    let gpus = [TestGpu::new(0, user_price("3"), &every_second(90, bouncing))];
    let input = input("train.csv", &gpus);
    let mut report = Report::build(&input);
    let nothing = Usd(phasemeter_meter::money::NanoUsd::ZERO);
    report.recommendations.push(Recommendation {
        lever: "measure".parse().unwrap(),
        title: "Profile a few steps".to_owned(),
        confidence: 0.5,
        saving_fraction: Range { low: 0.0, expected: 0.0, high: 0.0 },
        saving_usd: Some(Range { low: nothing, expected: nothing, high: nothing }),
        ..recommendation("throughput", "saving", &["0"])
    });
    let short = text(&input, &report, &TextOptions::default());
    assert!(short.contains("\nMeasure      Profile a few steps (50% confident): GPU 0"), "{short}");
    let options = TextOptions { explain: Explain::All, ..TextOptions::default() };
    let full = text(&input, &report, &options);
    assert!(full.contains("saves nothing by itself") && !full.contains("saves $"), "{full}");
}

/// A title that is too long loses its range, then its last words: never its GPUs.
#[test]
fn long_titles_keep_their_gpus() {
    let gpu = |index| TestGpu::new(index, user_price("3"), &every_second(90, bouncing));
    let gpus: Vec<TestGpu> = (0..4).map(gpu).collect();
    let input = input("train.csv", &gpus);
    let mut report = Report::build(&input);
    let titled = |title: &str| Recommendation {
        title: title.to_owned(),
        ..recommendation("starvation", "saving", &["0", "2"])
    };
    // Alternatives: all but the first have one line.
    let titles = [
        "First of all".to_owned(),
        "Short enough".to_owned(),
        "As long as it fits without a range".to_owned(),
        "Much too long ".repeat(9).trim_end().to_owned(),
    ];
    report.recommendations = titles.iter().map(|title| titled(title)).collect();
    let text = text(&input, &report, &TextOptions::default());
    let expected = [
        "Saves 10.0%  Short enough (0–20%, 100% confident): GPU 0, 2 of 4\n",
        "Saves 10.0%  As long as it fits without a range (100% confident): GPU 0, 2 of 4\n",
        "Saves 10.0%  Much too long Much too long Much… (100% confident): GPU 0, 2 of 4\n",
    ];
    for line in expected {
        assert!(text.contains(line), "{line}{text}");
    }
}

/// Scenario: recommendations for GPUs of hosts with pods, which share a page.
/// Guarantee: each names index, pod and host, those with a reason and those without.
#[test]
fn findings_name_index_pod_and_host() {
    let gpu = |index: u32, host: &str| {
        let held = assigned(0, &[pod(&format!("ml/train-{index}"))], 1);
        let readings = every_second(90, bouncing);
        let mut gpu = TestGpu::held(index, user_price("3"), &readings, None, &[held]);
        gpu.identity.attributes.insert("host.name".to_owned(), host.to_owned());
        gpu
    };
    for hosts in [["node17", "node17"], ["node17", "node18"]] {
        let gpus: Vec<TestGpu> = (0..2).map(|index| gpu(index, hosts[index as usize])).collect();
        let input = input("train.csv", &gpus);
        let mut report = Report::build(&input);
        let titled = |title: String, gpu: &str| Recommendation {
            title,
            ..recommendation("starvation", "saving", &[gpu])
        };
        let all = (0..4).flat_map(|place| ["0", "1"].map(|gpu| titled(format!("Do {place}"), gpu)));
        report.recommendations = all.collect();
        let text = text(&input, &report, &TextOptions::default());
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (gpu, place) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let title = words.split(&format!("Do {place} (")).nth(1 + gpu).unwrap();
            let facts = title.split("Saves").next().unwrap();
            let [index, host] = [format!("GPU {gpu}"), hosts[gpu].to_owned()];
            for named in [index, host, format!("ml/train-{gpu}")] {
                assert!(facts.contains(&named), "{named}: {facts}\n{text}");
            }
        }
    }
}

/// GPUs of several nodes have the name of their node and the index on it, also where they are listed.
#[test]
fn equal_indexes_are_told_apart_by_node() {
    let gpu = |index: u32, node: &str| {
        let mut gpu = TestGpu::new(index, user_price("3"), &every_second(90, bouncing));
        gpu.identity.attributes.insert("host.name".to_owned(), node.to_owned());
        gpu.identity.name = format!("GPU-{node}-{index}");
        gpu
    };
    let gpus = [gpu(0, "a"), gpu(1, "a"), gpu(2, "a"), gpu(0, "b"), gpu(1, "b"), gpu(2, "b")];
    let input = input("train.csv", &gpus);
    let mut report = Report::build(&input);
    let some: Vec<_> = report.gpus.iter().skip(1).take(3).map(|gpu| gpu.id.clone()).collect();
    assert_eq!(super::gpus::which(&report.gpus, &some), "a GPU 1–2, b GPU 0");
    assert!(text(&input, &report, &TextOptions::default()).contains("\nb GPU 2  "));
    // GPUs of one log without a node are distinguished by the nodes of the others.
    for gpu in report.gpus.iter_mut().take(3) {
        gpu.node = None;
    }
    assert_eq!(super::gpus::which(&report.gpus, &some), "GPU 1–2, b GPU 0");
    // Without nodes, IDs distinguish them.
    for gpu in &mut report.gpus {
        gpu.node = None;
    }
    assert_eq!(
        super::gpus::which(&report.gpus, &some),
        "GPU 1 GPU-a-1, GPU 2 GPU-a-2, GPU 0 GPU-b-0 of 6"
    );
}

/// Alike GPUs of a large fleet share a line, and each has its own on request.
#[test]
fn alike_gpus_of_large_fleet_share_a_line() {
    let gpu = |index: u32| {
        let percent = if index < 30 { 97 } else { 20 };
        TestGpu::new(index, user_price("3"), &every_second(90, |_| percent))
    };
    let gpus: Vec<TestGpu> = (0..40).map(gpu).collect();
    let input = input("fleet.csv", &gpus);
    let lines = |all_gpus| {
        let options = TextOptions { all_gpus, ..TextOptions::default() };
        let text = text(&input, &Report::build(&input), &options);
        let is_bar = |line: &&str| line.contains('█') || line.contains('▂');
        text.lines().filter(is_bar).map(str::to_owned).collect::<Vec<_>>()
    };
    let shared = lines(false);
    let begin: Vec<&str> = shared.iter().map(|line| &line[..line.find("  ").unwrap()]).collect();
    assert_eq!(begin, ["30 × as GPU 0", "10 × as GPU 30"]);
    assert_eq!(lines(true).len(), 40);
}
