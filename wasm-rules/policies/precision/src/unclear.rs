//! GPUs for which a column, or a profile, tells whether faster arithmetic helps.

use phasemeter_policy::format::percent;
use phasemeter_policy::{Evidence, Gpu, Need, Recommendation, Target};

use crate::SURE;

/// Columns that tell arithmetic from other limits.
pub(crate) fn needs(gpus: &[&Gpu]) -> Vec<Need> {
    let of = |missing, reason, lacks: fn(&Gpu) -> bool| {
        let gpus: Vec<_> = gpus.iter().copied().filter(|gpu| lacks(gpu)).collect();
        (!gpus.is_empty()).then(|| Need::new(missing, reason, gpus))
    };
    let sms = of(
        "sm.activity",
        "tells arithmetic outside of tensor cores from waiting: dcgmi dmon -e 1002,1004,1005, or phasemeter run on \
         Hopper and later, record it",
        |gpu| gpu.sensors.sm_activity.is_none(),
    );
    let dram = of(
        "dram.activity",
        "tells arithmetic outside of tensor cores from memory bandwidth as the limit: dcgmi dmon -e 1002,1004,1005 \
         records it",
        |gpu| gpu.sensors.dram_activity.is_none(),
    );
    sms.into_iter().chain(dram).collect()
}

/// What a profile decides for GPUs whose active SMs use the tensor cores partly, for a reason that is not visible.
pub(crate) fn profile(gpus: &[&Gpu]) -> Option<Recommendation> {
    let mean = |value: fn(&Gpu) -> Option<f64>| {
        gpus.iter().filter_map(|gpu| value(gpu)).sum::<f64>() / gpus.len().max(1) as f64
    };
    let [sms, tensor, dram] = [
        mean(|gpu| gpu.sensors.sm_activity),
        mean(|gpu| gpu.sensors.tensor_activity),
        mean(|gpu| gpu.sensors.dram_activity),
    ];
    let rationale = format!(
        "SMs are {} active, tensor cores {} and memory bandwidth {}: some kernels run outside of tensor cores. \
         Matrix products among them need TF32 or 16 bits; many small other kernels, a compiler that fuses them; \
         if there are neither, there is little to gain.",
        percent(sms),
        percent(tensor),
        percent(dram),
    );
    let confidence =
        gpus.iter().map(|gpu| gpu.confidence()).sum::<f64>() / gpus.len().max(1) as f64;
    (!gpus.is_empty()).then(|| Recommendation {
        title: "Find the kernels that run outside of tensor cores".to_owned(),
        action: "Run nsys profile -t cuda,nvtx -d 30 -o kernels COMMAND, then nsys stats -r cuda_gpu_kern_sum \
                 kernels.nsys-rep, which lists kernels by time; or sort torch.profiler's table by cuda_time_total."
            .to_owned(),
        rationale,
        confidence: SURE * confidence,
        evidence: vec![
            Evidence::new("sm.activity", sms, "1"),
            Evidence::new("tensor.activity", tensor, "1"),
            Evidence::new("dram.activity", dram, "1"),
        ],
        ..Recommendation::new(
            "precision.profile",
            Target::Throughput,
            "measure",
            gpus.iter().copied(),
        )
    })
}
