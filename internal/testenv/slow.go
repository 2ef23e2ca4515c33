package testenv

import "net/http/httptest"

// A SlowReader is a client that does not read before the test lets it.
type SlowReader struct {
	*httptest.ResponseRecorder
	writes chan<- int
	reads  <-chan struct{}
}

// NewSlowReader returns a client. It sends the status of an answer that is being written to writes, and reads each
// piece when something comes from reads, or it is closed.
func NewSlowReader(writes chan<- int, reads <-chan struct{}) *SlowReader {
	return &SlowReader{httptest.NewRecorder(), writes, reads}
}

// Write implements [net/http.ResponseWriter].
func (s *SlowReader) Write(p []byte) (int, error) {
	s.writes <- s.Code
	<-s.reads
	return s.ResponseRecorder.Write(p)
}
