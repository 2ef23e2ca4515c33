package configv1

import "google.golang.org/protobuf/proto"

// Redact returns a copy of an object that can be shown: secrets are [Redacted], and hashes that a key or token is
// recognised by are left out. Of a rotated key it still says until when the replaced one is good.
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
