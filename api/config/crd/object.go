package crd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TakeOver is the annotation by which an object takes the place of one of the admin API or of a file.
const TakeOver = Group + "/take-over"

const maxObjectName = 253

var notInName = regexp.MustCompile(`[^a-z0-9.-]+`)

// A Missing secret is one that an object refers to and that the gateway does not show.
type Missing struct{ Secret, Key string }

// Object returns an object of the configuration as one of Kubernetes, in YAML, and the Secrets that it needs. It is
// false for an object that Kubernetes does not have: keys and tokens are made there anew.
func Object(o configv1.Object, namespace string, takes bool) (text []byte, missing []Missing, ok bool, err error) {
	kind, m := configv1.KindOf(o), o.ProtoReflect().Descriptor()
	if kind.Options.GetShort() == "" || Generated(m) {
		return nil, nil, false, nil
	}
	document, err := configv1.Marshal(o)
	if err != nil {
		return nil, nil, false, err
	}
	var spec object
	if err := json.Unmarshal(document, &spec); err != nil {
		return nil, nil, false, fmt.Errorf("encode %s: %w", configv1.Label(o), err)
	}
	w := writer{secret: strings.ToLower(kind.Name) + "-" + nameFor(o.GetName())}
	if err := w.message(m, spec, ""); err != nil {
		return nil, nil, false, fmt.Errorf("encode %s: %w", configv1.Label(o), err)
	}
	metadata := object{"name": nameFor(o.GetName())}
	if form := options.Of(m.Fields().ByName("name")).GetForm(); form == options.Form_SINGLE ||
		metadata["name"] == o.GetName() && form != options.Form_RULE {
		delete(spec, "name")
	}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if takes {
		metadata["annotations"] = object{TakeOver: "true"}
	}
	text, err = yaml.Marshal(object{"apiVersion": Group + "/" + Version, "kind": kind.Name, "metadata": metadata,
		"spec": spec})
	return text, w.missing, true, err
}

// nameFor returns the name of an object of Kubernetes for a name in the gateway. Different names have different ones.
func nameFor(name string) string {
	plain := strings.Trim(notInName.ReplaceAllString(strings.ToLower(name), "-"), ".-")
	if plain == name && len(name) <= maxObjectName && !strings.Contains(name, "..") && !strings.Contains(name, ".-") &&
		!strings.Contains(name, "-.") {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	plain = strings.ReplaceAll(plain, ".", "-")
	return strings.Trim(plain[:min(len(plain), maxObjectName-9)]+"-"+hex.EncodeToString(hash[:4]), "-")
}

// A writer makes a spec of a document.
type writer struct {
	secret  string
	missing []Missing
}

// message drops what only the gateway sets, names Secrets in the place of credentials, and writes numbers as such.
func (w *writer) message(m protoreflect.MessageDescriptor, tree object, at string) error {
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		name := string(fd.Name())
		value, there := tree[name]
		switch {
		case !there:
		case IsCredential(fd):
			w.credential(tree, name, at)
		case options.Of(fd).GetApiOnly():
			delete(tree, name)
		case fd.IsMap():
			for k, v := range value.(object) {
				if err := number(fd.MapValue(), v, func(n any) { value.(object)[k] = n }); err != nil {
					return err
				}
			}
		default:
			if err := w.value(fd, tree, name, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) value(fd protoreflect.FieldDescriptor, tree object, name, at string) error {
	list, many := tree[name].([]any)
	if !many {
		list = []any{tree[name]}
	}
	for i, v := range list {
		if sub, ok := v.(object); ok && fd.Message() != nil {
			if err := w.message(fd.Message(), sub, at+name+"-"); err != nil {
				return err
			}
			continue
		}
		err := number(fd, v, func(n any) {
			if many {
				list[i] = n
			} else {
				tree[name] = n
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// credential names a Secret, if the credential is not elsewhere already.
func (w *writer) credential(tree object, name, at string) {
	c, _ := tree[name].(object)
	if c["sealed"] == nil && c["value"] == nil {
		return
	}
	missing := Missing{Secret: w.secret, Key: strings.ReplaceAll(at+name, "_", "-")}
	w.missing = append(w.missing, missing)
	tree[name] = object{SecretRef: object{"name": missing.Secret, "key": missing.Key}}
}

// number sets a whole number that protojson writes as a text.
func number(fd protoreflect.FieldDescriptor, value any, set func(any)) error {
	text, ok := value.(string)
	if !ok || fd.Kind() != protoreflect.Int64Kind && fd.Kind() != protoreflect.Uint64Kind {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is larger than Kubernetes takes: %w", fd.Name(), err)
	}
	set(n)
	return nil
}
