//! Readings at the instant of the call.

use std::time::Duration;

use nvml_wrapper_sys::bindings::{
    nvmlBAR1Memory_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlTemperature_v1_t, nvmlUtilization_t,
};

use super::call::{Call, device_functions, instance_functions};
use super::raw::{InOut, NvmlResult, Out, put, version};
use crate::error_code::ErrorCode;
use crate::track::{PcieLink, Rate};

/// `nvmlDeviceGetPcieThroughput` blocks this long while it counts bytes.
const PCIE_WINDOW: Duration = Duration::from_millis(20);

/// Sampling period of the video engines.
const VIDEO_PERIOD_US: u32 = 200_000;

const PPM_IN_PERCENT: u32 = 10_000;

device_functions! {
    fn nvmlDeviceGetUtilizationRates(call, out: Out<'_, nvmlUtilization_t>) {
        reject_mig(call)?;
        let share = |rate| call.device.utilization(rate, call.now);
        put(out, nvmlUtilization_t { gpu: share(Rate::Busy), memory: share(Rate::Dram) })
    };

    fn nvmlDeviceGetEncoderUtilization(call, percent: Out<'_, u32>, period: Out<'_, u32>) {
        put(period, VIDEO_PERIOD_US)?;
        put(percent, call.device.state(call.now).video[0].ppm() / PPM_IN_PERCENT)
    };
    fn nvmlDeviceGetDecoderUtilization(call, percent: Out<'_, u32>, period: Out<'_, u32>) {
        put(period, VIDEO_PERIOD_US)?;
        put(percent, call.device.state(call.now).video[1].ppm() / PPM_IN_PERCENT)
    };

    fn nvmlDeviceGetBAR1MemoryInfo(call, out: Out<'_, nvmlBAR1Memory_t>) {
        let total = call.device.identity.memory_total.get();
        put(out, nvmlBAR1Memory_t { bar1Total: total, bar1Free: total, bar1Used: 0 })
    };

    fn nvmlDeviceGetPowerUsage(call, milliwatts: Out<'_, u32>)
        put(milliwatts, call.device.power(call.now));
    fn nvmlDeviceGetTotalEnergyConsumption(call, millijoules: Out<'_, u64>)
        put(millijoules, call.device.energy(call.now).0);
    fn nvmlDeviceGetPowerManagementLimit(call, limit: Out<'_, u32>)
        put(limit, call.device.state(call.now).power_limit.get());
    fn nvmlDeviceGetPowerManagementDefaultLimit(call, limit: Out<'_, u32>)
        put(limit, call.device.identity.power_limit.get());
    fn nvmlDeviceGetEnforcedPowerLimit(call, limit: Out<'_, u32>)
        put(limit, call.device.state(call.now).power_limit.get());
    fn nvmlDeviceGetPowerManagementMode(_call, mode: Out<'_, u32>) put(mode, 1);

    fn nvmlDeviceGetTemperature(call, sensor: u32, celsius: Out<'_, u32>) {
        let degrees = temperature(call, sensor)?;
        // The old call cannot return negative temperatures.
        put(celsius, u32::try_from(degrees).unwrap_or(0))
    };

    // Shutdown and slowdown only.
    fn nvmlDeviceGetTemperatureThreshold(call, which: u32, celsius: Out<'_, u32>) {
        let identity = &call.device.identity;
        let degrees = match which {
            0 => identity.shutdown,
            1 => identity.slowdown,
            _ => return Err(ErrorCode::NotSupported),
        };
        put(celsius, u32::try_from(degrees.0).unwrap_or(0))
    };

    fn nvmlDeviceGetTemperatureV(call, out: InOut<'_, nvmlTemperature_v1_t>) {
        let out = out.ok_or(ErrorCode::InvalidArgument)?;
        require_version::<nvmlTemperature_v1_t>(out.version, 1)?;
        out.temperature = temperature(call, out.sensorType)?;
        Ok(())
    };

    fn nvmlDeviceGetClockInfo(call, kind: u32, megahertz: Out<'_, u32>) {
        let state = call.device.state(call.now);
        put(megahertz, clock_reading(kind, state.sm_clock.0, state.memory_clock.0)?)
    };

    fn nvmlDeviceGetMaxClockInfo(call, kind: u32, megahertz: Out<'_, u32>) {
        let identity = &call.device.identity;
        put(megahertz, clock_reading(kind, identity.sm_clock_max.0, identity.memory_clock_max.0)?)
    };

    fn nvmlDeviceGetNumFans(call, count: Out<'_, u32>)
        match u32::try_from(call.device.state(call.now).fans.len()) {
            Ok(fans @ 1..) => put(count, call.count(fans)),
            _ => Err(ErrorCode::NotSupported),
        };
    fn nvmlDeviceGetFanSpeed(call, percent: Out<'_, u32>) put(percent, fan_speed(call, 0)?);
    fn nvmlDeviceGetFanSpeed_v2(call, fan: u32, percent: Out<'_, u32>)
        put(percent, fan_speed(call, fan)?);

    fn nvmlDeviceGetPerformanceState(call, state: Out<'_, u32>)
        put(state, u32::from(call.device.state(call.now).performance_state));
    fn nvmlDeviceGetPowerState(call, state: Out<'_, u32>)
        put(state, u32::from(call.device.state(call.now).performance_state));

    fn nvmlDeviceGetCurrentClocksEventReasons(call, reasons: Out<'_, u64>)
        put(reasons, call.device.state(call.now).throttle);
    fn nvmlDeviceGetCurrentClocksThrottleReasons(call, reasons: Out<'_, u64>)
        put(reasons, call.device.state(call.now).throttle);
    fn nvmlDeviceGetSupportedClocksEventReasons(_call, reasons: Out<'_, u64>) put(reasons, 0xFF);
    fn nvmlDeviceGetSupportedClocksThrottleReasons(_call, reasons: Out<'_, u64>) put(reasons, 0xFF);

    fn nvmlDeviceGetCurrPcieLinkGeneration(call, generation: Out<'_, u32>)
        put(generation, call.device.state(call.now).pcie_link.generation);
    fn nvmlDeviceGetCurrPcieLinkWidth(call, lanes: Out<'_, u32>)
        put(lanes, call.device.state(call.now).pcie_link.lanes);
    fn nvmlDeviceGetMaxPcieLinkGeneration(_call, generation: Out<'_, u32>)
        put(generation, PcieLink::MAX.generation);
    fn nvmlDeviceGetMaxPcieLinkWidth(_call, lanes: Out<'_, u32>) put(lanes, PcieLink::MAX.lanes);

    fn nvmlDeviceGetPcieThroughput(call, counter: u32, kibibytes: Out<'_, u32>) {
        let rate = match counter {
            0 => Rate::PcieTx,
            1 => Rate::PcieRx,
            _ => return Err(ErrorCode::InvalidArgument),
        };
        std::thread::sleep(PCIE_WINDOW);
        let bytes = call.device.track.rate(rate, call.session.now());
        put(kibibytes, u32::try_from(bytes / 1_024).unwrap_or(u32::MAX))
    };
}

instance_functions! {
    fn nvmlDeviceGetMemoryInfo(call, out: Out<'_, nvmlMemory_t>) {
        let Memory { total, free, .. } = memory(call);
        // The first version includes the driver's reservation in `used`.
        put(out, nvmlMemory_t { total, free, used: total.saturating_sub(free) })
    };

    fn nvmlDeviceGetMemoryInfo_v2(call, out: InOut<'_, nvmlMemory_v2_t>) {
        let out = out.ok_or(ErrorCode::InvalidArgument)?;
        require_version::<nvmlMemory_v2_t>(out.version, 2)?;
        let Memory { total, reserved, free, used } = memory(call);
        *out = nvmlMemory_v2_t { version: out.version, total, reserved, free, used };
        Ok(())
    };
}

/// The memory of a device or MIG instance in bytes.
struct Memory {
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

fn memory(call: &Call<'_>) -> Memory {
    if let Some(instance) = call.instance {
        let (total, used) = (instance.memory_total.get(), instance.memory_used.get());
        return Memory { total, reserved: 0, free: total.saturating_sub(used), used };
    }
    Memory {
        total: call.device.identity.memory_total.get(),
        reserved: call.device.identity.memory_reserved.get(),
        free: call.device.memory_free(call.now),
        used: call.device.state(call.now).memory_used.get(),
    }
}

/// The speed of a fan in percent; an error if the device lacks it.
fn fan_speed(call: &Call<'_>, fan: u32) -> Result<u32, ErrorCode> {
    let fans = &call.device.state(call.now).fans;
    if fans.is_empty() {
        return Err(ErrorCode::NotSupported);
    }
    let speed = usize::try_from(fan).ok().and_then(|fan| fans.get(fan));
    speed.copied().ok_or(ErrorCode::InvalidArgument)
}

/// In MIG mode utilization is not supported.
pub(super) fn reject_mig(call: &Call<'_>) -> NvmlResult {
    if call.is_in_mig_mode() { Err(ErrorCode::NotSupported) } else { Ok(()) }
}

/// Rejects structures of another version.
pub(super) fn require_version<T>(given: u32, number: u32) -> NvmlResult {
    if given == version::<T>(number) { Ok(()) } else { Err(ErrorCode::VersionMismatch) }
}

/// Degrees Celsius of a sensor; only the die has one.
fn temperature(call: &Call<'_>, sensor: u32) -> Result<i32, ErrorCode> {
    if sensor == 0 {
        Ok(i32::from(call.device.state(call.now).temperature.0))
    } else {
        Err(ErrorCode::InvalidArgument)
    }
}

/// The value of a clock: graphics, SM and video share one, memory has its own.
fn clock_reading(kind: u32, sm: u32, memory: u32) -> Result<u32, ErrorCode> {
    match kind {
        0 | 1 | 3 => Ok(sm),
        2 => Ok(memory),
        _ => Err(ErrorCode::InvalidArgument),
    }
}
