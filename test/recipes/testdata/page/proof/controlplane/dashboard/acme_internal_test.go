package dashboard

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

func TestAcmeIsAPage(t *testing.T) {
	routes := page.NewSite(page.Config{}, sections(Config{})).Routes()
	require.True(t, slices.ContainsFunc(routes, func(r page.Route) bool { return r.Pattern == "GET /acme" }))
}
