package main

import (
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

// TestEveryVariantLacksAPart finds variants whose part has another name by now, and so measure the whole listener.
func TestEveryVariantLacksAPart(t *testing.T) {
	seen := map[string]string{}
	for _, v := range variants() {
		l, err := newListener("/certs", "/admin.sock", "127.0.0.1:9000", "/extproc.sock")
		require.NoError(t, err)
		v.change(l)
		text, err := l.json()
		require.NoError(t, err)
		var b bootstrapv3.Bootstrap
		require.NoError(t, protojson.Unmarshal(text, &b))
		require.NoError(t, b.ValidateAll(), v.name)
		require.NotContains(t, string(text), "configDiscovery", "%s: nobody serves it", v.name)
		canonical, err := protojson.Marshal(&b)
		require.NoError(t, err)
		plain := strings.ReplaceAll(string(canonical), " ", "") // protojson varies its spaces
		require.Empty(t, seen[plain], "%s is the same", v.name)
		seen[plain] = v.name
	}
}

func TestStepTable(t *testing.T) {
	r := results{}
	for pass, seconds := range []float64{1, 2, 4} { // the machine changes, the share does not
		r.add(listenerSteps, wholeListener, &outcome{OK: 10_000, CPU: map[part]float64{partEnvoy: seconds, partGo: 0.5}})
		r.add(listenerSteps, targetFloor, &outcome{OK: 10_000, CPU: map[part]float64{partEnvoy: seconds * 0.7},
			Failures: map[string]int{"status 500": pass}})
	}
	require.Equal(t, [][]string{
		{targetFloor, "140", "0", "0.700", "0.700 to 0.700", "3"},
		{wholeListener, "200", "50", "1.000", "1.000 to 1.000", "0"},
	}, stepTable(r).rows)
	require.Contains(t, stepReport(setup{Quick: true}, r), "nothing here can be relied on")
}

func TestTheStepsOfTheListenerAreMeasuredIfNamed(t *testing.T) {
	require.NotContains(t, names(chosen(scenarios(false), "")), listenerSteps)
	require.Equal(t, []string{listenerSteps}, names(chosen(scenarios(false), "listener")))
}

func names(all []scenario) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	return names
}
