// Package jwtauth checks JSON Web Tokens that act as keys: their signature by a key of their issuer, and their claims.
// It reads no network. The keys of issuers come with the configuration.
package jwtauth

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/claims"
	"github.com/modelgate/modelgate/internal/memo"
)

const (
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
	// leeway is how far the clocks of issuers may be off.
	leeway = 30 * time.Second
	// remembered tokens are not checked again. They take about 200 bytes each.
	remembered = 50_000
	maxUser    = 256     // bytes
	maxClaims  = 2 << 10 // bytes of the claims that policies see
)

// algorithms are those with public keys. HMAC and "none" are not among them, whatever a token says.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// A Verifier checks tokens. Only its memory of tokens changes. It is safe for concurrent use. Nil knows no issuer.
type Verifier struct {
	all     []*issuer
	issuers map[string][]*issuer // by "iss"
	known   *memo.Memo[[sha256.Size]byte, Principal]
}

type issuer struct {
	resolved *configv1.ResolvedIssuer
	config   *configv1.TokenIssuer
	keys     []jose.JSONWebKey
}

// A Principal is whom a token is of.
type Principal struct {
	Key     string // the key as which it acts
	User    string
	Project string // in place of the key's; empty: the key's
	Expires time.Time
	Claims  map[string][]string // that policies see; it must not be modified. Nil: they see none
	from    time.Time           // it is not valid before
}

// Next returns the verifier of the issuers that follow those of v, which may be nil. If they are the same, it is v,
// with the tokens that it knows.
func (v *Verifier) Next(resolved []*configv1.ResolvedIssuer) (*Verifier, error) {
	if len(resolved) == 0 {
		return nil, nil
	}
	var before []*issuer
	if v != nil {
		before = v.all
	}
	if slices.EqualFunc(before, resolved, (*issuer).is) {
		return v, nil
	}
	next := &Verifier{issuers: map[string][]*issuer{}, known: memo.New[[sha256.Size]byte, Principal](remembered)}
	for _, r := range resolved {
		var ready *issuer
		if i := slices.IndexFunc(before, func(was *issuer) bool { return was.is(r) }); i >= 0 {
			ready = before[i]
		} else {
			keys, err := PublicKeys([]byte(r.GetJwks()))
			if err != nil {
				return nil, fmt.Errorf("TokenIssuer %s: %w", r.GetIssuer().GetName(), err)
			}
			ready = &issuer{r, r.GetIssuer(), keys.Keys}
		}
		name := r.GetIssuer().GetIssuer()
		next.all, next.issuers[name] = append(next.all, ready), append(next.issuers[name], ready)
	}
	return next, nil
}

// is reports whether an issuer is the one that was resolved.
func (i *issuer) is(r *configv1.ResolvedIssuer) bool { return proto.Equal(i.resolved, r) }

// PublicKeys returns the public keys for signatures of a JSON Web Key Set. Others are left out.
func PublicKeys(set []byte) (jose.JSONWebKeySet, error) {
	var all struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(set, &all); err != nil {
		return jose.JSONWebKeySet{}, errors.New("the keys are no JSON Web Key Set")
	}
	var kept jose.JSONWebKeySet
	for _, raw := range all.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) != nil { // of a kind that nobody here can use
			continue
		}
		_, symmetric := k.Key.([]byte)
		if !symmetric && k.Valid() && (k.Use == "" || k.Use == "sig") {
			kept.Keys = append(kept.Keys, k.Public())
		}
	}
	if len(kept.Keys) == 0 {
		return kept, errors.New("the JSON Web Key Set has no public key for signatures")
	}
	return kept, nil
}

// Looks reports whether a text looks like a token, and not like a key.
func Looks(text string) bool { return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2 }

// What is wrong with tokens, for those who send them.
var (
	errMalformed = errors.New("it is malformed, or signed with an algorithm that is not accepted")
	errIssuer    = errors.New("its issuer is not known here")
	errAudience  = errors.New("it is for another audience")
	errSignature = errors.New("its signature is not by a key of its issuer")
	errExpired   = errors.New("it has expired")
	errEarly     = errors.New("it is not valid yet")
	errUnbounded = errors.New("it has no expiry")
	errClaims    = errors.New("the claims that policies see have more than 2 KiB")
	errUnbound   = errors.New("its claims fit no binding to a key")
	errProject   = errors.New("the claim that names its project is not there")
)

// Verify returns whom a token is of.
func (v *Verifier) Verify(token string, now time.Time) (Principal, error) {
	if v == nil {
		return Principal{}, errIssuer
	}
	sum := sha256.Sum256([]byte(token))
	p, ok := v.known.Find(sum)
	if !ok {
		var err error
		if p, err = v.check(token); err != nil {
			return Principal{}, err
		}
		v.known.Keep(sum, p)
	}
	switch {
	case !now.Before(p.Expires.Add(leeway)):
		return Principal{}, errExpired
	case now.Before(p.from.Add(-leeway)):
		return Principal{}, errEarly
	}
	return p, nil
}

// check checks everything that does not change with time.
func (v *Verifier) check(token string) (Principal, error) {
	if len(token) > maxToken {
		return Principal{}, errMalformed
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return Principal{}, errMalformed
	}
	var c claims.Claims
	if json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &c) != nil { // only to find whose key to try
		return Principal{}, errMalformed
	}
	from, err := c.Text("iss")
	if err != nil {
		return Principal{}, err
	}
	audiences, err := c.Texts("aud")
	if err != nil {
		return Principal{}, err
	}
	candidates := v.issuers[from]
	if len(candidates) == 0 {
		return Principal{}, errIssuer
	}
	err = errAudience
	for _, i := range candidates {
		if !i.isAudience(audiences) {
			continue
		}
		if !i.isSigned(signed) {
			err = errSignature
			continue
		}
		var p Principal
		if p, err = i.principal(c); err == nil {
			return p, nil
		}
	}
	return Principal{}, err
}

func (i *issuer) isAudience(audiences []string) bool {
	return slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(i.config.GetAudiences(), a) })
}

// isSigned reports whether a key of the issuer has signed the token: the one that it names, for the algorithm that the
// key is for. Keys and addresses in the token's own header are not looked at.
func (i *issuer) isSigned(signed *jose.JSONWebSignature) bool {
	header := signed.Signatures[0].Header
	for _, k := range i.keys {
		if header.KeyID == "" && len(i.keys) > 1 || header.KeyID != "" && k.KeyID != header.KeyID ||
			k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		if _, err := signed.Verify(k.Key); err == nil {
			return true
		}
	}
	return false
}

// principal returns whom verified claims are of.
func (i *issuer) principal(c claims.Claims) (Principal, error) {
	p := Principal{}
	var err error
	if p.User, err = c.Text(i.config.UserFrom()); err != nil {
		return p, err
	}
	if len(p.User) > maxUser {
		p.User = p.User[:maxUser]
	}
	if name := i.config.GetProjectClaim(); name != "" {
		if p.Project, err = c.Text(name); err != nil {
			return p, err
		}
		if p.Project == "" {
			return p, errProject
		}
	}
	if err := p.setTimes(c); err != nil {
		return p, err
	}
	for _, b := range i.config.GetBindings() {
		fits, err := fits(b, c)
		if err != nil {
			return p, err
		}
		if fits {
			p.Key = b.GetKey()
			return p, i.addClaims(&p, c)
		}
	}
	return p, errUnbound
}

// setTimes sets when a token is valid. A token that was issued in the future is not valid yet.
func (p *Principal) setTimes(c claims.Claims) (err error) {
	var ok bool
	if p.Expires, ok, err = c.Time("exp"); err != nil {
		return err
	}
	if !ok {
		return errUnbounded
	}
	for _, name := range [...]string{"nbf", "iat"} {
		from, _, err := c.Time(name)
		if err != nil {
			return err
		}
		if from.After(p.from) {
			p.from = from
		}
	}
	return nil
}

// addClaims adds the claims that policies see. None is shortened: a policy that refuses members of a group would let
// them pass.
func (i *issuer) addClaims(p *Principal, c claims.Claims) error {
	size := 0
	for _, name := range i.config.GetPolicyClaims() {
		if p.Claims == nil {
			p.Claims = map[string][]string{}
		}
		texts, err := c.Texts(name)
		if err != nil {
			return err
		}
		for _, t := range texts {
			if size += len(t) + 16; size > maxClaims {
				return errClaims
			}
		}
		p.Claims[name] = texts
	}
	return nil
}

func fits(b *configv1.TokenBinding, c claims.Claims) (bool, error) {
	fits := true
	for name, pattern := range b.GetClaims() {
		texts, err := c.Texts(name)
		if err != nil {
			return false, err
		}
		fits = fits && slices.ContainsFunc(texts, func(s string) bool { return configv1.Matches(pattern, s) })
	}
	return fits, nil
}
