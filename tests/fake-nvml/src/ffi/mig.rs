//! MIG instances: their handles.

use nvml_wrapper_sys::bindings::nvmlDevice_t;

use super::call::{device_functions, handle_of, instance_functions, instance_handle_of};
use super::raw::{Out, put};
use crate::error_code::ErrorCode;

/// The most instances of a GPU, as on an H100.
const MAX_INSTANCES: u32 = 7;

device_functions! {
    fn nvmlDeviceGetMaxMigDeviceCount(call, count: Out<'_, u32>)
        put(count, if call.is_in_mig_mode() { MAX_INSTANCES } else { 0 });

    fn nvmlDeviceGetMigDeviceHandleByIndex(call, index: u32, out: Out<'_, nvmlDevice_t>) {
        if !call.is_in_mig_mode() {
            return Err(ErrorCode::NotSupported);
        }
        let place = usize::try_from(index).map_err(|_| ErrorCode::InvalidArgument)?;
        let instance = call.device.instances.get(place);
        instance.filter(|instance| instance.exists(call.now)).ok_or(ErrorCode::NotFound)?;
        put(out, instance_handle_of(call.index, place))
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
