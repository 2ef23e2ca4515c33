package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// newMultiplexed returns askers that share one connection of HTTP/2.
func newMultiplexed(at *endpoint, n int) []asker {
	config := at.tls.Clone()
	config.NextProtos = []string{"h2"}
	shared := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true,
		MaxConnsPerHost: 1}}
	all := make([]asker, n)
	for i := range all {
		all[i] = &multiplexed{at: at, client: shared}
	}
	return all
}

// A multiplexed asker is one stream at a time of a connection of HTTP/2.
type multiplexed struct {
	at     *endpoint
	client *http.Client
}

func (m *multiplexed) ask(body []byte, timeout time.Duration, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+m.at.address+chatPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+m.at.key)
	r.Header.Set("Content-Type", "application/json")
	response, err := m.client.Do(r)
	if err != nil {
		return fmt.Errorf("dialling: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.ProtoMajor != 2 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // the status says enough
		return &statusError{response.StatusCode, response.Proto + " " + string(text)}
	}
	return read(response.Body)
}

func (m *multiplexed) close() { m.client.CloseIdleConnections() }
