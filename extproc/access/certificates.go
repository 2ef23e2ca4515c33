package access

import (
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/clientcert"
	"github.com/modelgate/modelgate/internal/jwtauth"
)

// An Issuer is a CertificateIssuer, and what reads the certificates that clients of its gateway present.
type Issuer struct {
	*configv1.CertificateIssuer
	reader *clientcert.Reader
}

// CertificatesOf returns issuers by the gateways that they are for. Those that are as before stay, with what they have
// read.
func CertificatesOf(issuers []*configv1.CertificateIssuer, before map[string]*Issuer) map[string]*Issuer {
	byGateway := make(map[string]*Issuer, len(issuers))
	for _, c := range issuers {
		if was := before[c.GatewayName()]; was != nil && proto.Equal(was.CertificateIssuer, c) {
			byGateway[c.GatewayName()] = was
			continue
		}
		byGateway[c.GatewayName()] = &Issuer{c, clientcert.NewReader()}
	}
	return byGateway
}

const refusedCertificate = "The certificate presented is not accepted: "

// ofCertificate returns the key as which a client's certificate acts, or why there is none.
func (d *Directory) ofCertificate(gateway, header string) (key *Client, why string) {
	if issuer := d.Certificates[gateway]; issuer != nil {
		names, err := issuer.reader.Of(header, issuer.GetProxies())
		if err != nil {
			return nil, refusedCertificate + err.Error() + "."
		}
		for _, b := range issuer.GetBindings() {
			name, ok := names.First(b.GetIdentity())
			if !ok {
				continue
			}
			if key = d.Keyring.ByName(b.GetKey()); key == nil {
				return nil, refusedCertificate + "the key as which it acts does not exist."
			}
			key.Token = &jwtauth.Principal{Key: b.GetKey(), User: name}
			return key, "The key as which the certificate acts is disabled or expired."
		}
	}
	return nil, refusedCertificate + "it is bound to no API key. Ask who runs the gateway to bind it, or send a key in an Authorization header."
}
