// Package crds requires the module with the custom resource definitions of Prometheus Operator. Nothing of it is compiled.
package crds

import _ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
