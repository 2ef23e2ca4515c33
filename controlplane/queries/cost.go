package queries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/usage"
)

// CostOf returns how the cost of an exchange comes about, or nil if it has no price. The ledger has the version of
// the price, but only today's price is known: if the two differ, the parts are not known any more.
func (q *Service) CostOf(ctx context.Context, e *adminapi.Exchange) (*adminapi.CostSheet, error) {
	if !e.Priced {
		return nil, nil
	}
	price, err := q.priceOf(ctx, e)
	if err != nil {
		return nil, err
	}
	version, tier, _ := strings.Cut(e.PriceVersion, "/")
	if now := usage.Version(price); now != version {
		why := "The price of the model has changed since. The cost is of version " + version + " of the price."
		if price == nil {
			why = "The model has no price any more, or its provider is not configured any more. The cost is of version " +
				version + " of the price."
		}
		return &adminapi.CostSheet{Problem: why}, nil
	}
	if strings.HasPrefix(tier, "unpriced:") {
		tier = ""
	}
	rates, _ := usage.Compile(price).In(tier)
	used, err := usedBy(e)
	if err != nil {
		return nil, err
	}
	return sheetOf(e, used, rates), nil
}

// usedBy returns the usage of an exchange, whose members and those of its details are called as the kinds.
func usedBy(e *adminapi.Exchange) (used usage.Used, err error) {
	text, err := json.Marshal(e)
	if err != nil {
		return used, err
	}
	for k := range usage.All {
		path := usage.Fields[k].Column
		if k >= usage.Kinds {
			path = "detail." + path
		}
		*used.At(k) = gjson.GetBytes(text, path).Int()
	}
	used.Batch = e.Batch
	return used, nil
}

// priceOf returns the price of the model that an exchange used, by today's configuration, or nil.
func (q *Service) priceOf(ctx context.Context, e *adminapi.Exchange) (*configv1.Price, error) {
	provider, err := q.options.Store.Get(ctx, configv1.KindOf((*configv1.Provider)(nil)), e.Provider)
	if errors.Is(err, configstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known, err := catalogIn(ctx, q.options.Store)
	if err != nil {
		return nil, err
	}
	p, _ := provider.Object.(*configv1.Provider)
	return catalog.PriceAt(known.Facts(p.GetVendor(), e.Upstream), e.Start), nil
}

// catalogIn returns the catalog, with what today's configuration changes in it.
func catalogIn(ctx context.Context, store *configstore.Store) (*catalog.Catalog, error) {
	own, err := store.Get(ctx, configv1.KindOf((*configv1.Catalog)(nil)), "default")
	if err != nil && !errors.Is(err, configstore.ErrNotFound) {
		return nil, err
	}
	changes, _ := own.Object.(*configv1.Catalog)
	return catalog.New(changes), nil
}

// sheetOf returns the parts of the cost of an exchange at a price.
func sheetOf(e *adminapi.Exchange, used usage.Used, rates *usage.Rates) *adminapi.CostSheet {
	fees := usage.Nano(0)
	if e.Detail != nil {
		fees, _ = usage.ParseUSD(e.Detail.FeesUSD) // empty: nothing
	}
	sheet, sum := &adminapi.CostSheet{}, usage.Nano(0)
	for _, l := range rates.Lines(used) {
		line := adminapi.CostLine{Part: l.Part, Count: l.Count, PriceUSD: l.PerMillion().String(),
			CostUSD: l.Cost().String()}
		if l.Part == usage.ImagePart {
			line.PriceUSD = l.Each().String()
		}
		sheet.Lines, sum = append(sheet.Lines, line), sum.Plus(l.Cost())
	}
	tokens, _ := rates.Cost(used)
	// More than what rounding makes of the parts.
	if off := tokens - sum; off > usage.Nano(len(sheet.Lines)) || -off > usage.Nano(len(sheet.Lines)) {
		sheet.Lines = append(sheet.Lines, adminapi.CostLine{Part: "factor", CostUSD: off.String()})
	}
	if fees > 0 {
		sheet.Lines = append(sheet.Lines, adminapi.CostLine{Part: "tools", CostUSD: fees.String()})
	}
	if cost, err := usage.ParseUSD(e.CostUSD); err != nil || cost != tokens.Plus(fees) {
		return &adminapi.CostSheet{Problem: fmt.Sprintf(
			"The parts of the cost are not recorded. By its tokens alone it would be %s US dollars.", tokens.Plus(fees))}
	}
	return sheet
}
