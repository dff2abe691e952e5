//! Where GPUs run: by options, by the resource, or unknown.

use serde_json::Value;

use crate::logs::Plan;
use crate::phasemeter::Phasemeter;
use crate::report::{self, nanos};

const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

fn run(args: &[&str], resource: &str) -> Phasemeter {
    let log = Plan { ticks: 50, ..Plan::default() }.text();
    let run = Phasemeter::new("audit").args(["-", "--no-default-policies"]).args(args).stdin(log);
    if resource.is_empty() { run } else { run.env(RESOURCE, resource) }
}

fn report_of(args: &[&str], resource: &str) -> Value {
    let report = run(&[args, &["--format", "json"]].concat(), resource).report();
    report::check(&report);
    report
}

/// Guarantee: cloud.provider, cloud.region and host.type are the defaults of --provider, --region and
/// --instance-type, which take precedence one by one.
#[test]
fn resource_attributes_are_default_location() {
    let all = ["--provider", "gcp", "--region", "us-central1", "--instance-type", "a3-highgpu-8g"];
    let resource = "cloud.provider=gcp,cloud.region=us-central1,host.type=a3-highgpu-8g";
    let expected = report_of(&all, "");
    assert_eq!(report_of(&[], resource)["cost"], expected["cost"]);
    assert_eq!(expected["cost"]["price"]["estimate"], Value::Null);

    let resource = "cloud.provider=aws,cloud.region=us-central1,host.type=g4dn.xlarge";
    let options = ["--provider", "gcp", "--instance-type", "a3-highgpu-8g"];
    let report = report_of(&options, resource);
    assert_eq!(report["cost"], expected["cost"]);
    assert!(!report["assumptions"].to_string().contains("cloud."), "{report:#}");
}

/// Scenario: the price book does not list the region, or nothing of the location.
/// Guarantee: the rest of the location applies, and the report notes what does not. An option that is
/// not listed leaves the GPUs without a price.
#[test]
fn unlisted_default_location_is_left_out_and_noted() {
    let by_type = report_of(&["--provider", "aws", "--instance-type", "p5.48xlarge"], "");
    let resource = "cloud.provider=aws,cloud.region=eu-west-9,host.type=p5.48xlarge";
    let report = report_of(&[], resource);
    assert_eq!(report["cost"], by_type["cost"]);
    let notes = report["assumptions"].to_string();
    assert!(
        notes.contains("cloud.region eu-west-9 is not in the price book, so it is not used"),
        "{notes}"
    );
    let report = report_of(&[], "cloud.provider=oracle_cloud,host.type=BM.GPU.H100.8");
    assert_eq!(report["cost"], report_of(&[], "")["cost"]);
    assert_eq!(report["cost"]["price"]["estimate"]["anywhere"], true);
    let report = report_of(&["--provider", "oracle_cloud"], "");
    let reason = report["cost"]["unpriced_reason"].as_str().unwrap();
    assert!(reason.contains("unknown provider 'oracle_cloud'"), "{reason}");
}

/// Guarantee: a given price has a location, which is not a price.
#[test]
fn given_price_has_location() {
    let options = ["--price", "2.48", "--provider", "coreweave", "--instance-type", "gd-8xh100"];
    let report = report_of(&options, "cloud.region=US-EAST-04");
    let cost = &report["cost"];
    assert_eq!(cost["rate_usd_per_gpu_hour"], "2.480000000");
    let location = ["provider", "region", "instance_type"].map(|part| &cost["price"][part]);
    assert_eq!(location, ["coreweave", "US-EAST-04", "gd-8xh100"]);
    assert_eq!(cost["total_range_usd"], Value::Null);
    let report =
        report_of(&[&options[..], &["--region", "US-WEST-01"]].concat(), "cloud.region=US-EAST-04");
    assert_eq!(report["cost"]["price"]["region"], "US-WEST-01", "an option precedes the resource");
}

/// Guarantee: without any location the report begins with the range of the bill and of the price, and
/// calls the figures estimated; with one, it does not.
#[test]
fn range_precedes_estimate_without_location() {
    let report = report_of(&[], "");
    let cost = &report["cost"];
    let estimate = &cost["price"]["estimate"];
    assert_eq!(estimate["anywhere"], true);
    let (bill, rate) = (&cost["total_usd"], &cost["rate_usd_per_gpu_hour"]);
    for (bound, price) in [("low", "low_usd_per_gpu_hour"), ("high", "high_usd_per_gpu_hour")] {
        let exact = nanos(bill).unwrap() * nanos(&estimate[price]).unwrap() / nanos(rate).unwrap();
        let found = nanos(&cost["total_range_usd"][bound]).unwrap();
        assert!((found - exact).abs() <= 2, "{found} ≠ {exact}");
    }
    let text = run(&[], "").run().out;
    let line = |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap().to_owned();
    let [bill, price] = ["Bill", "Price"].map(line);
    for line in [&bill, &price] {
        let range = line.find('–').unwrap_or(usize::MAX);
        assert!(line.find(", estimated $").is_some_and(|at| range < at), "{line}");
    }
    assert!(line("Projected").contains("estimated $"), "{text}");

    let text = run(&["--provider", "aws"], "").run().out;
    assert!(!text.contains("estimated"), "{text}");
    assert!(text.contains("estimate: lower median of 2 prices"), "{text}");
}
