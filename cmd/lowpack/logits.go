package main

import (
	"bufio"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// writeF32 writes a safetensors file with one F32 tensor, whose values are written in parts by fill.
func writeF32(path, name string, shape []int, fill func(write func([]float32) error) error) error {
	t := safetensors.TensorInfo{Name: name, DType: safetensors.F32}
	for _, n := range shape {
		t.Shape = append(t.Shape, int64(n))
	}
	list := []safetensors.TensorInfo{t}
	if err := safetensors.Place(list); err != nil {
		return err
	}
	f, err := atomicfile.Create(atomicfile.OS, path)
	if err != nil {
		return err
	}
	defer f.Abort()
	out := bufio.NewWriterSize(&appender{f: f}, 1<<20)
	w, err := safetensors.NewWriter(out, nil, list, 8)
	if err != nil {
		return err
	}
	var chunk [4096]byte
	err = fill(func(values []float32) error {
		for some := range slices.Chunk(values, len(chunk)/4) {
			for i, v := range some {
				binary.LittleEndian.PutUint32(chunk[4*i:], math.Float32bits(v))
			}
			if err := w.Write(name, chunk[:4*len(some)]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Commit()
}

// appender writes a file sequentially.
type appender struct {
	f  *atomicfile.File
	at int64
}

func (a *appender) Write(p []byte) (int, error) {
	n, err := a.f.WriteAt(p, a.at)
	a.at += int64(n)
	return n, err
}

// peakMemory returns the peak memory of this process, in bytes; 0 if unknown.
func peakMemory() int64 {
	status, err := os.ReadFile(filepath.FromSlash("/proc/self/status"))
	if err != nil {
		return 0
	}
	kib, _ := strconv.ParseInt(strings.TrimSuffix(statusLine(string(status), "VmHWM:"), " kB"), 10, 64)
	return kib << 10
}

// statusLine is the value of a line in a status file of Linux.
func statusLine(status, name string) string {
	_, rest, _ := strings.Cut(status, name)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
