package usage

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A cacheData is what the page of caches shows.
type cacheData struct {
	Span  figures.Span
	Away  string
	Worth adminapi.CacheWorth
	// Filters are those of the form, each with its value.
	Filters map[string]string
}

func cache(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	d := cacheData{Span: figures.SpanOf(v, r), Filters: map[string]string{}}
	asked := map[string]string{"start": strconv.FormatInt(d.Span.From.Unix(), 10),
		"end": strconv.FormatInt(d.Span.To.Unix(), 10)}
	for _, name := range []string{"model", "organization", "project"} {
		d.Filters[name] = strings.TrimSpace(r.URL.Query().Get(name))
		asked[name] = d.Filters[name]
	}
	var err error
	d.Worth, err = v.API.CacheWorth(r.Context(), adminapi.ListOptions{Filters: asked})
	if d.Away, err = page.Unavailable(err); err != nil {
		if message, ok := page.Refused(err); ok {
			return v.RenderStatus(w, http.StatusUnprocessableEntity, "cache", "Cache", d, message)
		}
		return err
	}
	return v.Render(w, "cache", "Cache", d)
}

// duration writes milliseconds as people read them: of a long time, the seconds are enough.
func duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d > time.Minute {
		d = d.Round(time.Second)
	}
	return d.String()
}
