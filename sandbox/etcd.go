// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"sync"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// store is the embedded etcd. It has one member, keeps its data in the
// sandbox's directory and serves a Unix socket there: it has no network
// listener, and the directory's mode (0700) decides who may talk to it.
type store struct {
	etcd *embed.Etcd
	// endpoint is the client URL, a unix:// one.
	endpoint string

	// mu is held while etcd is read, and stopped.
	mu      sync.RWMutex
	stopped bool
}

// maxSocketPath is how long the path of a Unix socket can be on every system.
const maxSocketPath = 103

func startStore(ctx context.Context, dir string, log io.Writer) (*store, error) {
	socket := filepath.Join(dir, "etcd.sock")
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("start etcd: the path of its socket, %s, has %d bytes and the limit is %d: use a shorter directory for temporary files (TMPDIR)",
			socket, len(socket), maxSocketPath)
	}
	listen := url.URL{Scheme: "unix", Path: socket}

	cfg := embed.NewConfig()
	cfg.Name = "sandbox"
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls = []url.URL{listen}
	cfg.AdvertiseClientUrls = []url.URL{listen}
	// The only member has no peers to listen to; the advertised URL merely
	// names the member in its own cluster.
	cfg.ListenPeerUrls = nil
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(storeLogger(log))
	// The data does not outlive the process, so nothing has to reach the disk
	// in order, and little history has to be kept.
	cfg.UnsafeNoFsync = true
	cfg.SnapshotCount = 5000
	cfg.SnapshotCatchUpEntries = 500
	cfg.MaxSnapFiles, cfg.MaxWalFiles = 1, 1

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return &store{etcd: etcd, endpoint: listen.String()}, nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	etcd.Close()
	return nil, fmt.Errorf("wait for etcd in %s: %w", dir, err)
}

// stop ends etcd and waits for its goroutines. Its clients must be gone.
func (s *store) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.etcd.Close()
}

func storeLogger(log io.Writer) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(log), zapcore.WarnLevel)).Named("etcd")
}
