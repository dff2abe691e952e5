//! A driver in Rust, of another vendor: the sampler needs the traits only.

use std::sync::atomic::AtomicU32;

use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::Utilization;
use phasemeter_meter::vendor::Vendor;
use phasemeter_sources::live::{
    CallError, ComputeProcess, Device, DiscoveredGpu, DriverError, DriverNames, LossReason, Metric,
    QueryError, UnsupportedReason, discover,
};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A driver whose second GPU does not answer, and whose first one is lost after some queries until it is opened again.
#[derive(Debug, Default)]
struct Scripted {
    opened: AtomicU32,
}

#[derive(Debug)]
struct Generation {
    is_first: bool,
}

struct Gpu {
    queries_left: Option<u32>,
}

impl Driver for Scripted {
    fn names(&self) -> DriverNames {
        DriverNames { vendor: Vendor::Amd, list_command: "amd-smi list" }
    }

    fn open(&self) -> Result<Arc<dyn OpenDriver>, DriverError> {
        let is_first = self.opened.fetch_add(1, Ordering::Relaxed) == 0;
        Ok(Arc::new(Generation { is_first }))
    }
}

impl OpenDriver for Generation {
    fn version(&self) -> Option<String> {
        Some("6.14".to_owned())
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        Ok(2)
    }

    fn identify(&self, index: u32, _: Option<String>) -> Result<DiscoveredGpu, CallError> {
        if index > 0 {
            return Err("no answer".into());
        }
        let identity = GpuIdentity {
            uuid: Some("of-the-first".to_owned()),
            index: Some(index),
            vendor: Some(Vendor::Amd),
            ..GpuIdentity::default()
        };
        Ok(DiscoveredGpu {
            identity,
            links: Default::default(),
            processes: Vec::new(),
            missing: Vec::new(),
        })
    }

    fn find<'d>(&'d self, uuid: &str, _: Nanos) -> Result<Box<dyn Device + Send + 'd>, QueryError> {
        assert_eq!(uuid, "of-the-first");
        Ok(Box::new(Gpu { queries_left: self.is_first.then_some(50) }))
    }
}

impl Device for Gpu {
    fn loss(&self) -> Option<LossReason> {
        (self.queries_left == Some(0)).then_some(LossReason::Gpu)
    }

    fn period(&self, metric: Metric) -> Nanos {
        metric.period()
    }

    fn is_incomplete(&self, _: Metric) -> bool {
        false
    }

    fn query(
        &mut self,
        metric: Metric,
        _: &Clock,
        values: &mut Reading,
        emit: &mut dyn FnMut(Observed),
    ) -> Result<(), QueryError> {
        metric.clear(values);
        if let Some(left) = &mut self.queries_left {
            *left = left.saturating_sub(1);
        }
        if let Some(loss) = self.loss() {
            return Err(QueryError::Lost(loss));
        }
        match metric {
            Metric::Utilization => values.utilization = Ok(Utilization::from_percent(42).unwrap()),
            Metric::Processes => {
                emit(Observed::Process(ComputeProcess { pid: 7, gpu_instance: None }));
            }
            _ => return Err(QueryError::Unsupported(UnsupportedReason::Driver)),
        }
        Ok(())
    }
}

#[test]
fn driver_of_another_vendor_is_discovered_and_sampled_again_after_a_loss() {
    let driver = Arc::new(Scripted::default());
    let discovery = discover(Arc::clone(&driver) as Arc<dyn Driver>).unwrap();
    assert_eq!(discovery.gpus.len(), 1);
    assert_eq!(discovery.gpus[0].identity.vendor(), Vendor::Amd);
    assert_eq!(discovery.unresponsive[0].index, 1);
    let config = SamplerConfig { tick: SamplerConfig::MIN_TICK, stale_after: Nanos::SECOND };
    let mut sampler = Sampler::start(discovery, &[0], config, Clock::start()).unwrap();
    let (mut events, mut readings, mut pids) = (Vec::new(), 0, 0);
    let began = Instant::now();
    while !(events.contains(&Event::Recovered) && readings > 20) {
        assert!(began.elapsed() < TIMEOUT, "{events:?}");
        sampler.drain(|observation| match observation.observed {
            Observed::Reading(reading) => readings += u32::from(reading.utilization.is_ok()),
            Observed::Process(process) => pids += u32::from(process.pid == 7),
            Observed::Event(event) => events.push(event),
            _ => {}
        });
        thread::sleep(JOIN_POLL);
    }
    assert!(pids > 0);
    assert!(events.contains(&Event::Lost(LossReason::Gpu)));
    assert!(events.contains(&Event::Unsupported(Metric::Memory, UnsupportedReason::Driver)));
    assert_eq!(driver.opened.load(Ordering::Relaxed), 2);
    assert!(sampler.stop(TIMEOUT).is_empty());
}
