package hostile

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// A person has a key that they made for themselves.
type person struct {
	*company
	name, id, key string
}

// hasKey makes a key with the command line of somebody.
func (c *company) hasKey(name, terminal, organization string) *person {
	c.t.Helper()
	status, made := c.api("POST", "/admin/v1/keys", terminal,
		fmt.Sprintf(`{"display_name":"of %s","organization":%q}`, name, organization))
	require.Equal(c.t, 201, status, made)
	p := &person{c, name, made["id"].(string), made["key"].(string)}
	p.isAnswered(200)
	return p
}

// isAnswered waits until a request with the key has a status.
func (p *person) isAnswered(want int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.URL+"/v1/models", nil)
		require.NoError(p.t, err)
		r.Header.Set("Authorization", "Bearer "+p.key)
		answer, err := p.Client.Do(r)
		require.NoError(p.t, err)
		require.NoError(p.t, answer.Body.Close())
		return answer.StatusCode == want
	}, 20*time.Second, 50*time.Millisecond, "%s: %d", p.name, want)
}

func (p *person) owner() any {
	p.t.Helper()
	status, k := p.api("GET", "/admin/v1/keys/"+p.id, p.root(), "")
	require.Equal(p.t, 200, status)
	return k["owner"]
}

// doctor returns what the command line finds.
func (c *company) doctor() string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), harness.Binary(c.t), "doctor", "--data", c.Dir, "--all",
		"-o", "json").Output()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		require.NoError(c.t, err)
	}
	return string(out)
}

func (c *company) member(name, role string) {
	c.t.Helper()
	c.Apply(c.t, &configv1.Account{Name: name, Password: knownPassword, Memberships: []*configv1.Membership{
		{Organization: "acme", Role: configv1.Role(configv1.Role_value[role])}}})
}

func TestKeysEndWithWhoMadeThem(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	newMember := func(name string) *person {
		c.member(name, "MEMBER")
		return c.hasKey(name, c.visitor().commandLine(name), "acme")
	}

	t.Run("by hand", func(t *testing.T) {
		disabled, demoted, deleted, stays := newMember("a@acme.example"), newMember("b@acme.example"),
			newMember("c@acme.example"), newMember("d@acme.example")
		status, got := c.api("PUT", "/admin/v1/accounts/"+disabled.name, c.tenant,
			`{"name":"`+disabled.name+`","disabled":true,"memberships":[{"organization":"acme","role":"MEMBER"}]}`)
		require.Equal(t, 200, status, got)
		c.member(demoted.name, "VIEWER")
		status, _ = c.api("DELETE", "/admin/v1/accounts/"+deleted.name, c.root(), "")
		require.Equal(t, 204, status)
		for _, p := range []*person{disabled, demoted, deleted} {
			p.isAnswered(401)
		}
		stays.isAnswered(200)
		_, attentive := c.api("GET", "/admin/v1/attention", c.root(), "")
		doctor := c.doctor()
		shown, err := harness.Command(t, "", "status", "--data", c.Dir)
		require.NoError(t, err, shown)
		for _, p := range []*person{disabled, demoted, deleted} {
			for _, said := range []string{fmt.Sprint(attentive), doctor, shown} {
				require.Contains(t, said, p.name+" has left")
				require.Contains(t, said, p.id)
			}
		}

		c.member(deleted.name, "MEMBER")
		c.member(demoted.name, "MEMBER")
		demoted.isAnswered(200)
		deleted.isAnswered(401)
		require.Empty(t, deleted.owner(), "another account of the name does not have it")
		harness.Must(t, "", "key", "enable", deleted.id, "--data", c.Dir)
		deleted.isAnswered(200)
	})

	t.Run("by the directory", func(t *testing.T) {
		status, user := c.api("POST", "/scim/v2/Users", c.scim, `{"userName":"emp@example.com","active":true}`)
		require.Equal(t, 201, status, user)
		at := "/scim/v2/Users/" + user["id"].(string)
		status, _ = c.api("POST", "/scim/v2/Groups", c.scim,
			fmt.Sprintf(`{"displayName":"owners","members":[{"value":%q}]}`, user["id"]))
		require.Equal(t, 201, status)
		c.issuer.Add("emp")
		v := c.visitor()
		status, text := v.atIssuer("emp")
		require.Equal(t, 303, status, text)
		terminal := v.terminal()
		p := c.hasKey("emp@example.com", terminal, "")
		status, made := c.api("POST", "/admin/v1/admintokens", terminal,
			`{"display_name":"ci","scopes":["keys:write","config:read"]}`)
		require.Equal(t, 201, status, made)
		token := made["token"].(string)
		require.Contains(t, harness.Must(t, "", "token", "list", "--data", c.Dir), "emp@example.com")
		active := func(is bool) {
			status, got := c.api("PATCH", at, c.scim, fmt.Sprintf(`{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
				"Operations":[{"op":"replace","path":"active","value":%t}]}`, is))
			require.Equal(t, 200, status, got)
		}
		active(false)
		p.isAnswered(401)
		status, _ = c.api("POST", "/admin/v1/keys", token, `{"display_name":"k"}`)
		require.Equal(t, 401, status)
		active(true)
		p.isAnswered(200)
		status, _ = c.api("GET", "/admin/v1/providers", token, "")
		require.Equal(t, 200, status)
		status, _ = c.api("PUT", at, c.scim, `{"userName":"new@example.com","active":true}`)
		require.Equal(t, 200, status)
		p.isAnswered(200)
		require.Equal(t, "new@example.com", p.owner())
		status, _ = c.api("DELETE", at, c.scim, "")
		require.Equal(t, 204, status)
		p.isAnswered(401)
		status, _ = c.api("GET", "/admin/v1/providers", token, "")
		require.Equal(t, 401, status)
		_, log := c.api("GET", "/admin/v1/audit?kind=Account", c.root(), "")
		require.Contains(t, fmt.Sprint(log), "the key "+p.id+" is disabled")
	})

	t.Run("by a sign-in with fewer groups", func(t *testing.T) {
		for name, groups := range map[string][]string{"fewer": {"staff"}, "none": nil} {
			c.issuer.Add(name, "owners")
			v := c.visitor()
			status, text := v.atIssuer(name)
			require.Equal(t, 303, status, text)
			p := c.hasKey(name+"@example.com", v.terminal(), "")
			c.issuer.Add(name, groups...)
			status, text = c.visitor().atIssuer(name)
			require.Equal(t, map[string]int{"fewer": 303, "none": 403}[name], status, text)
			p.isAnswered(401)
			c.issuer.Add(name, "owners")
			status, text = c.visitor().atIssuer(name)
			require.Equal(t, 303, status, text)
			p.isAnswered(200)
		}
	})

	t.Run("as the organization has it", func(t *testing.T) {
		c.member("heir@acme.example", "ADMIN")
		c.Apply(t, &configv1.Organization{Name: "acme", Successor: "heir@acme.example"})
		handed := newMember("e@acme.example")
		harness.Must(t, "", "config", "delete", "account", handed.name, "--data", c.Dir)
		require.Equal(t, "heir@acme.example", handed.owner())
		c.Apply(t, &configv1.Organization{Name: "acme", KeysOfLeavers: configv1.KeysOfLeavers_KEEP})
		kept := newMember("f@acme.example")
		c.member(kept.name, "VIEWER")
		handed.isAnswered(200)
		kept.isAnswered(200)
		harness.Eventually(t, "what needs attention", func() error { // it is some seconds old
			_, attentive := c.api("GET", "/admin/v1/attention", c.root(), "")
			for _, said := range []string{"Keys that still work: " + kept.id,
				"Keys that heir@acme.example has now: " + handed.id} {
				if !strings.Contains(fmt.Sprint(attentive), said) {
					return errors.New("does not say: " + said)
				}
			}
			return nil
		})
	})
}
