package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A translator makes an object of the configuration of one of Kubernetes.
type translator struct {
	watches *watches
	from    key
	tenancy tenancy
	needs   []key // what it refers to
}

// translate returns the object that is to be stored, and what it depends on.
func (w *watches) translate(k key, kind configv1.Kind, t tenancy,
	o *unstructured.Unstructured) (configv1.Object, []key, error) {
	spec, ok, err := unstructured.NestedMap(o.Object, "spec")
	if err != nil || !ok {
		return nil, nil, refuse(reasonInvalid, "it has no spec")
	}
	if r := t.claim(kind, spec); r != nil {
		return nil, nil, r
	}
	tr := &translator{watches: w, from: k, tenancy: t}
	if err := tr.message(kind.New().ProtoReflect().Descriptor(), spec, ""); err != nil {
		return nil, tr.needs, err
	}
	spec["name"] = t.nameOf(kind, o)
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, tr.needs, err
	}
	object, err := kind.ParseJSON(text)
	return object, tr.needs, err
}

// message replaces what is elsewhere, and names of objects by those that they have in the gateway.
func (t *translator) message(m protoreflect.MessageDescriptor, tree map[string]any, at string) error {
	if m.Name() == "Credential" {
		return t.credential(tree, strings.TrimSuffix(at, "."))
	}
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		name, o := string(fd.Name()), options.Of(fd)
		if o.GetApiOnly() && tree[name] != nil {
			return refuse(reasonInvalid, "%s cannot be set in Kubernetes", at+name)
		}
		if o.GetFromElsewhere() {
			if err := t.elsewhere(tree, name, at); err != nil {
				return err
			}
		}
		if kind := o.GetRefers(); kind != "" && tree[name] != nil {
			if err := t.refer(tree, name, kind); err != nil {
				return err
			}
		}
		if fd.Message() != nil && !fd.IsMap() {
			if err := t.within(fd, tree[name], at+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// within looks into a message, or those of a list.
func (t *translator) within(fd protoreflect.FieldDescriptor, value any, at string) error {
	switch v := value.(type) {
	case map[string]any:
		return t.message(fd.Message(), v, at+".")
	case []any:
		var errs []error
		for _, element := range v {
			errs = append(errs, t.within(fd, element, at))
		}
		return errors.Join(errs...)
	}
	return nil
}

// credential puts a secret in the place of where it is. Tenants have no other credentials: files, variables and vaults
// are the platform's.
func (t *translator) credential(tree map[string]any, at string) error {
	ref, ok := tree[crd.SecretRef].(map[string]any)
	switch {
	case ok:
		text, err := t.read(secrets, ref)
		if err != nil {
			return err
		}
		delete(tree, crd.SecretRef)
		tree["value"] = text
	case tree["value"] != nil, tree["sealed"] != nil:
		return refuse(reasonInvalid, "%s: a secret in clear has no place in an object; name a Secret with %s", at, crd.SecretRef)
	case !t.tenancy.platform && len(tree) > 0:
		return refuse(reasonNotPermitted, "%s: in the namespace of a tenant, a credential is a key of a Secret (%s)", at,
			crd.SecretRef)
	}
	return nil
}

// elsewhere puts a text in the place of where it is.
func (t *translator) elsewhere(tree map[string]any, name, at string) error {
	from, ok := tree[name+crd.From].(map[string]any)
	if !ok {
		return nil
	}
	delete(tree, name+crd.From)
	for member, kind := range map[string]string{crd.SecretRef: secrets, crd.ConfigMapRef: configMaps} {
		if ref, ok := from[member].(map[string]any); ok {
			text, err := t.read(kind, ref)
			if err != nil {
				return err
			}
			tree[name] = text
			return nil
		}
	}
	return refuse(reasonInvalid, "%s says not where the text is", at+name+crd.From)
}

// read returns the value of a key of a Secret or a ConfigMap.
func (t *translator) read(kind string, ref map[string]any) (string, error) {
	name, _ := ref["name"].(string)
	member, _ := ref["key"].(string)
	namespace, _ := ref["namespace"].(string)
	if namespace == "" {
		namespace = t.from.namespace
	}
	if err := t.mayRefer(kind, namespace, name); err != nil {
		return "", err
	}
	k := key{kind, namespace, name}
	t.needs = append(t.needs, k, key{kind: kind, namespace: namespace})
	if why := t.watches.troubleOf(t.watches.placeOf(k)); why != "" {
		return "", unread(reasonForbidden, "%s %s/%s cannot be read: %s", kindOf(kind), namespace, name, why)
	}
	o := t.watches.get(k)
	if o == nil {
		return "", unread(kindOf(kind)+"NotFound", "%s %s/%s is not there", kindOf(kind), namespace, name)
	}
	text, ok := dataOf(o, member)
	if !ok {
		return "", unread(reasonKeyNotFound, "%s %s/%s has no key %s", kindOf(kind), namespace, name, member)
	}
	return text, nil
}

// dataOf returns a member of a Secret or a ConfigMap, without line feeds at its end.
func dataOf(o *unstructured.Unstructured, member string) (string, bool) {
	text, ok, err := unstructured.NestedString(o.Object, "data", member)
	if err != nil || !ok {
		return "", false
	}
	if o.GetKind() == kindOf(secrets) {
		plain, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return "", false
		}
		text = string(plain)
	}
	return strings.TrimRight(text, "\r\n"), true
}

// mayRefer returns why the object may not refer to one, if that is in another namespace.
func (t *translator) mayRefer(kind, namespace, name string) error {
	if namespace == t.from.namespace {
		return nil
	}
	t.needs = append(t.needs, key{kind: grants, namespace: namespace}, key{kind: grants})
	return t.watches.refers(t.from, kind, namespace, name)
}

// refer replaces the names of objects by those that they have in the gateway.
func (t *translator) refer(tree map[string]any, field, kind string) error {
	switch v := tree[field].(type) {
	case string:
		name, err := t.name(kind, v)
		tree[field] = name
		return err
	case []any:
		names := runtime.DeepCopyJSONValue(v).([]any)
		for i := range names {
			if s, ok := names[i].(string); ok {
				name, err := t.name(kind, s)
				if err != nil {
					return err
				}
				names[i] = name
			}
		}
		tree[field] = names
	}
	return nil
}

// name returns the name in the gateway of an object that a spec names, as NAME or as NAMESPACE/NAME.
func (t *translator) name(kind, written string) (string, error) {
	namespace, name, elsewhere := strings.Cut(written, "/")
	if !elsewhere {
		namespace, name = t.from.namespace, written
	}
	if written == "" {
		return "", nil
	}
	if err := t.mayRefer(kind, namespace, name); err != nil {
		return "", err
	}
	of := t.tenancy
	if namespace != t.from.namespace {
		var r *refusal
		if of, r = t.watches.tenancyOf(namespace); r != nil {
			return "", r
		}
	}
	k, at := kindNamed(kind), key{kind, namespace, name}
	t.needs = append(t.needs, at)
	switch o := t.watches.get(at); {
	case o != nil:
		return of.nameOf(k, o), nil
	case generated(k) && !of.platform:
		return "", unread(reasonNotFound, "%s %s/%s is not there", kind, namespace, name)
	case generated(k):
		return name, nil // it may be the id of one that is not declared here
	}
	return of.named(namespace, name), nil
}
