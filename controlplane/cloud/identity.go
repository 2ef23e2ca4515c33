// Package cloud signs in to AWS, Google Cloud and Azure with the identity that the process has there, such as the role
// of a service account of Kubernetes. With it, it obtains tokens for providers, and reads secrets.
//
// Each vendor's own library finds the identity, from the variables, files and metadata servers that its documentation
// names.
package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/credentials/impersonate"
	"cloud.google.com/go/auth/httptransport"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	// session is the name of the sessions of AWS, for its logs.
	session = "modelgate"
	// googleScope is what tokens of Google are for.
	googleScope = "https://www.googleapis.com/auth/cloud-platform"
	// lasting is how long a credential is used that does not expire: what it is read from may change.
	lasting = time.Hour
)

// Clouds are the process's identities in the clouds. The zero value is ready for use. It is safe for concurrent use.
type Clouds struct {
	// HTTP is what requests are sent with. Nil: each library's own.
	HTTP *http.Client
}

// An Identity is one that tokens are obtained for.
type Identity struct {
	Cloud string // configv1.AWS, configv1.Google or configv1.Azure
	// As is who to act as, as configv1.WorkloadIdentity has it; may be empty.
	As string
	// Region is AWS's; empty: that of the environment.
	Region string
	// Scope is what tokens of Azure are for.
	Scope string
}

// Credential returns what requests to a provider of the cloud are signed with, and until when that is valid: of AWS
// temporary access keys, in JSON as a credential_process prints it, of the others an access token.
func (c *Clouds) Credential(ctx context.Context, i Identity) (secret.Value, time.Time, error) {
	switch i.Cloud {
	case configv1.AWS:
		return c.keysOfAWS(ctx, i)
	case configv1.Google:
		found, err := c.google(i.As)
		if err != nil {
			return secret.Value{}, time.Time{}, err
		}
		token, err := found.Token(ctx)
		if err != nil {
			return secret.Value{}, time.Time{}, fmt.Errorf("obtaining an access token of Google: %w", secretstore.Explained("Google", err))
		}
		return secret.New(token.Value), token.Expiry, nil
	case configv1.Azure:
		chain, err := c.azure(i.As)
		if err != nil {
			return secret.Value{}, time.Time{}, err
		}
		token, err := chain.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{i.Scope}})
		if err != nil {
			return secret.Value{}, time.Time{}, fmt.Errorf("obtaining a token of Azure: %w",
				secretstore.Explained("Azure", err))
		}
		return secret.New(token.Token), token.ExpiresOn, nil
	}
	return secret.Value{}, time.Time{}, errors.New("the vendor's cloud has no identities for workloads")
}

func (c *Clouds) keysOfAWS(ctx context.Context, i Identity) (secret.Value, time.Time, error) {
	settings, err := c.aws(ctx, i.Region)
	if err != nil {
		return secret.Value{}, time.Time{}, err
	}
	source := settings.Credentials
	if i.As != "" {
		source = stscreds.NewAssumeRoleProvider(sts.NewFromConfig(settings), i.As,
			func(o *stscreds.AssumeRoleOptions) { o.RoleSessionName = session })
	}
	keys, err := source.Retrieve(ctx)
	if err != nil {
		return secret.Value{}, time.Time{}, fmt.Errorf("obtaining access keys of AWS: %w", secretstore.Explained("AWS", err))
	}
	text, err := json.Marshal(map[string]any{"Version": 1, "AccessKeyId": keys.AccessKeyID,
		"SecretAccessKey": keys.SecretAccessKey, "SessionToken": keys.SessionToken})
	if err != nil {
		return secret.Value{}, time.Time{}, err
	}
	if !keys.CanExpire {
		return secret.New(string(text)), time.Now().Add(lasting), nil
	}
	return secret.New(string(text)), keys.Expires, nil
}

// aws returns what a client of AWS begins with.
func (c *Clouds) aws(ctx context.Context, region string) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{config.WithRegion(region)}
	if c.HTTP != nil {
		options = append(options, config.WithHTTPClient(c.HTTP))
	}
	settings, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("reading the settings of AWS: %w", err)
	}
	return settings, nil
}

// google returns the process's credentials, or the credentials of a service account that it impersonates.
func (c *Clouds) google(as string) (*auth.Credentials, error) {
	own, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{googleScope}, Client: c.HTTP})
	if err == nil && as != "" {
		var client *http.Client
		if client, err = c.googleClient(own); err == nil {
			own, err = impersonate.NewCredentials(&impersonate.CredentialsOptions{TargetPrincipal: as,
				Scopes: []string{googleScope}, Client: client})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("finding the identity at Google: %w", err)
	}
	return own, nil
}

// googleClient returns a client whose requests have a token of the credentials.
func (c *Clouds) googleClient(of *auth.Credentials) (*http.Client, error) {
	options := &httptransport.Options{Credentials: of, DisableTelemetry: true}
	if c.HTTP != nil {
		options.BaseRoundTripper = c.HTTP.Transport
	}
	return httptransport.NewClient(options)
}

// azure returns the credentials that a service may have: of variables, of a federated token or of a managed identity.
// Those of a developer's tools are not among them.
func (c *Clouds) azure(as string) (azcore.TokenCredential, error) {
	options := c.azureOptions()
	var chain []azcore.TokenCredential
	if as == "" {
		if one, err := azidentity.NewEnvironmentCredential(
			&azidentity.EnvironmentCredentialOptions{ClientOptions: options}); err == nil {
			chain = append(chain, one)
		}
	}
	if one, err := azidentity.NewWorkloadIdentityCredential(
		&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options, ClientID: as}); err == nil {
		chain = append(chain, one)
	}
	managed := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: options}
	if as != "" {
		managed.ID = azidentity.ClientID(as)
	}
	one, err := azidentity.NewManagedIdentityCredential(managed)
	if err != nil {
		return nil, fmt.Errorf("finding the identity at Azure: %w", err)
	}
	return azidentity.NewChainedTokenCredential(append(chain, one), nil)
}

func (c *Clouds) azureOptions() policy.ClientOptions {
	options := policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: 1}}
	if c.HTTP != nil {
		options.Transport = c.HTTP
	}
	return options
}
