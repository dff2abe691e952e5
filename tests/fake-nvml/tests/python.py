"""Reads every kind of value from the fake through nvidia-ml-py, and checks it.

Its structures are independent of those that the fake is built with.
"""

import ctypes
import sys

import pynvml as nv

fake = ctypes.CDLL(sys.argv[1])


def set_time(milliseconds):
    fake.fakeNvmlSetTime(ctypes.c_uint64(milliseconds * 1_000_000))


def expect(value, expected):
    assert value == expected, f"{value!r}, expected {expected!r}"


def expect_error(code, call, *arguments):
    try:
        call(*arguments)
    except nv.NVMLError as error:
        expect(error.value, code)
    else:
        raise AssertionError(f"{call.__name__} returned no error")


def fields(device, ids):
    values = nv.nvmlDeviceGetFieldValues(device, ids)
    return [(value.valueType, value.nvmlReturn, value.value.ullVal) for value in values]


expect_error(nv.NVML_ERROR_UNINITIALIZED, nv.nvmlDeviceGetCount)
nv.nvmlInit()
set_time(5_000)

# Identity.
expect(nv.nvmlDeviceGetCount(), 2)
expect(nv.nvmlSystemGetDriverVersion(), "575.57.08")
expect(nv.nvmlSystemGetCudaDriverVersion(), 12090)
gpu, other = nv.nvmlDeviceGetHandleByUUID("GPU-a"), nv.nvmlDeviceGetHandleByIndex(1)
expect(nv.nvmlDeviceGetIndex(gpu), 0)
expect(nv.nvmlDeviceGetName(other), "NVIDIA A100-SXM4-40GB")
pci = nv.nvmlDeviceGetPciInfo(gpu)
expect((pci.busId, pci.busIdLegacy, pci.bus), ("00000000:17:00.0", "0000:17:00.0", 0x17))
expect(nv.nvmlDeviceGetCudaComputeCapability(gpu), (9, 0))
expect(nv.nvmlDeviceGetMigMode(gpu), [0, 0])
expect(nv.nvmlDeviceGetSerial(other), "0000000000002")
expect(nv.nvmlDeviceGetVbiosVersion(gpu), "96.00.74.00.01")
expect(nv.nvmlDeviceGetEnforcedPowerLimit(gpu), 700_000)
expect(nv.nvmlDeviceGetPowerManagementLimit(gpu), 700_000)
expect(nv.nvmlDeviceGetTemperatureThreshold(gpu, nv.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN), 89)
expect(nv.nvmlDeviceGetTemperatureThreshold(gpu, nv.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN), 92)

# Readings.
rates = nv.nvmlDeviceGetUtilizationRates(gpu)
expect((rates.gpu, rates.memory), (80, 40))
second = nv.nvmlDeviceGetMemoryInfo(gpu, version=nv.nvmlMemory_v2)
expect((second.used >> 20, second.reserved >> 20, second.total >> 20), (1000, 551, 81559))
first = nv.nvmlDeviceGetMemoryInfo(gpu)
expect((first.used, first.free), (second.used + second.reserved, second.free))
expect(nv.nvmlDeviceGetPowerUsage(gpu), 500_000)
expect(nv.nvmlDeviceGetTotalEnergyConsumption(gpu), 2_500_000)
expect(nv.nvmlDeviceGetTemperature(gpu, nv.NVML_TEMPERATURE_GPU), 65)
expect(nv.nvmlDeviceGetTemperatureV(gpu, nv.NVML_TEMPERATURE_GPU), 65)
expect(nv.nvmlDeviceGetClockInfo(gpu, nv.NVML_CLOCK_MEM), 2619)
expect(nv.nvmlDeviceGetPerformanceState(gpu), 0)
expect(nv.nvmlDeviceGetCurrentClocksEventReasons(gpu), 0)
expect_error(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetFanSpeed, gpu)
expect(
    fields(gpu, [186, 83, 197, 82]),
    [(1, 0, 500_000), (3, 0, 2_500_000), (3, 0, 100 << 20), (0, nv.NVML_ERROR_NOT_SUPPORTED, 0)],
)

# The ring of samples.
kind, samples = nv.nvmlDeviceGetSamples(gpu, nv.NVML_GPU_UTILIZATION_SAMPLES, 0)
expect((kind, len(samples)), (nv.NVML_VALUE_TYPE_UNSIGNED_INT, 50))
expect({sample.sampleValue.uiVal for sample in samples}, {80})
last = samples[-1].timeStamp
expect(last, (1_767_225_600 + 5) * 1_000_000)
expect_error(
    nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetSamples, gpu, nv.NVML_GPU_UTILIZATION_SAMPLES, last
)

# Processes, in every version of the call.
for version in ("", "_v2", "_v3"):
    listed = getattr(nv, f"nvmlDeviceGetComputeRunningProcesses{version}")(gpu)
    expect([(p.pid, p.usedGpuMemory) for p in listed], [(11, 900 << 20), (12, None)])
expect(nv.nvmlDeviceGetGraphicsRunningProcesses(gpu), [])
shares = nv.nvmlDeviceGetProcessUtilization(gpu, 0)
expect([(share.pid, share.smUtil) for share in shares], [(11, 80), (12, 80)])
expect(nv.nvmlSystemGetProcessName(11), "python")

# GPM.
expect(nv.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice, 1)
before, after = nv.nvmlGpmSampleAlloc(), nv.nvmlGpmSampleAlloc()
nv.nvmlGpmSampleGet(gpu, before)
set_time(5_200)
nv.nvmlGpmSampleGet(gpu, after)
request = nv.c_nvmlGpmMetricsGet_t()
request.version, request.numMetrics = nv.NVML_GPM_METRICS_GET_VERSION, 2
request.sample1, request.sample2 = before, after
request.metrics[0].metricId = nv.NVML_GPM_METRIC_SM_UTIL
request.metrics[1].metricId = nv.NVML_GPM_METRIC_PCIE_TX_PER_SEC
nv.nvmlGpmMetricsGet(request)
expect([request.metrics[i].value for i in range(2)], [60.0, 20.0])
nv.nvmlGpmSampleFree(before)
nv.nvmlGpmSampleFree(after)
expect_error(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlGpmSampleFree, after)

# Events.
events = nv.nvmlEventSetCreate()
nv.nvmlDeviceRegisterEvents(gpu, nv.nvmlEventTypeXidCriticalError, events)
expect_error(nv.NVML_ERROR_TIMEOUT, nv.nvmlEventSetWait, events, 1)
set_time(7_000)
event = nv.nvmlEventSetWait(events, 1)
expect((event.eventType, event.eventData), (nv.nvmlEventTypeXidCriticalError, 63))
expect(nv.nvmlDeviceGetUUID(event.device), "GPU-a")
nv.nvmlEventSetFree(events)

# A GPU is lost.
set_time(8_000)
expect_error(nv.NVML_ERROR_GPU_IS_LOST, nv.nvmlDeviceGetPowerUsage, other)
expect_error(nv.NVML_ERROR_GPU_IS_LOST, nv.nvmlDeviceGetHandleByIndex, 1)
expect(nv.nvmlDeviceGetPowerUsage(gpu), 500_000)

nv.nvmlShutdown()
expect_error(nv.NVML_ERROR_UNINITIALIZED, nv.nvmlShutdown)
print("read everything")
