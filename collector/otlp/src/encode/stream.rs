//! The series of each quantity: its metric, its attributes and the unit of its values.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use phasemeter_meter::device_metric::Component;
use phasemeter_meter::quantity::{Quantity, Unit};
use phasemeter_meter::units::{NANOS_PER_SECOND, PPM};

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::gpu_attributes::GpuAttributes;
use super::instruments::{self as metrics, Instrument};
use super::values::{Start, double, integer, text};
use crate::names::attribute;

/// How a quantity is exported.
pub(super) struct Stream {
    instrument: &'static Instrument,
    described: Described,
    attributes: [Option<(&'static str, &'static str)>; 2],
}

/// What describes the GPU of a series.
enum Described {
    /// Its ID alone.
    Id,
    /// Its ID and name.
    Hardware,
    /// Its model and board too, as of metrics `hw.gpu.*`.
    Gpu,
}

/// A value of a quantity.
#[derive(Clone, Copy, Debug)]
pub(super) enum Measured {
    /// The mean of a share since the last export, 0 to 1.
    Mean(f64),
    /// The increase of a counter since its first value; of a share in nanoseconds.
    Increase(u64),
    /// A sum in the unit of the metric.
    Sum(f64),
    /// The last value, in the unit of the quantity.
    Last(i64),
}

/// The metric of a quantity, with the attributes that distinguish its series; `None` if it has none of its own.
#[must_use]
pub fn metric_of(
    quantity: Quantity,
) -> Option<(&'static str, impl Iterator<Item = (&'static str, &'static str)>)> {
    let Stream { instrument, attributes, .. } = Stream::of(quantity)?;
    Some((instrument.name, attributes.into_iter().flatten()))
}

/// Adds a point of a quantity, if it has a metric.
pub(super) fn add(
    (component, quantity): (Component, Quantity),
    measured: Measured,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    if let Some(stream) = Stream::of(quantity) {
        let attributes = stream.attributes(component, export.attributes);
        let point = point(attributes, quantity.unit(), measured, export);
        batch.add_hardware(export.host, stream.instrument, point);
    }
}

/// Adds the part of a memory that is in use. Both are bytes.
pub(super) fn add_memory_utilization(
    component: Component,
    used: i64,
    total: i64,
    export: &GpuSnapshot,
    batch: &mut Batch,
) {
    let stream = series(&metrics::HW_MEMORY_UTILIZATION, Described::Gpu);
    if total > 0 {
        let attributes = stream.attributes(component, export.attributes);
        let point = double(Start::NONE, attributes, used as f64 / total as f64);
        batch.add_hardware(export.host, stream.instrument, point);
    }
}

impl Stream {
    /// The series of a quantity; `None` if it has no metric. A quantity that is not here does not compile.
    pub(super) fn of(quantity: Quantity) -> Option<Self> {
        use Described::{Gpu, Hardware, Id};
        use Quantity as Q;
        Some(match quantity {
            Q::Utilization => task(&metrics::HW_UTILIZATION, "general"),
            Q::Encoder => task(&metrics::HW_UTILIZATION_OF_VIDEO, "encoder"),
            Q::Decoder => task(&metrics::HW_UTILIZATION_OF_VIDEO, "decoder"),
            Q::MemoryUsed => series(&metrics::HW_MEMORY_USAGE, Gpu),
            Q::MemoryTotal => series(&metrics::HW_MEMORY_LIMIT, Gpu),
            Q::Power => series(&metrics::HW_POWER, Hardware).with("hw.type", "gpu"),
            Q::PowerLimit => series(&metrics::POWER_LIMIT, Id),
            Q::Energy => series(&metrics::HW_ENERGY, Hardware).with("hw.type", "gpu"),
            Q::Temperature => heat(&metrics::HW_TEMPERATURE, "gpu"),
            Q::MemoryTemperature => heat(&metrics::HW_TEMPERATURE_OF_MEMORY, "memory"),
            Q::SmClock => series(&metrics::CLOCK, Id).with(attribute::GPU_CLOCK_DOMAIN, "sm"),
            Q::MemoryClock => {
                series(&metrics::CLOCK, Id).with(attribute::GPU_CLOCK_DOMAIN, "memory")
            }
            Q::FanSpeed => series(&metrics::HW_FAN_SPEED, Hardware),
            Q::SmActivity => series(&metrics::SM_ACTIVITY, Id),
            Q::TensorActivity => series(&metrics::TENSOR_ACTIVITY, Id),
            Q::DramActivity => series(&metrics::DRAM_ACTIVITY, Id),
            Q::Fp64Activity => pipe("fp64"),
            Q::Fp32Activity => pipe("fp32"),
            Q::Fp16Activity => pipe("fp16"),
            Q::PcieReceived => series(&metrics::HW_IO, Gpu).with(DIRECTION, "receive"),
            Q::PcieTransmitted => series(&metrics::HW_IO, Gpu).with(DIRECTION, "transmit"),
            Q::NvlinkReceived => {
                series(&metrics::HW_NETWORK_IO, Hardware).with(DIRECTION, "receive")
            }
            Q::NvlinkTransmitted => {
                series(&metrics::HW_NETWORK_IO, Hardware).with(DIRECTION, "transmit")
            }
            Q::CorrectedErrors => errors(&metrics::HW_ERRORS, "gpu", "corrected"),
            Q::MemoryErrors => errors(&metrics::HW_ERRORS, "gpu", "uncorrected"),
            Q::LinkReplays => errors(&metrics::HW_ERRORS_OF_LINKS, "network", "replay"),
            Q::PcieCorrectable => errors(&metrics::HW_ERRORS_OF_LINKS, "network", "correctable"),
            Q::PcieNonFatal => errors(&metrics::HW_ERRORS_OF_LINKS, "network", "non_fatal"),
            Q::LinkRecoveries => errors(&metrics::HW_ERRORS_OF_LINKS, "network", "recovery"),
            Q::LinkCrcErrors => errors(&metrics::HW_ERRORS_OF_LINKS, "network", "crc"),
            Q::PowerCap
            | Q::SyncBoost
            | Q::SoftwareThermal
            | Q::HardwareThermal
            | Q::PowerBrake => series(&metrics::THROTTLE_TIME, Id)
                .with(attribute::THROTTLE_REASON, quantity.name()),
            // They are in others, in `hw.status` and `phasemeter.gpu.xid.errors`, or in no metric.
            Q::MemoryFree
            | Q::MemoryUtilization
            | Q::RowsPending
            | Q::RowsFailed
            | Q::Xid
            | Q::EventReasons
            | Q::Processes
            | Q::GraphicsActivity
            | Q::NvlinkActivity
            | Q::PcieActivity
            | Q::PcieGeneration
            | Q::PcieWidth
            | Q::PcieMaxWidth => return None,
        })
    }

    const fn with(mut self, key: &'static str, value: &'static str) -> Self {
        let [first, second] = &mut self.attributes;
        *(if first.is_none() { first } else { second }) = Some((key, value));
        self
    }

    fn attributes(&self, component: Component, gpu: &GpuAttributes) -> Vec<KeyValue> {
        let mut attributes = match (&self.described, component) {
            (Described::Id, Component::Gpu) => vec![gpu.id()],
            (Described::Gpu, Component::Gpu | Component::Pcie) => gpu.gpu(),
            _ => gpu.component(component),
        };
        attributes.extend(self.attributes.iter().flatten().map(|(key, value)| text(key, *value)));
        attributes
    }
}

const DIRECTION: &str = "network.io.direction";

const fn series(instrument: &'static Instrument, described: Described) -> Stream {
    Stream { instrument, described, attributes: [None; 2] }
}

const fn task(instrument: &'static Instrument, task: &'static str) -> Stream {
    series(instrument, Described::Gpu).with("hw.gpu.task", task)
}

const fn heat(instrument: &'static Instrument, sensor: &'static str) -> Stream {
    series(instrument, Described::Hardware).with("hw.sensor_location", sensor)
}

const fn pipe(pipe: &'static str) -> Stream {
    series(&metrics::PIPE_ACTIVITY, Described::Id).with(attribute::GPU_PIPE_NAME, pipe)
}

const fn errors(
    instrument: &'static Instrument,
    hardware: &'static str,
    kind: &'static str,
) -> Stream {
    series(instrument, Described::Hardware).with("hw.type", hardware).with("error.type", kind)
}

/// Sizes are sums, which can fall; other last values have no start.
fn point(
    attributes: Vec<KeyValue>,
    unit: Unit,
    measured: Measured,
    export: &GpuSnapshot,
) -> NumberDataPoint {
    let gauge = |value| (Start::NONE, value);
    let (start, value) = match (measured, unit) {
        (Measured::Mean(mean), _) => (Start::at(export.since), mean),
        (Measured::Sum(sum), _) => (export.start(), sum),
        (Measured::Increase(nanos), Unit::Ppm) => {
            (export.start(), nanos as f64 / NANOS_PER_SECOND as f64)
        }
        (Measured::Increase(count), _) => return integer(export.start(), attributes, count),
        (Measured::Last(size), Unit::Bytes) => {
            return integer(export.start(), attributes, size.unsigned_abs());
        }
        (Measured::Last(share), Unit::Ppm) => gauge(share as f64 / f64::from(PPM)),
        (Measured::Last(milli), Unit::Milliwatts | Unit::Millijoules) => gauge(milli as f64 / 1e3),
        (Measured::Last(clock), Unit::Megahertz) => gauge(clock as f64 * 1e6),
        (Measured::Last(value), Unit::Celsius | Unit::BytesPerSecond | Unit::Number) => {
            gauge(value as f64)
        }
    };
    double(start, attributes, value)
}
