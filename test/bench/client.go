package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// An endpoint is where and how requests are sent. It is shared by clients and does not change.
type endpoint struct {
	address string
	tls     *tls.Config // nil: without TLS
	key     string
	head    []byte // of a request, up to the value of content-length
}

const chatPath = "/v1/chat/completions"

func newEndpoint(j *job) (*endpoint, error) {
	u, err := url.Parse(j.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the target's URL: %w", err)
	}
	head := "POST " + chatPath + " HTTP/1.1\r\nHost: " + u.Host + "\r\nUser-Agent: bench\r\nAccept: */*\r\n" +
		"Authorization: Bearer " + j.Key + "\r\nContent-Type: application/json\r\n" + j.Head + "Content-Length: "
	at := &endpoint{address: u.Host, key: j.Key, head: []byte(head)}
	if j.CA == "" {
		return at, nil
	}
	pem, err := os.ReadFile(j.CA)
	if err != nil {
		return nil, fmt.Errorf("reading the target's authority: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", j.CA)
	}
	at.tls = &tls.Config{RootCAs: authorities, ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}}
	return at, nil
}

// An asker sends requests, one at a time.
type asker interface {
	// ask sends a request and has read take the body of the answer.
	ask(body []byte, timeout time.Duration, read func(io.Reader) error) error
	close()
}

// A client is one keep-alive connection that carries one request at a time, with nothing of net/http's client in
// between, so that thousands of them cost little. It belongs to one goroutine at a time.
type client struct {
	at   *endpoint
	conn net.Conn // nil: dial first
	r    *bufio.Reader
	out  []byte
}

const dialTimeout = 30 * time.Second

func (c *client) dial() error {
	d := &net.Dialer{Timeout: dialTimeout}
	dial := d.Dial
	if c.at.tls != nil {
		dial = (&tls.Dialer{NetDialer: d, Config: c.at.tls}).Dial
	}
	conn, err := dial("tcp", c.at.address)
	if err != nil {
		return fmt.Errorf("dialling: %w", err)
	}
	c.conn = conn
	if c.r == nil {
		c.r = bufio.NewReader(conn)
	} else {
		c.r.Reset(conn)
	}
	return nil
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// ask sends a request and has read take the body of the answer. The connection stays open where all went well.
func (c *client) ask(body []byte, timeout time.Duration, read func(io.Reader) error) error {
	if c.conn == nil {
		if err := c.dial(); err != nil {
			return err
		}
	}
	again, err := c.exchange(body, timeout, read)
	if err != nil || !again {
		c.close()
	}
	return err
}

func (c *client) exchange(body []byte, timeout time.Duration, read func(io.Reader) error) (again bool, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return false, err
	}
	c.out = strconv.AppendInt(append(c.out[:0], c.at.head...), int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return false, err
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // the status says enough
		return false, &statusError{response.StatusCode, string(text)}
	}
	return !response.Close, read(response.Body)
}

// discard reads an answer that is not streamed.
func discard(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// readStream reads a streamed answer of the mock's, calls chunk for each chunk with text, with when it was sent, and
// returns an error unless the stream has all its chunks and ends as OpenAI's do.
func readStream(r io.Reader, chunk func(sent time.Time)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1024), 64<<10)
	var s incompleteError
	for lines.Scan() {
		line := lines.Bytes()
		if bytes.Equal(line, []byte("data: [DONE]")) {
			s.done = true
		}
		_, text, ok := bytes.Cut(line, []byte(`"`+chunkMark))
		if !ok {
			continue
		}
		s.chunks++
		if number, isLast := bytes.CutPrefix(text, []byte(lastMark[len(chunkMark):])); isLast {
			number, _, _ = bytes.Cut(number, []byte(`"`))
			s.sent, _ = strconv.Atoi(string(number)) // 0 where it is not a number, which is never right
			continue
		}
		sent, _ := strconv.ParseInt(string(text[:min(len(text), sentDigits)]), 10, 64)
		chunk(time.UnixMicro(sent))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !s.done || s.sent == 0 || s.chunks != s.sent {
		return &s
	}
	return nil
}

// A statusError is an answer other than 200.
type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// An incompleteError is a stream that ended without an error and yet is not whole.
type incompleteError struct {
	chunks int  // received
	sent   int  // according to the last; 0: it did not come
	done   bool // [DONE] came
}

func (e *incompleteError) Error() string {
	return fmt.Sprintf("%d chunks received, %d sent, [DONE]: %t", e.chunks, e.sent, e.done)
}

// kind sorts errors into a few kinds.
func kind(err error) string {
	if e, ok := errors.AsType[*statusError](err); ok {
		return "status " + strconv.Itoa(e.status)
	}
	if _, ok := errors.AsType[*incompleteError](err); ok {
		return "incomplete stream"
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return "timeout"
	}
	if errors.Is(err, errNotStarted) {
		return "not started"
	}
	if strings.HasPrefix(err.Error(), "dialling") {
		return "no connection"
	}
	return "broken connection"
}
