package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azsecrets"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/secretstore"
)

// maxSecret bounds an answer of Google, in bytes. Secrets have at most 64 KiB.
const maxSecret = 256 << 10

// Secrets are those in the secret managers of the clouds. It implements [secretstore.Store], with names as
// configv1.ManagedSecret has them for paths.
type Secrets struct {
	clouds *Clouds

	mu     sync.Mutex // guards what follows: clients, which keep the tokens that they sign in with
	aws    map[string]*secretsmanager.Client
	azure  map[string]*azsecrets.Client
	google *http.Client
}

// NewSecrets returns the secrets that the identities may read.
func NewSecrets(c *Clouds) *Secrets {
	return &Secrets{clouds: c, aws: map[string]*secretsmanager.Client{}, azure: map[string]*azsecrets.Client{}}
}

// Read reads a secret by its name.
func (s *Secrets) Read(ctx context.Context, name string) (secretstore.Found, error) {
	n, err := configv1.ParseSecretName(name)
	if err != nil {
		return secretstore.Found{}, &secretstore.RefusedError{Err: err}
	}
	var text string
	switch n.Cloud {
	case configv1.AWS:
		text, err = s.readAWS(ctx, n)
	case configv1.Google:
		text, err = s.readGoogle(ctx, n)
	default:
		text, err = s.readAzure(ctx, n)
	}
	if err != nil {
		return secretstore.Found{}, err
	}
	return secretstore.Found{Fields: secretstore.Text(text)}, nil
}

// Tend does nothing: each client renews what it is signed in with.
func (s *Secrets) Tend(context.Context) bool { return false }

func (s *Secrets) readAWS(ctx context.Context, n configv1.SecretName) (string, error) {
	const manager = "AWS Secrets Manager"
	client, err := remembered(&s.mu, s.aws, n.Place, func() (*secretsmanager.Client, error) {
		settings, err := s.clouds.aws(ctx, n.Place)
		return secretsmanager.NewFromConfig(settings), err
	})
	if err != nil {
		return "", err
	}
	got, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &n.Name})
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		// The library's own text has the number of the request, which differs each time.
		err = fmt.Errorf("%s answers %s: %s", manager, e.ErrorCode(), e.ErrorMessage())
		switch e.ErrorCode() {
		case "ResourceNotFoundException", "AccessDeniedException", "InvalidRequestException", "DecryptionFailure":
			return "", &secretstore.RefusedError{Err: err}
		}
		return "", err
	}
	if err != nil {
		return "", secretstore.Explained(manager, err)
	}
	if got.SecretString == nil {
		return string(got.SecretBinary), nil
	}
	return aws.ToString(got.SecretString), nil
}

// readGoogle asks the API that is described at
// https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/access.
func (s *Secrets) readGoogle(ctx context.Context, n configv1.SecretName) (string, error) {
	const manager = "Google Secret Manager"
	client, err := s.googleClient()
	if err != nil {
		return "", err
	}
	if n.Version == "" {
		n.Version = "latest"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf(
		"https://secretmanager.googleapis.com/v1/projects/%s/secrets/%s/versions/%s:access", n.Place, n.Name, n.Version), nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(r)
	if err != nil {
		return "", secretstore.Explained(manager, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxSecret))
	if err != nil {
		return "", secretstore.Explained(manager, err)
	}
	var a struct {
		Payload *struct{ Data []byte }
		Error   struct{ Status, Message string }
	}
	err = json.Unmarshal(text, &a)
	switch {
	case response.StatusCode != http.StatusOK:
		return "", answered(manager, response.StatusCode, a.Error.Status+": "+a.Error.Message)
	case err != nil || a.Payload == nil:
		return "", fmt.Errorf("the answer of %s is not JSON with a payload", manager)
	}
	return string(a.Payload.Data), nil
}

func (s *Secrets) googleClient() (*http.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.google != nil {
		return s.google, nil
	}
	found, err := s.clouds.google("")
	if err != nil {
		return nil, err
	}
	s.google, err = s.clouds.googleClient(found)
	return s.google, err
}

func (s *Secrets) readAzure(ctx context.Context, n configv1.SecretName) (string, error) {
	const manager = "Azure Key Vault"
	client, err := remembered(&s.mu, s.azure, n.Place, func() (*azsecrets.Client, error) {
		who, err := s.clouds.azure("")
		if err != nil {
			return nil, err
		}
		return azsecrets.NewClient("https://"+n.Place+".vault.azure.net", who,
			&azsecrets.ClientOptions{ClientOptions: s.clouds.azureOptions()})
	})
	if err != nil {
		return "", err
	}
	got, err := client.GetSecret(ctx, n.Name, n.Version, nil)
	if e, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return "", answered(manager, e.StatusCode, e.ErrorCode)
	}
	if err != nil {
		return "", secretstore.Explained(manager, err)
	}
	if got.Value == nil {
		return "", nil
	}
	return *got.Value, nil
}

// remembered returns the client of a place, which is made once.
func remembered[C any](mu *sync.Mutex, clients map[string]C, place string, make func() (C, error)) (C, error) {
	mu.Lock()
	defer mu.Unlock()
	if c, ok := clients[place]; ok {
		return c, nil
	}
	c, err := make()
	if err == nil {
		clients[place] = c
	}
	return c, err
}

// answered returns the error of an answer that is none of a secret.
func answered(manager string, status int, says string) error {
	err := fmt.Errorf("%s answers %d: %s", manager, status, says)
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound:
		return &secretstore.RefusedError{Err: err}
	}
	return err
}
