package lowpack

import (
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// Model is an open packed file with all that it takes to turn one text into another.
type Model struct {
	File      *packed.File
	Tokenizer *tokenizer.Tokenizer
	Engine    *engine.Engine
	Drafts    *engine.DraftModel // nil = none; see UseDraft

	drafts *packed.File
}

// Open opens a packed file for one conversation at a time, with the zero engine.Options. Errors name the file and wrap
// pack.ErrCorrupt, pack.ErrUnsupported or pack.ErrLimit where the file is the reason. The caller closes the model.
func Open(path string) (*Model, error) { return OpenWith(path, engine.Options{}) }

// OpenWith is Open with options: threads, context length, sequences at once, KV cache type.
func OpenWith(path string, o engine.Options) (*Model, error) {
	f, err := packed.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := OpenFile(f, o)
	if err != nil {
		f.Close()
		return nil, filerr.Named(path, err)
	}
	return m, nil
}

// OpenFile is OpenWith for a packed file that is open. Closing the model closes the file; after an error it is still
// open.
func OpenFile(f *packed.File, o engine.Options) (*Model, error) {
	m := &Model{File: f}
	ready := make(chan error, 1)
	go func() { // concurrently with the engine: with large vocabularies each takes some tenths of a second
		ready <- mmap.Guard(func() (err error) {
			m.Tokenizer, err = tokenizer.Load(f.Embedded)
			return err
		})
	}()
	e, err := engine.New(f, o)
	if failed := <-ready; failed != nil {
		if e != nil {
			e.Close()
		}
		return nil, failed
	}
	m.Engine = e
	return m, err
}

// Close stops the threads and closes the file. No other method may be running or called afterwards; a second Close is
// an error, as of an os.File.
func (m *Model) Close() error {
	m.closeDraft()
	if m.Engine != nil {
		m.Engine.Close()
	}
	return m.File.Close()
}

// Sampling returns the settings in the model's generation_config.json, or greedy decoding if it has none.
func (m *Model) Sampling() (engine.Sampling, error) {
	generation, _ := m.File.Embedded("generation_config.json")
	return engine.SamplingOf(generation)
}

// StopTokens lists the tokens that end an answer, from config.json and from the tokenizer's files.
func (m *Model) StopTokens() []int {
	return append(m.Tokenizer.StopIDs(), m.Engine.Description().EOS...)
}
