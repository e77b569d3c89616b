// Package loaded opens a packed model with all that it takes to turn a text into another.
package loaded

import (
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// Model is an open packed file, its tokenizer, and an engine.
type Model struct {
	File      *packed.File
	Tokenizer *tokenizer.Tokenizer
	Engine    *engine.Engine
}

// Open opens a packed file. The tokenizer and the engine are made at the same time: each takes some tenths of a second
// with large vocabularies. Errors name the file.
func Open(path string, o engine.Options) (*Model, error) {
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	m := &Model{File: f}
	ready := make(chan error, 1)
	go func() {
		var err error
		m.Tokenizer, err = tokenizer.Load(f.Embedded)
		ready <- err
	}()
	m.Engine, err = engine.New(f, o)
	if failed := <-ready; failed != nil {
		err = failed
	}
	if err != nil {
		m.Close()
		return nil, filerr.Named(path, err)
	}
	return m, nil
}

// Close ends the engine and closes the file.
func (m *Model) Close() {
	if m.Engine != nil {
		m.Engine.Close()
	}
	m.File.Close()
}
