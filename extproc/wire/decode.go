package wire

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/carrier"
	"github.com/modelgate/modelgate/extproc/exchange"
)

var errMalformed = errors.New("malformed protobuf")

// eachField calls f for each field of a message, with the bytes of length-delimited fields and the number of others.
func eachField(b []byte, f func(n protowire.Number, bytes []byte, number uint64) error) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errMalformed
		}
		b = b[size:]
		var bytes []byte
		var number uint64
		switch typ {
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, size = protowire.ConsumeFixed64(b)
		default:
			size = protowire.ConsumeFieldValue(n, typ, b)
		}
		if size < 0 {
			return errMalformed
		}
		if err := f(n, bytes, number); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// decode reads an envoy.service.ext_proc.v3.ProcessingRequest.
func (m *Message) decode(b []byte) error {
	*m = Message{}
	return eachField(b, func(n protowire.Number, field []byte, _ uint64) error {
		switch n {
		case 2:
			m.Phase = carrier.RequestHeaders
			return m.decodeHeaders(field)
		case 3:
			m.Phase = carrier.ResponseHeaders
			return m.decodeHeaders(field)
		case 4:
			m.Phase = carrier.RequestBody
			return m.decodeBody(field)
		case 5:
			m.Phase = carrier.ResponseBody
			return m.decodeBody(field)
		case 6:
			m.Phase = carrier.RequestTrailers
		case 7:
			m.Phase = carrier.ResponseTrailers
			return m.decodeHeaders(field) // HttpTrailers and HttpHeaders have the map in the same field
		case 8: // metadata_context.filter_metadata
			return eachEntry(field, 1, func(namespace string, fields []byte) error {
				if namespace != envoy.Metadata {
					return nil
				}
				return eachEntry(fields, 1, m.decodeMetadata)
			})
		case 9: // attributes, under the name of the filter
			_, fields, err := decodeEntry(field)
			if err != nil {
				return err
			}
			return eachEntry(fields, 1, m.decodeAttribute)
		}
		return nil
	})
}

// firstTag is the first byte of every header in a HeaderMap, and of every name in it. Its count estimates their
// number.
var firstTag = protowire.AppendTag(nil, 1, protowire.BytesType)

// decodeHeaders reads an HttpHeaders.
func (m *Message) decodeHeaders(b []byte) error {
	return eachField(b, func(n protowire.Number, field []byte, number uint64) error {
		switch n {
		case 1: // HeaderMap
			m.Headers = slices.Grow(m.Headers, bytes.Count(field, firstTag)/2)
			return eachField(field, m.decodeHeader)
		case 3:
			m.End = number != 0
		}
		return nil
	})
}

// decodeHeader reads a HeaderValue. Envoy sets the raw value. The other value is read if there is no raw one.
func (m *Message) decodeHeader(n protowire.Number, b []byte, _ uint64) error {
	if n != 1 {
		return nil
	}
	var h exchange.Header
	err := eachField(b, func(n protowire.Number, field []byte, _ uint64) error {
		switch {
		case n == 1:
			h.Name = headerName(field)
		case n == 3, n == 2 && h.Value == "":
			h.Value = string(field)
		}
		return nil
	})
	m.Headers = append(m.Headers, h)
	return err
}

// names are the headers of nearly every request or answer, so that their names need no allocation.
var names = func() map[string]string {
	m := make(map[string]string)
	for _, n := range []string{
		":authority", ":method", ":path", ":scheme", ":status", "accept", "accept-encoding", "authorization",
		"content-length",
		"content-type", "date", "server", "user-agent", "x-envoy-external-address", "x-forwarded-for", "x-forwarded-proto",
		"x-request-id", "x-stainless-arch", "x-stainless-async", "x-stainless-lang", "x-stainless-os",
		"x-stainless-package-version", "x-stainless-read-timeout", "x-stainless-retry-count", "x-stainless-runtime",
		"x-stainless-runtime-version", "x-stainless-timeout",
	} {
		m[n] = n
	}
	return m
}()

func headerName(b []byte) string {
	if n, ok := names[string(b)]; ok {
		return n
	}
	return string(b)
}

// decodeBody reads an HttpBody.
func (m *Message) decodeBody(b []byte) error {
	return eachField(b, func(n protowire.Number, field []byte, number uint64) error {
		switch n {
		case 1:
			m.Body = field
		case 2:
			m.End = number != 0
		}
		return nil
	})
}

func (m *Message) decodeAttribute(name string, value []byte) error {
	switch name {
	case envoy.AttributeClusterName:
		m.Facts.Cluster = structString(value)
	case envoy.AttributeCodeDetails:
		m.Facts.CodeDetails = structString(value)
	case envoy.AttributeAttempt:
		m.Facts.Attempts = int(structNumber(value))
	}
	return nil
}

func (m *Message) decodeMetadata(name string, value []byte) error {
	if name == envoy.MetadataRequest {
		m.Request = structString(value)
	}
	return nil
}

// eachEntry calls f for the entries of the map that is field number n of a message.
func eachEntry(b []byte, n protowire.Number, f func(key string, value []byte) error) error {
	return eachField(b, func(number protowire.Number, entry []byte, _ uint64) error {
		if number != n {
			return nil
		}
		key, value, err := decodeEntry(entry)
		if err != nil {
			return err
		}
		return f(key, value)
	})
}

// decodeEntry reads an entry of a map of messages by string.
func decodeEntry(b []byte) (key string, value []byte, err error) {
	err = eachField(b, func(n protowire.Number, field []byte, _ uint64) error {
		switch n {
		case 1:
			key = string(field)
		case 2:
			value = field
		}
		return nil
	})
	return key, value, err
}

// structString reads a google.protobuf.Value that is a string.
func structString(b []byte) (s string) {
	_ = eachField(b, func(n protowire.Number, field []byte, _ uint64) error {
		if n == 3 {
			s = string(field)
		}
		return nil
	})
	return s
}

// structNumber reads a google.protobuf.Value that is a number.
func structNumber(b []byte) (f float64) {
	_ = eachField(b, func(n protowire.Number, _ []byte, number uint64) error {
		if n == 2 {
			f = math.Float64frombits(number)
		}
		return nil
	})
	return f
}
