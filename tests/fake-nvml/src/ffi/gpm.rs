//! GPU performance monitoring (GPM): true means between two samples.

use nvml_wrapper_sys::bindings::{
    nvmlGpmMetric_t, nvmlGpmSample_st, nvmlGpmSample_t, nvmlGpmSupport_t,
};

use super::call::{Call, device_functions, system_functions};
use super::handles::GpmSample;
use super::raw::{Headed, InOut, NvmlResult, Out, put};
use crate::device::Device;
use crate::error_code::ErrorCode;
use crate::mig::Instance;

/// GPM structures have plain version numbers.
const VERSION: u32 = 1;

/// `nvmlGpmMetricsGet_t` without its array, whose length differs between headers: it has `metrics`
/// entries.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    version: u32,
    metrics: u32,
    first: nvmlGpmSample_t,
    second: nvmlGpmSample_t,
}

device_functions! {
    fn nvmlGpmQueryDeviceSupport(call, support: InOut<'_, nvmlGpmSupport_t>) {
        let support = support.ok_or(ErrorCode::InvalidArgument)?;
        if support.version != VERSION {
            return Err(ErrorCode::VersionMismatch);
        }
        support.isSupportedDevice = u32::from(call.device.identity.gpm);
        Ok(())
    };

    fn nvmlGpmSampleGet(call, sample: nvmlGpmSample_t) take(call, None, sample);

    fn nvmlGpmMigSampleGet(call, gpu_instance: u32, sample: nvmlGpmSample_t) {
        instance(call.device, gpu_instance)?;
        take(call, Some(gpu_instance), sample)
    };
}

system_functions! {
    fn nvmlGpmSampleAlloc(session, sample: Out<'_, nvmlGpmSample_t>) {
        let handle = session.handles().gpm_samples.insert(None);
        put(sample, std::ptr::without_provenance_mut::<nvmlGpmSample_st>(handle))
    };

    fn nvmlGpmSampleFree(session, sample: nvmlGpmSample_t)
        session.handles().gpm_samples.remove(sample.addr());

    fn nvmlGpmMetricsGet(session, request: Headed<Request, nvmlGpmMetric_t>) {
        let (request, mut metrics) = request.parts()?;
        if request.version != VERSION {
            return Err(ErrorCode::VersionMismatch);
        }
        let taken = |sample: nvmlGpmSample_t| {
            (*session.handles().gpm_samples.get(sample.addr())?).ok_or(ErrorCode::InvalidArgument)
        };
        let (first, second) = (taken(request.first)?, taken(request.second)?);
        let sampled = |sample: &GpmSample| (sample.device, sample.gpu_instance);
        let (a, b) = (first.at, second.at);
        if sampled(&first) != sampled(&second) || b < a {
            return Err(ErrorCode::InvalidArgument);
        }
        let device = session.model.devices.get(first.device).ok_or(ErrorCode::InvalidArgument)?;
        let part = first.gpu_instance.map(|id| instance(device, id)).transpose()?;
        for metric in metrics.entries(request.metrics)? {
            let value = match part {
                Some(part) => part.gpm(metric.metricId),
                None => device.gpm(metric.metricId, a, b),
            };
            // Two samples of the same refresh have no interval between them.
            let value = match value {
                None => Err(ErrorCode::NotSupported),
                Some(_) if a == b => Err(ErrorCode::NoData),
                Some(value) => Ok(value),
            };
            metric.value = value.unwrap_or(0.0);
            metric.nvmlReturn = value.map_or_else(ErrorCode::code, |_| 0);
        }
        Ok(())
    };
}

/// Stores the counters of this instant in a sample.
fn take(call: &Call<'_>, gpu_instance: Option<u32>, sample: nvmlGpmSample_t) -> NvmlResult {
    if !call.device.identity.gpm {
        return Err(ErrorCode::NotSupported);
    }
    let at = call.device.gpm_instant(call.now);
    let taken = GpmSample { device: call.index, gpu_instance, at };
    *call.session.handles().gpm_samples.get(sample.addr())? = Some(taken);
    Ok(())
}

/// A MIG instance with this GPU instance.
fn instance(device: &Device, gpu_instance: u32) -> Result<&Instance, ErrorCode> {
    let mut instances = device.instances.iter();
    let found = instances.find(|instance| instance.gpu_instance == gpu_instance);
    found.ok_or(ErrorCode::InvalidArgument)
}
