package inspect

import (
	"context"
	"io"
	"os"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/cmd/modelgate/explain"
)

// ExplainCmd is the command explain.
type ExplainCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	KeyID     string `aliases:"key" placeholder:"ID" predictor:"keys" help:"Id or name of the key for the request. Default: a key without limits."`
	Operation string `default:"chat/completions" placeholder:"PATH" help:"Operation, as its path under /v1/ (${default})."`
	Address   string `placeholder:"IP" help:"Source address of the request. Default: an address that the key allows."`
	Request   string `arg:"" help:"JSON file with the request, or - for standard input."`
}

// Help is shown below the flags' summary.
func (ExplainCmd) Help() string {
	return `The command calls no provider and counts nothing. It exits with 3 if the request would be refused.

Example:
  echo '{"model":"smart","messages":[{"role":"user","content":"hi"}]}' | modelgate explain --key-id key_01JD... -`
}

// Run prints what the gateway would do with a request.
func (c ExplainCmd) Run(ctx context.Context, stdout io.Writer) error {
	if strings.HasPrefix(c.KeyID, "sk-") {
		return admincli.Misused("--key-id is the id of a key, such as key_01JD...; modelgate key list shows it. Keys themselves do not belong on a command line")
	}
	body, err := cmdline.ReadFile(c.Request, os.Stdin)
	if err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	if c.KeyID, err = adminflags.IDOf(ctx, client, configv1.KeyKind(), c.KeyID); err != nil {
		return err
	}
	e, err := explain.New(ctx, client, c.KeyID, c.Address)
	if err != nil {
		return admincli.Said(err)
	}
	x, err := e.Explain(ctx, strings.Trim(strings.TrimPrefix(strings.TrimPrefix(c.Operation, "/"), "v1/"), "/"), body)
	if err != nil {
		return err
	}
	if err := c.Show(stdout, x, x.Table); err != nil {
		return err
	}
	if x.Refused != nil {
		return cmdline.ErrRefused
	}
	return nil
}
