package auditship

import (
	"context"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/modelgate/modelgate/internal/timing"
)

// ackEvery is how often the kernel is asked.
const ackEvery = 5 * time.Millisecond

// acknowledged waits until the other side's kernel has acknowledged everything that was written to a connection
// whose two halves are closed. If the other side had closed it before everything arrived, it resets the connection.
func acknowledged(ctx context.Context, conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var left, failure int
		var askErr error
		if err := raw.Control(func(fd uintptr) {
			if failure, askErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR); askErr == nil {
				left, askErr = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			}
		}); err != nil {
			return err
		}
		switch {
		case askErr != nil:
			return askErr
		case failure != 0:
			return unix.Errno(failure)
		case left == 0:
			return nil
		}
		if err := timing.Sleep(ctx, ackEvery); err != nil {
			return err
		}
	}
}
