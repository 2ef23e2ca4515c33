package keys

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

const day = 24 * time.Hour

// A traffic is what keys did in a time. It is empty for those who may not know.
type traffic struct {
	adminapi.KeyTraffic
	Known bool
	Away  string
}

func trafficOf(v *page.Visit, r *http.Request, from, to time.Time, keys ...string) (t traffic, err error) {
	if !v.Principal.May(authz.UsageRead) {
		return t, nil
	}
	t.KeyTraffic, err = v.API.KeyTraffic(r.Context(), url.Values{"key": keys,
		"start": {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)}})
	t.Away, err = page.Unavailable(err)
	t.Known = err == nil && t.Away == ""
	return t, err
}

// Of returns what one key did.
func (t traffic) Of(key string) adminapi.KeyUse {
	for _, use := range t.Items {
		if use.Key == key {
			return use
		}
	}
	return adminapi.KeyUse{Key: key, CostUSD: "0"}
}

// Requests returns the address of the refused requests of a group.
func (t traffic) Requests(of adminapi.RejectedKey) string {
	q := url.Values{"outcome": {"rejected"}}
	switch {
	case of.Key != "":
		q.Set("key", of.Key)
	case of.Hint != "":
		q.Set("key_hint", of.Hint)
	default:
		q.Set("refused_by", "unknown key")
	}
	return "/requests?" + q.Encode()
}
