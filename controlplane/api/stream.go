package api

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// streamTimeout bounds an export of the request log.
	streamTimeout = time.Hour
	// maxStreams is how many of them there are at once. A client that reads slowly has a page in memory, and nothing of
	// the ledger.
	maxStreams = 32
	// streamPage is how many requests are in memory at once.
	streamPage = 500
)

// Forms of an export.
const (
	formCSV   = "csv"
	formLines = "jsonl"
)

// streamOf returns the format that a request for the request log asks for. "" is a page of JSON.
func streamOf(r *http.Request) (string, error) {
	if r.URL.Query().Get("format") == formLines {
		return formLines, nil
	}
	media, _, _ := strings.Cut(r.Header.Get("Accept"), ";")
	if media = strings.TrimSpace(media); media == "application/jsonl" || media == "application/x-ndjson" {
		return formLines, nil
	}
	_, isCSV, err := exportOf(r)
	if isCSV {
		return formCSV, err
	}
	return "", err
}

// stream answers with a page and all that follow it. What goes wrong after the first byte cuts the connection, so that
// nobody takes a part for the whole.
func (h requestHandlers) stream(w http.ResponseWriter, r *http.Request, form string, asked adminapi.ListOptions,
	page adminapi.Page[adminapi.Exchange]) error {
	leave, err := authz.TakePlace(r.Context(), h.streams, "exports are running")
	if err != nil {
		return err
	}
	defer leave()
	write, media := linesTo(w), "application/jsonl; charset=utf-8"
	if form == formCSV {
		write, media = tableTo(w), "text/csv; charset=utf-8"
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Disposition", `attachment; filename="requests.`+form+`"`)
	asked.Limit = streamPage
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // it would end the request
	for {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		err := write(page.Items)
		_ = control.Flush()
		if asked.After = page.Next; err != nil || asked.After == "" {
			return nil // or the client has gone away; there is nobody to tell
		}
		if page, err = h.config.Ledger.Exchanges(r.Context(), asked); err != nil {
			if r.Context().Err() == nil {
				h.config.Log.Error("an export of the request log ends in its midst", zap.Error(err))
			}
			panic(http.ErrAbortHandler)
		}
		h.queries.NameKeys(page.Items)
	}
}

// linesTo writes exchanges as lines of JSON.
func linesTo(w io.Writer) func([]adminapi.Exchange) error {
	lines := json.NewEncoder(w)
	return func(all []adminapi.Exchange) error {
		for i := range all {
			if err := lines.Encode(&all[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// tableTo writes exchanges as CSV, with names in the first line. The columns are the members of an exchange.
func tableTo(w io.Writer) func([]adminapi.Exchange) error {
	lines, begun := csv.NewWriter(w), false
	return func(all []adminapi.Exchange) error {
		if !begun {
			begun = true
			_ = lines.Write(exchangeColumns()) // Flush tells
		}
		for i := range all {
			_ = lines.Write(exchangeCells(&all[i]))
		}
		lines.Flush()
		return lines.Error()
	}
}

// exchangeColumns are the columns of the request log as CSV. They do not depend on what is in it.
func exchangeColumns() []string {
	return slices.Concat([]string{"id", "request_id", "start", "duration_ms", "first_byte_ms", "key", "key_name",
		"organization", "project", "user", "operation", "model", "provider", "upstream_model", "attempts", "stream",
		"status", "outcome", "error_code", "refused_by", "key_hint"}, usage.Columns(),
		[]string{"estimated", "cost_usd", "priced", "price_version", "batch", "requests"})
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func exchangeCells(e *adminapi.Exchange) []string {
	texts := func(all ...string) []string {
		for i := range all {
			all[i] = httpapi.CSVText(all[i])
		}
		return all
	}
	cells := texts(e.ID, e.RequestID, e.Start.Format(time.RFC3339Nano))
	cells = append(cells, number(e.DurationMS), number(e.FirstByteMS))
	cells = append(cells, texts(e.Key, e.KeyName, e.Organization, e.Project, e.User, e.Operation, e.Model,
		e.Provider, e.Upstream)...)
	cells = append(cells, number(int64(e.Attempts)), strconv.FormatBool(e.Stream), number(int64(e.Status)))
	cells = append(cells, texts(e.Outcome, e.ErrorCode, e.RefusedBy, e.KeyHint)...)
	for _, n := range ledger.Counts(e) {
		cells = append(cells, number(*n))
	}
	return append(cells, strconv.FormatBool(e.Estimated), e.CostUSD, strconv.FormatBool(e.Priced), e.PriceVersion,
		strconv.FormatBool(e.Batch), number(e.Requests))
}
