//! Pages and views of a report.

use serde_json::{Value, json};

use super::{Key, Screen, Summary, SummaryError, render};

/// A GPU with so much effective of 100 observed seconds.
fn gpu(index: u32, effective: f64, cost: &str, waste: &str) -> Value {
    let phase = |percent: f64| json!({"seconds": percent, "percent": percent, "cost_usd": null});
    json!({
        "id": format!("GPU-{index}"), "index": index, "model": "NVIDIA L4",
        "cost_usd": cost, "waste_usd": waste, "rate_usd_per_gpu_hour": "3.000000000",
        "span_seconds": 110.0, "unobserved_seconds": 10.0, "effective_seconds": effective,
        "phases": {"idle": phase(100.0 - effective), "underutilized": phase(0.0),
            "productive": phase(effective), "compute_bound": phase(0.0)},
        "holders": [
            {"name": "ml/train-0", "kind": "container", "used_usd": "1.000000000",
             "granted_unused_usd": "0.500000000", "never_touched_usd": "0.000000000", "cost_usd": "1.500000000"},
            {"name": "ml/\u{1b}[31mended", "kind": "container", "end": "2026-11-26T12:00:00Z", "cost_usd": "0.250000000"},
        ],
        "nobody": {"seconds": 10.0, "cost_usd": "0.250000000", "waste_usd": "0.250000000"},
    })
}

fn report(end: &str, gpus: &[Value]) -> Value {
    json!({
        "schema": "phasemeter.report/0.1", "title": "this machine",
        "start": "2026-11-26T12:00:00Z", "end": end, "gpus": gpus, "unknown": 1,
        "cost": {"total_usd": "4.000000000", "utilized_usd": "1.000000000", "waste_usd": "2.600000000",
            "unobserved_usd": "0.400000000", "hourly_usd": "6.000000000"},
        "recommendations": [{"title": "End idle jobs", "action": "Delete the pod.", "gpus": ["GPU-1"]}],
    })
}

fn summary(end: &str, effective: [f64; 2]) -> Summary {
    let gpus = [
        gpu(0, effective[0], "2.000000000", "0.600000000"),
        gpu(1, effective[1], "2.000000000", "2.000000000"),
    ];
    Summary::parse(report(end, &gpus).to_string().as_bytes()).unwrap()
}

#[test]
fn page_has_bill_waste_first_action_gpus_and_holders() {
    let page = render(&summary("2026-11-26T12:01:50.5Z", [90.0, 0.0]), false);
    let expected = "\
this machine · 2 GPUs · 2026-11-26T12:00:00Z to 2026-11-26T12:01:50Z

Bill         $4.0000 · $1.0000 utilized (25.0%) · $2.6000 waste (65.0%)
             $0.4000 unobserved (10.0%) · $6.00 per hour
Do first     End idle jobs
             Delete the pod.

GPU   idle  under  productive  compute  mean     cost    waste
0 L4   10%     0%         90%       0%   90%  $2.0000  $0.6000
1 L4  100%     0%          0%       0%    0%  $2.0000  $2.0000

holder            used  not used  never touched     cost
ml/train-0     $2.0000   $1.0000        $0.0000  $3.0000
ml/\u{fffd}[31mended  $0.0000   $0.0000        $0.0000  $0.5000
nobody                                           $0.5000
";
    assert_eq!(page, expected);
    assert!(page.lines().count() <= 24);
}

#[test]
fn what_is_no_report_of_this_version_is_rejected() {
    let malformed = Summary::parse(b"<html>");
    assert!(matches!(malformed, Err(SummaryError::Malformed(_))), "{malformed:?}");
    let mut other = report("2026-11-26T12:01:50Z", &[]);
    other["schema"] = json!("phasemeter.report/9");
    let other = Summary::parse(other.to_string().as_bytes());
    assert!(matches!(other, Err(SummaryError::Schema(_))), "{other:?}");
}

/// The GPUs of the view in order, and the selected one.
fn listed(screen: &Screen) -> (Vec<String>, String) {
    let lines = screen.lines(24, 80);
    let gpus = lines.iter().filter(|line| line.contains("L4"));
    let name = |line: &String| line[2..3].to_owned();
    let selected = gpus.clone().find(|line| line.starts_with('>')).map(name);
    (gpus.map(name).collect(), selected.unwrap())
}

#[test]
fn arrows_select_s_sorts_and_q_quits() {
    let mut screen = Screen::new(false);
    screen.update(summary("2026-11-26T12:01:50Z", [90.0, 0.0]));
    let order = |gpus: &[&str], selected: &str| {
        (gpus.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>(), selected.to_owned())
    };
    assert_eq!(listed(&screen), order(&["0", "1"], "0"));
    let press = |screen: &mut Screen, bytes: &[u8]| {
        Key::of(bytes).into_iter().map(|key| screen.press(key)).collect::<Vec<_>>()
    };
    assert_eq!(press(&mut screen, b"\x1b[A\x1bOB"), [true, true]);
    assert_eq!(listed(&screen), order(&["0", "1"], "1"));
    assert_eq!(press(&mut screen, b"\x1b[B\x1b[B\x1b[5~x"), [true, true]);
    assert_eq!(listed(&screen).1, "1", "the last one");
    // By cost, then by waste: the selected GPU stays selected.
    assert_eq!(press(&mut screen, b"ss"), [true, true]);
    assert_eq!(listed(&screen), order(&["1", "0"], "1"));
    assert_eq!(press(&mut screen, b"\x1b[F"), [true]);
    assert_eq!(listed(&screen).1, "0");
    for quit in [&b"q"[..], b"\x03", b"\x04"] {
        assert_eq!(press(&mut screen, quit), [false]);
    }
    assert_eq!(Key::of(b"\x1b"), []);
}

#[test]
fn utilization_now_is_that_since_the_last_report() {
    let mut screen = Screen::new(false);
    assert!(screen.lines(24, 80)[0].contains("waiting"));
    screen.update(summary("2026-11-26T12:01:50Z", [50.0, 0.0]));
    let now = |screen: &Screen| {
        let lines = screen.lines(24, 80);
        let line = lines.iter().find(|line| line.contains("0 L4")).unwrap();
        line.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_eq!(now(&screen), "–");
    let mut next = report("2026-11-26T12:02:00Z", &[gpu(0, 58.0, "2.000000000", "1.000000000")]);
    next["gpus"][0]["span_seconds"] = json!(120.0);
    screen.update(Summary::parse(next.to_string().as_bytes()).unwrap());
    assert_eq!(now(&screen), "80%", "8 of 10 s");
    // The same report again, and none.
    screen.update(Summary::parse(next.to_string().as_bytes()).unwrap());
    screen.fail("no answer".to_owned());
    assert_eq!(now(&screen), "80%");
    assert!(screen.lines(24, 80).iter().any(|line| line == "no answer"));
}

#[test]
fn view_fits_any_terminal_and_no_name_moves_the_cursor() {
    let gpus: Vec<_> = (0..100).map(|it| gpu(it, 1.0, "2.000000000", "1.000000000")).collect();
    let mut report = report("2026-11-26T12:01:50Z", &gpus);
    report["gpus"][0]["model"] = json!("\u{1b}[2J\u{9b}A");
    let mut screen = Screen::new(false);
    screen.update(Summary::parse(report.to_string().as_bytes()).unwrap());
    Key::of(b"\x1b[F\x1b[F").into_iter().for_each(|key| assert!(screen.press(key)));
    for (rows, columns) in [(0, 0), (1, 1), (3, 10), (24, 80), (200, 400)] {
        let lines = screen.lines(rows, columns);
        assert!(lines.len() <= rows.max(3), "{rows}: {lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= columns.max(20)), "{lines:#?}");
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
    }
    let lines = screen.lines(24, 80);
    assert!(lines.iter().any(|line| line.starts_with("> 99")), "{lines:#?}");
}
