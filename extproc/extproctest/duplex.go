package extproctest

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// respondDuplex sends an answer whose pieces do not wait for replies. Replies arrive at any time. The first is the
// reply to the headers, which the client does not get before. The others are pieces, and one of them is marked as the
// last.
func (x *exchange) respondDuplex(w http.ResponseWriter, h map[string]string, first *extprocv3.ProcessingRequest,
	response *http.Response) error {
	_ = x.stream.Send(first)
	cut, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if first.GetResponseHeaders().GetEndOfStream() {
			return
		}
		if err := x.feed(response.Body); err != nil {
			close(cut)
			_ = x.stream.CloseSend() // as Envoy does if the answer is cut
		}
	}()
	defer func() {
		_ = response.Body.Close()
		<-done
	}()
	for {
		reply, err := x.receive(w)
		if err != nil {
			return x.orCut(err, cut)
		}
		end, err := x.duplexReply(w, h, reply)
		if err != nil || end || first.GetResponseHeaders().GetEndOfStream() {
			return err
		}
	}
}

// orCut returns the reason why an answer was cut, if it was, or else err.
func (x *exchange) orCut(err error, cut <-chan struct{}) error {
	select {
	case <-cut:
		if why := x.broken(); x.begun || errors.Is(why, errClient) {
			return why
		}
		return errors.Join(errGateway("upstream_reset_after_response_started"), errProvider)
	default:
		return err
	}
}

// feed sends a body piece by piece to the service.
func (x *exchange) feed(body io.Reader) error {
	buffer := make([]byte, 16<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			_ = x.stream.Send(responseBody(buffer[:n], false)) // it has been serialized
		}
		if errors.Is(err, io.EOF) {
			_ = x.stream.Send(responseBody(nil, true))
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// duplexReply applies a reply of the service, and reports whether it was the last.
func (x *exchange) duplexReply(w http.ResponseWriter, h map[string]string, reply *extprocv3.ProcessingResponse) (bool,
	error) {
	if head := reply.GetResponseHeaders(); head != nil && !x.begun {
		if reply.GetModeOverride() != nil {
			return false, errGateway("what has come already would be lost")
		}
		mutate(h, head.GetResponse().GetHeaderMutation())
		writeHead(w, h)
		flush(w)
		x.begun = true
		return false, nil
	}
	piece := streamedPiece(reply)
	if piece == nil || !x.begun {
		return false, errGateway("spurious_message")
	}
	if _, err := w.Write(piece.GetBody()); err != nil {
		return false, errClient
	}
	flush(w)
	x.sent += len(piece.GetBody())
	if length, ok := h["content-length"]; ok && piece.GetEndOfStream() && length != strconv.Itoa(x.sent) {
		return false, errReset
	}
	return piece.GetEndOfStream(), nil
}

func streamedPiece(reply *extprocv3.ProcessingResponse) *extprocv3.StreamedBodyResponse {
	return reply.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
