package cloud_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/cloud"
	"github.com/modelgate/modelgate/controlplane/secretstore"
)

const (
	role  = "arn:aws:iam::123456789012:role/models"
	robot = "models@acme.iam.gserviceaccount.com"
)

// An internet is what every host answers, by its name and the path. It follows the APIs as their documentation has
// them. It is safe for concurrent use.
type internet struct {
	t    *testing.T
	http *http.Client

	mu      sync.Mutex // guards what follows
	answers map[string]http.HandlerFunc
	asked   []string
}

func newInternet(t *testing.T) *internet {
	n := &internet{t: t, answers: map[string]http.HandlerFunc{}}
	server := httptest.NewTLSServer(n)
	t.Cleanup(server.Close)
	n.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // every host is the test's own
	}}
	t.Cleanup(n.http.CloseIdleConnections)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AZURE_CLIENT_SECRET",
		"AWS_CA_BUNDLE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("HOME", t.TempDir())
	return n
}

func (n *internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	n.mu.Lock()
	n.asked = append(n.asked, r.Host+r.URL.Path)
	answer := n.answers[r.Host+r.URL.Path]
	n.mu.Unlock()
	if answer == nil {
		n.t.Errorf("nobody expects %s %s%s %s", r.Method, r.Host, r.URL, body)
		answer = http.NotFound
	}
	answer(w, r)
}

func (n *internet) at(place string, answer http.HandlerFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[place] = answer
}

// says answers so.
func says(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// asJSON writes a value as JSON.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// signed answers where a request has a token or is signed with a key.
func (n *internet) signed(with string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), with) {
			n.t.Errorf("%s%s: signed with %q", r.Host, r.URL, r.Header.Get("Authorization"))
		}
		answer(w, r)
	}
}

// tokenFile writes the token that a cloud's identity is federated from.
func tokenFile(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(name, []byte("of.the.cluster"), 0o600))
	return name
}

const expires = "2099-01-02T03:04:05Z"

// keys is an answer of AWS's security token service (https://docs.aws.amazon.com/STS/latest/APIReference).
func keys(action, id string) http.HandlerFunc {
	return says(http.StatusOK, fmt.Sprintf(`<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult>
<Credentials><AccessKeyId>%[2]s</AccessKeyId><SecretAccessKey>s-%[2]s</SecretAccessKey><SessionToken>t-%[2]s</SessionToken>
<Expiration>%[3]s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, action, id, expires))
}

// inAWS gives the process a role by the token of a cluster.
func (n *internet) inAWS() {
	n.t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/gateway")
	n.t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", tokenFile(n.t))
	n.at("sts.eu-west-1.amazonaws.com/", func(w http.ResponseWriter, r *http.Request) {
		require.NoError(n.t, r.ParseForm())
		switch r.Form.Get("Action") {
		case "AssumeRoleWithWebIdentity":
			require.Equal(n.t, "of.the.cluster", r.Form.Get("WebIdentityToken"))
			keys("AssumeRoleWithWebIdentity", "ASIAOWN")(w, r)
		case "AssumeRole":
			require.Equal(n.t, role, r.Form.Get("RoleArn"))
			n.signed("Credential=ASIAOWN/", keys("AssumeRole", "ASIAROLE"))(w, r)
		}
	})
}

// inGoogle gives the process an identity of a pool, by the token of a cluster
// (https://google.aip.dev/auth/4117).
func (n *internet) inGoogle() {
	file := filepath.Join(n.t.TempDir(), "google.json")
	require.NoError(n.t, os.WriteFile(file, []byte(asJSON(map[string]any{
		"type": "external_account", "audience": "//iam.googleapis.com/pool",
		"token_url":          "https://sts.googleapis.com/v1/token",
		"subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
		"credential_source":  map[string]string{"file": tokenFile(n.t)}})), 0o600))
	n.t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	n.at("sts.googleapis.com/v1/token", func(w http.ResponseWriter, r *http.Request) {
		require.Equal(n.t, "of.the.cluster", r.PostFormValue("subject_token"))
		says(http.StatusOK, `{"access_token":"ya29.own","issued_token_type":"x","token_type":"Bearer","expires_in":3600}`)(w, r)
	})
	n.at("iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"+robot+":generateAccessToken",
		n.signed("Bearer ya29.own", says(http.StatusOK, `{"accessToken":"ya29.robot","expireTime":"`+expires+`"}`)))
}

// inAzure gives the process an application by the token of a cluster.
func (n *internet) inAzure() {
	const tenant = "11111111-2222-3333-4444-555555555555"
	n.t.Setenv("AZURE_TENANT_ID", tenant)
	n.t.Setenv("AZURE_CLIENT_ID", "own")
	n.t.Setenv("AZURE_FEDERATED_TOKEN_FILE", tokenFile(n.t))
	authority := "https://login.microsoftonline.com/" + tenant
	n.at("login.microsoftonline.com/common/discovery/instance", says(http.StatusOK, asJSON(map[string]any{
		"tenant_discovery_endpoint": authority + "/v2.0/.well-known/openid-configuration", "metadata": []any{map[string]any{
			"preferred_network": "login.microsoftonline.com", "preferred_cache": "login.windows.net",
			"aliases": []string{"login.microsoftonline.com"}}}})))
	n.at("login.microsoftonline.com/"+tenant+"/v2.0/.well-known/openid-configuration", says(http.StatusOK, asJSON(
		map[string]string{"issuer": authority + "/v2.0", "token_endpoint": authority + "/oauth2/v2.0/token",
			"authorization_endpoint": authority + "/oauth2/v2.0/authorize"})))
	n.at("login.microsoftonline.com/"+tenant+"/oauth2/v2.0/token", func(w http.ResponseWriter, r *http.Request) {
		require.Equal(n.t, "of.the.cluster", r.PostFormValue("client_assertion"))
		says(http.StatusOK, asJSON(map[string]any{"access_token": "eyJ." + r.PostFormValue("client_id") + "." +
			r.PostFormValue("scope"), "expires_in": 3600, "token_type": "Bearer"}))(w, r)
	})
}

func TestIdentitiesOfWorkloads(t *testing.T) {
	const azureScope = "https://cognitiveservices.azure.com/.default"
	for name, c := range map[string]struct {
		is    func(*internet)
		who   cloud.Identity
		value []string
	}{
		"AWS": {(*internet).inAWS, cloud.Identity{Cloud: configv1.AWS, Region: "eu-west-1"},
			[]string{`"AccessKeyId":"ASIAOWN"`, `"SecretAccessKey":"s-ASIAOWN"`, `"SessionToken":"t-ASIAOWN"`}},
		"a role of AWS": {(*internet).inAWS, cloud.Identity{Cloud: configv1.AWS, Region: "eu-west-1", As: role},
			[]string{`"AccessKeyId":"ASIAROLE"`}},
		"Google": {(*internet).inGoogle, cloud.Identity{Cloud: configv1.Google}, []string{"ya29.own"}},
		"a service account of Google": {(*internet).inGoogle, cloud.Identity{Cloud: configv1.Google, As: robot},
			[]string{"ya29.robot"}},
		"Azure": {(*internet).inAzure, cloud.Identity{Cloud: configv1.Azure, Scope: azureScope},
			[]string{"eyJ.own." + azureScope}},
		"another application of Azure": {(*internet).inAzure, cloud.Identity{Cloud: configv1.Azure, As: "theirs",
			Scope: azureScope}, []string{"eyJ.theirs."}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			c.is(n)
			got, until, err := (&cloud.Clouds{HTTP: n.http}).Credential(t.Context(), c.who)
			require.NoError(t, err)
			for _, part := range c.value {
				require.Contains(t, got.Reveal(), part)
			}
			require.Greater(t, time.Until(until), 50*time.Minute)
		})
	}
}

func TestAnIdentityThatIsRefusedIsAnError(t *testing.T) {
	n := newInternet(t)
	n.inAWS()
	n.at("sts.eu-west-1.amazonaws.com/", says(http.StatusForbidden,
		`<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not authorized</Message></Error></ErrorResponse>`))
	_, _, err := (&cloud.Clouds{HTTP: n.http}).Credential(t.Context(), cloud.Identity{Cloud: configv1.AWS,
		Region: "eu-west-1"})
	require.ErrorContains(t, err, "AccessDenied")
	_, _, err = (&cloud.Clouds{HTTP: n.http}).Credential(t.Context(), cloud.Identity{})
	require.ErrorContains(t, err, "no identities")
}

// managers has one secret in each cloud.
func (n *internet) managers(text string) {
	n.at("secretsmanager.eu-west-1.amazonaws.com/", n.signed("Credential=ASIAOWN/", func(w http.ResponseWriter,
		r *http.Request) {
		var asked struct{ SecretId string }
		require.NoError(n.t, json.NewDecoder(r.Body).Decode(&asked))
		require.Equal(n.t, "secretsmanager.GetSecretValue", r.Header.Get("X-Amz-Target"))
		require.Equal(n.t, "prod/openai", asked.SecretId)
		says(http.StatusOK, asJSON(map[string]string{"SecretString": text}))(w, r)
	}))
	n.at("secretmanager.googleapis.com/v1/projects/acme/secrets/openai/versions/latest:access", n.signed("Bearer ya29.own",
		says(http.StatusOK, `{"payload":{"data":"`+base64.StdEncoding.EncodeToString([]byte(text))+`"}}`)))
	n.at("acme.vault.azure.net/secrets/openai", n.inVault(says(http.StatusOK, asJSON(map[string]string{"value": text}))))
	n.at("acme.vault.azure.net/secrets/openai/", n.inVault(says(http.StatusOK, asJSON(map[string]string{"value": text}))))
}

// inVault challenges a request without a token, as a key vault does.
func (n *internet) inVault(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Bearer authorization="https://login.microsoftonline.com/`+
				os.Getenv("AZURE_TENANT_ID")+`", resource="https://vault.azure.net"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		n.signed("Bearer eyJ.own.https://vault.azure.net/.default", answer)(w, r)
	}
}

func TestSecretsInManagers(t *testing.T) {
	n := newInternet(t)
	n.inAWS()
	n.inGoogle()
	n.inAzure()
	n.managers(` {"key":"sk-1","port":5} `)
	s := cloud.NewSecrets(&cloud.Clouds{HTTP: n.http})
	names := []string{"aws/eu-west-1/prod/openai", "google/acme/openai", "azure/acme/openai"}
	for _, name := range names {
		found, err := s.Read(t.Context(), name)
		require.NoError(t, err, name)
		v, err := found.Fields.Get(name, "key")
		require.NoError(t, err)
		require.Equal(t, "sk-1", v.Reveal())
		v, err = found.Fields.Get(name, "")
		require.NoError(t, err)
		require.Equal(t, `{"key":"sk-1","port":5}`, v.Reveal())
		_, err = found.Fields.Get(name, "port")
		require.EqualError(t, err, name+": the field port is not a text")
		_, err = found.Fields.Get(name, "none")
		require.EqualError(t, err, name+": the secret has no field none")
	}
	n.managers("sk-2\n")
	for _, name := range names {
		found, err := s.Read(t.Context(), name)
		require.NoError(t, err, name)
		v, err := found.Fields.Get(name, "")
		require.NoError(t, err)
		require.Equal(t, "sk-2", v.Reveal(), "it is read again")
	}
}

func TestASecretThatAManagerRefuses(t *testing.T) {
	n := newInternet(t)
	n.inAWS()
	n.inGoogle()
	n.inAzure()
	s := cloud.NewSecrets(&cloud.Clouds{HTTP: n.http})
	const inAWS, inGoogle = "secretsmanager.eu-west-1.amazonaws.com/",
		"secretmanager.googleapis.com/v1/projects/acme/secrets/openai/versions/7:access"
	for name, c := range map[string]struct {
		place, secret string
		answer        http.HandlerFunc
		says          string
		refused       bool
	}{
		"none in AWS": {inAWS, "aws/eu-west-1/prod/openai", says(400,
			`{"__type":"ResourceNotFoundException","Message":"Secrets Manager can't find it."}`),
			"AWS Secrets Manager answers ResourceNotFoundException: Secrets Manager can't find it.", true},
		"denied by AWS": {inAWS, "aws/eu-west-1/prod/openai", says(400,
			`{"__type":"AccessDeniedException","Message":"not authorized"}`), "AccessDeniedException: not authorized", true},
		"AWS is not well": {inAWS, "aws/eu-west-1/prod/openai", says(400,
			`{"__type":"InternalServiceError","Message":"later"}`), "InternalServiceError: later", false},
		"none in Google": {inGoogle, "google/acme/openai/7", says(404,
			`{"error":{"code":404,"message":"Secret not found.","status":"NOT_FOUND"}}`),
			"Google Secret Manager answers 404: NOT_FOUND: Secret not found.", true},
		"Google is not well": {inGoogle, "google/acme/openai/7", says(503, `busy`), "answers 503", false},
		"no payload":         {inGoogle, "google/acme/openai/7", says(200, `{}`), "not JSON with a payload", false},
		"none in Azure": {"acme.vault.azure.net/secrets/openai/7", "azure/acme/openai/7", n.inVault(says(404,
			`{"error":{"code":"SecretNotFound","message":"none"}}`)), "Azure Key Vault answers 404: SecretNotFound", true},
		"no name": {"", "aws/openai", nil, "must be aws/REGION/NAME", true},
	} {
		t.Run(name, func(t *testing.T) {
			n.at(c.place, c.answer)
			_, err := s.Read(t.Context(), c.secret)
			require.ErrorContains(t, err, c.says)
			var refused *secretstore.RefusedError
			require.Equal(t, c.refused, errors.As(err, &refused))
		})
	}
}
