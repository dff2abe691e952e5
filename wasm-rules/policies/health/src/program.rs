//! Errors that programs make on GPUs, as the driver reports them.

use phasemeter_diagnoses::{confidence, hardware_xids, memory_errors, program_xids};
use phasemeter_policy::format::{count, subject};
use phasemeter_policy::{Gpu, Recommendation, Window, evidence, groups};

use crate::risk;

/// Warns of GPUs with errors of programs and none of the hardware, those with the same codes together.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    let is_healthy =
        |gpu: &Gpu| hardware_xids(gpu).next().is_none() && memory_errors(gpu).is_none();
    let found =
        window.gpus.iter().filter(|gpu| program_xids(gpu).next().is_some() && is_healthy(gpu));
    let codes = |gpu: &Gpu| program_xids(gpu).map(|(code, _)| code).collect::<Vec<_>>();
    groups(found, |a, b| codes(a) == codes(b)).iter().map(|group| warn(group)).collect()
}

fn warn(group: &[&Gpu]) -> Recommendation {
    let first = group[0];
    let codes: Vec<_> = program_xids(first).map(|(code, _)| format!("XID {code}")).collect();
    let [check, test] = first.vendor().choose(
        ["run a short case with compute-sanitizer", "dcgmi diag -r 3"],
        ["run a short case with a sanitizer", "the ROCm Validation Suite"],
        ["run a short case with a sanitizer", "the diagnosis of its vendor"],
    );
    let errors: u32 = group.iter().flat_map(|gpu| program_xids(gpu)).map(|(_, count)| count).sum();
    Recommendation {
        evidence: evidence([("xids", f64::from(errors), "{error}")]),
        ..risk(
            "health.program-errors",
            "measure",
            group.iter().copied(),
            [
                &format!(
                    "{} on {}: look at the program first",
                    codes.join(", "),
                    count(group.len(), "GPU")
                ),
                &format!(
                    "Read the log of the job at that time, {check}, and look at what changed last in it. Only if other \
                     programs report the same on one GPU, test that: {test}."
                ),
            ],
            format!(
                "{} reported {}. These are mostly errors of programs, such as an access beyond an array; nothing here shows \
                 a fault of the hardware, so neither a drain nor a reset is due.",
                subject(group.len()),
                count(errors as usize, "error"),
            ),
            confidence::LIKELY,
        )
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Xid;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    fn with_xids(codes: &[u64]) -> Gpu {
        let mut gpu = steady(3_600, 0.9);
        gpu.sensors.xids = codes.iter().map(|code| Xid { code: *code, count: 2 }).collect();
        gpu
    }

    #[test]
    fn errors_of_programs_are_no_faults_of_hardware() {
        let found = recommend(&window(vec![with_xids(&[31]), with_xids(&[31]), with_xids(&[])]));
        assert_eq!((found.len(), found[0].gpus.len()), (1, 2));
        assert!(found[0].title.starts_with("XID 31 on 2 GPUs"), "{}", found[0].title);
        assert!(found[0].rationale.contains("reported 4 errors"), "{}", found[0].rationale);
        assert!(recommend(&window(vec![with_xids(&[31, 79])])).is_empty(), "it fell off the bus");
        assert!(recommend(&window(vec![with_xids(&[4])])).is_empty(), "unknown");
    }
}
