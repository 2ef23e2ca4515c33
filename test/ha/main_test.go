// Package ha shows that the gateway stays available: every part of it as processes of their own on one machine, twice
// or three times, under load, while they are replaced one after the other, lost, and run in two versions.
//
// A request that fails is a failure of the test, and no client here asks again. What is between the parts is played as
// Kubernetes plays it: a service (service_test.go) knows by probes alone who is ready, and every data plane has an
// address of its own (address_test.go).
//
// It takes minutes, and all of the machine: it runs with make test-ha, or make test-all.
package ha

import (
	"testing"

	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) { harness.MainWith(m, pgtest.Run) }
