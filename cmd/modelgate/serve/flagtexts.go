package serve

import "github.com/alecthomas/kong"

// Texts are the descriptions of flags that several commands have, by the names in their tags.
func Texts() kong.Vars {
	return kong.Vars{
		"admin":   "Address of the admin API, /healthz, /readyz and /metrics.",
		"health":  "Address of /healthz, /readyz and /metrics.",
		"grace":   "How long running requests may continue during shutdown.",
		"binary":  "Envoy binary. Default: $MODELGATE_ENVOY, then one on the PATH, then bin/envoy.",
		"workers": "Worker threads of Envoy. 0: one for each core.",
		"key":     "PEM file of its private key.",
	}
}
