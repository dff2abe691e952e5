//! `phasemeter gateway`: forwards OTLP, and meters the GPUs whose metrics pass.

use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_engine::gateway::{
    CounterIntake, Exclusions, GatewayBilling, GatewayStatus, Intake, Replicas, SpanPricing,
    Unplaced, WorkServing,
};
use phasemeter_engine::pipeline::{Pipeline, Settings};
use phasemeter_environment::resource::{self, Role};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::experiment::{ExperimentKind, TraceId};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::mapping::ReadingBuffer;
use phasemeter_work::held::HeldWork;
use phasemeter_work::ledger::WorkLedger;

use super::alerts;
use super::claims::Claims;
use super::delivery::Export;
use super::error::CommandError;
use super::gateway_identity::{identify, process};
use super::gateway_meter::GatewayMeter;
use super::interim::Lateness;
use super::kept_reports::Named;
use super::live_error::LiveError;
use super::local_zone::LocalZone;
use super::mappings;
use super::metering;
use super::optional::Optional;
use super::outputs::Outputs;
use super::policies;
use super::probes::Probes;
use super::relay::{self, Relay};
use super::reload::Reload;
use super::signals::{HangUp, SignalListener};
use super::trial_records;
use super::window_scheduler::WindowScheduler;
use crate::variables::variable;
use phasemeter_cli::GatewayArgs;

/// How much later than `--hold` the readings of a period may be: several scrapes, and queues on their way.
const SCRAPES: Nanos = Nanos::from_secs(180);

/// Forwards and meters until a signal, and reports.
pub(super) fn run(args: &GatewayArgs) -> Result<(), CommandError> {
    let options = &args.live.metering;

    // Signals are blocked before there is another thread, and handled once nothing is left to reject.
    let hang_up = if Reload::is_possible() { HangUp::Reloads } else { HangUp::Ends };
    let signals = SignalListener::start(false, hang_up)?;

    // The environment.
    let mut environment = metering::environment(options);

    // Mappings, alerts, trials, outputs, addresses and claims: what the command line names is opened or rejected.
    let mappings = mappings::read(&args.mapping, &args.label)?;
    let work_mappings = relay::work_mappings(&args.work)?;
    let alerts = alerts::select(&options.alerts)?;
    let settled = trial_records::settled(args.live.trials.records.as_deref())?;
    let replicas = args.replica.as_deref().map(|own| Replicas::new(&args.replicas, own));
    let replicas = replicas.transpose().map_err(LiveError::from)?.unwrap_or_default();
    let mut outputs = Outputs::open(&args.live, &environment, Export::Required, Optional(false))?;
    let lateness = Lateness { work: args.hold, readings: args.hold + SCRAPES };
    outputs.report_during(&args.live, lateness, Named::now())?;
    let probes = Probes::bind(args.live.health_listen, environment.export.every)?;
    outputs.expose(&probes);
    let config = relay::config(&args.receive)?;
    let (relay, received) =
        Relay::start(config, &args.spans, replicas.clone(), &outputs.options, Optional(false))?;
    outputs.claims.iter_mut().for_each(Claims::begin_reported);
    signals.ready();

    // The experiment and the resources.
    let clock = Clock::start();
    let given = environment.experiment.attributes.clone();
    let request = metering::request(options, std::mem::take(&mut environment.experiment));
    let mut experiment =
        request.open(clock.now(), ExperimentKind::Sidecar { trace: TraceId::random() });
    let own_name = args.replica.as_deref();
    let own_instance =
        identify(&mut experiment, own_name, outputs.claims.as_mut(), &relay.addresses());
    Role::Gateway.describe(&mut experiment.attributes);
    let hardware = resource::for_log(&experiment);

    // Policies: the first readings are priced by them.
    let manager = policies::open(&options.policies, policies::Evaluations::Periodic)?;
    manager.iter().for_each(|manager| manager.wait());

    // Internal telemetry, and the answers to probes.
    let status = Arc::<GatewayStatus>::default();
    let process = process(&experiment);
    let telemetry = outputs.start_telemetry(&environment, &process, &probes, manager.as_deref());
    if let Some(telemetry) = telemetry {
        telemetry.watch_gateway(relay.stats(), Arc::clone(&status));
    }
    let health = probes.answer()?;

    // The pipeline.
    let zone = LocalZone::of(args.live.utc_offset, variable);
    let unplaced = if args.span_all_gpus { Unplaced::AllGpus } else { Unplaced::Unattributed };
    let costs = relay.span_costs(&args.spans, unplaced, own_instance.clone());
    outputs.relay = Some(relay);
    let settings = Settings {
        meter: MeterConfig { utc_offset: zone.offset(), ..args.config() },
        alerts,
        pricing: metering::pricing(&options.price, &given, manager.clone())?,
        work: metering::work(options),
        export: outputs.sink(costs.as_ref()).map(|sink| (environment.export, sink)),
    };
    let mut pipeline = Pipeline::live(settings, experiment, &hardware);
    if args.routed || !replicas.is_single() {
        pipeline.leave_out_unit_costs();
    }
    outputs.interim.iter_mut().for_each(|interim| interim.begin(&mut pipeline, clock.now()));
    let spans = costs.map(|costs| SpanPricing::start(costs, &mut pipeline));
    let mut buffer = ReadingBuffer::new(args.hold, args.basis, options.meter.stale_after)
        .with_max_gpus(args.max_gpus);
    if let Some(claims) = &outputs.claims {
        pipeline.resume(claims.earlier());
        // What an earlier gateway has billed may arrive again.
        let billed = claims.billed().iter();
        billed.for_each(|(uuid, until)| buffer.resume(uuid, Timestamp::EPOCH, *until));
    }

    // The gateway: received metrics, work and spans, and windows of policies.
    let scheduler = WindowScheduler::start(manager.clone(), &args.live, Optional(false))?;
    let exclusions = Exclusions {
        gpus: args.exclude_gpu.iter().cloned().collect(),
        hosts: args.exclude_host.iter().cloned().collect(),
        replicas: replicas.clone(),
    };
    let mut gateway = GatewayMeter {
        intake: Intake::new(mappings, exclusions, own_instance, args.max_age),
        counters: CounterIntake::new(work_mappings, clock.now(), args.max_age, replicas),
        work: HeldWork::new(args.hold),
        ledger: WorkLedger::default(),
        serving: WorkServing::default(),
        buffer,
        billing: GatewayBilling::new(args.routed),
        pipeline,
        spans,
        scheduler,
        settled,
        clock,
        zone,
        started: Instant::now(),
        status,
        reload: Reload::start(options, given, manager),
    };

    // Metering, until a signal.
    let until = args.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    gateway.run(&received, &signals, until, &health, &mut outputs, options)?;
    let is_cut = signals.cut();
    health.end();
    outputs.relay.iter_mut().for_each(Relay::stop);
    let metered = gateway.finish(&received, args.max_age)?;

    // The outputs, and the report.
    outputs.end(options, metered, is_cut).reported
}
