// Package admincli has the common parts of commands that talk to a running gateway: the connection, the names of its
// files and metrics, and the output of results.
//
// It has no flags. A command reads its flags and makes a Conn.
package admincli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// PageSize is how many objects are asked for at once.
const PageSize = 500

// A Conn is how the admin API is reached.
type Conn struct {
	Server, Token string
	HTTP          *http.Client
}

// Said reduces an error of the admin API to what a person has to know and do: a status does not help them.
func Said(err error) error {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return errors.New(e.Message)
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w (give the authority of the admin API's certificate with --ca; modelgate run writes it to ca.crt in the data folder)", err)
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%w (is the gateway running? modelgate doctor finds the cause)", err)
	}
	return err
}

// ListAll returns all objects of a kind that the options choose, page by page.
func ListAll(ctx context.Context, client *adminapi.Client, kind configv1.Kind,
	o adminapi.ListOptions) ([]adminapi.Item, error) {
	var all []adminapi.Item
	o.Limit = PageSize
	for {
		page, err := client.ListPage(ctx, kind, o)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" || page.Next == o.After {
			return all, nil
		}
		o.After = page.Next
	}
}

// Objects returns all objects of a type that can be read.
func Objects[T configv1.Object](ctx context.Context, client *adminapi.Client) ([]T, error) {
	var none T
	items, err := ListAll(ctx, client, configv1.KindOf(none), adminapi.ListOptions{})
	var all []T
	for _, i := range items {
		if o, ok := i.Object.(T); ok {
			all = append(all, o)
		}
	}
	return all, err
}

// Metrics of the spool of records for the ledger.
const (
	MetricBacklog = "modelgate_ledger_backlog_records"
	MetricDropped = "modelgate_ledger_dropped_total"
	MetricWaiting = "modelgate_ledger_waiting_bytes"
)

// LongBacklog is how many records wait at most while the ledger keeps up.
const LongBacklog = 10_000

// Fetch reads what anybody may read at the admin address.
func Fetch(ctx context.Context, conn Conn, path string) (status int, body []byte, header http.Header, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, conn.Server+path, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	resp, err := conn.HTTP.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return resp.StatusCode, body, resp.Header, err
}

// A Metric is a sample of one.
type Metric struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// Metrics returns the metrics of the process at the admin address. There are none if they cannot be read.
func Metrics(ctx context.Context, conn Conn) (all []Metric) {
	status, text, _, err := Fetch(ctx, conn, "/metrics")
	if err != nil || status != http.StatusOK {
		return nil
	}
	labels := regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		// name{labels} value, in Prometheus's text format
		line := lines.Text()
		head, _, _ := strings.Cut(line, " ")
		name, _, _ := strings.Cut(head, "{")
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil || strings.HasPrefix(line, "#") {
			continue
		}
		m := Metric{Name: name, Labels: map[string]string{}, Value: value}
		for _, l := range labels.FindAllStringSubmatch(line, -1) {
			m.Labels[l[1]] = l[2]
		}
		all = append(all, m)
	}
	return all
}

// Samples returns the metrics of the process at the admin address by name, those of all labels added up. It is empty
// where they cannot be read.
func Samples(ctx context.Context, conn Conn) map[string]float64 {
	sums := map[string]float64{}
	for _, m := range Metrics(ctx, conn) {
		sums[m.Name] += m.Value
	}
	return sums
}

// Roles of the clients of a control plane, as the admin API names them.
const (
	RoleEnvoy   = "envoy"
	RoleExtProc = "extproc"
)

// Recently is the time over which the requests of providers are counted.
const Recently = time.Hour
