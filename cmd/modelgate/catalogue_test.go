package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCatalogueAsksForWhatTheFlagsSay(t *testing.T) {
	startFakeAdmin(t)
	out, _ := (&cli{}).run(t, exitOK, "catalogue", "gpt", "mini",
		"--vendor", "openai", "--capability", "image", "--served")
	require.Contains(t, out, "capability=image&q=gpt+mini&served=true&vendor=openai*")
	require.Regexp(t, `openai +- +- +9000 +2 +- +mine +-`, out)
}
