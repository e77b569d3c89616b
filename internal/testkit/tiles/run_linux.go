//go:build linux && amd64

package tiles

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Counts are how many instructions of each kind were executed.
type Counts map[Op]int

// ErrTrace is the error of a system that does not let a process trace its children.
var ErrTrace = errors.New("the system lets no process trace its children")

// Run runs a program with the given arguments, the first its name, and environment, its output in out, and executes its
// tile instructions. An invalid instruction ends it with an error; so does a nonzero exit status.
func Run(name string, args, env []string, out *os.File) (Counts, error) {
	runtime.LockOSThread() // the thread that started a program traces it
	defer runtime.UnlockOSThread()
	attributes := &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	p, err := os.StartProcess(name, args, &os.ProcAttr{Env: env, Files: []*os.File{nil, out, out}, Sys: attributes})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrTrace, err)
	}
	t := &tracer{pid: p.Pid, threads: map[int]*Model{}, code: map[uint64]Instruction{}, counts: Counts{}}
	err = t.loop()
	if err != nil {
		p.Kill()
		for t.next() == nil { // so that nothing of it is left
		}
	}
	p.Release()
	return t.counts, err
}

type tracer struct {
	pid     int
	status  unix.WaitStatus
	thread  int // that stopped
	threads map[int]*Model
	code    map[uint64]Instruction // that was decoded, by address
	counts  Counts
}

// next waits for a thread to stop.
func (t *tracer) next() (err error) {
	for {
		t.thread, err = unix.Wait4(-1, &t.status, unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

func (t *tracer) loop() error {
	for {
		if err := t.next(); err != nil {
			return err
		}
		if t.status.Exited() || t.status.Signaled() {
			if m := t.threads[t.thread]; m != nil && m.InUse() {
				return errors.New("a thread ended with tile registers in use")
			}
			delete(t.threads, t.thread)
			if t.thread != t.pid {
				continue
			}
			if t.status.Signaled() || t.status.ExitStatus() != 0 {
				return fmt.Errorf("status %#x", int(t.status))
			}
			return nil
		}
		signal := t.status.StopSignal()
		switch m := t.threads[t.thread]; {
		case m == nil: // its first stop is its beginning
			if t.thread == t.pid {
				if err := unix.PtraceSetOptions(t.pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
					return err
				}
			}
			t.threads[t.thread], signal = new(Model), 0
		case signal == unix.SIGTRAP:
			signal = 0 // it made a thread
		case signal == unix.SIGILL:
			done, err := t.execute(m)
			if err != nil {
				return err
			}
			if done {
				signal = 0
			}
		}
		if err := unix.PtraceCont(t.thread, int(signal)); err != nil && err != unix.ESRCH {
			return err
		}
	}
}

// execute executes the tile instructions that the thread stopped at, one after the other, and reports whether there
// were any.
func (t *tracer) execute(m *Model) (done bool, err error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.thread, &regs); err != nil {
		return false, err
	}
	r := &Registers{regs.Rax, regs.Rcx, regs.Rdx, regs.Rbx, regs.Rsp, regs.Rbp, regs.Rsi, regs.Rdi,
		regs.R8, regs.R9, regs.R10, regs.R11, regs.R12, regs.R13, regs.R14, regs.R15}
	for {
		in, known := t.code[regs.Rip]
		if !known {
			var code [10]byte
			if err := t.Read(code[:], []uint64{regs.Rip}, len(code)); err != nil {
				return false, err
			}
			in = Decode(code[:])
			t.code[regs.Rip] = in
		}
		if in.Op == None {
			break
		}
		if err := m.Execute(in, r, t); err != nil {
			return false, fmt.Errorf("%v at %#x: %w", in.Op, regs.Rip, err)
		}
		t.counts[in.Op]++
		regs.Rip += uint64(in.Length)
		done = true
	}
	if !done {
		return false, nil
	}
	return true, unix.PtraceSetRegs(t.thread, &regs)
}

// Read implements Memory.
func (t *tracer) Read(to []byte, at []uint64, length int) error {
	return t.copy(unix.ProcessVMReadv, to, at, length)
}

// Write implements Memory.
func (t *tracer) Write(from []byte, at []uint64, length int) error {
	return t.copy(unix.ProcessVMWritev, from, at, length)
}

func (t *tracer) copy(do func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), b []byte, at []uint64,
	length int) error {
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	remote := make([]unix.RemoteIovec, len(at))
	for i, a := range at {
		remote[i] = unix.RemoteIovec{Base: uintptr(a), Len: length}
	}
	n, err := do(t.pid, local, remote, 0)
	if err == nil && n != len(b) {
		err = unix.EFAULT
	}
	if err != nil {
		return fmt.Errorf("memory at %#x: %w", at[0], err)
	}
	return nil
}
