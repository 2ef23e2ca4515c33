package xds

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// pack packs a message that is part of a resource. It panics if the message cannot be marshaled. Only a string that is
// not UTF-8 causes that, and Build refuses objects with such strings first.
func pack(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("packing %s: %v", proto.MessageName(m), err))
	}
	return a
}

// validText returns an error if a string in m is not UTF-8. The error does not quote it.
func validText(m proto.Message) error {
	if m == nil {
		return nil
	}
	if _, err := proto.Marshal(m); err != nil {
		return errors.New("holds text that is not valid UTF-8")
	}
	return nil
}

// check returns the reason why Envoy would refuse m: a violated rule of its schema, also inside packed messages, or a
// duration out of range. Envoy drops the whole response because of one such resource, so none may be sent.
func check(m proto.Message) error {
	if err := checkMessage(m); err != nil {
		return err
	}
	return protorange.Range(m.ProtoReflect(), func(v protopath.Values) error {
		last := v.Index(-1)
		switch last.Step.Kind() {
		case protopath.AnyExpandStep:
			return checkMessage(last.Value.Message().Interface())
		case protopath.FieldAccessStep, protopath.ListIndexStep, protopath.MapIndexStep:
			return checkDuration(v.Path, last.Value)
		default:
			return nil
		}
	})
}

func checkMessage(m proto.Message) error {
	v, ok := m.(interface{ ValidateAll() error })
	if !ok {
		return nil
	}
	return v.ValidateAll()
}

// checkDuration returns an error for a duration out of range. Zero is in range: it disables several timeouts.
func checkDuration(path protopath.Path, value protoreflect.Value) error {
	m, ok := value.Interface().(protoreflect.Message)
	if !ok {
		return nil
	}
	d, ok := m.Interface().(*durationpb.Duration)
	if !ok {
		return nil
	}
	if err := d.CheckValid(); err != nil {
		return fmt.Errorf("%s: %w", path[1:], err)
	}
	if d.AsDuration() < 0 {
		return fmt.Errorf("%s: %s is negative", path[1:], d.AsDuration())
	}
	return nil
}
