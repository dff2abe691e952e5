package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	stub "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

const resourceName = "nvidia.com/gpu"

// Offers GPUs as nvidia.com/gpu, also after the kubelet was restarted.
func serveDevicePlugin(ctx context.Context, driver driver, gpus []gpu) error {
	byUUID := map[string]gpu{}
	var devices []*api.Device
	for _, gpu := range gpus {
		byUUID[gpu.uuid] = gpu
		devices = append(devices, &api.Device{ID: gpu.uuid, Health: api.Healthy})
	}
	plugin := stub.NewDevicePluginStub(
		klog.FromContext(ctx), devices, api.DevicePluginPath+"nvidia-gpu.sock", resourceName, false, false)
	plugin.SetAllocFunc(func(request *api.AllocateRequest, _ map[string]*api.Device) (*api.AllocateResponse, error) {
		response := &api.AllocateResponse{}
		for _, container := range request.ContainerRequests {
			granted, err := allocate(driver, byUUID, container.DevicesIds)
			if err != nil {
				return nil, err
			}
			response.ContainerResponses = append(response.ContainerResponses, granted)
		}
		return response, nil
	})
	if err := plugin.Start(ctx); err != nil {
		return err
	}
	if err := plugin.Register(ctx, api.KubeletSocket, resourceName, ""); err != nil {
		return err
	}
	go plugin.Watch(ctx, api.KubeletSocket, resourceName, "")
	return nil
}

func allocate(driver driver, byUUID map[string]gpu, uuids []string) (*api.ContainerAllocateResponse, error) {
	var gpus []gpu
	var devices []*api.DeviceSpec
	for _, uuid := range uuids {
		gpu, known := byUUID[uuid]
		if !known {
			return nil, fmt.Errorf("no GPU %s", uuid)
		}
		gpus = append(gpus, gpu)
		devices = append(devices, &api.DeviceSpec{
			ContainerPath: gpu.deviceFile(), HostPath: "/dev/null", Permissions: "rw",
		})
	}
	script, err := driver.grant(strings.Join(uuids, "-"), gpus)
	if err != nil {
		return nil, err
	}
	return &api.ContainerAllocateResponse{
		Envs: map[string]string{
			"NVIDIA_VISIBLE_DEVICES": strings.Join(uuids, ","),
			"FAKE_NVML_SCRIPT":       scriptInContainer,
		},
		Mounts: []*api.Mount{
			{ContainerPath: libraryInContainer, HostPath: driver.library(), ReadOnly: true},
			{ContainerPath: scriptInContainer, HostPath: script, ReadOnly: true},
		},
		Devices: devices,
	}, nil
}
