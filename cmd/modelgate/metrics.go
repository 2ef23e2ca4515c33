package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metrics of the spool of records for the ledger.
const (
	metricBacklog = "modelgate_ledger_backlog_records"
	metricDropped = "modelgate_ledger_dropped_total"
	metricWaiting = "modelgate_ledger_waiting_bytes"
)

// longBacklog is how many records wait at most while the ledger keeps up.
const longBacklog = 10_000

// fetch reads what anybody may read at the admin address.
func fetch(ctx context.Context, conn adminConn, path string) (status int, body []byte, header http.Header, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, conn.server+path, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	resp, err := conn.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return resp.StatusCode, body, resp.Header, err
}

// samples returns the metrics of the process at the admin address by name, those of all labels added up. It is empty where they
// cannot be read.
func samples(ctx context.Context, conn adminConn) map[string]float64 {
	sums := map[string]float64{}
	status, text, _, err := fetch(ctx, conn, "/metrics")
	if err != nil || status != http.StatusOK {
		return sums
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		// name{labels} value, in Prometheus's text format
		line := lines.Text()
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		if value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil && !strings.HasPrefix(line, "#") {
			sums[name] += value
		}
	}
	return sums
}
