package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/bodies"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// withBodies gives the bench the kept bodies of three exchanges: 1 and 2 of one key, 3 of another organization's.
func withBodies(t *testing.T, b *bench) *bodies.Store {
	t.Helper()
	bucket, err := blobstore.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	root, err := secret.LoadRoot(filepath.Join(t.TempDir(), "root"))
	require.NoError(t, err)
	s, err := bodies.New(bucket, withLedger(t, b), root.BodySealer(), prometheus.NewRegistry(), zap.NewNop())
	require.NoError(t, err)
	for id, of := range map[string][2]string{"1": {"acme", "key_1"}, "2": {"acme", "key_1"}, "3": {"other", "key_2"}} {
		a, err := s.Keep(t.Context(), &ledgerv1.KeepRequest{Bodies: &ledgerv1.KeptBodies{
			Id: id, Start: timestamppb.Now(), Organization: of[0], Key: of[1], Subject: "organization/" + of[0],
			MaxTotalBytes: 1 << 20, Retention: durationpb.New(time.Hour),
			Request: &ledgerv1.KeptBody{ContentType: "application/json", Text: `"asked"`, Bytes: 7},
			Answer:  &ledgerv1.KeptBody{Omitted: "It is not text.", Bytes: 9},
		}})
		require.NoError(t, err)
		require.Empty(t, a.GetDropped())
	}
	b.config.Bodies = s
	return s
}

func (b *bench) as(t *testing.T, p authz.Principal, method, path string) answer {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	w := httptest.NewRecorder()
	api.New(b.config).ServeHTTP(w, r.WithContext(authz.WithPrincipal(r.Context(), p)))
	a := answer{w.Code, w.Header(), w.Body.String()}
	checkAnswer(t, r, a)
	return a
}

func TestEveryLookAtBodiesIsInTheAuditLog(t *testing.T) {
	b := newBench(t)
	withBodies(t, b)
	auditor := authz.Principal{Name: "ann", Role: "viewer", Scopes: []authz.Scope{authz.BodiesRead}, Address: "10.0.0.9"}
	a := b.as(t, auditor, "GET", "/admin/v1/requests/1/bodies")
	require.Equal(t, 200, a.status, a.body)
	require.Contains(t, a.body, `"text":"\"asked\""`)
	require.Contains(t, a.body, `"omitted":"It is not text."`)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, 404, b.as(t, auditor, "GET", "/admin/v1/requests/none/bodies").status)

	b.ship(t, b.audit)
	page, err := b.ledger.Audit(t.Context(), adminapi.ListOptions{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	e := page.Items[0]
	require.Equal(t, []string{"ann", "viewer", "10.0.0.9", "look", "Bodies", "1"},
		[]string{e.Actor, e.Role, e.Address, e.Action, e.Kind, e.Name})
	require.NotEmpty(t, e.RequestID)
	require.NotContains(t, fmt.Sprint(e), "asked")

	b.server.Stop() // and where the audit log cannot be written, nobody looks
	a = b.as(t, auditor, "GET", "/admin/v1/requests/2/bodies")
	require.Equal(t, 503, a.status, a.body)
	require.NotContains(t, a.body, "asked")
}

// No role and not the token that may do everything shows bodies; whoever may do everything may let somebody see them.
func TestBodiesNeedAPermissionOfTheirOwn(t *testing.T) {
	b := newBench(t)
	withBodies(t, b)
	for _, role := range []configv1.Role{configv1.Role_VIEWER, configv1.Role_OPERATOR, configv1.Role_OWNER} {
		without := &configv1.Account{Name: "a", Role: role}
		p := authz.Principal{Name: "a", Scopes: authz.ScopesOfAccount(without)}
		a := b.as(t, p, "GET", "/admin/v1/requests/1/bodies")
		require.Equal(t, 403, a.status, role)
		require.Contains(t, a.body, "bodies:read")
		require.Equal(t, role == configv1.Role_OWNER, p.May(authz.BodiesDelete), role)

		p.Scopes = authz.ScopesOfAccount(&configv1.Account{Name: "a", Role: role, ReadBodies: true})
		require.Equal(t, 200, b.as(t, p, "GET", "/admin/v1/requests/1/bodies").status, role)
	}
	root := b.do(t, "GET", "/admin/v1/requests/1/bodies", "")
	require.Equal(t, 403, root.status, root.body)

	admins := authz.Principal{Name: "t", Scopes: []authz.Scope{authz.AdminsWrite}}
	require.False(t, admins.MayGive(authz.BodiesRead), "else it would give itself what it does not have")
	token := b.makeToken(t, `{"display_name":"t","scopes":["bodies:read"]}`)
	found, err := adminapi.NewClient(b.url, token.Token, http.DefaultClient).Bodies(t.Context(), "3")
	require.NoError(t, err)
	require.Equal(t, "other", found.Organization)
}

func TestBodiesAreDeletedForWhomItIsSaid(t *testing.T) {
	b := newBench(t)
	kept := withBodies(t, b)
	for _, path := range []string{"bodies", "bodies?key=", "bodies?project=p", "bodies?key=a&key=b", "bodies?everybody=1",
		"bodies?%zz"} {
		require.Equal(t, 400, b.do(t, "DELETE", "/admin/v1/"+path, "").status, path)
	}
	n, err := b.client.DeleteBodies(t.Context(), adminapi.ListOptions{Filters: map[string]string{"key": "key_2"}})
	require.NoError(t, err)
	require.EqualValues(t, 1, n.Deleted)
	n, err = b.client.DeleteBodiesOfRequest(t.Context(), "1")
	require.NoError(t, err)
	require.EqualValues(t, 1, n.Deleted)
	for id, gone := range map[string]bool{"1": true, "2": false, "3": true} {
		_, err := kept.Read(t.Context(), id)
		require.Equal(t, gone, errors.Is(err, bodies.ErrNone), id)
	}
	b.ship(t, b.audit)
	page, err := b.ledger.Audit(t.Context(), adminapi.ListOptions{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	require.Equal(t, "exchange=1", page.Items[0].Name)
	require.Equal(t, "key=key_2", page.Items[1].Name)
}
