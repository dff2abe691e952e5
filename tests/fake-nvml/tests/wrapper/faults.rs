//! Calls that fail, hang or are missing, and driver reloads.

use std::time::{Duration, Instant};

use fake_nvml::Fake;
use nvml_wrapper::error::NvmlError;

use crate::{Driver, TWO, open};

#[test]
fn lost_gpu_fails_calls_until_it_returns() {
    let driver = Driver::with(
        "[[device]]\n[[device]]\nuuid = 'GPU-b'\n
         [[fault]]\nat_ms = 1000\nfor_ms = 500\ndevice = 0\nerror = 'gpu_is_lost'",
    );
    let device = driver.device(0);
    driver.at(1_000);
    assert!(matches!(device.utilization_rates(), Err(NvmlError::GpuLost)));
    assert!(matches!(device.fan_speed(0), Err(NvmlError::GpuLost)));
    assert!(matches!(driver.nvml.device_by_index(0), Err(NvmlError::GpuLost)));
    // The other GPU keeps its index and works.
    assert_eq!(driver.nvml.device_count().unwrap(), 2);
    assert_eq!(driver.device(1).uuid().unwrap(), "GPU-b");
    assert!(driver.device(1).utilization_rates().is_ok());

    driver.at(1_500);
    assert!(device.utilization_rates().is_ok());
}

#[test]
fn faults_fail_delay_and_hang_calls() {
    let driver = Driver::with(
        "[[device]]\n
         [[fault]]\nfunctions = ['nvmlDeviceGetTotalEnergyConsumption']\n
         error = 'function_not_found'\n
         [[fault]]\nfunctions = ['nvmlDeviceGetPowerUsage']\ndelay_ms = 50\n
         [[fault]]\nat_ms = 2000\nfor_ms = 1000\nhang = true\n
         functions = ['nvmlDeviceGetUtilizationRates']",
    );
    let device = driver.device(0);
    assert!(matches!(device.total_energy_consumption(), Err(NvmlError::FunctionNotFound)));
    let before = Instant::now();
    device.power_usage().unwrap();
    assert!(before.elapsed() >= Duration::from_millis(50));

    driver.at(2_500);
    std::thread::scope(|scope| {
        let hanging = scope.spawn(|| device.utilization_rates().map(|_| Instant::now()));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!hanging.is_finished());
        let released = Instant::now();
        driver.at(3_000);
        assert!(hanging.join().unwrap().unwrap() >= released);
    });
}

#[test]
fn fault_fails_initialization() {
    let dir = tempfile::tempdir().unwrap();
    let script = "[[fault]]\nerror = 'driver_not_loaded'\nfunctions = ['nvmlInit_v2']";
    let fake = Fake::install(dir.path(), script).unwrap();
    let _control = fake.load().unwrap();
    assert!(matches!(open(&fake), Err(NvmlError::DriverNotLoaded)));
}

#[test]
fn reload_continues_the_script() {
    let driver = Driver::with(TWO);
    driver.at(5_000);
    let fake = driver.fake.clone();
    let (before, Driver { nvml, control, _dir, .. }) =
        (driver.device(0).total_energy_consumption().unwrap(), driver);
    nvml.shutdown().unwrap();
    let again = open(&fake).unwrap();
    let after = again.device_by_index(0).unwrap().total_energy_consumption().unwrap();
    assert_eq!(before, after);
    drop(control);
}
