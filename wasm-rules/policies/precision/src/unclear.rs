//! GPUs for which a column, or a profile, tells whether faster arithmetic helps.

use phasemeter_diagnoses::confidence;
use phasemeter_policy::format::percent;
use phasemeter_policy::{Gpu, Need, Recommendation, Target, Vendor, evidence, mean};

/// Columns that tell arithmetic from other limits.
pub(crate) fn needs(gpus: &[&Gpu]) -> Vec<Need> {
    let gpus = || gpus.iter().copied();
    let sms = Need::by_vendor(
        "sm.activity",
        "tells arithmetic outside of tensor cores from waiting",
        ": dcgmi dmon -e 1002,1004,1005, or phasemeter run on Hopper and later, record it",
        gpus().filter(|gpu| gpu.sensors.sm_activity.is_none()),
    );
    let dram = Need::by_vendor(
        "dram.activity",
        "tells memory bandwidth as the limit, at which fused kernels help, from small kernels, at which a larger batch does",
        ": dcgmi dmon -e 1002,1004,1005 records it",
        gpus().filter(|gpu| gpu.sensors.dram_activity.is_none()),
    );
    sms.into_iter().chain(dram).collect()
}

/// What a profile decides for GPUs whose active SMs use the tensor cores partly, for a reason that is not visible.
pub(crate) fn profile(gpus: &[&Gpu]) -> Option<Recommendation> {
    let sms = mean(gpus, |gpu| gpu.sensors.sm_activity.unwrap_or(0.0));
    let tensor = mean(gpus, |gpu| gpu.sensors.tensor_activity.unwrap_or(0.0));
    let dram = mean(gpus, |gpu| gpu.sensors.dram_activity.unwrap_or(0.0));
    let rationale = format!(
        "SMs are {} active, tensor cores {} and memory bandwidth {}: some kernels run outside of tensor cores. \
         Matrix products among them need TF32 or 16 bits; many small other kernels, a compiler that fuses them; \
         if there are neither, there is little to gain.",
        percent(sms),
        percent(tensor),
        percent(dram),
    );
    (!gpus.is_empty()).then(|| Recommendation {
        title: "Find the kernels that run outside of tensor cores".to_owned(),
        action: [
            Vendor::of(gpus.iter().copied()).choose(
                "Run nsys profile -t cuda,nvtx -d 30 -o kernels COMMAND, then nsys stats -r cuda_gpu_kern_sum \
                 kernels.nsys-rep",
                "Run rocprofv3 --kernel-trace --stats -d kernels -- COMMAND",
                "Profile the command",
            ),
            ", and list its kernels by time; or sort torch.profiler's table by cuda_time_total.",
        ]
        .concat(),
        rationale,
        confidence: confidence::LIKELY * mean(gpus, |gpu| gpu.confidence()),
        evidence: evidence([
            ("sm.activity", sms, "1"),
            ("tensor.activity", tensor, "1"),
            ("dram.activity", dram, "1"),
        ]),
        ..Recommendation::new(
            "precision.profile",
            Target::Throughput,
            "measure",
            gpus.iter().copied(),
        )
    })
}
