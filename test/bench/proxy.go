package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"time"

	"github.com/modelgate/modelgate/internal/certs"
)

// startProxy starts a reverse proxy of Go's standard library, which does nothing but pass on what comes.
func startProxy(ctx context.Context, _ options, dir, mock string) (*target, error) {
	return startRole(ctx, targetProxy, roleProxy, roleJob{Dir: dir, Mock: mock})
}

// serveProxy is the process of the reverse proxy. It runs until its input ends.
func serveProxy(in io.Reader, out io.Writer) error {
	var job roleJob
	if err := json.NewDecoder(in).Decode(&job); err != nil {
		return err
	}
	if _, err := certs.Ensure(job.Dir, nil, time.Now()); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	to := &url.URL{Scheme: "http", Host: job.Mock}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = 1<<14, 0
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		Handler: &httputil.ReverseProxy{Transport: transport, FlushInterval: -1,
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	return serveUntil(in, server, func() error {
		return server.ServeTLS(listener, filepath.Join(job.Dir, certs.FileServer), filepath.Join(job.Dir,
			certs.FileServerKey))
	})
}
