package serve

import (
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/internal/proc"
)

// readMutualTLS returns nil if no file is given. Some of them without the others are a mistake that must not lead
// to a connection without TLS.
func readMutualTLS(log *zap.Logger, prefix, certificate, key, ca string) (*proc.MutualTLS, error) {
	given, err := allOrNone(prefix, certificate, key, ca)
	if err != nil || !given {
		return nil, err
	}
	return proc.ReadMutualTLS(log, certificate, key, ca)
}

// allOrNone reports whether the files of mutual TLS are given.
func allOrNone(prefix, certificate, key, ca string) (bool, error) {
	switch {
	case certificate != "" && key != "" && ca != "":
		return true, nil
	case certificate != "" || key != "" || ca != "":
		return false, admincli.Misused("%[1]scert, %[1]skey and %[1]sca need each other: give all three or none", prefix)
	}
	return false, nil
}
