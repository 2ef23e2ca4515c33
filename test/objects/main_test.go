// Package objects_test declares the configuration of a gateway by objects of Kubernetes: a real API server, the real
// gateway with its Envoy, and no other part of Kubernetes.
package objects_test

import (
	"testing"

	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
