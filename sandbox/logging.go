// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"io"
	"os"
	"sync"

	"google.golang.org/grpc/grpclog"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// logSink receives the logs of all embedded components. They go to a file in
// the sandbox's directory and, if the caller wants them, to a writer. The
// loggers of the components are global to the process and outlive a sandbox, so
// what they say after close is dropped.
type logSink struct {
	mu   sync.Mutex
	file *os.File
	also io.Writer
}

func openLog(path string, also io.Writer) (*logSink, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the components' log: %w", err)
	}
	return &logSink{file: file, also: also}, nil
}

// Write never fails: a component must not notice that nobody reads its log.
func (s *logSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return len(p), nil
	}
	_, _ = s.file.Write(p)
	if s.also != nil {
		_, _ = s.also.Write(p)
	}
	return len(p), nil
}

func (s *logSink) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := s.file
	s.file, s.also = nil, nil
	return file.Close()
}

// redirectLogs points the loggers of klog, gRPC and client-go to the sink.
func redirectLogs(sink *logSink, verbosity int) {
	config := textlogger.NewConfig(textlogger.Output(sink), textlogger.Verbosity(verbosity))
	klog.SetLoggerWithOptions(textlogger.NewLogger(config), klog.ContextualLogger(true))
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, sink, sink))
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}
