package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// settings returns the fields of an object, which may be nil, that decide who sees a credential and are set, by path.
func settings(o configv1.Object) map[string]string { return collect(o, true) }

// beyond returns the settings without those by which package allowed finds where a credential is sent.
func beyond(o configv1.Object) map[string]string { return collect(o, false) }

func collect(o configv1.Object, destinations bool) map[string]string {
	found := map[string]string{}
	var walk func(m protoreflect.Message, at string)
	walk = func(m protoreflect.Message, at string) {
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			path := at + string(fd.Name())
			if isOurs(fd) && !fd.IsList() {
				walk(v.Message(), path+".")
				return true
			}
			is, _ := options.SecrecyOf(fd)
			if is == options.Decides && (destinations || !options.Of(fd).GetDestination()) {
				found[path] = inWords(fd, v)
			}
			return true
		})
	}
	if o != nil {
		walk(o.ProtoReflect(), "")
	}
	return found
}

// isOurs reports whether a field holds a message whose fields have a secrecy of their own.
func isOurs(fd protoreflect.FieldDescriptor) bool {
	return !fd.IsMap() && fd.Message() != nil &&
		fd.Message().ParentFile().Package() == (&configv1.Provider{}).ProtoReflect().Descriptor().ParentFile().Package()
}

func inWords(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if !fd.IsMap() {
		return v.String()
	}
	var pairs []string
	v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		pairs = append(pairs, fmt.Sprintf("%q:%q", k.String(), v.String()))
		return true
	})
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// moved returns the first field that differs between two results of settings, or "".
func moved(now, before map[string]string) string {
	both := map[string]string{}
	maps.Copy(both, before)
	maps.Copy(both, now)
	for _, path := range slices.Sorted(maps.Keys(both)) {
		if now[path] != before[path] {
			return path
		}
	}
	return ""
}

// mayMove returns the error of a caller without the right to a credential who would change who sees it. A credential
// that comes with the change is the caller's own; every other is somebody else's, whatever its kind, and so is the
// place of the job service.
func (p permission) mayMove(o, stored configv1.Object) error {
	now, before := settings(o), settings(stored)
	if _, ok := o.(*configv1.JobService); ok {
		return refuseMove(moved(now, before))
	}
	kept := credentialsOf(stored)
	for _, c := range configv1.Credentials(o) {
		source, _ := c.Credential.Named()
		field := ""
		switch {
		case proto.Equal(c.Credential, kept[c.Field]):
			field = moved(now, before)
		case source != "": // as a new one: the flags of the process bound where it goes, and nothing bounds the rest
			field = moved(beyond(o), nil)
		}
		if err := refuseMove(field); err != nil {
			return err
		}
	}
	return nil
}

// credentialsOf returns the credentials of an object, which may be nil, by field.
func credentialsOf(o configv1.Object) map[string]*configv1.Credential {
	found := map[string]*configv1.Credential{}
	if o != nil {
		for _, c := range configv1.Credentials(o) {
			found[c.Field] = c.Credential
		}
	}
	return found
}

func refuseMove(field string) error {
	if field == "" {
		return nil
	}
	return everythingFor(field, "to change who sees a credential, or what is believed,")
}
