//! GPU performance monitoring (GPM): true means between two samples.

use nvml_wrapper_sys::bindings::{
    nvmlGpmMetric_t, nvmlGpmSample_st, nvmlGpmSample_t, nvmlGpmSupport_t,
};

use super::call::{device_functions, system_functions};
use super::raw::{Headed, InOut, Out, put};
use crate::error_code::ErrorCode;

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

    fn nvmlGpmSampleGet(call, sample: nvmlGpmSample_t) {
        if !call.device.identity.gpm {
            return Err(ErrorCode::NotSupported);
        }
        let taken = call.device.gpm_instant(call.now);
        *call.session.handles().gpm_samples.get(sample.addr())? = Some((call.index, taken));
        Ok(())
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
        let ((device, a), (other, b)) = (taken(request.first)?, taken(request.second)?);
        if device != other || b < a {
            return Err(ErrorCode::InvalidArgument);
        }
        let device = session.model.devices.get(device).ok_or(ErrorCode::InvalidArgument)?;
        for metric in metrics.entries(request.metrics)? {
            // Two samples of the same refresh have no interval between them.
            let value = match device.gpm(metric.metricId, a, b) {
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
