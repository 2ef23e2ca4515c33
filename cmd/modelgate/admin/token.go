package admin

import (
	"context"
	"io"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// TokenCmd is the command token.
type TokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token for the admin API. It is shown only once."`
	List   tokenListCmd   `cmd:"" help:"List the tokens."`
	Revoke tokenRevokeCmd `cmd:"" help:"Delete a token. It stops working immediately, and this cannot be undone."`
}

type tokenCreateCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Name             string   `required:"" help:"Display name of the token."`
	Scopes           []string `required:"" placeholder:"SCOPE" predictor:"scopes" help:"Scopes, separated by commas: config:read, config:write, keys:read, keys:write, usage:read, jobs:read, jobs:write, audit:read, status:read, admins:read, admins:write, playground, bodies:read, bodies:delete, scim, or * for everything but bodies:read."`
	IdentityProvider string   `name:"identity-provider" placeholder:"NAME" help:"IdentityProvider whose SCIM client the token is for. It goes with the scope scim, which stands alone."`
	Organization     string   `placeholder:"NAME" help:"Restrict the token to an organization. It can then have the scopes config, keys, usage, jobs and admins."`
	Project          string   `placeholder:"NAME" help:"Restrict the token to a project of the organization."`
	Expires          string   `placeholder:"WHEN" help:"When the token expires: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h. Default: never."`
}

// Help is shown below the flags' summary.
func (tokenCreateCmd) Help() string {
	return "Example:\n  modelgate token create --name metrics --scopes usage:read,status:read --expires 2160h -o json"
}

// Run creates a token and prints it.
func (c tokenCreateCmd) Run(ctx context.Context, stdout io.Writer) error {
	expires, err := parseExpires(c.Expires)
	if err != nil {
		return err
	}
	call := func(client *adminapi.Client) (adminapi.NewToken, error) {
		return client.CreateToken(ctx, adminapi.TokenRequest{DisplayName: c.Name, Scopes: c.Scopes,
			ExpiresAt: expires, IdentityProvider: c.IdentityProvider, Organization: c.Organization, Project: c.Project})
	}
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, token adminapi.NewToken) {
			out.Printf("Id     %s\nToken  %s\n\nKeep the token now: it is stored only as a hash and cannot be shown again.\n", token.ID,
				token.Token)
		})
}

type tokenListCmd struct {
	adminflags.AdminFlags
	adminflags.ItemFlags
}

// Run lists the tokens.
func (c tokenListCmd) Run(ctx context.Context, stdout io.Writer) error {
	return listObjects(ctx, stdout, c.AdminFlags, c.ItemFlags, adminflags.TokenKind(), adminapi.ListOptions{})
}

type tokenRevokeCmd struct {
	adminflags.AdminFlags
	ID string `arg:"" help:"Id or name of the token."`
}

// Run revokes a token.
func (c tokenRevokeCmd) Run(ctx context.Context, stdout io.Writer) error {
	return deleteObject(ctx, stdout, c.AdminFlags, nil, adminflags.TokenKind(), c.ID, "Token", "revoked")
}
