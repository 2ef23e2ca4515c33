package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/oauth2"
)

const (
	grantsPrefix    = root + "grants/"
	userCodesPrefix = root + "user-codes/"
	grantLife       = 10 * time.Minute

	// letters of the codes that people type: no vowels, so no words (RFC 8628, section 6.1).
	letters    = "BCDFGHJKLMNPQRSTVWXZ"
	codeLength = 8
)

// A grant is the sign-in of a command line that has begun. It is stored under the hash of its code, which only the
// command line has.
type grant struct {
	// Challenge is the hash that the command line's verifier must have.
	Challenge string `json:"challenge"`
	// Session is the session for the command line. Its account is empty until somebody has allowed it.
	Session session `json:"session"`
}

// grants keeps them in etcd, for a short time.
type grants struct{ etcd *clientv3.Client }

// make stores a grant under a new code. With a user code, a person can find it by that.
func (g *grants) make(ctx context.Context, of grant, userCode string) (code string, err error) {
	value, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	lease, err := g.etcd.Grant(ctx, int64(grantLife/time.Second))
	if err != nil {
		return "", fmt.Errorf("begin the sign-in of a command line: %w", err)
	}
	code = rand.Text()
	key := hashed(grantsPrefix, code)
	ops := []clientv3.Op{clientv3.OpPut(key, string(value), clientv3.WithLease(lease.ID))}
	if userCode != "" {
		ops = append(ops, clientv3.OpPut(hashed(userCodesPrefix, userCode), key, clientv3.WithLease(lease.ID)))
	}
	if _, err := g.etcd.Txn(ctx).Then(ops...).Commit(); err != nil {
		return "", fmt.Errorf("begin the sign-in of a command line: %w", err)
	}
	return code, nil
}

// read returns the grant at a key, and its revision; nil if there is none.
func (g *grants) read(ctx context.Context, key string) (*grant, int64, error) {
	r, err := g.etcd.Get(ctx, key)
	if err != nil {
		return nil, 0, fmt.Errorf("read the sign-in of a command line: %w", err)
	}
	if len(r.Kvs) == 0 {
		return nil, 0, nil
	}
	found := &grant{}
	return found, r.Kvs[0].ModRevision, json.Unmarshal(r.Kvs[0].Value, found)
}

// allow gives a session to the command line that shows a user code. It is false if there is none, or not any more.
func (g *grants) allow(ctx context.Context, typed string, s session) (bool, error) {
	name := hashed(userCodesPrefix, typed)
	r, err := g.etcd.Get(ctx, name)
	if err != nil || len(r.Kvs) == 0 {
		return false, err
	}
	key := string(r.Kvs[0].Value)
	found, revision, err := g.read(ctx, key)
	if found == nil || err != nil {
		return false, err
	}
	found.Session = s
	value, err := json.Marshal(found)
	if err != nil {
		return false, err
	}
	done, err := g.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision),
		clientv3.Compare(clientv3.CreateRevision(name), ">", 0)).
		Then(clientv3.OpPut(key, string(value), clientv3.WithIgnoreLease()), clientv3.OpDelete(name)).Commit()
	if err != nil {
		return false, fmt.Errorf("allow the sign-in of a command line: %w", err)
	}
	return done.Succeeded, nil
}

// take returns the grant of a code for whoever has its verifier, and nil for others. One that somebody has allowed is
// taken: the code is good once.
func (g *grants) take(ctx context.Context, given, verifier string) (*grant, error) {
	key := hashed(grantsPrefix, given)
	found, revision, err := g.read(ctx, key)
	if found == nil || err != nil || !answers(verifier, found.Challenge) {
		return nil, err
	}
	if found.Session.Account == "" {
		return found, nil
	}
	done, err := g.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpDelete(key)).Commit()
	if err != nil || !done.Succeeded {
		return nil, err
	}
	return found, nil
}

// answers reports whether a verifier has the challenge as its hash (RFC 7636, S256).
func answers(verifier, challenge string) bool {
	is := oauth2.S256ChallengeFromVerifier(verifier)
	return subtle.ConstantTimeCompare([]byte(is), []byte(challenge)) == 1
}

// isChallenge reports whether a text can be a challenge.
func isChallenge(s string) bool {
	sum, err := base64.RawURLEncoding.DecodeString(s)
	return err == nil && len(sum) == sha256.Size
}

// newUserCode returns a code that a person types.
func newUserCode() string {
	code := make([]byte, codeLength)
	for i := range code {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(letters)))) // it never fails
		code[i] = letters[n.Int64()]
	}
	return string(code)
}

// shownCode writes a user code for people.
func shownCode(c string) string { return c[:codeLength/2] + "-" + c[codeLength/2:] }

// typedCode reads what a person has typed.
func typedCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(letters, r) {
			return r
		}
		return -1
	}, strings.ToUpper(typed))
}
