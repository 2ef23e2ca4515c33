package kubernetes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scales has the HPA add a data plane while there is work, and take it away when there is none but streams, of which
// none is cut.
func scales(t *testing.T, r *release) {
	l := r.underLoad(t, "")
	l.flowing(t, r)
	out, err := r.upgrade("--timeout", "60s", "--set-json",
		`dataplane.autoscaling={"enabled":true,"minReplicas":2,"maxReplicas":3,"targetCPUUtilizationPercentage":60,
		"behavior":{"scaleDown":{"stabilizationWindowSeconds":0,"policies":[{"type":"Pods","value":1,"periodSeconds":5}]}}}`)
	require.NoError(t, err, out)
	awaitPods(t, "dataplane", 3)
	require.NoError(t, r.serves(30))
	l.unharmed(t)

	few, ctx := r.newLoad(t, "")
	for i := range 6 {
		few.worker(ctx, fmt.Sprintf("stream %d of 8 s", i), http2, few.streamOf(80))
	}
	eventually(t, 2*time.Minute, "one goes", func() error { return equal(2, len(pods(t, "dataplane"))) })
	awaitPods(t, "dataplane", 2)
	few.end()
	few.workers.Wait()
	require.Empty(t, few.failures)
}
