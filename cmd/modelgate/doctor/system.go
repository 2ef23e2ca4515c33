package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/etcdspace"
)

func checkReachable(p *patient) []Finding {
	if p.connect == nil {
		return nil
	}
	f := Finding{Severity: Error, What: "The gateway cannot be reached: " + p.connect.Error(),
		Why: "Its configuration and traffic cannot be checked.", Mend: "modelgate run --data " +
			admincli.ShellQuote(p.data)}
	_, wrongCertificate := errors.AsType[*tls.CertificateVerificationError](p.connect)
	switch {
	case wrongCertificate:
		f.Mend = "Give the authority that signed the admin API's certificate: --ca FILE"
	case p.data == "":
		f.Mend = "Check --server, and whether its admin address is reachable from here"
	case isMissing(p.connect) && !p.there:
		f.What = "There is no gateway in the folder " + p.data + "."
		f.Mend = "Give its data folder with --data, or start a gateway: " + f.Mend
	}
	return []Finding{f}
}

func checkReady(p *patient) []Finding {
	if p.ready == "" || p.ready == adminapi.HealthOK {
		return nil
	}
	return []Finding{{Severity: Error, What: "The gateway is not ready: " + p.ready,
		Why:  "It takes no traffic, or has only old configuration.",
		Mend: "modelgate status, and the log of the process that is not ready"}}
}

// checkStore looks at why the configuration cannot be read.
func checkStore(p *patient) []Finding {
	if p.store == nil {
		return nil
	}
	f := Finding{Severity: Error, What: "The configuration cannot be read: " + admincli.Said(p.store).Error(),
		Why:  "Traffic continues with the last configuration, but changes fail: no key can be revoked.",
		Mend: "Check etcd: etcdctl endpoint health"}
	if e, ok := errors.AsType[*openai.Error](p.store); ok &&
		(e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
		f.Why, f.Mend = "This token can neither read nor change anything.",
			"Give the token in the data folder's admin-token, or one with the scopes, with --token or $MODELGATE_TOKEN"
	}
	return []Finding{f}
}

func checkLedger(p *patient) []Finding {
	if p.ledger == nil {
		return nil
	}
	return []Finding{{Severity: Error, What: "The ledger cannot be read: " + admincli.Said(p.ledger).Error(),
		Why:  "Spools keep usage and cost until it is back. Budgets are enforced with the last known values.",
		Mend: "Check the database of the ledger; the control plane's log has the error"}}
}

// checkSpool looks at the records that are not in the ledger yet.
func checkSpool(p *patient) []Finding {
	f := Finding{Severity: Error, Mend: "Free space on the disk of the spool, and check that the ledger is reachable"}
	switch {
	case p.metrics[admincli.MetricWaiting] > 0:
		f.What, f.Why = fmt.Sprintf("Records of %d bytes cannot be written to the spool.",
			int64(p.metrics[admincli.MetricWaiting])),
			"They are lost if the process is killed. New ones are lost when the memory for them is full."
	case p.metrics[admincli.MetricDropped] > 0:
		f.What, f.Why = fmt.Sprintf("%d usage records were lost since the process started.",
			int64(p.metrics[admincli.MetricDropped])), "Their cost is not charged."
	case p.metrics[admincli.MetricBacklog] > admincli.LongBacklog:
		f.Severity, f.What = Warning, fmt.Sprintf("%d records wait for the ledger.",
			int64(p.metrics[admincli.MetricBacklog]))
		f.Why, f.Mend = "Reports lack these records, and so do budgets after a restart.",
			"Check that the ledger's database is fast enough and reachable"
	default:
		return nil
	}
	return []Finding{f}
}

// Clocks that differ make keys expire, and budgets begin anew, at different times.
const (
	skewWarning = 5 * time.Second
	skewError   = 2 * time.Minute
)

func checkClock(p *patient) []Finding {
	f := Finding{Severity: Warning, What: fmt.Sprintf("The gateway's clock differs from this machine's by %s.",
		p.skew.Abs().Round(time.Second)),
		Why:  "Expiry of keys and budget periods follow the clock. Cloud vendors refuse signatures if it is wrong by minutes.",
		Mend: "Synchronise both clocks, for example with: timedatectl set-ntp true"}
	switch skew := p.skew.Abs(); {
	case skew <= skewWarning:
		return nil
	case skew > skewError:
		f.Severity = Error
	}
	return []Finding{f}
}

// expiring is how long before its end a certificate is reported.
const expiring = 14 * 24 * time.Hour

func checkGatewayCertificate(p *patient) []Finding {
	if p.shown != nil {
		return []Finding{{Severity: Error, What: "The gateway does not answer at " + p.url + ": " + p.shown.Error(),
			Why: "Clients get no response.", Mend: "modelgate status, and Envoy's lines in the log of modelgate run"}}
	}
	if len(p.chain) == 0 {
		return nil
	}
	leaf := p.chain[0]
	found := expiry("The certificate of the gateway", leaf, p.now,
		"Apply a new one as Certificate; modelgate run renews its own at a restart")
	if err := leaf.VerifyHostname(p.host); err != nil {
		found = append(found, Finding{Severity: Error, What: "The gateway's certificate is not for its host: " + err.Error(),
			Why: "Clients refuse to connect.", Mend: "Apply a Certificate whose names include " + p.host +
				": modelgate config apply -f certificate.yaml"})
	}
	return found
}

// checkCertificates looks at the certificates that are stored.
func checkCertificates(p *patient) []Finding {
	var found []Finding
	for _, c := range objects[*configv1.Certificate](p) {
		block, _ := pem.Decode([]byte(c.GetChain()))
		if block == nil {
			continue // of a file of the control plane's; that of the gateway is looked at as clients see it
		}
		if leaf, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, expiry(configv1.Label(c), leaf, p.now,
				"modelgate config apply -f FILE with the new chain and private_key")...)
		}
	}
	return found
}

func expiry(what string, c *x509.Certificate, now time.Time, mend string) []Finding {
	f := Finding{Severity: Warning, What: fmt.Sprintf("%s expires at %s.", what, c.NotAfter.UTC().Format(time.RFC3339)),
		Why: "Clients will refuse to connect.", Mend: mend}
	switch left := c.NotAfter.Sub(now); {
	case left > expiring && now.After(c.NotBefore):
		return nil
	case left <= 0:
		f.Severity, f.What, f.Why = Error, strings.Replace(f.What, "expires", "has expired", 1), "Clients refuse to connect."
	case now.Before(c.NotBefore):
		f.Severity, f.What = Error, fmt.Sprintf("%s is not valid before %s.", what, c.NotBefore.UTC().Format(time.RFC3339))
	}
	return []Finding{f}
}

func checkPermissions(p *patient) []Finding {
	var found []Finding
	for _, name := range slices.Sorted(maps.Keys(p.modes)) {
		path, mode, want := filepath.Join(p.data, name), p.modes[name], fs.FileMode(0o600)
		if name == "." {
			if mode&0o022 == 0 { // others may read what is not secret, such as ca.crt
				continue
			}
			want = 0o700
		} else if mode&0o077 == 0 {
			continue
		}
		found = append(found, Finding{Severity: Error, What: fmt.Sprintf("Other users can access %s: its mode is %04o.", path,
			mode),
			Why:  "Its readers can act as the operator, or forge keys.",
			Mend: fmt.Sprintf("chmod %o %s", want, admincli.ShellQuote(path))})
	}
	return found
}

// A gateway that cannot write loses configuration, and in the end what was used.
const (
	diskWarning = 2 << 30
	diskError   = 256 << 20
)

func checkDisk(p *patient) []Finding {
	f := Finding{Severity: Warning, What: fmt.Sprintf("The disk of %s has %d MiB left of %d.", p.data, p.free>>20,
		p.size>>20),
		Why: "It stores etcd, the ledger and clients' files. When it is full, changes and uploads fail.", Mend: "Free space, or move the data folder to a larger disk"}
	switch {
	case p.size == 0, p.free >= diskWarning, p.free > p.size/10:
		return nil
	case p.free < diskError:
		f.Severity = Error
	}
	return []Finding{f}
}

// checkEnvoy looks at the Envoy of this machine.
func checkEnvoy(p *patient) []Finding {
	if p.data == "" || p.envoy == nil {
		return nil
	}
	reason, _, _ := strings.Cut(p.envoy.Error(), "\n") // what follows are ways to get one
	f := Finding{Severity: Error, What: "modelgate run finds no Envoy to start: " + reason,
		Why: "Envoy serves the clients.", Mend: "Install Envoy " + process.MinVersion +
			" or newer, or give its path with --envoy or $MODELGATE_ENVOY"}
	if p.connect == nil {
		f.Severity, f.Why = Note, "The gateway runs with an Envoy from its flags; modelgate run would not find it alone."
	}
	return []Finding{f}
}

func checkDataPlane(p *patient) []Finding {
	if p.plane == nil {
		return nil
	}
	var found []Finding
	for _, role := range []string{admincli.RoleEnvoy, admincli.RoleExtProc} {
		if !p.connected(role) {
			found = append(found, Finding{Severity: Error, What: "No " + role + " is connected to the control plane.",
				Why:  "Clients are not served, or only with old configuration.",
				Mend: "Start it, and check that it reaches the control plane's xDS address"})
		}
	}
	for _, c := range p.plane.Clients {
		switch {
		case c.Health == adminapi.HealthOK:
		case c.Error != "":
			found = append(found, Finding{Severity: Error, What: fmt.Sprintf("%s %s refuses the configuration: %s", c.Role,
				c.Node, c.Error),
				Why:  "It continues with the last configuration that it accepted.",
				Mend: "modelgate config list KIND shows the objects that are refused; correct them with modelgate config apply"})
		default:
			found = append(found, Finding{Severity: Warning, What: fmt.Sprintf("%s %s is %s: it has revision %d of %d.", c.Role,
				c.Node, c.Health, c.Revision, p.plane.Revision),
				Why:  "New revocations of keys and new limits have no effect there yet.",
				Mend: "If this does not change, restart " + c.Role + " " + c.Node + " and read its log"})
		}
	}
	return found
}

func (p *patient) connected(role string) bool {
	for _, c := range p.plane.Clients {
		if c.Role == role {
			return true
		}
	}
	return false
}

func checkVersions(p *patient) []Finding {
	if p.plane == nil {
		return nil
	}
	var found []Finding
	for _, c := range p.plane.Clients {
		switch {
		case c.Version == "":
		case c.Role == admincli.RoleEnvoy && olderVersion(c.Version, process.MinVersion):
			found = append(found, Finding{Severity: Error, What: fmt.Sprintf("Envoy %s has version %s.", c.Node, c.Version),
				Why: "The gateway needs newer features and security fixes.", Mend: "Install Envoy " +
					process.MinVersion + " or newer on " + c.Node})
		case c.Role != admincli.RoleEnvoy && c.Version != p.plane.Version && p.plane.Version != "":
			found = append(found, Finding{Severity: Warning, What: fmt.Sprintf("%s %s has version %s, the control plane %s.",
				c.Role, c.Node, c.Version, p.plane.Version),
				Why:  "Only equal versions are tested together.",
				Mend: "Update both to the same version, the control plane first"})
		}
	}
	return found
}

// olderVersion compares versions of numbers with dots. What is no number is not older.
func olderVersion(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, errX := strconv.Atoi(x[i])
		n, errY := strconv.Atoi(y[i])
		if errX != nil || errY != nil || m != n {
			return errX == nil && errY == nil && m < n
		}
	}
	return false
}

func checkJobs(p *patient) []Finding {
	if p.plane == nil || len(objects[*configv1.JobService](p)) == 0 || p.connected("jobs") {
		return nil
	}
	return []Finding{{Severity: Warning, What: "A job service is configured, but none is connected to the control plane.",
		Why:  "Files, batches and fine-tuning are answered with errors.",
		Mend: "modelgate jobsvc, or without one: modelgate config delete jobservice default"}}
}

func checkSays(p *patient) []Finding { return Besides(p.says) }

// Besides reports what /readyz says of a gateway that serves: etcd, which fills, or a part that does not answer.
func Besides(says []string) []Finding {
	var found []Finding
	for _, line := range says {
		f := Finding{Severity: Warning,
			Why:  "A full etcd accepts only deletions, and jobs stop. Above 70 % of the quota, tenants cannot create anything.",
			Mend: etcdspace.Remedy}
		what, severe := strings.CutPrefix(line, adminapi.SaysError)
		if severe {
			f.Severity = Error
		}
		f.What = strings.TrimPrefix(what, adminapi.SaysWarning)
		switch {
		case strings.HasPrefix(f.What, adminapi.SaysNoJobs):
			f.Why, f.Mend = "Files, batches and fine-tuning are 503. The rest is served.",
				"Fix the named error, and restart the gateway."
		case strings.HasPrefix(f.What, adminapi.SaysNoLedger):
			f.Why, f.Mend = "Usage and cost wait in the spools until it is usable. Budgets are enforced with the last known values.",
				"Fix the named error. docs/operate.md explains how."
		case strings.HasPrefix(f.What, adminapi.SaysShort):
			f.Why, f.Mend = "Requests are answered with 503 (server_is_overloaded) until memory is free again.",
				"Give the process more memory, or add replicas: docs/operate.md, ModelgateSheds. modelgate_shed_total counts the refused requests."
		case strings.HasPrefix(f.What, adminapi.SaysBodies):
			f.Why,
				f.Mend = "Large requests are answered with 503 (server_is_overloaded), and large responses are lost, while others use all the room.",
				"Raise --body-bytes where memory allows it, or add replicas: docs/operate.md, ModelgateSheds. modelgate_body_bytes shows the bytes in use."
		}
		found = append(found, f)
	}
	return found
}
