package charts_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
)

func TestLongNamesAreCut(t *testing.T) {
	// Helm allows 53 characters, Kubernetes 63 in a namespace and in a label.
	release := strings.Repeat("release-", 6) + "name5"
	require.Len(t, release, 53)
	for name, values := range releases(t) {
		objects := renderAs(t, release, strings.Repeat("n", 63), values)
		for _, o := range objects {
			m, err := meta.Accessor(o.typed)
			require.NoError(t, err)
			requireValidNames(t, name+": "+o.template+" "+m.GetName(), m)
		}
		for _, w := range workloads(t, objects) {
			// The name of a ReplicaSet's or StatefulSet's pods is a label or a host name too.
			require.LessOrEqual(t, len(w.name), 52, "%s: the name of %s leaves no room for that of its pods", name, w.name)
		}
	}
}

func TestReleasesInOneNamespaceShareNothing(t *testing.T) {
	pairs := map[string][2]string{
		"two names":                  {"one", "two"},
		"one that begins the other":  {"gw", "gw-2"},
		"the chart's name in both":   {"modelgate", "modelgate-2"},
		"long ones with equal heads": {strings.Repeat("a", 50) + "1", strings.Repeat("a", 50) + "2"},
	}
	for pair, releases := range pairs {
		t.Run(pair, func(t *testing.T) {
			for _, name := range []string{"everything bundled and kept", "ext_proc alone, scaled"} {
				values := form(t, name)
				one, two := renderAs(t, releases[0], namespace, values), renderAs(t, releases[1], namespace, values)
				taken := map[string]bool{}
				for _, o := range one {
					m, err := meta.Accessor(o.typed)
					require.NoError(t, err)
					taken[o.typed.GetObjectKind().GroupVersionKind().Kind+"/"+m.GetName()] = true
				}
				for _, o := range two {
					m, err := meta.Accessor(o.typed)
					require.NoError(t, err)
					require.NotContains(t, taken, o.typed.GetObjectKind().GroupVersionKind().Kind+"/"+m.GetName(), name)
				}
				for _, w := range workloads(t, one) {
					if w.selector != nil {
						for _, found := range selected(t, workloads(t, two), w.selector) {
							require.Failf(t, "a selector finds another release's pods", "%s: %s finds %s", name, w.name, found)
						}
					}
				}
			}
		})
	}
}
