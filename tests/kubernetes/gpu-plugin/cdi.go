package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// The vendor and class of NVIDIA's driver.
const cdiKind = "k8s.gpu.nvidia.com/claim"

type object = map[string]any

func cdiFile(claim types.UID) string {
	return filepath.Join("/var/run/cdi", "k8s.gpu.nvidia.com-claim_"+string(claim)+".json")
}

// Writes the devices and mounts that the container runtime adds to containers of a claim. As with NVIDIA's driver,
// the environment does not name the GPUs: "void" keeps NVIDIA's container runtime from adding any.
func writeCDI(path, library, script string, names []string, gpus []gpu) error {
	var devices []object
	for i, gpu := range gpus {
		nodes := []object{{"path": gpu.deviceFile(), "hostPath": "/dev/null"}}
		devices = append(devices, object{"name": names[i], "containerEdits": object{"deviceNodes": nodes}})
	}
	mount := func(from, to string) object {
		return object{"hostPath": from, "containerPath": to, "options": []string{"ro", "bind"}}
	}
	text, err := json.Marshal(object{
		"cdiVersion": "0.6.0",
		"kind":       cdiKind,
		"devices":    devices,
		"containerEdits": object{
			"env":    []string{"NVIDIA_VISIBLE_DEVICES=void", scriptVariable},
			"mounts": []object{mount(library, libraryInContainer), mount(script, scriptInContainer)},
		},
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
