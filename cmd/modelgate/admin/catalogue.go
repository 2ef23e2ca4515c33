package admin

import (
	"context"
	"io"
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// CatalogueCmd is the command catalogue.
type CatalogueCmd struct {
	adminflags.AdminFlags
	adminflags.OutputFlags
	Words      []string `arg:"" optional:"" help:"Words that must be in the names of vendor and model. Default: all models."`
	Vendor     string   `placeholder:"NAME" help:"Only models of this vendor."`
	Capability string   `placeholder:"WORD" help:"Only models with this capability or modality, such as reasoning, web_search, image or vector."`
	Served     bool     `help:"Only models that a provider of the gateway serves."`
}

// Help is shown below the flags' summary.
func (CatalogueCmd) Help() string {
	return `Prices are US dollars for a million tokens. A model with "*" stands for its versions. Models that are not in the
catalogue can be used too, but without limits in money.

Examples:
  modelgate catalogue gemini flash
  modelgate catalogue --capability image --served`
}

// Run lists models.
func (c CatalogueCmd) Run(ctx context.Context, stdout io.Writer) error {
	o := adminapi.ListOptions{Query: strings.Join(c.Words, " "),
		Filters: map[string]string{"vendor": c.Vendor, "capability": c.Capability}}
	if c.Served {
		o.Filters["served"] = "true"
	}
	call := func(client *adminapi.Client) (adminapi.Catalogue, error) { return client.Catalogue(ctx, o) }
	return adminflags.Ask(ctx, c.AdminFlags, c.OutputFlags, stdout, call,
		func(out *console.Text, all adminapi.Catalogue) {
			header := []string{"MODEL", "VENDOR", "TAKES", "CAN", "CONTEXT", "INPUT", "OUTPUT", "PROVIDERS", "RETIRES"}
			out.Table("No model matches.", header, admincli.Rows(all.Items, modelCells))
		})
}

func modelCells(m adminapi.CatalogueModel) []string {
	name, context, retires := m.Name, "", ""
	if !m.Exact && !strings.Contains(name, "*") {
		name += "*"
	}
	if m.ContextTokens > 0 {
		context = strconv.FormatInt(m.ContextTokens, 10)
	}
	if m.RetiresAt != nil {
		retires = m.RetiresAt.Format("2006-01-02")
	}
	return []string{
		name, m.Vendor, strings.Join(m.Inputs, " "), strings.Join(m.Capabilities, " "), context,
		m.InputUSD, m.OutputUSD, strings.Join(m.Providers, " "), retires,
	}
}
