package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/modelgate/modelgate/internal/httpapi"
)

//go:embed static
var staticFiles embed.FS

// policy lets a page load what is served with it, and nothing from elsewhere or within itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Bounds of how slowly a browser may send a request and take its answer.
const (
	readTimeout  = time.Minute
	writeTimeout = 90 * time.Second
)

// secured refuses what other sites send, and sets the headers of every page.
func (d *Dashboard) secured(next http.Handler) http.Handler {
	// Sec-Fetch-Site or Origin must say that a form is our own; the token in the form says so besides.
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.site.Visit(r, themeOf(r)).ShowError(w, r, errForm)
	}))
	checked := origin.Handler(next)
	return httpapi.Recover(d.config.Log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control, now := http.NewResponseController(w), time.Now()
		// Every server that the dashboard is served by has both.
		_ = control.SetReadDeadline(now.Add(readTimeout))
		_ = control.SetWriteDeadline(now.Add(writeTimeout))
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		// Not no-referrer: browsers would send no Origin either.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		checked.ServeHTTP(w, r)
	}))
}

// static serves the embedded files. Pages name them with their version, so that browsers may keep them.
func static() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		if info, err := fs.Stat(staticFiles, name); err != nil || info.IsDir() {
			http.NotFound(w, r)
			return
		}
		if r.URL.RawQuery != "" && "/"+name+"?"+r.URL.RawQuery == staticURL(path.Base(name)) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		} else {
			w.Header().Set("Cache-Control", "no-cache")
		}
		http.ServeFileFS(w, r, staticFiles, name)
	})
}

// staticURL returns the address of an embedded file, with its version.
func staticURL(name string) string {
	content, err := staticFiles.ReadFile("static/" + name)
	if err != nil {
		return "/static/" + name
	}
	sum := sha256.Sum256(content)
	return "/static/" + name + "?v=" + hex.EncodeToString(sum[:6])
}
