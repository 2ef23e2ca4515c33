package configv1

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/expression"
	"github.com/modelgate/modelgate/api/config/options"
)

// A TextForm is as much of a form as a schema can say. What it does not refuse, validation may.
type TextForm struct {
	Pattern string   // RE2; empty: any
	Values  []string // if not empty, all there are
	Most    int      // characters; 0: any number
}

// FormOf returns what a schema says of a form.
func FormOf(form options.Form) TextForm {
	switch form {
	case options.Form_TEXT, options.Form_IDENTITY:
		return TextForm{Most: maxText}
	case options.Form_LABEL:
		return TextForm{Pattern: labelPattern.String(), Most: maxName}
	case options.Form_ID:
		return TextForm{Pattern: idPattern.String(), Most: maxName}
	case options.Form_SINGLE:
		return TextForm{Values: []string{"default"}}
	case options.Form_MODEL:
		return TextForm{Pattern: modelPattern.String(), Most: maxModel}
	case options.Form_PLACE:
		return TextForm{Pattern: placePattern.String(), Most: maxName}
	case options.Form_URL:
		return TextForm{Pattern: `^https?://.+$`, Most: maxURL}
	case options.Form_ISSUER:
		return TextForm{Pattern: `^https?://[^?#]+$`, Most: maxURL}
	case options.Form_PATH:
		return TextForm{Pattern: endpointPattern.String(), Most: maxText}
	case options.Form_MAILBOX:
		return TextForm{Pattern: `^.+@.+$`, Most: maxText}
	case options.Form_SCOPE:
		return TextForm{Pattern: `^[!#-\[\]-~]+$`, Most: maxClaim}
	case options.Form_DOMAIN:
		return TextForm{Values: DomainNames()}
	case options.Form_EXPRESSION:
		return TextForm{Most: expression.MaxBytes}
	case options.Form_USD, options.Form_MONEY:
		return TextForm{Pattern: `^[0-9]*\.?[0-9]*$`, Most: maxName}
	case options.Form_PEM:
		return TextForm{Pattern: `-----BEGIN CERTIFICATE-----`}
	}
	return TextForm{}
}

// AboutMessage returns what the schema says of a message of the configuration, or "".
func AboutMessage(m protoreflect.MessageDescriptor) string { return about()[string(m.Name())] }
