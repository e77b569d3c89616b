package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/bench"
	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/runtime/engine"
)

// errReported means that a command has already reported the failure: the exit code is 1, nothing more is printed.
var errReported = errors.New("a check failed")

// errDrained means that a command finished all its work after a signal: the exit code is 0.
var errDrained = errors.New("ended by a signal")

type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

type signalError struct{ os.Signal }

func (e signalError) Error() string { return "interrupted" }

// grace is the time that a command has to clean up after a signal. An operation that cannot be cancelled, like a read
// from a terminal or a sync to a busy disk, does not keep the process longer. Files with a name are then removed within
// the time leave; the sum is the two seconds of SECURITY.md.
const (
	grace = 1200 * time.Millisecond
	leave = 700 * time.Millisecond
)

// graceKey is the context key of notify's grace extension.
type graceKey struct{}

// extendGrace gives a command more time to clean up after a signal that it has noticed.
func extendGrace(ctx context.Context, d time.Duration) {
	if longer, ok := ctx.Value(graceKey{}).(chan time.Duration); ok {
		select {
		case longer <- d:
		default:
		}
	}
}

// interruptKey is the context key of notify's SIGINT callback.
type interruptKey struct{}

// onInterrupt makes SIGINT call do, each time it arrives, instead of ending the command, until the returned function is
// called.
func onInterrupt(ctx context.Context, do func()) (end func()) {
	hook, ok := ctx.Value(interruptKey{}).(*atomic.Pointer[func()])
	if !ok {
		return func() {}
	}
	hook.Store(&do)
	return func() { hook.Store(nil) }
}

// notify returns a context that the first SIGINT or SIGTERM cancels. A second one ends the process at once, and so does
// the end of grace.
func notify(parent context.Context, stderr io.Writer) (context.Context, func()) {
	longer := make(chan time.Duration, 1)
	hook := &atomic.Pointer[func()]{}
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithValue(parent, graceKey{}, longer),
		interruptKey{}, hook))
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := awaitSignal(signals, done, hook)
		if s == nil {
			return
		}
		signal.Stop(signals)
		cancel(signalError{s})
		end := time.After(grace)
		for {
			select {
			case d := <-longer:
				end = time.After(d)
			case <-end:
				abandon()
				fmt.Fprintf(stderr, "lowpack: %v\n", signalError{s})
				os.Exit(exitCode(signalError{s}))
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); close(done); cancel(nil) }
}

// awaitSignal returns the signal that is to end the command; nil: it has ended.
func awaitSignal(signals <-chan os.Signal, done <-chan struct{}, hook *atomic.Pointer[func()]) os.Signal {
	for {
		select {
		case s := <-signals:
			do := hook.Load()
			if do == nil || s != os.Interrupt {
				return s
			}
			(*do)()
		case <-done:
			return nil
		}
	}
}

// abandon removes the process's unfinished files, as far as the file system responds in time.
func abandon() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		atomicfile.Abandon()
	}()
	select {
	case <-done:
	case <-time.After(leave):
	}
}

// interrupted returns the signal that ended ctx, if one did.
func interrupted(ctx context.Context) error {
	var s signalError
	if errors.As(context.Cause(ctx), &s) {
		return s
	}
	return nil
}

// exitCode maps an error to the exit codes that DESIGN and README promise.
func exitCode(err error) int {
	var (
		usage usageError
		sig   signalError
		errno syscall.Errno
		place *atomicfile.Failure

		option *engine.OptionError
	)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &sig):
		if sig.Signal == syscall.SIGTERM {
			return 143
		}
		return 130
	case errors.As(err, &usage), errors.As(err, &option):
		return 2
	case errors.As(err, &place):
		return 3
	case errors.As(err, &errno) && errno != syscall.ENOENT && errno != syscall.ENOTDIR:
		return 3
	case errors.Is(err, os.ErrPermission), errors.Is(err, bench.ErrNoise):
		return 3
	default:
		return 1
	}
}
