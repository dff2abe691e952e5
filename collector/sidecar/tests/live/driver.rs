//! Discovery of GPUs through the driver, and its errors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_meter::reading::Board;
use phasemeter_meter::units::{Bytes, Celsius, Milliwatts};
use phasemeter_sources::live::nvml::{NvmlDriver, NvmlUnusable};
use phasemeter_sources::live::select::{Evidence, SelectedBy, Variables, select};
use phasemeter_sources::live::{DriverError, GpuAnswer, Search, discover};

use crate::{Rig, TIMEOUT};

#[test]
fn discovery_reads_all_identifiers() {
    let rig = Rig::new(
        "driver_version = \"580.95.05\"
        [[device]]
        [[device]]
        name = \"NVIDIA A100-PCIE-40GB\"
        uuid = \"GPU-5e5ba0b2\"
        bus_id = \"00000000:17:00.0\"
        memory_total_mib = 40960
        power_limit_w = 250
        serial = \"1652823054567\"
        vbios_version = \"92.00.19.00.13\"
        slowdown_c = 85
        shutdown_c = 95",
    );
    let discovery = rig.discover().unwrap();
    assert_eq!(discovery.version.as_deref(), Some("580.95.05"));
    let identities: Vec<_> = discovery.gpus.iter().map(|found| found.identity.clone()).collect();
    let second = &identities[1];
    assert_eq!(second.name, "GPU-5e5ba0b2");
    assert_eq!(second.uuid.as_deref(), Some("GPU-5e5ba0b2"));
    assert_eq!(second.bus_id.as_deref(), Some("00000000:17:00.0"));
    assert_eq!(second.index, Some(1));
    assert_eq!(second.model.as_deref(), Some("NVIDIA A100-PCIE-40GB"));
    assert_eq!(second.memory_total, Bytes::from_mebibytes(40_960));
    assert_eq!(second.power_limit, Milliwatts::new(250_000));
    let board = Board {
        serial_number: Some("1652823054567".to_owned()),
        firmware_version: Some("92.00.19.00.13".to_owned()),
        driver_version: Some("580.95.05".to_owned()),
        minor_number: Some(1),
        slowdown: Some(Celsius(85)),
        shutdown: Some(Celsius(95)),
    };
    assert_eq!(second.board, board);
    assert!(discovery.gpus.iter().all(|found| found.missing.is_empty()));

    let one = |name: &str| (name == "CUDA_VISIBLE_DEVICES").then(|| "1".to_owned());
    let one = Variables::read(one, Vec::new);
    let selection = select(&[], &one, &Evidence::default(), &identities).unwrap();
    assert_eq!(selection.gpus, [1]);
    assert_eq!(selection.by, SelectedBy::Variable("CUDA_VISIBLE_DEVICES"));
}

/// Scenario: the first GPU reports no fixed properties, the second no enforced power limit, the third
/// a power limit of 0.
/// Guarantee: missing properties are unknown, each is reported once, and every GPU is metered.
#[test]
fn unreported_properties_are_unknown() {
    let rig = Rig::new(
        "[[device]]
        [[device]]
        power_limit_w = 250
        [[device]]
        power_limit_w = 0
        [[fault]]
        device = 0
        functions = [
            \"nvmlDeviceGetEnforcedPowerLimit\", \"nvmlDeviceGetPowerManagementLimit\",
            \"nvmlDeviceGetSerial\", \"nvmlDeviceGetVbiosVersion\",
            \"nvmlDeviceGetTemperatureThreshold\", \"nvmlDeviceGetMinorNumber\",
        ]
        error = \"not_supported\"
        [[fault]]
        device = 1
        functions = [\"nvmlDeviceGetEnforcedPowerLimit\"]
        error = \"function_not_found\"",
    );
    let discovery = rig.discover().unwrap();
    let limits: Vec<_> = discovery.gpus.iter().map(|found| found.identity.power_limit).collect();
    assert_eq!(limits, [None, Milliwatts::new(250_000), None]);
    let [first, others @ ..] = &discovery.gpus[..] else { panic!("no GPU") };
    let board = Board { driver_version: discovery.version.clone(), ..Board::default() };
    assert_eq!(first.identity.board, board);
    assert!(first.identity.memory_total.is_some());
    let missing: Vec<_> = first.missing.iter().map(|missing| missing.property).collect();
    assert_eq!(
        missing,
        [
            "power limit",
            "slowdown temperature",
            "shutdown temperature",
            "serial number",
            "VBIOS version"
        ]
    );
    assert_eq!(first.missing[0].to_string(), "no power limit");
    assert!(others.iter().all(|found| found.missing.is_empty()));
}

#[test]
fn unresponsive_gpu_does_not_renumber_others() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        [[device]]
        [[device]]
        [[fault]]
        device = 1
        error = \"gpu_is_lost\"",
    );
    let discovery = rig.discover().unwrap();
    let indices: Vec<_> = discovery.gpus.iter().map(|found| found.identity.index).collect();
    assert_eq!(indices, [Some(0), Some(2)]);
    assert_eq!(discovery.unresponsive.len(), 1);
    assert_eq!(discovery.unresponsive[0].to_string(), "GPU 1 does not respond; it is not metered");
}

#[test]
fn hanging_gpu_does_not_delay_the_answers_of_others() {
    let rig = Rig::stepped(
        "length_ms = 60000
        [[device]]
        [[device]]
        [[device]]
        [[fault]]
        device = 1
        functions = [\"nvmlDeviceGetName\"]
        for_ms = 1000
        hang = true",
    );
    let mut search = Search::start(&rig.driver()).unwrap();
    let is_found = |search: &Search, gpu: usize| matches!(search.gpus().get(gpu), Some(GpuAnswer::Found(found)) if found.missing.is_empty());
    let began = Instant::now();
    while !(is_found(&search, 0) && is_found(&search, 2)) {
        assert!(began.elapsed() < TIMEOUT, "{search:?}");
        search.wait(Duration::from_millis(20)).unwrap();
    }
    assert!(!search.is_complete());
    assert!(matches!(search.gpus()[1], GpuAnswer::Waiting));
    rig.set_time(1_000);
    search.wait(TIMEOUT).unwrap();
    assert!(search.is_complete() && is_found(&search, 1));
}

#[test]
fn missing_driver_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let unusable = |error: DriverError| match error {
        DriverError::Unusable(error) => *error.downcast::<NvmlUnusable>().unwrap(),
        other => panic!("{other:?}"),
    };
    let driver = NvmlDriver::at(dir.path().join("libnvidia-ml.so.1"));
    let error = unusable(discover(Arc::new(driver)).unwrap_err());
    assert!(matches!(error, NvmlUnusable::NoLibrary(_)), "{error:?}");

    let rig = Rig::new(
        "[[device]]
        [[fault]]
        functions = [\"nvmlInit_v2\"]
        error = \"driver_not_loaded\"",
    );
    let error = unusable(rig.discover().unwrap_err());
    assert!(matches!(error, NvmlUnusable::NotLoaded(_)), "{error:?}");

    let error = Rig::new("").discover().unwrap_err();
    assert!(matches!(error, DriverError::NoGpus { unresponsive: None, .. }), "{error:?}");
}
