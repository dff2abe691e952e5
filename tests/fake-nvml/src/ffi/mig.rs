//! MIG instances: their handles, and their places in the GPU.

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlGpuInstance_st, nvmlGpuInstance_t, nvmlGpuInstanceInfo_t,
    nvmlGpuInstancePlacement_t,
};

use super::call::{
    device_functions, handle_of, instance_functions, instance_handle_of, place_of, system_functions,
};
use super::raw::{Out, put};
use crate::error_code::ErrorCode;
use crate::mig::Instance;

/// The most instances of a GPU, as on an H100.
const MAX_INSTANCES: u32 = 7;

device_functions! {
    fn nvmlDeviceGetMaxMigDeviceCount(call, count: Out<'_, u32>)
        put(count, call.count(if call.is_in_mig_mode() { MAX_INSTANCES } else { 0 }));

    fn nvmlDeviceGetMigDeviceHandleByIndex(call, index: u32, out: Out<'_, nvmlDevice_t>) {
        if !call.is_in_mig_mode() {
            return Err(ErrorCode::NotSupported);
        }
        let place = usize::try_from(index).map_err(|_| ErrorCode::InvalidArgument)?;
        let instance = call.device.instances.get(place);
        instance.filter(|instance| instance.exists(call.now)).ok_or(ErrorCode::NotFound)?;
        put(out, instance_handle_of(call.index, place))
    };

    // The handle of a GPU instance has the numbers of that of its MIG instance.
    fn nvmlDeviceGetGpuInstanceById(call, id: u32, out: Out<'_, nvmlGpuInstance_t>) {
        let mut instances = call.device.instances.iter();
        let is_it = |it: &Instance| it.gpu_instance == id && it.exists(call.now);
        let place = instances.position(is_it).ok_or(ErrorCode::NotFound)?;
        let handle = instance_handle_of(call.index, place);
        put(out, std::ptr::without_provenance_mut::<nvmlGpuInstance_st>(handle.addr()))
    };
}

system_functions! {
    fn nvmlGpuInstanceGetInfo(
        session,
        instance: nvmlGpuInstance_t,
        info: Out<'_, nvmlGpuInstanceInfo_t>
    ) {
        let handle = std::ptr::without_provenance_mut(instance.addr());
        let (index, place) = place_of(handle).ok_or(ErrorCode::InvalidArgument)?;
        let device = session.model.devices.get(index).ok_or(ErrorCode::InvalidArgument)?;
        let instance = place.and_then(|place| device.instances.get(place));
        let instance = instance.ok_or(ErrorCode::InvalidArgument)?;
        let (start, size) = instance.placement;
        put(info, nvmlGpuInstanceInfo_t {
            device: handle_of(index),
            id: instance.gpu_instance,
            profileId: 0,
            placement: nvmlGpuInstancePlacement_t { start, size },
        })
    };
}

instance_functions! {
    fn nvmlDeviceIsMigDeviceHandle(call, is: Out<'_, u32>)
        put(is, u32::from(call.instance.is_some()));

    fn nvmlDeviceGetGpuInstanceId(call, id: Out<'_, u32>)
        put(id, call.instance.ok_or(ErrorCode::NotSupported)?.gpu_instance);

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(call, out: Out<'_, nvmlDevice_t>) {
        call.instance.ok_or(ErrorCode::InvalidArgument)?;
        put(out, handle_of(call.index))
    };
}
