//! MIG instances as parts of a live GPU.

use crate::Rig;
use crate::run::{run_with_report, seconds};

/// Scenario: a GPU in MIG mode with two halves, one of which works, on a driver without counters of the GPU itself.
/// Guarantee: by GPM the GPU is observed by its instances, and each has half of it, so that an idle half is half a GPU.
#[test]
fn mig_instances_have_their_parts_of_the_gpu() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        mig = true
        [[device.instance]]
        profile = \"3g.40gb\"
        gpu_instance = 1
        sm = 80
        [[device.instance]]
        profile = \"3g.40gb\"
        gpu_instance = 2
        [[fault]]
        functions = [\"nvmlGpmSampleGet\"]
        error = \"not_supported\"",
    );
    let (_, report) = run_with_report(&rig, "--duration 4 --basis gpm.sm", |_| {});
    let gpu = &report["gpus"][0];
    let of = |value| seconds(value);
    let observed = of(&gpu["span_seconds"]) - of(&gpu["unobserved_seconds"]);
    assert!(observed > 2.0, "{gpu:#}");
    let holders = gpu["holders"].as_array().unwrap();
    let names: Vec<_> = holders.iter().map(|holder| holder["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["MIG 3g.40gb 1", "MIG 3g.40gb 2"], "{gpu:#}");
    let is_about = |found: f64, wanted: f64| (found - wanted).abs() < 0.05 * observed;
    assert!(is_about(of(&holders[0]["used_seconds"]), 0.4 * observed), "{gpu:#}");
    let idle = of(&holders[1]["never_touched_seconds"]);
    let half = (of(&gpu["span_seconds"]) - of(&gpu["nobody"]["seconds"])) / 2.0;
    assert!(is_about(idle, half) && is_about(half, observed / 2.0), "{gpu:#}");
    assert!(is_about(of(&gpu["effective_seconds"]), 0.4 * observed), "{gpu:#}");
}
