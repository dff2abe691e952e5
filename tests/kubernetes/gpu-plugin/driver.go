package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// Where a container finds the driver. The dynamic linker looks there on every architecture.
const (
	libraryInContainer = "/usr/lib/libnvidia-ml.so.1"
	scriptInContainer  = "/etc/fake-nvml.toml"
	scriptVariable     = "FAKE_NVML_SCRIPT=" + scriptInContainer
)

// A GPU of the node.
type gpu struct {
	uuid  string
	minor int
}

// The path of its device file in containers. Here it is /dev/null.
func (g gpu) deviceFile() string {
	return fmt.Sprintf("/dev/nvidia%d", g.minor)
}

// The driver's files on the node.
type driver struct {
	directory string
}

func (d driver) library() string {
	return filepath.Join(d.directory, "libnvidia-ml.so.1")
}

// Writes the script of a driver that lists these GPUs only, and returns its path. In a container, NVML lists the GPUs
// whose device files the container has.
func (d driver) grant(name string, gpus []gpu) (string, error) {
	script, err := os.ReadFile(filepath.Join(d.directory, "head.toml"))
	if err != nil {
		return "", err
	}
	for _, gpu := range gpus {
		device, err := os.ReadFile(filepath.Join(d.directory, gpu.uuid+".toml"))
		if err != nil {
			return "", err
		}
		script = append(script, device...)
	}
	path := filepath.Join(d.directory, "granted-"+name+".toml")
	return path, os.WriteFile(path, script, 0o644)
}
