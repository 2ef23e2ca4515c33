package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Admin talks to the admin interface of one Envoy over its Unix socket. It is safe for concurrent use.
type Admin struct{ client *http.Client }

// NewAdmin returns a client for the admin interface at the socket. Nothing is opened before the first call, and no
// connection is kept.
func NewAdmin(socket string) *Admin {
	return &Admin{client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// Ready returns nil when Envoy has its configuration and takes requests.
func (a *Admin) Ready(ctx context.Context) error {
	_, err := a.do(ctx, http.MethodGet, "/ready")
	return err
}

// Listeners returns the address that each listener is bound to, by the listener's name. Those on Unix sockets are left
// out.
func (a *Admin) Listeners(ctx context.Context) (map[string]netip.AddrPort, error) {
	body, err := a.do(ctx, http.MethodGet, "/listeners?format=json")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Statuses []struct {
			Name    string `json:"name"`
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    uint16 `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("reading Envoy's listeners: %w", err)
	}
	bound := make(map[string]netip.AddrPort, len(answer.Statuses))
	for _, s := range answer.Statuses {
		if addr, err := netip.ParseAddr(s.Address.Socket.Address); err == nil {
			bound[s.Name] = netip.AddrPortFrom(addr, s.Address.Socket.Port)
		}
	}
	return bound, nil
}

// Stats returns the counters and gauges whose names match the regular expression, which is Envoy's (RE2).
func (a *Admin) Stats(ctx context.Context, filter string) (map[string]int64, error) {
	body, err := a.do(ctx, http.MethodGet, "/stats?format=json&filter="+url.QueryEscape(filter))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Stats []struct {
			Name  string `json:"name"`
			Value *int64 `json:"value"` // absent in the entry that holds the histograms
		} `json:"stats"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("reading Envoy's stats: %w", err)
	}
	values := make(map[string]int64, len(answer.Stats))
	for _, s := range answer.Stats {
		if s.Value != nil {
			values[s.Name] = *s.Value
		}
	}
	return values, nil
}

// ActiveRequests returns how many requests Envoy is serving, its admin interface apart.
func (a *Admin) ActiveRequests(ctx context.Context) (int64, error) {
	values, err := a.Stats(ctx, `^http\..*\.downstream_rq_active$`)
	if err != nil {
		return 0, err
	}
	var total int64
	for name, value := range values {
		if !strings.HasPrefix(name, "http.admin.") {
			total += value
		}
	}
	return total, nil
}

// FailHealthCheck has Envoy say in every answer that its connection ends, and answer that it is not ready. It still
// takes new connections.
func (a *Admin) FailHealthCheck(ctx context.Context) error {
	_, err := a.do(ctx, http.MethodPost, "/healthcheck/fail")
	return err
}

// PassHealthCheck takes FailHealthCheck back.
func (a *Admin) PassHealthCheck(ctx context.Context) error {
	_, err := a.do(ctx, http.MethodPost, "/healthcheck/ok")
	return err
}

// DrainListeners has Envoy say in every answer that its connection ends, and take no new connections. Requests that
// are being served go on.
func (a *Admin) DrainListeners(ctx context.Context) error {
	// Failing the health check is what ends kept-alive connections after their current request.
	if err := a.FailHealthCheck(ctx); err != nil {
		return err
	}
	_, err := a.do(ctx, http.MethodPost, "/drain_listeners")
	return err
}

// Prometheus returns the statistics whose names, as Envoy has them, match the regular expression (RE2), in
// Prometheus's text format. Those that were never set are left out. The caller closes what it reads.
func (a *Admin) Prometheus(ctx context.Context, filter string) (io.ReadCloser, error) {
	answer, err := a.ask(ctx, http.MethodGet, "/stats/prometheus?usedonly&filter="+url.QueryEscape(filter))
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

func (a *Admin) do(ctx context.Context, method, path string) ([]byte, error) {
	answer, err := a.ask(ctx, method, path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("reading %s of Envoy's admin interface: %w", path, err)
	}
	return body, nil
}

// ask returns an answer with status 200, whose body the caller closes.
func (a *Admin) ask(ctx context.Context, method, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://envoy"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking Envoy's admin interface: %w", err)
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("asking Envoy's admin interface: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 100)) // what is missing of it is not worth another error
		answer.Body.Close()
		return nil, fmt.Errorf("%s of Envoy's admin interface answers %d: %s", path, answer.StatusCode, body)
	}
	return answer, nil
}
