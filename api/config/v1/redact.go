package configv1

import "google.golang.org/protobuf/proto"

// Redact returns a copy of an object for display: secrets are [Redacted], and the hashes of keys and tokens are
// removed. A rotated key still has the expiry of the replaced one.
func Redact(o Object) Object {
	shown := proto.Clone(o).(Object)
	for _, c := range Credentials(shown) {
		switch c.Credential.GetSource().(type) {
		case *Credential_Sealed:
			c.Credential.Source = &Credential_Sealed{Sealed: Redacted}
		case *Credential_Value:
			c.Credential.Source = &Credential_Value{Value: Redacted}
		}
	}
	switch o := shown.(type) {
	case *Key:
		o.Hash = nil
		if o.GetRetired() != nil {
			o.Retired.Hash = nil
		}
	case *AdminToken:
		o.Hash = nil
	case *Account:
		o.Password, o.PasswordHash = "", ""
	}
	return shown
}
