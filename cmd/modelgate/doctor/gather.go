package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/datadir"
)

const (
	// examined is of how many keys the consumption is asked for.
	examined = 200
	// askers is how many questions are asked at once.
	askers = 8
)

// A patient is everything that the checks look at. What could not be found out is the zero value, or an error that
// says why.
type patient struct {
	now  time.Time
	data string // the data folder, empty if the gateway is on another machine

	// Of the data folder.
	there      bool
	modes      map[string]fs.FileMode // of what must be secret
	free, size uint64                 // bytes of the file system
	envoy      error                  // why there is no Envoy that can be run here

	// Of the admin address.
	connect error // why it is not known or cannot be reached
	ready   string
	says    []string           // what is wrong though it is ready, as lines of /readyz
	skew    time.Duration      // its clock ahead of ours
	metrics map[string]float64 // by name

	// Of the gateway's address.
	url   string
	host  string // that clients call it by
	chain []*x509.Certificate
	shown error // why it shows none

	// Of the admin API.
	items  map[string][]adminapi.Item // by kind
	store  error                      // why they cannot be read
	plane  *adminapi.DataPlane
	ledger error
	tests  map[string]adminapi.ProviderTest // by provider
	people map[string]adminapi.IdentityTest // by identity provider
	used   map[string]adminapi.Consumption  // by key
	quotas []adminapi.TenantQuotas
	health []adminapi.ProviderHealth
	told   []adminapi.AlertReceiverStatus // of alerts

	attention []adminapi.Attention
	incidents []adminapi.Incident // that are open
}

// Options say what is examined.
type Options struct {
	Data    string                        // the data folder, empty if the gateway is on another machine
	Host    string                        // that clients call the gateway by; empty: that of its URL
	Test    bool                          // every provider is asked once
	Connect func() (admincli.Conn, error) // finds the admin API
}

// Examine looks for what is wrong and returns it, the worst first.
func Examine(ctx context.Context, o Options) []Finding { return examine(gather(ctx, o)) }

// gather finds out what there is to be known.
func gather(ctx context.Context, o Options) *patient {
	p := &patient{now: time.Now(), data: o.Data, items: map[string][]adminapi.Item{}}
	if o.Data != "" {
		p.folder(ctx)
	}
	conn, err := o.Connect()
	if err != nil {
		p.connect = err
		return p
	}
	p.address(ctx, conn)
	p.gateway(ctx, o)
	if p.connect == nil {
		p.api(ctx, adminapi.NewClient(conn.Server, conn.Token, conn.HTTP), o.Test)
	}
	return p
}

// folder looks at the data folder, and at what else of this machine a gateway needs.
func (p *patient) folder(ctx context.Context) {
	p.modes = map[string]fs.FileMode{}
	for _, name := range []string{".", datadir.FilePepper, datadir.FileAdminToken, datadir.FileKey, certs.FileCAKey,
		certs.FileServerKey} {
		if info, err := os.Stat(filepath.Join(p.data, name)); err == nil {
			p.modes[name], p.there = info.Mode().Perm(), true
		}
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(p.data, &s); err == nil {
		p.free, p.size = s.Bavail*uint64(s.Bsize), s.Blocks*uint64(s.Bsize)
	}
	_, p.envoy = process.Find(ctx, "")
}

// address asks the process at the admin address whether it serves, and what time it is there.
func (p *patient) address(ctx context.Context, conn admincli.Conn) {
	asked := time.Now()
	status, text, header, err := admincli.Fetch(ctx, conn, "/readyz")
	if err != nil {
		p.connect = err
		return
	}
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		between := asked.Add(time.Since(asked) / 2)
		p.skew = at.Add(time.Second / 2).Sub(between) // the header has whole seconds
	}
	p.ready, p.says = adminapi.Readyz(status, text)
	p.metrics = admincli.Samples(ctx, conn)
}

// gateway looks at the certificate that clients see.
func (p *patient) gateway(ctx context.Context, o Options) {
	if p.data == "" {
		return
	}
	text, err := os.ReadFile(filepath.Join(p.data, datadir.FileURL))
	if err != nil {
		return
	}
	p.url = strings.TrimSpace(string(text))
	at, err := url.Parse(p.url)
	if err != nil {
		p.shown = err
		return
	}
	if p.host = at.Hostname(); o.Host != "" {
		p.host = o.Host
	}
	// Whatever it shows: that is what is to be looked at.
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true,
		ServerName: p.host}}
	connection, err := dialer.DialContext(ctx, "tcp", at.Host)
	if err != nil {
		p.shown = err
		return
	}
	p.chain = connection.(*tls.Conn).ConnectionState().PeerCertificates
	_ = connection.Close() // nothing was sent
}

// api asks the admin API.
func (p *patient) api(ctx context.Context, client *adminapi.Client, test bool) {
	for _, kind := range configv1.Kinds() {
		items, err := admincli.ListAll(ctx, client, kind, adminapi.ListOptions{})
		if err != nil {
			p.store = err
			return
		}
		p.items[kind.Name] = items
	}
	if plane, err := client.DataPlane(ctx); err == nil {
		p.plane = &plane
	}
	if page, err := client.Quotas(ctx, adminapi.ListOptions{}); err == nil {
		p.quotas = page.Items
	}
	if all, err := client.Alerts(ctx); err == nil { // else it has none, or the token may not see them
		p.told = all.Receivers
	}
	if all, err := client.Attention(ctx); err == nil {
		p.attention = all.Items
	}
	if all, err := client.Incidents(ctx); err == nil {
		p.incidents = all.Items
	}
	_, p.ledger = client.Summary(ctx, adminapi.ListOptions{Filters: map[string]string{
		"start": strconv.FormatInt(p.now.Add(-admincli.Recently).Unix(), 10), "end": strconv.FormatInt(p.now.Unix(), 10),
	}})
	p.people = askEach(namesOf(objects[*configv1.IdentityProvider](p), (*configv1.IdentityProvider).GetDisabled),
		func(name string) (adminapi.IdentityTest, error) {
			return client.TestIdentity(ctx, name)
		})
	if test {
		p.tests = askEach(namesOf(objects[*configv1.Provider](p), (*configv1.Provider).GetDisabled),
			func(name string) (adminapi.ProviderTest, error) {
				return client.TestProvider(ctx, name)
			})
	}
	if p.ledger == nil {
		if health, err := client.Health(ctx); err == nil {
			p.health = health.Providers
		}
		keys := namesOf(objects[*configv1.Key](p), (*configv1.Key).GetDisabled)
		p.used = askEach(keys[:min(examined, len(keys))], func(id string) (adminapi.Consumption, error) {
			return client.KeyConsumption(ctx, id)
		})
	}
}

// askEach asks about several at once, and returns the answers. One that could not be given is left out.
func askEach[T any](names []string, ask func(string) (T, error)) map[string]T {
	var mu sync.Mutex // guards answers
	answers := map[string]T{}
	var g errgroup.Group
	g.SetLimit(askers)
	for _, name := range names {
		g.Go(func() error {
			answer, err := ask(name)
			if err != nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			answers[name] = answer
			return nil
		})
	}
	_ = g.Wait() // none returns one
	return answers
}

// objects returns the readable objects of a kind.
func objects[T configv1.Object](p *patient) []T {
	var none T
	var all []T
	for _, i := range p.items[configv1.KindOf(none).Name] {
		if o, ok := i.Object.(T); ok {
			all = append(all, o)
		}
	}
	return all
}

// namesOf returns the names of those objects that are not to be left out.
func namesOf[T configv1.Object](all []T, without func(T) bool) []string {
	var names []string
	for _, o := range all {
		if !without(o) {
			names = append(names, o.GetName())
		}
	}
	return names
}

// isMissing reports whether an error is that a file is not there.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
