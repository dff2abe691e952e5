// Checks a compose file: compose's own loader accepts it, every image has a tag that names a version, every file that is
// mounted or that a command names below a mount exists, and every port is one of the loopback address.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

var pinned = regexp.MustCompile(`:v?[0-9]+\.[0-9]+\.[0-9]+$`)

func main() {
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(file string) error {
	options, err := cli.NewProjectOptions([]string{file})
	if err != nil {
		return err
	}
	// Validates it by the schema of the compose specification, too.
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	mounts := 0
	for name, service := range project.Services {
		if !pinned.MatchString(service.Image) {
			return fmt.Errorf("%s: the tag of %q names no version", name, service.Image)
		}
		for _, volume := range service.Volumes {
			if volume.Type != "bind" {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			mounts++
			for _, argument := range service.Command {
				_, inside, named := strings.Cut(argument, volume.Target+"/")
				if _, err := os.Stat(filepath.Join(volume.Source, inside)); named && err != nil {
					return fmt.Errorf("%s: %s: %w", name, argument, err)
				}
			}
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				return fmt.Errorf("%s: port %s is open to other machines", name, port.Published)
			}
		}
	}
	fmt.Printf("%s: %d services with pinned images, %d mounted files and directories\n", file, len(project.Services), mounts)
	return nil
}
