//! Initialization and system queries.

use std::ffi::c_char;

use nvml_wrapper_sys::bindings::nvmlReturn_t;

use super::call::{apply_faults, code, system_functions};
use super::raw::{Buffer, Out, put};
use super::session;
use crate::error_code::ErrorCode;

/// A fault may fail initialization; then no session is left open.
fn init(function: &str) -> nvmlReturn_t {
    code(session::begin().and_then(|session| match apply_faults(&session, function, None) {
        Ok(_) => Ok(()),
        Err(error) => session::end().and(Err(error)),
    }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> nvmlReturn_t {
    init("nvmlInit")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    init("nvmlInit_v2")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: u32) -> nvmlReturn_t {
    init("nvmlInitWithFlags")
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    ErrorCode::text(result).as_ptr()
}

system_functions! {
    fn nvmlShutdown(_session) session::end();

    fn nvmlSystemGetDriverVersion(session, version: Buffer, length: u32)
        version.put(length, &session.model.system.driver_version);

    fn nvmlSystemGetNVMLVersion(session, version: Buffer, length: u32)
        version.put(length, &session.model.system.nvml_version);

    fn nvmlSystemGetCudaDriverVersion(session, version: Out<'_, i32>)
        put(version, session.model.system.cuda_version);

    fn nvmlSystemGetCudaDriverVersion_v2(session, version: Out<'_, i32>)
        put(version, session.model.system.cuda_version);

    fn nvmlSystemGetProcessName(session, pid: u32, name: Buffer, length: u32) {
        let now = session.now();
        let mut all = session.model.devices.iter().flat_map(|device| device.processes(now));
        let found = all.find(|process| process.pid == pid).ok_or(ErrorCode::NotFound)?;
        name.put(length, &found.name)
    };
}
