package acme_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/page/pagetest"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/acme"
)

func TestDeliveriesAreShown(t *testing.T) {
	owner := pagetest.New(acme.Section(), http.NotFoundHandler(), &configv1.Account{Name: "ada", Role: configv1.Role_OWNER})
	shown := owner.Get("/acme")
	require.Equal(t, http.StatusOK, shown.Code)
	require.Contains(t, shown.Body.String(), "<p>On its way: an anvil.</p>")
	require.Contains(t, shown.Body.String(), `<a href="/acme" aria-current="page">Deliveries</a>`)
}
