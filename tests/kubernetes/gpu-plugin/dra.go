package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// The name of NVIDIA's driver.
const driverName = "gpu.nvidia.com"

type draDriver struct {
	driver driver
	gpus   map[string]gpu
}

// Publishes GPUs in a ResourceSlice and prepares claims, as NVIDIA's driver does.
func serveDRA(ctx context.Context, driver driver, node string, gpus []gpu) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(kubeletplugin.KubeletPluginsDir, driverName), 0o750); err != nil {
		return err
	}
	plugin := &draDriver{driver: driver, gpus: map[string]gpu{}}
	var devices []resourceapi.Device
	for _, gpu := range gpus {
		name := fmt.Sprintf("gpu-%d", gpu.minor)
		plugin.gpus[name] = gpu
		devices = append(devices, device(name, gpu))
	}
	helper, err := kubeletplugin.Start(ctx, plugin, kubeletplugin.DriverName(driverName),
		kubeletplugin.NodeName(node), kubeletplugin.KubeClient(client))
	if err != nil {
		return err
	}
	slices := []resourceslice.Slice{{Devices: devices}}
	return helper.PublishResources(ctx, resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{node: {Slices: slices}},
	})
}

// The attributes and the capacity that NVIDIA's driver publishes, of an H100.
func device(name string, gpu gpu) resourceapi.Device {
	text := func(value string) resourceapi.DeviceAttribute {
		return resourceapi.DeviceAttribute{StringValue: &value}
	}
	version := func(value string) resourceapi.DeviceAttribute {
		return resourceapi.DeviceAttribute{VersionValue: &value}
	}
	return resourceapi.Device{
		Name: name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"type":                  text("gpu"),
			"uuid":                  text(gpu.uuid),
			"productName":           text("NVIDIA H100 80GB HBM3"),
			"brand":                 text("Nvidia"),
			"architecture":          text("Hopper"),
			"cudaComputeCapability": version("9.0.0"),
			"driverVersion":         version("575.57.8"),
			"cudaDriverVersion":     version("12.9.0"),
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse("81559Mi")},
		},
	}
}

func (d *draDriver) PrepareResourceClaims(
	_ context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// Writes the CDI devices of a claim, whose names contain its UID.
func (d *draDriver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	var gpus []gpu
	var names []string
	var devices []kubeletplugin.Device
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		gpu, known := d.gpus[result.Device]
		if !known {
			return nil, fmt.Errorf("no device %s", result.Device)
		}
		name := fmt.Sprintf("%s-%s", claim.UID, result.Device)
		gpus = append(gpus, gpu)
		names = append(names, name)
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			ShareID:      result.ShareID,
			CDIDeviceIDs: []string{cdiKind + "=" + name},
		})
	}
	script, err := d.driver.grant(string(claim.UID), gpus)
	if err != nil {
		return nil, err
	}
	return devices, writeCDI(cdiFile(claim.UID), d.driver.library(), script, names, gpus)
}

func (d *draDriver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = nil
		if err := os.Remove(cdiFile(claim.UID)); err != nil && !os.IsNotExist(err) {
			results[claim.UID] = err
		}
	}
	return results, nil
}

func (d *draDriver) HandleError(ctx context.Context, err error, message string) {
	runtime.HandleErrorWithContext(ctx, err, message)
}
