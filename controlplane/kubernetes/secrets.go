package kubernetes

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/modelgate/modelgate/api/config/crd"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/secret"
)

// Annotations of objects.
const (
	// AnnotationRotate makes another key in the Secret of a Key whenever its value changes.
	AnnotationRotate = crd.Group + "/rotate"
	// AnnotationRotateEvery makes another one so often, such as 720h.
	AnnotationRotateEvery = crd.Group + "/rotate-every"
	// AnnotationGrace is how long the key before stays good. Default 24h.
	AnnotationGrace = crd.Group + "/rotate-grace"
	// AnnotationSecret is the name of the Secret. Default: the object's name and -key, or -token.
	AnnotationSecret = crd.Group + "/secret-name"

	annotationMade = crd.Group + "/made-at" // of a Secret
)

// SecretKey is the key of the Secret under which the key or the token is.
const SecretKey = "api-key"

const (
	defaultGrace = 24 * time.Hour
	maxGrace     = 30 * 24 * time.Hour
	managedBy    = "app.kubernetes.io/managed-by"
)

// secretName returns the name of the Secret of an object that has one.
func secretName(o *unstructured.Unstructured) string {
	end := "-token"
	if o.GetKind() == configv1.KeyKind().Name {
		end = "-key"
	}
	return cmp.Or(o.GetAnnotations()[AnnotationSecret], o.GetName()+end)
}

// graceOf returns how long a key stays good after its rotation.
func graceOf(o *unstructured.Unstructured) time.Duration {
	d, err := time.ParseDuration(o.GetAnnotations()[AnnotationGrace])
	if err != nil || d < 0 {
		return defaultGrace
	}
	return min(d, maxGrace)
}

// due reports whether a Secret is to have another key.
func due(o, s *unstructured.Unstructured, now time.Time) bool {
	if o.GetAnnotations()[AnnotationRotate] != s.GetAnnotations()[AnnotationRotate] {
		return true
	}
	every, err := time.ParseDuration(o.GetAnnotations()[AnnotationRotateEvery])
	if err != nil || every < time.Minute {
		return false
	}
	made, err := time.Parse(time.RFC3339, s.GetAnnotations()[annotationMade])
	return err == nil && now.After(made.Add(every))
}

// secretOf returns the key or the token of an object. It is in a Secret before it is good, so that nobody ever has to
// make another one because it was lost.
func (w *watches) secretOf(ctx context.Context, o *unstructured.Unstructured, id string) (secret.Value, error) {
	name := secretName(o)
	k := key{secrets, o.GetNamespace(), name}
	if why := w.troubleOf(w.placeOf(k)); why != "" {
		return secret.Value{}, unread(reasonForbidden, "Secret %s cannot be made: %s", name, why)
	}
	s := w.get(k)
	if s == nil {
		return w.createSecret(ctx, o, name, id)
	}
	return w.ownSecret(ctx, o, s, id)
}

// ownSecret returns what is in the Secret of an object, after it was changed if it is time.
func (w *watches) ownSecret(ctx context.Context, o, s *unstructured.Unstructured, id string) (secret.Value, error) {
	owned := false
	for _, r := range s.GetOwnerReferences() {
		owned = owned || r.UID == o.GetUID()
	}
	if !owned {
		return secret.Value{}, refuse(reasonConflict,
			"Secret %s was not made for this object: delete it, or name another one with the annotation %s", s.GetName(),
			AnnotationSecret)
	}
	text, ok := dataOf(s, SecretKey)
	if ok && text != "" && !due(o, s, time.Now()) {
		return secret.New(text), nil
	}
	made := newSecret(o, id)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.GetResourceVersion(), "annotations": marksOf(o)},
		"data":     map[string]any{SecretKey: base64.StdEncoding.EncodeToString([]byte(made.Reveal()))},
	})
	if err != nil {
		return secret.Value{}, err
	}
	_, err = w.options.Client.Resource(resourceOf(secrets)).Namespace(s.GetNamespace()).Patch(ctx, s.GetName(),
		types.MergePatchType, patch, metav1.PatchOptions{})
	return made, forbidden(err)
}

func (w *watches) createSecret(ctx context.Context, o *unstructured.Unstructured, name, id string) (secret.Value,
	error) {
	made := newSecret(o, id)
	s := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kindOf(secrets), "type": "Opaque",
		"metadata": map[string]any{
			"name": name, "namespace": o.GetNamespace(), "annotations": marksOf(o),
			"labels": map[string]any{managedBy: "modelgate"},
			"ownerReferences": []any{map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(),
				"name": o.GetName(), "uid": string(o.GetUID()), "controller": true}},
		},
		"data": map[string]any{SecretKey: base64.StdEncoding.EncodeToString([]byte(made.Reveal()))},
	}}
	client := w.options.Client.Resource(resourceOf(secrets)).Namespace(o.GetNamespace())
	_, err := client.Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // and is not heard of yet
		there, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return secret.Value{}, forbidden(err)
		}
		return w.ownSecret(ctx, o, there, id)
	}
	return made, forbidden(err)
}

func newSecret(o *unstructured.Unstructured, id string) secret.Value {
	if o.GetKind() == configv1.KeyKind().Name {
		return auth.Generate()
	}
	return authz.NewToken(id)
}

// marksOf returns the annotations of the Secret of an object.
func marksOf(o *unstructured.Unstructured) map[string]any {
	marks := map[string]any{annotationMade: time.Now().UTC().Format(time.RFC3339)}
	if mark := o.GetAnnotations()[AnnotationRotate]; mark != "" {
		marks[AnnotationRotate] = mark
	}
	return marks
}

// forbidden says in a condition that a right is missing.
func forbidden(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return unread(reasonForbidden, "the service account lacks a right: %v", err)
}
