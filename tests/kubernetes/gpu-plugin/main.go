// Command gpu-plugin stands for NVIDIA's device plugin and NVIDIA's DRA driver on a test node. It offers GPUs to pods,
// and mounts a driver into their containers that lists the granted GPUs. The driver is tests/fake-nvml.
//
//	gpu-plugin serve --node NAME --driver DIRECTORY --device-plugin UUID,… --dra UUID,…
//	gpu-plugin list
//
// The directory has the driver's library, libnvidia-ml.so.1, the beginning of its script, head.toml, and the rest of
// the script for each GPU, UUID.toml.
// `serve` ends when its standard input is closed; `list` prints the kubelet's PodResources as JSON.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) > 0 && arguments[0] == "serve":
		err = serve(arguments[1:])
	case len(arguments) == 1 && arguments[0] == "list":
		err = list(os.Stdout)
	default:
		err = fmt.Errorf("usage: gpu-plugin serve|list")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpu-plugin:", err)
		os.Exit(1)
	}
}

func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	node := flags.String("node", "", "the node's name")
	directory := flags.String("driver", "", "directory of the driver")
	plugin := flags.String("device-plugin", "", "UUIDs to offer as nvidia.com/gpu")
	dra := flags.String("dra", "", "UUIDs to offer in ResourceSlices")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	// GPUs are numbered on the whole node, as minor numbers of device files are.
	first := strings.Split(*plugin, ",")
	second := strings.Split(*dra, ",")
	driver := driver{directory: *directory}
	if err := serveDevicePlugin(ctx, driver, number(first, 0)); err != nil {
		return fmt.Errorf("device plugin: %w", err)
	}
	if err := serveDRA(ctx, driver, *node, number(second, len(first))); err != nil {
		return fmt.Errorf("DRA: %w", err)
	}
	<-ctx.Done()
	return nil
}

func number(uuids []string, from int) []gpu {
	gpus := make([]gpu, len(uuids))
	for i, uuid := range uuids {
		gpus[i] = gpu{uuid: uuid, minor: from + i}
	}
	return gpus
}
