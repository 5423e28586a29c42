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

	"kerf.dev/kerf/sandbox/part"
)

// store is the embedded etcd. It has one member, keeps its data in the
// sandbox's directory and serves a Unix socket there: it has no network
// listener, and the directory's mode (0700) decides who may talk to it. Its clients must
// be gone when it is stopped.
type store struct {
	*part.Lasting

	// mu is held while etcd is read, and stopped.
	mu sync.RWMutex
	// etcd is nil while it does not run.
	etcd *embed.Etcd
}

// maxSocketPath is how long the path of a Unix socket can be on every system.
const maxSocketPath = 103

// storeURL is where etcd serves its clients: at a Unix socket.
func storeURL(dir string) url.URL {
	return url.URL{Scheme: "unix", Path: filepath.Join(dir, "etcd.sock")}
}

func newStore(s *Sandbox) *store {
	st := &store{}
	st.Lasting = &part.Lasting{
		Name: "etcd", Failed: s.fail,
		Setup: func(ctx context.Context) (run func() error, err error) {
			etcd, err := startStore(s.dir, s.log)
			if err != nil {
				return nil, fmt.Errorf("start in %s: %w", s.dir, err)
			}
			st.serve(etcd)
			return func() error {
				defer st.close()
				select {
				case <-ctx.Done():
					return nil
				case err := <-etcd.Err():
					return err
				}
			}, nil
		},
		Ready: func(ctx context.Context) error {
			select {
			case <-st.etcd.Server.ReadyNotify():
				return nil
			case err := <-s.failed:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	return st
}

func (s *store) serve(etcd *embed.Etcd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.etcd = etcd
}

// close ends etcd and waits for its goroutines.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.etcd.Close()
	s.etcd = nil
}

func startStore(dir string, log io.Writer) (*embed.Etcd, error) {
	listen := storeURL(dir)
	if len(listen.Path) > maxSocketPath {
		return nil, fmt.Errorf("the path of the socket, %s, has %d bytes and the limit is %d: use a shorter directory for temporary files (TMPDIR)",
			listen.Path, len(listen.Path), maxSocketPath)
	}
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

	return embed.StartEtcd(cfg)
}

func storeLogger(log io.Writer) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(log), zapcore.WarnLevel)).Named("etcd")
}
