package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcmeIsACommand(t *testing.T) {
	for _, c := range []struct {
		args   []string
		exit   int
		stdout string
	}{
		{[]string{"--help"}, exitOK, "Deliver to a coyote."},
		{[]string{"acme", "--help"}, exitOK, "What is delivered."},
		{[]string{"acme", "anvil"}, exitOK, "One anvil is on its way.\n"},
		{[]string{"acme"}, exitUsage, ""},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.exit, execute(t.Context(), c.args, &stdout, &stderr), stderr.String())
		require.Contains(t, stdout.String(), c.stdout)
	}
}
