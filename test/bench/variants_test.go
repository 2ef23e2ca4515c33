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

func TestInstructionReport(t *testing.T) {
	text := instructionReport(setup{}, []counting{{targetEnvoy, 261_400}, {wholeListener, 784_000}})
	require.Contains(t, text, "| Envoy alone            |                   261 |                 522 | 0.333 |")
	require.Contains(t, text, "| the gateway's listener |                   784 |                   0 | 1.000 |")
}
