package configv1

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// Defaults of absent fields, and the bounds for validation.
const (
	defaultConnectTimeout   = 5 * time.Second
	defaultFirstByteTimeout = 120 * time.Second
	defaultIdleTimeout      = 120 * time.Second
	defaultOwner            = "modelgate"
	defaultAddress          = "0.0.0.0"
	defaultCertificate      = "default"
	defaultRequestBytes     = 32 << 20
	defaultMaxWait          = 10 * time.Second
	defaultAddressRate      = 10_000
	defaultCorsAge          = 10 * time.Minute
	maxAttempts             = 5
)

// ConnectTimeout bounds the time to establish a connection.
func (x *Timeouts) ConnectTimeout() time.Duration {
	return orDefault(x.GetConnect(), defaultConnectTimeout)
}

// FirstByteTimeout bounds the time from the complete request to the response headers of one attempt.
func (x *Timeouts) FirstByteTimeout() time.Duration {
	return orDefault(x.GetFirstByte(), defaultFirstByteTimeout)
}

// IdleTimeout bounds the time without data in a response.
func (x *Timeouts) IdleTimeout() time.Duration { return orDefault(x.GetIdle(), defaultIdleTimeout) }

// Over returns the timeouts of x, with the fields that are absent in x taken from below. If one is nil, it returns
// the other.
func (x *Timeouts) Over(below *Timeouts) *Timeouts {
	if x == nil {
		return below
	}
	if below == nil {
		return x
	}
	return &Timeouts{
		Connect:   cmp.Or(x.GetConnect(), below.GetConnect()),
		FirstByte: cmp.Or(x.GetFirstByte(), below.GetFirstByte()),
		Idle:      cmp.Or(x.GetIdle(), below.GetIdle()),
	}
}

func orDefault(d *durationpb.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.AsDuration()
}

// AllowsUnlisted reports whether "<provider>/<anything>" reaches the provider without a Model.
func (x *Provider) AllowsUnlisted() bool {
	return x.AllowUnlistedModels == nil || x.GetAllowUnlistedModels()
}

// DropsUnsupported reports whether unsupported parameters are dropped instead of refused.
func (x *Provider) DropsUnsupported() bool {
	return x.GetUnsupportedParameters() == UnsupportedParameters_DROP
}

// Share returns the target's weight among targets of the same priority.
func (x *Target) Share() uint32 { return cmp.Or(x.GetWeight(), 1) }

// Attempts returns the maximum number of attempts for a request to the model.
func (x *Model) Attempts() int {
	if n := x.GetRetry().GetMaxAttempts(); n > 0 {
		return int(n)
	}
	return min(max(2, len(x.GetTargets())), maxAttempts)
}

// RetryStatuses returns the statuses of a provider that are retried, sorted. By default 429 is among them only if the
// model has another target, because the provider needs time.
func (x *Model) RetryStatuses() []uint32 {
	statuses := slices.Clone(x.GetRetry().GetStatusCodes())
	if len(statuses) == 0 {
		statuses = []uint32{408, 500, 502, 503, 504, 529}
		if len(x.GetTargets()) > 1 {
			statuses = append(statuses, 429)
		}
	}
	slices.Sort(statuses)
	return statuses
}

// Owner returns the owned_by of GET /v1/models.
func (x *Model) Owner() string { return cmp.Or(x.GetOwnedBy(), defaultOwner) }

// ListenAddress returns the address that the gateway listens on.
func (x *Gateway) ListenAddress() string { return cmp.Or(x.GetAddress(), defaultAddress) }

// CertificateName returns the name of the gateway's certificate.
func (x *Gateway) CertificateName() string { return cmp.Or(x.GetCertificate(), defaultCertificate) }

// RequestLimit returns the maximum size of a request body, in bytes.
func (x *Gateway) RequestLimit() uint64 {
	return cmp.Or(x.GetMaxRequestBytes(), defaultRequestBytes)
}

// WaitLimit bounds the time that a request waits for its turn.
func (x *Concurrency) WaitLimit() time.Duration { return orDefault(x.GetMaxWait(), defaultMaxWait) }

// Rate returns how many requests per second an address may send.
func (x *AddressLimit) Rate() uint32 { return cmp.Or(x.GetRequestsPerSecond(), defaultAddressRate) }

// Bucket returns how many requests an address may send at once.
func (x *AddressLimit) Bucket() uint32 { return cmp.Or(x.GetBurst(), 2*x.Rate()) }

// RequestHeaders returns the headers that pages may send. A "*" allows any header but authorization, which has to be
// named.
func (x *Cors) RequestHeaders() string {
	return cmp.Or(strings.Join(x.GetHeaders(), ", "), "authorization, *")
}

// ResponseHeaders returns the headers of answers that pages may read.
func (x *Cors) ResponseHeaders() string {
	return cmp.Or(strings.Join(x.GetExposedHeaders(), ", "), "*")
}

// PreflightMaxAge returns how long browsers may cache the answer to a preflight.
func (x *Cors) PreflightMaxAge() time.Duration { return orDefault(x.GetMaxAge(), defaultCorsAge) }

// Rewrite returns the replacement of the prefix in a path. It and the prefix may end with a slash.
func (x *Route) Rewrite() string {
	if x.RewritePrefix != nil {
		return x.GetRewritePrefix()
	}
	rest, ok := strings.CutPrefix(x.GetPathPrefix(), "/v1")
	if ok && (rest == "" || rest[0] == '/') {
		return rest
	}
	return x.GetPathPrefix()
}
