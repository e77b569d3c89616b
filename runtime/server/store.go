package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/pack"
)

// Limits of a store.
const (
	maxUpload  = 200 << 20 // bytes of a file: OpenAI's limit
	maxEntries = 10_000    // files, and batches
	maxEntry   = 1 << 20   // bytes of the JSON of one
)

// store keeps files and batches in a folder: ID.json says what ID is, ID.jsonl has the contents of a file. Each appears
// whole or not at all, so that a server that was killed finds what it had answered.
type store struct{ dir string }

// entryID is the form of ids, which are names of files.
var entryID = regexp.MustCompile(`^(file-|batch_)[0-9a-f]{24}$`)

// errFull: the store has too many entries.
var errFull = fmt.Errorf("%w: the folder holds %d entries; delete some", pack.ErrLimit, maxEntries)

// newStore uses a folder, which it creates if necessary.
func newStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, atomicfile.Failed(err)
	}
	return &store{dir: dir}, nil
}

// path returns the path of the contents of a file.
func (s *store) path(id string) string { return filepath.Join(s.dir, id+".jsonl") }

func (s *store) entry(id string) string { return filepath.Join(s.dir, id+".json") }

// put writes an entry.
func (s *store) put(id string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.write(s.entry(id), bytes.NewReader(text))
}

// write writes a file.
func (s *store) write(path string, from io.Reader) error {
	f, err := atomicfile.Create(atomicfile.OS, path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := io.Copy(io.NewOffsetWriter(f, 0), from); err != nil {
		return err
	}
	return f.Commit()
}

// get reads an entry; false = there is none.
func (s *store) get(id string, v any) (bool, error) {
	if !entryID.MatchString(id) {
		return false, nil
	}
	f, err := os.Open(s.entry(id))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEntry))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.entry(id), err)
	}
	return true, nil
}

// ids lists the entries with a prefix.
func (s *store) ids(prefix string) (list []string, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if ok && entryID.MatchString(id) && strings.HasPrefix(id, prefix) {
			list = append(list, id)
		}
	}
	return list, err
}

// room returns errFull if no further entry is allowed.
func (s *store) room(prefix string) error {
	list, err := s.ids(prefix)
	if err == nil && len(list) >= maxEntries {
		err = errFull
	}
	return err
}

// remove removes a file, its contents last: a crash between both leaves contents that nothing names.
func (s *store) remove(id string) error {
	return errors.Join(os.Remove(s.entry(id)), os.Remove(s.path(id)))
}
