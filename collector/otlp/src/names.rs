//! Names of telemetry. Generated from otel-config/registry by `make generate`.

/// The schema of what is Phasemeter's.
pub const SCHEMA_URL: &str = "https://github.com/phasemeter/phasemeter/schemas/0.1.0";

/// Keys of attributes.
pub mod attribute {
    /// Seconds for which the condition had held.
    pub const ALERT_DURATION: &str = "phasemeter.alert.duration";
    /// What the rule is about.
    pub const ALERT_METRIC: &str = "phasemeter.alert.metric";
    /// The ID of the rule of an alert.
    pub const ALERT_RULE: &str = "phasemeter.alert.rule";
    /// The threshold of the rule, in the unit of the value.
    pub const ALERT_THRESHOLD: &str = "phasemeter.alert.threshold";
    /// The mean over the window of the rule, a share from 0 to 1, or degrees Celsius.
    pub const ALERT_VALUE: &str = "phasemeter.alert.value";
    /// The account of a holder of the GPU. All accounts of all holders, and `nobody`, sum to the
    /// GPU.
    pub const ALLOCATION_ACCOUNT: &str = "phasemeter.allocation.account";
    /// The name of a holder that is neither a container nor a job, such as a claim. Empty for
    /// others.
    pub const ALLOCATION_HOLDER: &str = "phasemeter.allocation.holder";
    /// The ID of the job of a batch scheduler that holds the GPU. Empty for other holders.
    pub const ALLOCATION_JOB: &str = "phasemeter.allocation.job";
    /// How the GPU was divided among its holders.
    pub const ALLOCATION_METHOD: &str = "phasemeter.allocation.method";
    /// The queue of the batch scheduler that admitted the holder, if known: of Kueue, KAI, Volcano,
    /// or a partition of Slurm.
    pub const ALLOCATION_QUEUE: &str = "phasemeter.allocation.queue";
    /// Whether spans of the workload have a part of the cost of GPU time.
    pub const ATTRIBUTION_STATE: &str = "phasemeter.attribution.state";
    /// Seconds by which the wall clock was set forward; negative if it was set back.
    pub const CLOCK_STEP: &str = "phasemeter.clock.step";
    /// The experiment, the same for all of its sessions.
    pub const EXPERIMENT_ID: &str = "phasemeter.experiment.id";
    /// Why a value is not metered.
    pub const GATEWAY_DROP_REASON: &str = "phasemeter.gateway.drop.reason";
    /// What becomes of the metrics of a GPU.
    pub const GATEWAY_GPU_STATE: &str = "phasemeter.gateway.gpu.state";
    /// The name of the sender of a value, such as its host or instance.
    pub const GATEWAY_SENDER: &str = "phasemeter.gateway.sender";
    /// The clock of a frequency.
    pub const GPU_CLOCK_DOMAIN: &str = "phasemeter.gpu.clock.domain";
    /// Seconds without readings.
    pub const GPU_GAP_DURATION: &str = "phasemeter.gpu.gap.duration";
    /// The hw.id of each GPU of a recommendation.
    pub const GPU_IDS: &str = "phasemeter.gpu.ids";
    /// An arithmetic pipe of the multiprocessors.
    pub const GPU_PIPE_NAME: &str = "phasemeter.gpu.pipe.name";
    /// The code of an XID error.
    pub const GPU_XID_CODE: &str = "phasemeter.gpu.xid.code";
    /// The number of XID errors that an event is about. The events of a GPU and code sum to the
    /// metric.
    pub const GPU_XID_COUNT: &str = "phasemeter.gpu.xid.count";
    /// What the cloud announces.
    pub const INTERRUPTION_ACTION: &str = "phasemeter.interruption.action";
    /// The signal that was sent to the command.
    pub const INTERRUPTION_SIGNAL: &str = "phasemeter.interruption.signal";
    /// Seconds from the event until the interruption, at the earliest.
    pub const INTERRUPTION_TIME_LEFT: &str = "phasemeter.interruption.time_left";
    /// Dollars that the GPUs cost in that time, at their current prices.
    pub const INTERRUPTION_UNSAVED_COST: &str = "phasemeter.interruption.unsaved.cost";
    /// Seconds since the last checkpoint, or since the start of the run.
    pub const INTERRUPTION_UNSAVED_DURATION: &str = "phasemeter.interruption.unsaved.duration";
    /// What a call to the driver queries.
    pub const NVML_CALL_NAME: &str = "phasemeter.nvml.call.name";
    /// The phase or account of time. Spans can be mixed.
    pub const PHASE: &str = "phasemeter.phase";
    /// The SHA-256 of a policy.
    pub const POLICY_DIGEST: &str = "phasemeter.policy.digest";
    /// The policy, or the file if it was rejected.
    pub const POLICY_NAME: &str = "phasemeter.policy.name";
    /// The state of a policy.
    pub const POLICY_STATE: &str = "phasemeter.policy.state";
    /// The version of a policy.
    pub const POLICY_VERSION: &str = "phasemeter.policy.version";
    /// The SHA-256 of all active policies and their settings.
    pub const POLICY_SET_DIGEST: &str = "phasemeter.policy_set.digest";
    /// The number of the set of policies.
    pub const POLICY_SET_GENERATION: &str = "phasemeter.policy_set.generation";
    /// The payment plan of a price.
    pub const PRICE_PLAN: &str = "phasemeter.price.plan";
    /// Where a price is from.
    pub const PRICE_SOURCE: &str = "phasemeter.price.source";
    /// What became of a request.
    pub const RECEIVER_OUTCOME: &str = "phasemeter.receiver.outcome";
    /// The role of the Phasemeter process that exports GPU metrics. A resource attribute.
    pub const ROLE: &str = "phasemeter.role";
    /// Dollars of the GPU time that is the span's own.
    pub const SPAN_COST: &str = "phasemeter.span.cost";
    /// Energy of that time in joules, by power.
    pub const SPAN_ENERGY: &str = "phasemeter.span.energy";
    /// GPU time that is the span's own, in seconds.
    pub const SPAN_GPU_SECONDS: &str = "phasemeter.span.gpu_seconds";
    /// The service.instance.id of the Phasemeter that priced the span, as its phasemeter.gpu.cost
    /// has it.
    pub const SPAN_METER: &str = "phasemeter.span.meter";
    /// Dollars of a run that no experiment within it has.
    pub const SPAN_UNATTRIBUTED: &str = "phasemeter.span.unattributed";
    /// Time-weighted mean utilization of that time as far as observed, 0 to 1.
    pub const SPAN_UTILIZATION: &str = "phasemeter.span.utilization";
    /// Why clocks were reduced. Reasons can overlap.
    pub const THROTTLE_REASON: &str = "phasemeter.throttle.reason";
    /// The source of a utilization.
    pub const UTILIZATION_BASIS: &str = "phasemeter.utilization.basis";
    /// Whether the bill is by this source. If not, it is what another source measured of the same
    /// time.
    pub const UTILIZATION_BILLED: &str = "phasemeter.utilization.billed";
    /// Time-weighted mean utilization of the observed time of a span, 0 to 1.
    pub const UTILIZATION_MEAN: &str = "phasemeter.utilization.mean";
    /// Wasted dollars of a span.
    pub const WASTE: &str = "phasemeter.waste";
    /// What a GPU does that serves groups of work.
    pub const WORK_GPU_STATE: &str = "phasemeter.work.gpu_state";
    /// The beginning of the key. A label of a group of work that its mapping names, like
    /// model_name.
    pub const WORK_LABEL: &str = "phasemeter.work.label";
    /// The unit of work.
    pub const WORK_UNIT: &str = "phasemeter.work.unit";
}

/// Names of metrics.
pub mod metric {
    /// Cost of GPU time that spans of the workload have, that spans have which were not sampled,
    /// and that none will have. Sums to the bill at the end.
    pub const ATTRIBUTION_COST: &str = "phasemeter.attribution.cost";
    /// Cost of GPU time that is not divided yet, since spans wait for it or may arrive late. With
    /// all states of phasemeter.attribution.cost it is the bill, at each export. After a kill, no
    /// span has what it was last.
    pub const ATTRIBUTION_PENDING: &str = "phasemeter.attribution.pending";
    /// Capacity of the queue, over all signals.
    pub const EXPORTER_QUEUE_CAPACITY: &str = "phasemeter.exporter.queue.capacity";
    /// Size of encoded requests queued or in flight.
    pub const EXPORTER_QUEUE_SIZE: &str = "phasemeter.exporter.queue.size";
    /// GPUs whose metrics were received, by what becomes of them.
    pub const GATEWAY_GPUS: &str = "phasemeter.gateway.gpus";
    /// Values of GPUs and counters that are not metered, by reason and sender, of at most 256
    /// senders per reason.
    pub const GATEWAY_VALUES_DROPPED: &str = "phasemeter.gateway.values.dropped";
    /// Clock frequency.
    pub const GPU_CLOCK_FREQUENCY: &str = "phasemeter.gpu.clock.frequency";
    /// Cost per phase; phases and unobserved sum to the bill.
    pub const GPU_COST: &str = "phasemeter.gpu.cost";
    /// Time-weighted mean memory bandwidth utilization since the last export.
    pub const GPU_DRAM_ACTIVITY: &str = "phasemeter.gpu.dram.activity";
    /// Observed time × utilization. Its billed series sum to that of the bill.
    pub const GPU_EFFECTIVE_TIME: &str = "phasemeter.gpu.effective_time";
    /// Time-weighted mean activity of an arithmetic pipe since the last export.
    pub const GPU_PIPE_ACTIVITY: &str = "phasemeter.gpu.pipe.activity";
    /// Power limit in force.
    pub const GPU_POWER_LIMIT: &str = "phasemeter.gpu.power.limit";
    /// Price of the GPU per hour.
    pub const GPU_PRICE: &str = "phasemeter.gpu.price";
    /// Time-weighted mean SM activity since the last export.
    pub const GPU_SM_ACTIVITY: &str = "phasemeter.gpu.sm.activity";
    /// Time-weighted mean tensor core activity since the last export.
    pub const GPU_TENSOR_ACTIVITY: &str = "phasemeter.gpu.tensor.activity";
    /// Time with throttled clocks per reason; reasons can overlap.
    pub const GPU_THROTTLE_TIME: &str = "phasemeter.gpu.throttle.time";
    /// Time per phase; phases and unobserved sum to the total.
    pub const GPU_TIME: &str = "phasemeter.gpu.time";
    /// Distribution of utilization; each reading counts once.
    pub const GPU_UTILIZATION: &str = "phasemeter.gpu.utilization";
    /// Wasted cost per phase: cost × (1 − utilization).
    pub const GPU_WASTE: &str = "phasemeter.gpu.waste";
    /// XID errors per code.
    pub const GPU_XID_ERRORS: &str = "phasemeter.gpu.xid.errors";
    /// Duration of NVML calls.
    pub const NVML_CALL_DURATION: &str = "phasemeter.nvml.call.duration";
    /// Failed calls, including unsupported ones.
    pub const NVML_CALL_ERRORS: &str = "phasemeter.nvml.call.errors";
    /// Readings behind the watermark, which are not metered.
    pub const PIPELINE_READING_LATE: &str = "phasemeter.pipeline.reading.late";
    /// Failed evaluations and rejected files, by kind of error.
    pub const POLICY_ERRORS: &str = "phasemeter.policy.errors";
    /// Evaluations.
    pub const POLICY_EVALUATIONS: &str = "phasemeter.policy.evaluations";
    /// Fuel consumed.
    pub const POLICY_FUEL: &str = "phasemeter.policy.fuel";
    /// Linear memory of the last evaluation.
    pub const POLICY_MEMORY: &str = "phasemeter.policy.memory";
    /// 1 for the current state: active, failing or rejected.
    pub const POLICY_STATUS: &str = "phasemeter.policy.status";
    /// Duration of evaluations.
    pub const POLICY_TIME: &str = "phasemeter.policy.time";
    /// Requests that were received, by outcome.
    pub const RECEIVER_REQUESTS: &str = "phasemeter.receiver.requests";
    /// 1 while a recommendation stands, 0 once it no longer does.
    pub const RECOMMENDATION_ACTIVE: &str = "phasemeter.recommendation.active";
    /// Lateness of ticks after their deadline, over all GPUs.
    pub const SAMPLER_LATENESS: &str = "phasemeter.sampler.lateness";
    /// Observations dropped because the pipeline was too slow.
    pub const SAMPLER_OBSERVATION_DROPPED: &str = "phasemeter.sampler.observation.dropped";
    /// Ticks skipped because the previous one took too long.
    pub const SAMPLER_TICK_MISSED: &str = "phasemeter.sampler.tick.missed";
    /// Work done, by unit, and by the labels that its mapping names. Groups beyond the first 256
    /// are one, with otel.metric.overflow.
    pub const WORK_DONE: &str = "phasemeter.work.done";
    /// Cost of GPUs that do the work of a group, by group; and once, without labels, that of GPUs
    /// while they do the work of several.
    pub const WORK_GPU_COST: &str = "phasemeter.work.gpu_cost";
    /// Cost of all GPUs per unit of work, since the last export with any; with labels, of the GPUs
    /// that do the work of this group only. Absent without work, or if GPUs do the work of several
    /// groups.
    pub const WORK_UNIT_COST: &str = "phasemeter.work.unit_cost";
}

/// Names of events.
pub mod event {
    /// The condition of an alert rule that was open no longer holds.
    pub const ALERT_CLOSED: &str = "phasemeter.alert.closed";
    /// The condition of an alert rule has held for its time on a GPU.
    pub const ALERT_OPENED: &str = "phasemeter.alert.opened";
    /// The wall clock was set.
    pub const CLOCK_STEPPED: &str = "phasemeter.clock.stepped";
    /// A call to the GPU hangs in the driver.
    pub const GPU_CALL_HUNG: &str = "phasemeter.gpu.call_hung";
    /// The call that hung returned.
    pub const GPU_CALL_RECOVERED: &str = "phasemeter.gpu.call_recovered";
    /// Time of the GPU that is not billed, since the meter was restarted, or since a gateway had no
    /// readings and bills no such time.
    pub const GPU_GAP_FOUND: &str = "phasemeter.gpu.gap.found";
    /// The driver lists the GPU for the first time, after the run began. It is metered from here
    /// on.
    pub const GPU_JOINED: &str = "phasemeter.gpu.joined";
    /// The GPU is lost.
    pub const GPU_LOST: &str = "phasemeter.gpu.lost";
    /// A gateway bills the GPU from here on. It has no state of an earlier one, so what that has
    /// billed is not known.
    pub const GPU_METERING_STARTED: &str = "phasemeter.gpu.metering_started";
    /// The GPU is available again.
    pub const GPU_RECOVERED: &str = "phasemeter.gpu.recovered";
    /// The driver reported XID errors. The first of a code per GPU and minute is an event at once,
    /// the others together.
    pub const GPU_XID_REPORTED: &str = "phasemeter.gpu.xid.reported";
    /// The cloud announces that it will interrupt the machine.
    pub const INTERRUPTION_ANNOUNCED: &str = "phasemeter.interruption.announced";
    /// A policy or its file failed.
    pub const POLICY_ERROR: &str = "phasemeter.policy.error";
    /// A policy recommends an action.
    pub const RECOMMENDATION_MADE: &str = "phasemeter.recommendation.made";
    /// What a span of the workload cost that was sent before its cost was known. Has its trace and
    /// span ID.
    pub const SPAN_PRICED: &str = "phasemeter.span.priced";
}
