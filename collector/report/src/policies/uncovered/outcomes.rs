//! What follows from what is missing: a condition for each answer, and what to do then. As long as a fact is unknown, that
//! is all the advice there is; it promises nothing.

use phasemeter_rules::workload::WORKLOAD;

/// What is missing, and what each answer means. The names are those of the default policies, and of what usually decides.
const OUTCOMES: [(&str, &str); 12] = [
    (
        WORKLOAD,
        "If it trains, try a larger batch, or more at a time. If it serves, more requests at a time, or fewer replicas. If a \
         person works on it, share it, or end it while nobody does.",
    ),
    (
        "interval",
        "If waits of seconds show then, input is late: more loader workers, reading ahead. If minutes do, keep the next job \
         in a queue. If the load is steady, give it more at a time, or share the GPU.",
    ),
    (
        "memory.used",
        "If little is in use, share the GPU, or try a smaller one. If nothing is while it is idle, give it to others, or \
         return it.",
    ),
    (
        "memory_in_use",
        "If little of the block is used, share the GPU, or try a smaller one. If most is, give it more work at a time.",
    ),
    (
        "requests",
        "If few come, serve with fewer replicas, share the GPU, or start the server on demand. If they queue, serve more at \
         a time.",
    ),
    (
        "sessions",
        "If its user works now and then, share the GPU, try a smaller one, or end the session after an hour without work. If \
         nobody works on it, end it.",
    ),
    (
        "stack_dump",
        "If it reads, writes or prepares, do that beside the work of the GPU, or share the GPU with a second job. If it waits \
         for tasks, run fewer such workers. If it does nothing, end it.",
    ),
    (
        "queued_jobs",
        "If jobs wait, let the scheduler place them here. If none do, return the instance in that time.",
    ),
    (
        "profile",
        "If it waits for input, read ahead. If kernels are short, give it more at a time, or launch them together. If it \
         waits for other GPUs, exchange less.",
    ),
    (
        "sm.activity",
        "If little of the GPU is active, run more at a time, share it, or try a smaller one. If most is, its longest kernels \
         decide.",
    ),
    (
        "video.engines",
        "If they are busy, it works as it should. If not, most of the work is on the CPU: move more of it to the GPU, run \
         several at a time, or share the GPU.",
    ),
    (
        "k8s.pod.name",
        "If they are of one job, balance their work. If each has its own, share or pack them.",
    ),
];

/// Of all that is missing.
pub(super) fn outcomes(missing: &[String]) -> Vec<&'static str> {
    let of = |name: &String| OUTCOMES.iter().find(|(missing, _)| missing == name);
    missing.iter().filter_map(of).map(|(_, outcomes)| *outcomes).collect()
}
